"""Faults: one clear error, nothing lost, nothing half there, and the next try works."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mounting import mounted, needs_mount
from test_crash import COMMANDS, add_stranger, filled, on, view

from nbckpt.cli import main
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import CorruptError, FormatError, NbckptError, NotFoundError, StoreError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.store import MemoryStore, Store
from nbckpt.testing import FaultyStore
from nbckpt.tracker import Tracker

KB = 1 << 10
A, B = (np.random.default_rng(seed).integers(0, 256, 300 * KB, dtype=np.uint8) for seed in range(2))
RAW_TYPES = re.compile(
    r"Traceback|KeyError|JSONDecodeError|BadZipFile|Errno|struct\.error|ZstdError|object at 0x"
)

LISTS = {
    "status": lambda tracker, _: ask(tracker, "status"),
    "ls": lambda tracker, _: ask(tracker, "ls"),
    "show": lambda tracker, _: ask(tracker, "show two"),
    "diff": lambda tracker, _: ask(tracker, "diff one two"),
    "snippet": lambda tracker, _: ask(tracker, "snippet two"),
}
EVERYTHING: dict[str, Callable[[Tracker, Path], object]] = COMMANDS | LISTS


def ask(tracker: Tracker, words: str, namespace: dict[str, Any] | None = None) -> str:
    session = Session(tracker, AutoMirror(tracker.store), {} if namespace is None else namespace)
    return str(parse(TABLE, words.split(), "%ckpt").run(session))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    there = Tracker(MemoryStore())
    there.save({"c": A[::-1].copy(), "d": 1}, "imported", variables=["c", "d"])
    there.export("imported", tmp_path / "x.ckpt")
    return tmp_path / "x.ckpt"


def contents(seen: tuple[Any, ...]) -> list[Any]:
    """Return what was seen without the names, whose numbers may skip one after a failure."""
    return sorted(row[1:] for row in seen)


@contextmanager
def tells(words: str) -> Iterator[None]:
    """Let one of our errors pass that tells these words."""
    try:
        yield
    except NbckptError as error:
        if words not in str(error):
            raise


@pytest.mark.slow
@pytest.mark.parametrize("halfway", [False, True], ids=["before", "halfway"])
@pytest.mark.parametrize("command", EVERYTHING)
def test_a_failed_store_call_loses_nothing(command: str, halfway: bool, file: Path, tmp_path: Path) -> None:
    for n in range(1, 400):
        store, tracker = filled()
        add_stranger(store, tmp_path)
        before = view(store)
        faulty = FaultyStore(store, fail_at=n, halfway=halfway)
        with tells("as the test asked"):
            EVERYTHING[command](on(tracker, faulty), file)
        seen = view(store)
        if not faulty.failed:
            break
        assert all(row in seen for row in before) or command in {"rm", "rm by id", "undo", "trust", "tag"}
        assert list(store.keys("condemned/")) == [] or command == "gc"
        if len(seen) == len(before) and seen == before:
            EVERYTHING[command](on(tracker, store), file)
            assert view(store)
    else:
        raise AssertionError("there is no end to the calls")


@pytest.mark.slow
def test_a_failed_save_is_invisible_and_the_next_one_works() -> None:
    for n in itertools.count(1):
        store, tracker = filled()
        before = view(store)
        on(tracker, faulty := FaultyStore(store, fail_at=n))
        with suppress(StoreError):
            tracker.save({"x": B[::-1].copy()}, "x", variables=["x"])
            assert not faulty.failed
            return
        assert view(store) == before, n
        tracker.save({"x": B[::-1].copy()}, "x", variables=["x"])
        namespace: dict[str, Any] = {}
        assert tracker.restore("x", namespace).failed == ()
        assert np.array_equal(namespace["x"], B[::-1])


@pytest.mark.slow
def test_a_failed_restore_changes_nothing_or_names_the_rest() -> None:
    """A variable that it names as failed keeps its value."""
    for n in itertools.count(1):
        store, tracker = filled()
        namespace = {"a": "mine", "b": "mine"}
        on(tracker, faulty := FaultyStore(store, fail_at=n))
        try:
            restored = tracker.restore("two", namespace)
        except StoreError:
            assert namespace == {"a": "mine", "b": "mine"}, n
        else:
            for name in (name for failure in restored.failed for name in failure.names):
                assert namespace[name] == "mine", n
        assert Tracker(store).restore("two", namespace).failed == ()
        assert np.array_equal(namespace["b"], B)
        if not faulty.failed:
            return


# What a store may be instead of one.


@needs_mount
def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "none") as disk:
        tracker = Tracker(disk / "s")
        tracker.save({"a": A}, "s", variables=["a"])
        before = view(tracker.store)
        big = np.random.default_rng(9).integers(0, 256, 8 << 20, dtype=np.uint8)
        for _ in range(3):
            with pytest.raises(StoreError, match=r"No space left on device. Free some space .*`%ckpt gc`"):
                tracker.save({"big": big}, "s", variables=["big"])
        assert view(tracker.store) == before
        assert list((disk / "s" / ".nbckpt-tmp").iterdir()) == []
        assert tracker.save({"b": A + 1}, "s", variables=["b"]).manifest
        assert tracker.restore("s", {}).failed == ()


@pytest.mark.slow
@needs_mount
def test_a_disk_that_fills_up_can_be_emptied(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "none") as disk:
        tracker = Tracker(disk / "s")
        with suppress(StoreError):
            for n in range(100):
                tracker.save({"a": A + n}, "s", variables=["a"])
        assert len(tracker.entries()) < 100
        tracker.remove([entry.id for entry in tracker.entries()[1:]])
        assert tracker.collect().freed > 1 << 20
        tracker.save({"b": B}, "s", variables=["b"])
        assert tracker.verify().damages == []


@needs_mount
def test_a_read_only_folder_is_a_clear_error(tmp_path: Path) -> None:
    Tracker(tmp_path / "s").save({"a": A}, "s", variables=["a"])
    options = ("--bind", "-o", "ro", str(tmp_path / "s"))
    with mounted(tmp_path / "ro", *options) as folder:
        tracker = Tracker(folder)
        for call in (
            lambda: tracker.save({"b": 1}, "s", variables=["b"]),
            lambda: tracker.tag("s", "t"),
            lambda: tracker.remove(["s"]),
        ):
            with pytest.raises(StoreError, match=r"Read-only file system. Choose a folder .*NBCKPT_STORE"):
                call()
        namespace: dict[str, Any] = {}
        assert tracker.restore("s", namespace).failed == ()
        assert np.array_equal(namespace["a"], A)


def test_a_file_in_place_of_the_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    tracker = Tracker(tmp_path / "s")
    with pytest.raises(StoreError, match="is a file where a folder should be"):
        tracker.save({"a": 1}, "s", variables=["a"])
    assert (tmp_path / "s").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["with space", "Ünïcode 日本 🦆", "a'b\"c", "%41", "#x?y=1", "-dash", "x" * 200]
)
def test_a_store_may_have_any_name(tmp_path: Path, name: str) -> None:
    tracker = Tracker(tmp_path / name / "store")
    tracker.save({"a": A, "b": 1}, "s", variables=["a", "b"])
    namespace: dict[str, Any] = {}
    Tracker(str(tmp_path / name / "store")).restore("s", namespace)
    assert np.array_equal(namespace["a"], A)
    tracker.export("s", tmp_path / name / "out.ckpt")
    assert Tracker(tmp_path / "other").import_file(tmp_path / name / "out.ckpt")[2]


def test_a_store_in_a_foreign_folder_keeps_its_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "epoch1.json").write_text('{"loss": 1}')
    tracker = Tracker(tmp_path)
    tracker.save({"a": 1}, "s", variables=["a"])
    assert len(tracker.entries()) == 1
    assert tracker.verify().damages == []
    tracker.remove(["s"])
    tracker.collect()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "checkpoints" / "epoch1.json").exists()


DAMAGE: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {
    "a pack is gone": ("packs/", lambda _: None),
    "a pack is empty": ("packs/", lambda _: b""),
    "a pack is something else": ("packs/", lambda data: b"x" * len(data)),
    "a bit in a body": ("packs/", lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]),
    "a bit in an index": ("packs/", lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:]),
    "a bit in a count": ("packs/", lambda data: data[:15] + bytes([data[15] ^ 64]) + data[16:]),
    "a manifest is cut": ("checkpoints/", lambda data: data[: len(data) // 2]),
    "a manifest is empty": ("checkpoints/", lambda _: b""),
    "a manifest is edited": (
        "checkpoints/",
        lambda data: data.replace(b'"message":"old"', b'"message":"new"'),
    ),
    "a manifest is foreign": ("checkpoints/", lambda _: b'{"cells":[],"nbformat":4}'),
    "a manifest is a number": ("checkpoints/", lambda _: b"42"),
    "a manifest is newer": ("checkpoints/", lambda data: data.replace(b'"format":1', b'"format":2')),
    "the store is foreign": ("store.json", lambda _: b'{"name":"npm"}'),
    "the store is newer": ("store.json", lambda _: b'{"format":99}'),
    "the store is garbage": ("store.json", lambda _: b"\xff\xfe\x00"),
}
WORDS = [
    "status",
    "ls",
    "show s",
    "diff s",
    "restore s",
    "restore s --lazy",
    "verify",
    "gc",
    "gc --dry-run",
    "rm s --dry-run",
]
WORDS += ["tag s t", "export s {}/out", "trust s", "trust --store", "snippet s", "doctor", "save t", "rm s"]


def saved(folder: Path, damage: str) -> Path:
    """Save a checkpoint in a new store, damage the store, and return the folder of the store."""
    tracker = Tracker(folder / "s")
    tracker.save({"a": A, "b": B, "n": 1}, "s", variables=["a", "b", "n"], message="old")
    prefix, change = DAMAGE[damage]
    (key,) = tracker.store.keys(prefix)
    data = change(tracker.store.get(key))
    if data is None:
        tracker.store.delete(key)
    else:
        tracker.store.put(key, data)
    return folder / "s"


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_gives_an_answer_or_one_clear_error(
    tmp_path: Path, damage: str, subtests: pytest.Subtests
) -> None:
    for at, words in enumerate(WORDS):
        with subtests.test(words):
            store = saved(tmp_path / str(at), damage)
            namespace = {"a": A, "b": B, "x": 5}
            try:
                answer = ask(Tracker(store), words.format(store.parent), namespace)
            except NbckptError as error:
                answer = str(error)
                assert namespace["x"] == 5
            assert answer
            assert not RAW_TYPES.search(answer)
            for name, array in (("a", A), ("b", B)):
                lazy = damage == "a bit in a body" and "lazy" in words
                assert lazy or np.array_equal(namespace[name], array)


ERRORS: dict[str, tuple[type[NbckptError], str]] = {
    "a manifest is cut": (CorruptError, r"checkpoint \w{8} is damaged: it is not whole JSON"),
    "a manifest is edited": (CorruptError, r"checkpoint \w{8} is damaged: its contents do not match"),
    "a manifest is foreign": (FormatError, r"checkpoint \w{8} is not an nbckpt manifest"),
    "a manifest is newer": (
        FormatError,
        r"checkpoint \w{8} was written by a newer nbckpt \(format 2\).*upgrade",
    ),
    "the store is foreign": (FormatError, "is not an nbckpt store: its store.json is something else"),
    "the store is newer": (FormatError, r"was written by a newer nbckpt \(format 99\).*upgrade"),
}


@pytest.mark.parametrize("damage", ERRORS)
def test_the_error_names_the_thing_and_the_cause(tmp_path: Path, damage: str) -> None:
    kind, message = ERRORS[damage]
    with pytest.raises(kind, match=message):
        Tracker(saved(tmp_path, damage)).restore("s", {})


@pytest.mark.parametrize(
    "words", ["show ../../etc/passwd", "rm ..", "restore a/../../b", "export .. x", "ls ../x"]
)
def test_no_reference_leads_outside(tmp_path: Path, words: str) -> None:
    tracker = Tracker(tmp_path / "s")
    tracker.save({"a": 1}, "s", variables=["a"])
    with pytest.raises(NotFoundError, match="no checkpoint matches"):
        ask(tracker, words)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_shell_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Tracker(tmp_path / "s").save({"a": 1}, "s", variables=["a"])
    (tmp_path / "s" / "store.json").write_text("{}")
    assert main(["--store", str(tmp_path / "s"), "ls"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("nbckpt: ")


def test_damage_changes_the_exit_status_in_a_shell(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path / "s")
    tracker.save({"a": A}, "s", variables=["a"])
    assert main(["--store", str(tmp_path / "s"), "verify"]) == 0
    (key,) = tracker.store.keys("packs/")
    tracker.store.delete(key)
    assert main(["--store", str(tmp_path / "s"), "verify"]) == 2


def test_a_damaged_checkpoint_can_be_removed_and_restored() -> None:
    store: Store = MemoryStore()
    tracker = Tracker(store)
    tracker.save({"a": 1}, "s", variables=["a"])
    entry = tracker.find("s")
    data = store.get(entry.key)
    store.put(entry.key, data[:50])
    tracker.remove(["s"])
    tracker.undo({})
    assert store.get(tracker.find("s").key) == data[:50]


class Vanishing(MemoryStore):
    """A store whose packs vanish, if they are to, right after they were listed.

    Attributes:
        vanished: The keys of these packs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.vanish = False
        self.vanished: list[str] = []

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        listed = list(super().sizes(prefix))
        for key, _ in listed:
            if self.vanish and key.startswith("packs/"):
                self.delete(key)
                self.vanished.append(key)
        yield from listed


def test_a_pack_that_vanishes_during_a_save_is_written_again() -> None:
    store = Vanishing()
    tracker = Tracker(store)
    tracker.save({"a": A}, "one", variables=["a"])
    store.vanish = True
    tracker.save({"a": A}, "two", variables=["a"])
    store.vanish = False
    assert store.vanished
    namespace: dict[str, Any] = {}
    assert tracker.restore("two", namespace).failed == ()
    assert np.array_equal(namespace["a"], A)


def test_a_save_with_an_invalid_name_writes_nothing() -> None:
    store = MemoryStore()
    with pytest.raises(UsageError, match="cannot be a checkpoint's name"):
        Tracker(store).save({"a": A}, "../x@2", variables=["a"])
    assert list(store.keys("checkpoints/")) == []
