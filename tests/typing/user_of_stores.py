"""A program with a store of its own: it uses every name of `nbckpt.store`, `sync`, `mirror` and `testing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, assert_type

import pytest

from nbckpt import errors, mirror, store, sync, testing, tracker
from nbckpt.store import Data, Store
from nbckpt.sync import SyncConfig, Syncer


class DictStore(Store):
    """Keep bytes in a dict."""

    def __init__(self) -> None:
        self.url = "dict"
        self.data: dict[str, bytes] = {}

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return bytes."""
        try:
            return self.data[store.check_key(key)][start:stop]
        except KeyError:
            raise errors.NotFoundError(f"no {key!r}") from None

    def put(self, key: str, data: Data) -> None:
        """Keep bytes."""
        pieces: list[store.Buffer] = list(store.pieces_of(data))
        self.data[store.check_key(key)] = b"".join(pieces)

    def exists(self, key: str) -> bool:
        """Look for a key."""
        return store.check_key(key) in self.data

    def keys(self, prefix: str = "") -> Iterator[str]:
        """List keys."""
        yield from sorted(key for key in list(self.data) if key.startswith(prefix))

    def delete(self, key: str) -> None:
        """Forget a key."""
        self.data.pop(store.check_key(key), None)


class TestDictStore(testing.StoreTests):
    """Run the suite."""

    @pytest.fixture
    def store(self) -> Store:
        """Return an empty store."""
        return DictStore()


class TestThreads(testing.ExecutorTests):
    """Run the suite for executors."""

    @pytest.fixture
    def executor(self) -> str:
        """Return the name of an executor."""
        return "thread"


class TestReading(testing.ReadingTests):
    """Run the part for reading."""


def faults() -> list[str]:
    """Fail a put, and record the others."""
    recording = testing.RecordingStore(DictStore())
    faulty = testing.FaultyStore(recording, when=lambda call: call.key == "a")
    try:
        faulty.put("a", b"")
    except errors.StoreError:
        faulty.put("b", b"")
    calls = assert_type(recording.changes, list[testing.Call])
    return [call.key for call in calls]


def open_stores(file: BinaryIO, folder: Path) -> Store:
    """Open each kind of store."""
    far = store.RemoteStore("s3://bucket/folder")
    assert_type(store.is_far(far), bool)
    cached = store.CachedStore(far, folder, most=1 << 30)
    memory, local = store.MemoryStore(), store.LocalStore(folder)
    part = store.PrefixStore(memory, "part")
    part.put("key", store.Pieces(4, lambda start, stop: bytes(stop - start)))
    for opened in (cached, local, part, store.ArchiveWriter(file), store.ArchiveStore(b"")):
        assert_type(opened.get("key"), bytes)
        assert_type(list(opened.sizes()), list[tuple[str, int]])
    try:
        with store.open_archive(file) as archive:
            archive.read("name")
    except store.DAMAGE:
        print("damaged")
    assert_type(store.local_folder("file:///tmp"), Path | None)
    assert_type(store.STAGING, str)
    return store.with_cache(store.open_store("memory://store"), folder)


def write_files(folder: Path, url: str) -> bool:
    """Write a file that survives a power cut, unless somebody cancels."""
    store.check_no_secret(url, "a file")
    store.check_protocol(url)
    print(store.masked(url), store.masked_url(url), store.trimmed(url))
    cancel = store.Cancel()
    try:
        with cancel.covering():
            assert_type(store.wanted(), store.Cancel)
            store.sync_file(folder / "file")
            store.sync_folder(folder)
    except store.TimedOutError:
        return False
    except store.CancelledError:
        return assert_type(cancel.cancelled, bool)
    return store.exchange(folder / "a", folder / "b")


def sync_folders(folder: Path) -> None:
    """Upload a folder in the background."""
    config = SyncConfig(upload_dir="s3://bucket/folder", sync_timeout=None)
    assert_type(sync.get_node_to_storage_syncer(config), Syncer | None)
    syncer: sync.BackgroundSyncer = sync.DefaultSyncer(sync_period=0)
    assert_type(syncer.sync_up(str(folder), "s3://bucket/folder"), bool)
    assert_type(syncer.wait(), bool)
    syncer.close()


def mirror_a_store(folder: Path) -> int:
    """Push a store once, and again and again."""
    mine = tracker.Tracker(folder)
    saved = assert_type(mine.save({"a": 1}, "name"), tracker.Saved)
    assert_type(saved.size, int)
    assert_type(mine.restore("name", {}), tracker.Restored)
    assert_type(mine.diff("name"), tracker.Compared)
    background = mirror.AutoMirror(mine.store)
    background.start("s3://bucket/store", mirror.PERIOD_S)
    assert_type(background.status, mirror.AutoStatus | None)
    background.close()
    pushed = mirror.Mirror(mine.store, folder / "experiments", "s3://bucket/store").push()
    return assert_type(pushed, mirror.Mirrored).files


def exit_status(error: errors.NbckptError, fill: Callable[[], Store]) -> int:
    """Return a number for each kind of error."""
    kinds: list[type[errors.NbckptError]] = [
        errors.UsageError,
        errors.NotFoundError,
        errors.RefusedError,
        errors.StoreError,
        errors.CodecError,
        errors.CorruptError,
        errors.FormatError,
        errors.UntrustedError,
        errors.TrialError,
    ]
    return next(number for number, kind in enumerate(kinds) if isinstance(error, kind))
