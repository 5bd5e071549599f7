"""A catalogue bounds the requests of looks and saves, and never changes what they show."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from paged import PagedStore

from attack import share
from nbckpt import Checkpoint
from nbckpt.commands import TABLE, Session, parse
from nbckpt.core import renewal, shelf
from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.changes import note_added
from nbckpt.core.gc import collect
from nbckpt.core.packs.format import build, compressed, pack_key
from nbckpt.core.references import Entry, Ref, References
from nbckpt.core.renewal import renew_catalogue
from nbckpt.core.resolving import resolve
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.listing import read_rows
from nbckpt.mirror import AutoMirror, Mirror
from nbckpt.settings import Settings
from nbckpt.store import MemoryStore
from nbckpt.testing import Call, FaultyStore
from nbckpt.tracker import Tracker

TOPS, PARTS = "catalogue/tops/", "catalogue/parts/"
SEEDS = itertools.count()
OPERATIONS = ("ls", "show x", "restore x", "save")


def run(store: PagedStore, words: str) -> Any:
    tracker = Tracker(store)
    session = Session(tracker, AutoMirror(store, in_background=False), {})
    return parse(TABLE, words.split(), "%ckpt").run(session)


def save(store: PagedStore, size: int = 100_000) -> None:
    noise = np.random.default_rng(next(SEEDS)).integers(0, 256, size, np.uint8)
    Tracker(store).save({"x": noise}, "x", variables=["x"], provenance=False)  # no random states


def operation(store: PagedStore, words: str) -> Callable[[], object]:
    return (lambda: save(store)) if words == "save" else (lambda: run(store, words))


def fill(store: PagedStore, count: int) -> None:
    """Put the keys of *count* older checkpoints, half of them versions of x, and a pack for every fourth."""
    at = datetime(2020, 1, 1, tzinfo=UTC)
    for number in range(count):
        name = hashlib.sha256(str(number).encode()).hexdigest()
        moment = f"{at + timedelta(seconds=number):%Y%m%dT%H%M%S%f}Z"
        store.put(f"checkpoints/{moment}-{name}.json", b"an old manifest")
        version, label = (number // 2 + 1, "x") if number % 2 else (1, f"n{number}")
        store.put(f"refs/{label}/{version:08d}-{name}", f"{name}\n{moment}\n".encode())
        if number % 4:
            continue
        blob = bytes.fromhex(name)
        pack, body = build([compressed(blob, PREFERRED.digest(blob), PREFERRED)], PREFERRED)
        store.put(pack_key(pack), body)


def filled(count: int, page: int) -> PagedStore:
    store = PagedStore(page)
    fill(store, count)
    for _ in range(25):
        save(store)
    return store


def numbered(count: int) -> PagedStore:
    """Return a store with versions of a number, without random states."""
    store = PagedStore()
    for number in range(count):
        Tracker(store).save({"x": number}, "x", provenance=False)
    return store


def costs(store: PagedStore, *operations: str) -> list[int]:
    """Return the requests of each operation."""
    return [store.count(operation(store, words)) for words in operations]


@pytest.mark.slow
def test_a_catalogue_bounds_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "MOST_ROWS", 1 << 12)
    store = filled(1_500, 20)
    before = costs(store, *OPERATIONS)
    renew_catalogue(Tracker(store).history)
    save(store)
    assert costs(store, *OPERATIONS) == [7, 10, 13, 18]
    assert before == [177, 123, 48, 474]


@pytest.mark.slow
@pytest.mark.skipif(share.of(False, True), reason="NBCKPT_ATTACK=full runs it, for 20 s")
def test_a_hundred_thousand_checkpoints_take_20_requests() -> None:
    store = filled(100_000, 1_000)
    assert costs(store, "ls", "show x", "restore x") == [225, 159, 60]
    renew_catalogue(Tracker(store).history)
    save(store)
    assert costs(store, *OPERATIONS) == [10, 12, 14, 19]


# The same is shown with and without a catalogue.


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small stores have catalogues of many parts, as large ones have."""
    shrink(monkeypatch)


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"SMALLEST": 3, "MOST_ROWS": 4, "MOST_NOTES": 4, "NEWEST": 3, "FEWEST": 1}
    for name, limit in limits.items():
        monkeypatch.setattr(renewal, name, limit)


def tops(store: PagedStore) -> list[str]:
    return list(store.keys(TOPS))


class Histories(RuleBasedStateMachine):
    """Two machines use one store, and a third one pushes to it. Parts of the catalogue are lost."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        shrink(self._patch)
        self.store = PagedStore()
        self.trackers = [Tracker(self.store), Tracker(self.store)]
        self.other = Tracker(MemoryStore())
        self.former: dict[str, bytes] = {}
        self.saved = 0

    def teardown(self) -> None:
        self._patch.undo()

    def refs(self) -> list[str]:
        return [entry.id for entry in self.trackers[0].history.entries()]

    @rule(by=st.integers(0, 1), name=st.sampled_from("ab"))
    def save(self, by: int, name: str) -> None:
        self.saved += 1
        self.trackers[by].save({"x": self.saved}, name, provenance=False)

    @rule()
    def save_without_a_name(self) -> None:
        self.saved += 1
        Checkpoint.from_dict({"x": self.saved}).to_store(self.store)

    @rule(name=st.sampled_from("ab"))
    def push(self, name: str) -> None:
        self.saved += 1
        self.other.save({"x": self.saved}, name, provenance=False)
        Mirror(self.other.store, Path("no experiments"), self.store).push()

    @rule(by=st.integers(0, 1), name=st.sampled_from("abc"), at=st.integers(0, 9))
    def tag(self, by: int, name: str, at: int) -> None:
        for ref in self.refs()[at : at + 1]:
            self.trackers[by].tag(ref, name)

    @rule(by=st.integers(0, 1), at=st.integers(0, 9))
    def remove(self, by: int, at: int) -> None:
        if refs := self.refs()[at : at + 1]:
            self.trackers[by].remove(refs)

    @rule(by=st.integers(0, 1))
    def undo(self, by: int) -> None:
        with suppress(UsageError, NotFoundError):
            self.trackers[by].undo({})

    @rule(by=st.integers(0, 1))
    def gc(self, by: int) -> None:
        collect(self.trackers[by].history, wait=lambda _: None)

    @rule()
    def keep_a_copy(self) -> None:
        for key in (*self.store.keys(PARTS), *tops(self.store)[-1:]):
            self.former[key] = self.store.get(key)

    @rule()
    def bring_back_a_former_catalogue(self) -> None:
        newest = max(tops(self.store), default="")
        for key, data in self.former.items():
            if not key.startswith(TOPS) or key < newest:
                self.store.put(key, data)

    @rule(at=st.integers(0, 19), is_lost=st.booleans())
    def damage(self, at: int, is_lost: bool) -> None:
        for key in [*tops(self.store), *self.store.keys(PARTS)][at : at + 1]:
            if is_lost:
                self.store.delete(key)
            else:
                self.store.put(key, self.store.get(key)[:-1] + b"?")

    @invariant()
    def the_catalogue_changes_nothing(self) -> None:
        for tracker in self.trackers:
            truth = References(self.store)
            listed = tracker.history.listed()
            assert listed.entries() == truth.entries()
            assert living(listed.refs(), truth) == living(truth.refs(), truth)
            rows = read_rows(listed, listed.entries())
            assert [row.manifest for row in rows] == [tracker.history.read(e) for e in truth.entries()]
            for ref in ("latest", "a", "b@2", "c~1"):
                assert resolved(tracker.history.resolve, ref) == resolved(partial(resolve, truth), ref)
            for name in "abc":
                assert listed.last_version(name) == truth.last_version(name)


def living(refs: list[Ref], truth: References) -> list[Ref]:
    ids = {entry.id for entry in truth.entries()}
    return [ref for ref in refs if ref.id in ids]


def resolved(find: Callable[[str], Entry], ref: str) -> Entry | None:
    with suppress(NotFoundError):
        return find(ref)
    return None


TestHistories = pytest.mark.slow(Histories.TestCase)


def test_a_name_that_gc_forgot_does_not_count_again() -> None:
    """Then another machine pushes a version with a number that is taken, so later ones count up."""
    state = Histories()
    for _ in range(4):
        state.save(0, "b")
    state.gc(0)
    state.save(0, "b")
    state.remove(0, 0)
    state.save(0, "b")
    state.gc(0)
    state.push("b")
    state.the_catalogue_changes_nothing()
    state.teardown()


TestHistories.settings = settings(max_examples=20, stateful_step_count=20)


@pytest.mark.usefixtures("small")
def test_what_a_catalogue_names_and_is_gone_is_not_shown() -> None:
    store = numbered(5)
    renew_catalogue(Tracker(store).history)
    for ref in ("x@5", "x@1"):
        store.delete(Tracker(store).find(ref).key)  # by another tool, which leaves no note
    namespace: dict[str, Any] = {}
    Tracker(store).restore("x", namespace)
    assert namespace == {"x": 3}
    listing = run(store, "ls")
    assert (len(listing.rows), listing.total) == (4, 4)  # the catalogue has a copy of the newest
    Tracker(store).collect()
    assert [row.label for row in run(store, "ls").rows] == ["x@4", "x@3", "x@2"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("removed", ["a", "cell:a"])
def test_a_catalogue_lists_the_other_name_of_a_removed_cell(removed: str) -> None:
    store = PagedStore()
    tracker = Tracker(store)
    for number in range(5):
        tracker.save({"x": number}, "x", provenance=False)
    result = replace(tracker.manifest("x"), message="of a cell")
    tracker.history.publish(result, "cell:a", kind="cells")
    tracker.tag("cell:a", "a")
    renew_catalogue(tracker.history)
    tracker.remove([removed])
    (stays,) = {"a", "cell:a"} - {removed}
    listed = Tracker(store).history.listed()
    assert {ref.name for ref, _ in listed.named(listed.refs())} == {"x", stays}
    assert resolve(listed, stays) == resolve(References(store), stays)
    assert resolved(partial(resolve, listed), removed) is None


@pytest.mark.usefixtures("small")
def test_of_two_writers_at_once_none_is_believed() -> None:
    store = numbered(5)
    renew_catalogue(Tracker(store).history)
    (top,) = tops(store)
    store.put(f"{top[:-64]}{'0' * 64}", b"another")
    history = Tracker(store).history
    assert history.view() is None
    renew_catalogue(history)
    view = history.view()
    assert view is not None
    assert tops(store)[-1] > top
    assert list(view.keys("refs/")) == list(store.keys("refs/"))


def test_a_writer_that_was_overtaken_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PagedStore()
    writer = shelf.Shelf(store, lambda: PREFERRED, "catalogue/")
    listed = list(store.keys("catalogue/"))  # by the slow writer, before the quick one
    assert writer.put_top(b"quick", listed, ())
    monkeypatch.setattr(shelf, "time", SimpleNamespace(time=lambda: 9_000_000_000))
    assert not writer.put_top(b"slow", listed, ())
    assert writer.top(writer.newest(store.keys("catalogue/"))) == b"quick"


@pytest.mark.usefixtures("small")
def test_a_save_shares_blobs_with_packs_of_the_catalogue() -> None:
    store = PagedStore()
    array = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8)
    for number in range(3):
        Tracker(store).save({"x": array, "n": number}, "x", provenance=False)
    renew_catalogue(Tracker(store).history)
    saved = Tracker(store).save({"x": array}, "y", provenance=False)
    assert saved.new_bytes < 1000
    (pack,) = saved.manifest.packs()
    store.put(pack_key(pack), store.get(pack_key(pack))[:-1])
    assert Tracker(store).save({"x": array}, "y", provenance=False).new_bytes > 1 << 20


@pytest.mark.usefixtures("small")
def test_a_save_shares_blobs_with_the_version_before() -> None:
    store = numbered(3)
    renew_catalogue(Tracker(store).history)
    array = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8)
    Tracker(store).save({"x": array}, "y", provenance=False)
    assert Tracker(store).save({"x": array, "n": 1}, "y", provenance=False).new_bytes < 1000


@pytest.mark.usefixtures("small")
def test_a_store_of_one_page_has_no_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    store = numbered(3)
    assert len(list(store.keys("catalogue/"))) == 3  # notes
    collect(Tracker(store).history, wait=lambda _: None)
    assert len(tops(store)) == 1
    assert not list(store.keys("catalogue/added/"))
    monkeypatch.setattr(renewal, "SMALLEST", 1_000)
    collect(Tracker(store).history, wait=lambda _: None)
    assert not list(store.keys("catalogue/"))


def test_a_folder_has_neither_catalogue_nor_notes(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path / "store")
    tracker.save({"n": 1}, "x")
    tracker.remove(["x"])
    tracker.collect()
    assert not list(tracker.store.keys("catalogue/"))


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_catalogue_on_s3_serves_another_machine(s3_bucket: str, tmp_path: Path) -> None:
    url = f"{s3_bucket}/store"
    here = Tracker(tmp_path / "here")
    for number in range(6):
        here.save({"x": number}, "x")
    Mirror(here.store, tmp_path / "none", url).push()
    there = Tracker(url, settings=replace(Settings.load(), cache=tmp_path / "cache"))
    view = there.history.view()
    assert view is not None
    assert not view.changes
    there.save({"x": 6}, "x")
    here.save({"x": 7}, "x")
    Mirror(here.store, tmp_path / "none", url).push()
    there.remove(["x@2"])
    names = [row.label for row in read_rows(there.history.listed(), there.entries())]
    assert sorted(names) == ["x@1", *(f"x@{n}" for n in range(3, 9))]
    there.collect()
    namespace: dict[str, Any] = {}
    there.restore("x@1", namespace)
    assert namespace["x"] == 0
    Mirror(Tracker(tmp_path / "fresh").store, tmp_path / "none", url).pull()
    assert len(Tracker(tmp_path / "fresh").entries()) == 7
    assert not list(Tracker(tmp_path / "fresh").store.keys("catalogue/"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("has_top", [True, False])
def test_a_push_brings_back_what_was_removed_at_the_url(has_top: bool) -> None:
    store, other = PagedStore(), Tracker(MemoryStore())
    for number in range(5):
        other.save({"n": number}, "x", provenance=False)
    Mirror(other.store, Path("none"), store).push()
    tracker = Tracker(store)
    tracker.tag("x@2", "y")
    tracker.remove(["x@2"])
    for key in [] if has_top else tops(store):
        store.delete(key)
    Mirror(other.store, Path("none"), store).push()
    assert sorted(map(str, tracker.history.listed().refs())) == ["x@1", "x@2", "x@3", "x@4", "x@5"]
    assert len(tracker.entries()) == 5
    assert tracker.history.last_version("y") == 1
    assert tracker.history.view() is not None


# A save and a collection at the same time, by machines whose clocks differ.


def put_back(store: PagedStore, prefix: str, **ago: int) -> None:
    """Let the keys with a prefix seem to be put some time ago."""
    for key in list(store.keys(prefix)):
        store.put(key, (datetime.now(UTC) - timedelta(**ago)).isoformat().encode())


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("smallest", [3, 1_000], ids=["with a catalogue", "before the first one"])
def test_a_save_by_a_clock_that_is_behind_is_shown(monkeypatch: pytest.MonkeyPatch, smallest: int) -> None:
    store = numbered(5)
    monkeypatch.setattr(renewal, "SMALLEST", smallest)
    renew_catalogue(Tracker(store).history)

    def renew(call: Call) -> bool:
        if call.op == "put" and call.key.startswith("refs/"):  # the note is there; the ref is not
            put_back(store, "catalogue/added/", hours=2)
            renew_catalogue(Tracker(store).history)
            monkeypatch.setattr(renewal, "SMALLEST", 3)
            renew_catalogue(Tracker(store).history)
        return False

    saving = FaultyStore(store, when=renew)
    saving.lists_in_pages = True
    Tracker(saving).save({"x": "new"}, "x", provenance=False)
    namespace: dict[str, Any] = {}
    Tracker(store).restore("x", namespace)
    assert namespace["x"] == "new"
    assert len(run(store, "ls").rows) == 6
    renew_catalogue(Tracker(store).history)
    assert not [key for key in store.keys("catalogue/") if not key.startswith((TOPS, PARTS))]


@pytest.mark.usefixtures("small")
def test_the_note_of_a_dead_save_goes_after_an_hour() -> None:
    store = numbered(5)
    dead = f"checkpoints/20260101T000000000000Z-{'ab' * 32}.json"
    note_added(store, dead, f"refs/y/00000001-{'ab' * 32}")

    def left() -> list[str]:
        """Return the folders of the notes and marks that two renewals leave."""
        for _ in range(2):
            renew_catalogue(Tracker(store).history)
        keys = store.keys("catalogue/")
        return [key.split("/")[1] for key in keys if not key.startswith((TOPS, PARTS))]

    assert left() == ["added"]
    put_back(store, "catalogue/added/", hours=2)
    assert left() == ["added", "waiting"]
    put_back(store, "catalogue/waiting/", hours=2)
    assert left() == []
