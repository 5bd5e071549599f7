"""Long records go into packs while they are pickled, and are what they would be in one piece."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nbckpt import Tracker
from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.writer import RECORD_BLOB, Packer
from nbckpt.core.spans import NO_OVERLAPS
from nbckpt.core.values import codec, members
from nbckpt.core.values.record import KEPT, Record
from nbckpt.store import MemoryStore

LONG: dict[str, Callable[[], Any]] = {
    "ints": lambda: list(range(2_000_000)),
    "texts": lambda: {f"key {n}": f"text {n}" * 40 for n in range(20_000)},
    "bytes": lambda: os.urandom(9 << 20),
    "zeros": lambda: bytes(9 << 20),
    "text": lambda: "ä" * (5 << 20),
    "nested": lambda: [{"n": [n, n / 2, None, (n,)]} for n in range(200_000)],
}


def saved(tracker: Tracker, values: dict[str, Any]) -> Manifest:
    tracker.save(values, "x")
    return tracker.history.read(tracker.find("x"))


def whole_digest(value: Any) -> str:
    """Return the digest that a value has whose record was made in one piece."""
    digest = PREFERRED.digest
    return digest(digest(codec.dump([value], {}).record)).hex()[:32]


@pytest.mark.slow
@pytest.mark.parametrize("made", LONG.values(), ids=LONG)
def test_a_long_value_is_restored_and_has_its_pickles_digest(made: Callable[[], Any]) -> None:
    value = made()
    with Tracker(MemoryStore()) as tracker:
        manifest = saved(tracker, {"value": value})
        kept = manifest.find("value")
        assert kept is not None
        assert manifest.groups[kept.group].record.size > KEPT
        assert kept.digest == whole_digest(value)
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
        assert namespace["value"] == value


SIZES = (0, 1, 4096, RECORD_BLOB - 1, RECORD_BLOB, KEPT, KEPT + 1, 3 * KEPT + 7)


def test_the_blobs_of_a_record_do_not_depend_on_its_write_sizes(subtests: pytest.Subtests) -> None:
    for size, most in itertools.product(SIZES, (0, 4096, KEPT)):
        data = os.urandom(size)
        blobs = [data[at : at + RECORD_BLOB] for at in range(0, size, RECORD_BLOB)]
        for step in (size or 1, 65_537):
            with subtests.test(size=size, most=most, step=step), Packer(MemoryStore()) as packer:
                record = Record(packer, most)
                for at in range(0, size, step):
                    record.write(bytearray(data[at : at + step]))
                assert (record.size, record.digest()) == (size, PREFERRED.digest(data))
                stored = record.stored()
                packer.finish()
                assert (stored.size, stored.changed) == (size, False)
                assert stored.digests == [PREFERRED.digest(blob) for blob in blobs]


def test_long_values_keep_shared_objects_shared() -> None:
    shared = ["shared"]
    values = {"a": [*range(900_000), shared], "b": [shared, *range(900_000, 1_800_000)]}
    with Tracker(MemoryStore()) as tracker:
        assert len({value.group for value in saved(tracker, values).values if value.name in values}) == 1
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
    assert namespace == values
    assert namespace["a"][-1] is namespace["b"][0]


def test_values_beyond_the_memory_limit_are_saved_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MOST_KEPT", 1 << 20)
    values = {f"v{n}": os.urandom(700_000) for n in range(5)}
    with Tracker(MemoryStore()) as tracker:
        manifest = saved(tracker, values)
        digests = {value.name: value.digest for value in manifest.values if value.name in values}
        assert digests == {name: whole_digest(value) for name, value in values.items()}
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
    assert namespace == values


def test_a_long_value_that_fails_half_way_is_skipped_entirely() -> None:
    store = MemoryStore()
    with Tracker(store) as tracker:
        lock = (letter for letter in "x")
        tracker.save({"bad": [os.urandom(1 << 20) for _ in range(40)] + [lock], "good": "good" * 9999}, "x")
        manifest = tracker.history.read(tracker.find("x"))
        assert "bad" not in [value.name for value in manifest.values]
        assert [skipped.name for skipped in manifest.skipped] == ["bad"]
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
        assert namespace == {"good": "good" * 9999}
        assert not tracker.verify().damages


def test_pickling_in_pieces_gives_the_same_record_for_a_class() -> None:
    code = "shared = [1]\nclass C:\n    kept = shared\nc = [*range(900_000), C(), *'x' * 90_000, {}]"
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(code, namespace)
    pieces: list[bytes] = []
    in_pieces = codec.dump([namespace["c"]], namespace, NO_OVERLAPS, pieces.append)
    at_once = codec.dump([namespace["c"]], namespace)
    assert b"".join(pieces) == at_once.record
    assert list(map(type, in_pieces.links)) == list(map(type, at_once.links))
    assert list(map(type, in_pieces.class_links)) == list(map(type, at_once.class_links))
    assert any(link is namespace["shared"] for link in in_pieces.class_links)


@contextmanager
def a_thread_of_the_user(act: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run *act* in a thread. Its argument is set when it should end."""
    done = threading.Event()
    thread = threading.Thread(target=act, args=(done,))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def ways(
    monkeypatch: pytest.MonkeyPatch, value: object, after: Callable[[], object] = lambda: None
) -> list[str]:
    """Return a list of the ways in which *value* will be pickled. Call *after* after each."""
    taken: list[str] = []
    dump = members.dump

    def noted(*args: Any, in_one_step: bool = False, **options: Any) -> Any:
        if args[0][0] is not value:
            return dump(*args, in_one_step=in_one_step, **options)
        taken.append("whole" if len(args) < 4 else "one step" if in_one_step else "pieces")
        try:
            return dump(*args, in_one_step=in_one_step, **options)
        finally:
            after()

    monkeypatch.setattr(members, "dump", noted)
    return taken


@pytest.mark.parametrize(
    ("length", "expected"),
    [(100_000, ["one step"]), (2_000_000, ["one step", "pieces", "pieces"])],
    ids=["short", "long"],
)
def test_beside_a_thread_a_long_record_is_checked(
    length: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = list(range(length))
    taken = ways(monkeypatch, value)
    with a_thread_of_the_user(threading.Event.wait), Tracker(MemoryStore()) as tracker:
        digests = [one.digest for one in saved(tracker, {"value": value}).values if one.name == "value"]
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
    assert digests == [whole_digest(value)]
    assert namespace == {"value": value}
    assert taken == expected


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, -1], ids=["first", "last"])
def test_a_long_list_that_a_thread_changes_is_of_one_moment(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    value = list(range(2_000_000))

    def changes() -> None:
        value[at] += 1

    taken = ways(monkeypatch, value, changes)
    monkeypatch.setattr(members, "others_run", lambda: True)
    with Tracker(MemoryStore()) as tracker:
        saved(tracker, {"value": value})
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
        assert not tracker.verify().damages
    assert taken == ["one step", "pieces", "pieces"] * 2 + ["whole"]
    value[at] -= 1  # the last change came after the save
    assert namespace == {"value": value}


@pytest.mark.slow
def test_a_list_that_a_thread_rewrites_is_never_half_of_each() -> None:
    value = [0] * 12_000_000

    def rewrites(done: threading.Event) -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            for at in range(0, len(value), 4000):
                value[at] = turn

    with a_thread_of_the_user(rewrites), Tracker(MemoryStore()) as tracker:
        saved(tracker, {"value": value})
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
    seen = namespace["value"][::4000]
    # Turn n writes from the front, so a moment holds n in front of n - 1.
    assert seen == sorted(seen, reverse=True)
    assert seen[0] - seen[-1] <= 1


def test_an_error_of_a_value_itself_is_told_beside_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "others_run", lambda: True)
    with Tracker(MemoryStore()) as tracker:
        tracker.save({"bad": [1, Refuses()], "good": [1]}, "x")
        manifest = tracker.history.read(tracker.find("x"))
    assert [(one.name, one.reason) for one in manifest.skipped] == [("bad", "not today")]
    assert "good" in [one.name for one in manifest.values]


class Refuses:
    def __reduce__(self) -> str:
        raise ValueError("not today")


@pytest.mark.parametrize("text", ["x", "ä", "x\udc80\U0001f600"], ids=["ascii", "latin", "surrogates"])
def test_a_long_text_is_pickled_in_pieces_of_a_few_mib(text: str) -> None:
    value = [text * (3 << 20)]
    pieces: list[bytes] = []
    pickled = codec.dump(value, {}, NO_OVERLAPS, pieces.append)
    assert b"".join(pieces) == pickle.dumps(value, 5) == codec.dump(value, {}).record
    assert max(map(len, pieces)) <= 4 << 20
    assert (pickled.record, pickled.links) == (b"", [])


@pytest.mark.parametrize("value", ["x" * (9 << 20), bytes(9 << 20)], ids=["text", "bytes"])
def test_a_long_constant_goes_in_pieces_beside_a_thread(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = ways(monkeypatch, value)
    monkeypatch.setattr(members, "others_run", lambda: True)
    with Tracker(MemoryStore()) as tracker:
        saved(tracker, {"value": value})
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
    assert namespace == {"value": value}
    assert taken == ["pieces"]


PEAK = """
import os, sys, threading
from nbckpt import Tracker
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
with Tracker(sys.argv[1] + "/first") as tracker:
    tracker.save({"small": ["x" * 9999] * 9}, "warm")
value = eval(sys.argv[2])
if "thread" in sys.argv:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
with Tracker(sys.argv[1] + "/store") as tracker:
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    tracker.save({"value": value}, "x")
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("beside", ["alone", "thread"])
@pytest.mark.parametrize(
    "code",
    [
        "[1] * 40_000_000",
        "os.urandom(512 << 20)",
        "bytearray(512 << 20)",
        "{n: os.urandom(999).hex() for n in range(150_000)}",
        "[n / 3 for n in range(9_000_000)]",
        "'x' * (512 << 20)",
        "'ä' * (256 << 20)",
    ],
)
def test_a_save_of_a_huge_value_takes_at_most_64_mib(tmp_path: Path, code: str, beside: str) -> None:
    environment = {**os.environ, "NBCKPT_SECRET_FILE": str(tmp_path / "secret")}
    command: list[Any] = [sys.executable, "-c", PEAK, tmp_path, code, beside]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) < 64 << 10
