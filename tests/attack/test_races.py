"""Races: while one command stands between two calls of the store, another one runs from beginning to end.

Every window is as wide as it can be: the other command runs at each call of the first, which then goes on,
fails or dies there, or dies one call later. `gc` does not wait between its mark and its second look.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paged import PagedStore
from test_crash import KB, A, B

from attack import share
from nbckpt.core import gc
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.references import Ref
from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError, StoreError
from nbckpt.store import Data, MemoryStore, Store
from nbckpt.sync import stores
from nbckpt.sync.stores import mirror
from nbckpt.testing.faults import AroundStore, Call
from nbckpt.tracker import Tracker

STEP = share.of(1, 5)
ENDS = ["goes on", "fails", "dies", "dies later"]
DISTANT = 10**9
NEW = {"a": A, "b": B[::-1].copy(), "n": 7}
IMPORTED = {"b": B, "c": np.arange(90_000)}

Act = Callable[[Tracker, Path], object]


class Killed(BaseException):
    """The process ends here."""


class Between(AroundStore):
    """A store that calls *meanwhile* before the call number *at*, after which something *ends* what calls it.

    Attributes:
        counted: How many calls there were.
    """

    def __init__(self, store: Store, at: int, meanwhile: Callable[[], object], ends: str) -> None:
        super().__init__(store)
        self.lists_in_pages = store.lists_in_pages
        self.counted = 0
        self._at, self._meanwhile, self._ends = at, meanwhile, ends

    def move(self, source: str, target: str) -> None:
        with self.around(Call("put", target)):
            self.store.move(source, target)

    @contextmanager
    def around(self, call: Call) -> Iterator[None]:
        with self._lock:
            self.counted += 1
            number = self.counted
        if number == self._at:
            self._meanwhile()
            if self._ends == "fails":
                raise StoreError("the storage failed, as the test asked")
        if number >= self._at + {"dies": 0, "dies later": 1}.get(self._ends, DISTANT):
            raise Killed
        yield


def prepared(file: Path) -> MemoryStore:
    """Return a store with checkpoints that share arrays; some were removed."""
    store = MemoryStore()
    tracker = Tracker(store)
    tracker.save({"a": A, "b": B}, "both", variables=["*"])
    tracker.save({"a": A}, "gone", variables=["*"])
    tracker.save({"b": B, "x": A[: 90 * KB]}, "other", variables=["*"])
    tracker.remove(["gone"])
    if not file.exists():
        there = Tracker(MemoryStore())
        there.save(dict(IMPORTED), "imported", variables=["*"])
        there.export("imported", file)
    return store


def collect(tracker: Tracker, _: Path) -> None:
    for _ in range(2):  # the first notes what nothing names
        gc.collect(tracker.history, wait=lambda _: None)


def remove_all(tracker: Tracker, _: Path) -> None:
    """Remove everything, so that a `gc` takes every pack."""
    if ids := [entry.id for entry in tracker.entries()]:
        tracker.remove(ids)
    collect(tracker, _)


def undo_removal(tracker: Tracker, _: Path) -> None:
    tracker.remove(["both"])
    tracker.undo({})


def elsewhere(file: Path) -> Store:
    """Return another store, which has what the file has."""
    store = MemoryStore()
    Tracker(store).import_file(file)
    return store


FIRST: dict[str, Act] = {
    "save": lambda tracker, _: tracker.save(dict(NEW), "new", variables=["*"]),
    "import": lambda tracker, file: tracker.import_file(file),
    "undo of rm": undo_removal,
    "rm": lambda tracker, _: tracker.remove(["both"]),
    "gc": collect,
    "tag": lambda tracker, _: tracker.tag("other", "best"),
    "restore": lambda tracker, _: tracker.restore("both", {}),
    "pull": lambda tracker, file: mirror(elsewhere(file), tracker.store),
    "push": lambda tracker, _: mirror(tracker.store, MemoryStore()),
}
SECOND: dict[str, Act] = {
    "gc": collect,
    "rm and gc": remove_all,
    "save": lambda tracker, _: tracker.save(dict(NEW), "new", variables=["*"]),
    "import": lambda tracker, file: tracker.import_file(file),
    "rm": lambda tracker, _: tracker.remove(["other"]),
    "pull": lambda tracker, file: mirror(elsewhere(file), tracker.store),
}


def check(store: Store) -> dict[str, dict[str, Any]]:
    """Hold that everything that can be seen is whole, and return the values by name and version."""
    tracker = Tracker(store)
    assert tracker.verify().damages == []
    ids = {entry.id for entry in tracker.entries()}
    refs = [ref for ref in tracker.history.refs() if ref.id in ids]
    assert len({str(ref) for ref in refs}) == len(refs)
    values: dict[str, dict[str, Any]] = {}
    for ref in refs:
        assert tracker.restore(str(ref), values.setdefault(str(ref), {})).failed == ()
    for entry in tracker.entries():
        assert tracker.restore(entry.id, {}).failed == ()
    return values


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pull not wait for a collector, which goes on only after the pull."""
    monkeypatch.setattr(stores, "_PATIENCE_S", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second", "ends"), share.cases(FIRST, SECOND, ENDS))
def test_two_commands_at_once_leave_an_undamaged_store(
    first: str, second: str, ends: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.ckpt"
    for at in itertools.count(1, STEP):
        store = prepared(file)
        acknowledged: list[str] = []

        def meanwhile(store: Store = store, done: list[str] = acknowledged) -> None:
            with suppress(NbckptError):
                SECOND[second](Tracker(store), file)
                done.append(second)

        between = Between(store, at, meanwhile, ends)
        with suppress(NbckptError, Killed):
            FIRST[first](Tracker(between), file)
            acknowledged.append(first)
        values = check(store)
        removed = "rm and gc" in acknowledged
        if first in acknowledged and not removed:
            if first == "save":
                assert any(name.startswith("new@") for name in values), at
            if first == "undo of rm":
                assert "both@1" in values, at
            if first == "tag":
                assert any(name.startswith("best@") for name in values) or second == "rm", at
            if first in {"import", "pull"}:
                assert any(name.startswith("imported@") for name in values), at
        if second == "save" and second in acknowledged:
            assert any(name.startswith("new@") for name in values), at
        if second in {"import", "pull"} and second in acknowledged:
            assert any(name.startswith("imported@") for name in values), at
        for name, value in values.items():
            if name.startswith("new@"):
                assert np.array_equal(value["a"], A), at
                assert np.array_equal(value["b"], NEW["b"]), at
        if between.counted < at:
            return


NAMING: dict[str, Callable[[Tracker, Path], Ref | None]] = {
    "save": lambda tracker, _: tracker.save({"x": 1}, "imported", provenance=False).ref,
    "tag": lambda tracker, _: tracker.tag("other", "imported"),
    "import": lambda tracker, file: tracker.import_file(file)[1],
}


@pytest.mark.slow
@pytest.mark.parametrize("make", [MemoryStore, PagedStore], ids=["folder", "URL"])
@pytest.mark.parametrize("second", NAMING)
@pytest.mark.parametrize("first", NAMING)
def test_two_writers_of_one_name_are_told_true_numbers(
    first: str, second: str, make: Callable[[], MemoryStore], tmp_path: Path
) -> None:
    prepared(file := tmp_path / "x.ckpt")
    for at in itertools.count(1):
        store = make()
        Tracker(store).save({"x": 0}, "other", provenance=False)
        answers: list[Ref | None] = []

        def meanwhile(store: Store = store, answers: list[Ref | None] = answers) -> None:
            answers.append(NAMING[second](Tracker(store), file))

        between = Between(store, at, meanwhile, "goes on")
        answers.append(NAMING[first](Tracker(between), file))
        true = {str(ref): ref.id for ref in Tracker(store).history.refs()}
        assert [true[str(ref)] for ref in answers if ref] == [ref.id for ref in answers if ref], at
        if between.counted < at:
            return


class Meeting(MemoryStore):
    """A store in which several writers show the first number that they take before any of them goes on."""

    def __init__(self, writers: int, *, lists_in_pages: bool) -> None:
        super().__init__()
        self.lists_in_pages = lists_in_pages
        self._barrier = threading.Barrier(writers)
        self._shown = "catalogue/added/" if lists_in_pages else "refs/"

    def put(self, key: str, data: Data) -> None:
        is_first = key.startswith(self._shown) and "/00000001-" in key
        if is_first:
            self._barrier.wait(60)  # all have looked
        super().put(key, data)
        if is_first:
            self._barrier.wait(60)


@pytest.mark.parametrize("writers", [2, 5])
@pytest.mark.parametrize("lists_in_pages", [False, True], ids=["folder", "URL"])
def test_writers_that_take_one_number_at_once_get_one_each(writers: int, lists_in_pages: bool) -> None:
    store = Meeting(writers, lists_in_pages=lists_in_pages)

    def save(at: int) -> tuple[str, str]:
        made = Manifest(created_at=now(), message=str(at))
        made, ref = History(store, open_signer).publish(made, "n")
        return str(ref), made.id

    with ThreadPoolExecutor(writers) as pool:
        answers = dict(pool.map(save, range(writers)))
    assert answers == {str(ref): ref.id for ref in Tracker(store).history.refs()}
    assert len(answers) == writers
    if writers == 2:
        assert sorted(answers) == ["n@1", "n@2"]


def damaged() -> tuple[MemoryStore, MemoryStore]:
    """Return a store with a changed byte in a pack, and a whole copy of it."""
    store, copy = MemoryStore(), MemoryStore()
    Tracker(store).save({"a": A, "b": B}, "both", variables=["*"])
    mirror(store, copy)
    key = next(key for key in store.keys("packs/") if A.tobytes()[:64] in store.get(key))
    at = store.get(key).find(A.tobytes()[:64])
    store.put(key, store.get(key)[:at] + b"changed" + store.get(key)[at + 7 :])
    return store, copy


HEALING: dict[str, Callable[[Tracker, Store], object]] = {
    "verify": lambda tracker, _: tracker.verify(),
    "verify --repair": lambda tracker, copy: tracker.verify(repair_from=copy),
    "restore": lambda tracker, _: tracker.restore("both", {}),
    "push": lambda tracker, copy: mirror(tracker.store, copy),
    "pull": lambda tracker, copy: mirror(copy, tracker.store),
    "save": lambda tracker, _: tracker.save({"a": A, "b": B}, "again", variables=["*"]),
    "gc": lambda tracker, _: gc.collect(tracker.history, wait=lambda _: None),
}


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second", "ends"), share.cases(HEALING, HEALING, ENDS))
def test_two_commands_at_once_in_a_damaged_store_lose_nothing(first: str, second: str, ends: str) -> None:
    for at in itertools.count(1, STEP):
        store, copy = damaged()
        done: list[tuple[str, Any]] = []
        healed: list[bool] = []

        def act(
            name: str,
            between: Store,
            store: Store = store,
            copy: Store = copy,
            done: list[Any] = done,
            healed: list[bool] = healed,
        ) -> None:
            is_found = any(store.keys("damaged/"))  # a save may share what nothing has found yet
            with suppress(NbckptError, Killed):
                done.append((name, HEALING[name](Tracker(between), copy)))
                healed.append(name == "save" and is_found)

        between = Between(store, at, lambda store=store: act(second, store), ends)
        act(first, between)
        tracker, values = Tracker(store), dict[str, Any]()
        tracker.restore("both", values)
        assert np.array_equal(values["b"], B), at  # only a byte of the other one was changed
        if any(name == "verify --repair" and result.repaired for name, result in done):
            assert np.array_equal(values["a"], A), at
        if any(healed):
            again: dict[str, Any] = {}
            assert not tracker.restore("again", again).failed, at
            assert np.array_equal(again["a"], A), at
        if between.counted < at:
            return


def test_each_value_meets_each_value_of_another_column() -> None:
    columns = (tuple(FIRST), tuple(SECOND), tuple(ENDS))
    chosen = share.covering_pairs(*columns)
    assert len(chosen) < len(FIRST) * len(SECOND) * 1.2
    for one, other in itertools.combinations(range(3), 2):
        met = {(case[one], case[other]) for case in chosen}
        assert met == set(itertools.product(columns[one], columns[other]))
