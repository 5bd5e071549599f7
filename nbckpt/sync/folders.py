"""Folders: a local folder up to a target and down from it. What is there already is not moved again.

A target is a store of its own, with the files under their paths and an index beside them, which is put
last. What replaces a file is put aside first and shown by the index; then it takes its path, too.
"""

from __future__ import annotations

import mmap
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nbckpt.core.pack import digest, digest_of_file
from nbckpt.errors import CorruptError, NotFoundError, StoreError
from nbckpt.store import STAGING, Buffer, Store, check_key, wanted
from nbckpt.sync.exclude import OWN, excluding
from nbckpt.sync.index import KEY, Index, Item, now_ns
from nbckpt.sync.progress import Meter
from nbckpt.sync.work import Terms, Work

_MAPPED = 8 << 20
_RANGE = 16 << 20
_MOST_TRIES = 3


class Seen(NamedTuple):
    """A local file as it was when the folder was looked at."""

    size: int
    time: int


@dataclass(frozen=True)
class Moved:
    """What a transfer did.

    Attributes:
        files: How many files were moved.
        size: Their bytes.
        same: How many were there already.
        removed: How many were removed.
        left_out: Why files were left out, by their paths: they vanished, or changed while they were read.
    """

    files: int = 0
    size: int = 0
    same: int = 0
    removed: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


def upload(
    folder: str | os.PathLike[str],
    store: Store,
    *,
    exclude: Iterable[str] | None = None,
    delete_missing: bool = False,
    terms: Terms | None = None,
) -> Moved:
    """Bring a target up to what a folder holds.

    Whoever reads the target with `download` sees at every moment what it held before, or all of what it
    holds after; also when this is killed. After an error, or when it was cancelled, it is as before.

    Args:
        folder: The folder.
        store: The target, which holds this folder and nothing else; one writer at a time.
        exclude: Patterns of what is left out, see exclude.py.
        delete_missing: Remove from the target what the folder has no more; what is excluded stays.
        terms: How.

    Raises:
        NotFoundError: There is no such folder.
        StoreError: The storage failed; it was cancelled or took too long.
    """
    terms = terms or Terms()
    place = Path(folder)
    if not place.is_dir():
        raise NotFoundError(f"there is no folder {str(folder)!r} to send to {store.url}")
    return _Upload(place, store, excluding(exclude), terms).run(delete_missing=delete_missing)


class _Upload:
    def __init__(self, folder: Path, store: Store, excluded: Callable[[str], bool], terms: Terms) -> None:
        self._folder = folder
        self._store = store
        self._excluded = excluded
        self._meter = Meter(terms.told)
        self._work = terms.work(store.url)
        self._looked_at = now_ns()
        self._seen = dict(scan(folder, excluded))
        self._index = Index()
        self._there: dict[str, int] = {}
        self._new: dict[str, Item] = {}
        self._aside: set[str] = set()
        """Paths that have former contents still."""
        self._left_out: dict[str, str] = {}
        self._moved: list[int] = []

    def run(self, *, delete_missing: bool) -> Moved:
        """Do it."""
        work, store = self._work, self._store
        self._index = work.one(partial(Index.read, store)) or Index()
        self._aside = set(self._index.aside)
        self._there = work.one(lambda: dict(store.sizes()))
        changed = [path for path, seen in self._seen.items() if not self._is_there(path, *seen)]
        self._meter.plan(len(changed), sum(self._seen[path].size for path in changed))
        first, last = _in_order(changed, self._seen)
        work.all(partial(self._send, path) for path in first)
        work.all(partial(self._send, path) for path in last)
        gone = self._gone() if delete_missing else set()
        self._show(gone)
        same = len(self._seen) - len(self._moved) - len(self._left_out)
        return Moved(len(self._moved), sum(self._moved), same, len(gone), self._left_out)

    def _is_there(self, path: str, size: int, time: int) -> bool:
        index = self._index
        return index.says(path, size, time) and self._there.get(index.key(path)) == size

    def _send(self, path: str) -> None:
        """Put one file, unless the target has these very contents."""
        self._meter.begin(path)
        seen = self._seen[path]
        try:
            data = contents(self._folder / path, seen.size)
        except OSError as error:
            self._left_out[path] = f"it cannot be read: {error.strerror or error}"
            return
        item = Item(seen.size, seen.time, digest(data).hex())
        index, known = self._index, self._index.items.get(path)
        if known is None or known.digest != item.digest or self._there.get(index.key(path)) != item.size:
            is_aside = self._put(path, item, data)
            if isinstance(data, memoryview) and not self._is_still(path, item, data):
                self._left_out[path] = "it changed while it was being sent; the next time takes it along"
                return
            self._moved.append(item.size)
            (self._aside.add if is_aside else self._aside.discard)(path)
        self._new[path] = item
        self._meter.moved(item.size)
        self._meter.ended()

    def _put(self, path: str, item: Item, data: Buffer) -> bool:
        """Put a file under its path, or aside; tell which."""
        # What the index shows now is not touched before the index shows something else.
        is_shown = path in self._index.items and path not in self._index.aside and path in self._there
        self._store.put(f"{OWN}/{item.digest}" if is_shown else path, data)
        return is_shown

    def _is_still(self, path: str, item: Item, data: memoryview) -> bool:
        """Tell whether a mapped file is what it was when it was looked at; a longer one is."""
        with suppress(OSError):
            if (self._folder / path).stat().st_mtime_ns == item.time:
                return True
        return digest(data).hex() == item.digest

    def _gone(self) -> set[str]:
        every = {*self._index.items, *(key for key in self._there if not _is_own(key))}
        return {path for path in every if path not in self._seen and not self._excluded(path)}

    def _show(self, gone: set[str]) -> None:
        """Put the index, then everything under its path, and remove what the index does not show any more."""
        before = self._index
        items = {path: it for path, it in {**before.items, **self._new}.items() if path not in gone}
        after = Index(items, frozenset(self._aside) & items.keys(), self._looked_at)
        if self._new or gone or KEY not in self._there:
            self._work.one(partial(after.write, self._store))
        if after.aside:
            self._work.all(partial(self._settle, after, path) for path in after.aside)
            self._work.one(partial(after.settled().write, self._store))
        stale = {after.key(path) for path in after.aside} | {key for key in self._there if _is_own(key)}
        self._work.all(partial(self._store.delete, key) for key in {*gone, *stale - {KEY}})

    def _settle(self, index: Index, path: str) -> None:
        """Give a file that is aside its path."""
        item = index.items[path]
        with suppress(OSError):
            data = contents(self._folder / path, item.size)
            if digest(data).hex() == item.digest:
                self._store.put(path, data)
                return
        self._store.put(path, self._store.get(index.key(path)))


def download(
    store: Store,
    folder: str | os.PathLike[str],
    *,
    exclude: Iterable[str] | None = None,
    delete_missing: bool = False,
    terms: Terms | None = None,
) -> Moved:
    """Bring a folder up to what a target holds, every byte checked.

    Everything is fetched before anything is replaced. After an error, or when it was cancelled, the
    folder is as before. Files that another tool put there, without an index, are fetched too.

    Args:
        store: The target.
        folder: The folder, which is made if it is not there.
        exclude: Patterns of what is left out, see exclude.py.
        delete_missing: Remove from the folder what the target has not; what is excluded stays.
        terms: How.

    Raises:
        NotFoundError: The target holds nothing.
        CorruptError: It does not hold what its index says.
        StoreError: The storage or the disk failed; it was cancelled or took too long.
    """
    terms = terms or Terms()
    place = Path(folder)
    work, excluded = terms.work(f"down:{place.absolute()}"), excluding(exclude)
    was_there = place.exists()
    try:
        tries = 0
        while True:
            index = work.one(partial(Index.read, store)) or _foreign(work, store)
            load = _Download(place, store, index, excluded, work, Meter(terms.told))
            try:
                return load.run(delete_missing=delete_missing)
            except (NotFoundError, CorruptError):
                tries += 1
                # A writer may have replaced what the index showed.
                if tries == _MOST_TRIES or work.one(partial(Index.read, store)) == index:
                    raise
    except BaseException:
        if not was_there:
            shutil.rmtree(place, ignore_errors=True)
        raise


def _foreign(work: Work, store: Store) -> Index:
    """Return what is known of a target that has no index: its files' sizes."""
    found = work.one(lambda: dict(store.sizes()))
    items = {path: Item(size, 0, "") for path, size in found.items() if not _is_own(path)}
    if not items:
        raise NotFoundError(f"there is nothing at {store.url}")
    return Index(items)


class _Download:
    def __init__(
        self,
        folder: Path,
        store: Store,
        index: Index,
        excluded: Callable[[str], bool],
        work: Work,
        meter: Meter,
    ) -> None:
        self._folder = folder
        self._store = store
        self._index = index
        self._excluded = excluded
        self._work = work
        self._meter = meter
        self._stage = folder / f"{STAGING}-{uuid.uuid4().hex[:12]}"

    def run(self, *, delete_missing: bool) -> Moved:
        """Do it."""
        wanted_ = {path: it for path, it in self._index.items.items() if not self._excluded(path)}
        seen = dict(scan(self._folder, self._excluded)) if self._folder.is_dir() else {}
        needed = {path: it for path, it in wanted_.items() if not self._is_here(path, it, seen.get(path))}
        self._meter.plan(len(needed), sum(it.size for it in needed.values()))
        gone = seen.keys() - wanted_.keys() if delete_missing else set()
        try:
            with explained("write", self._folder):
                self._stage.mkdir(parents=True)
            staged = {path: self._stage / str(number) for number, path in enumerate(needed)}
            self._work.all(partial(self._fetch, path, staged[path]) for path in needed)
            with explained("write", self._folder):
                self._place(staged, gone)
        finally:
            shutil.rmtree(self._stage, ignore_errors=True)
        size = sum(it.size for it in needed.values())
        return Moved(len(needed), size, len(wanted_) - len(needed), len(gone))

    def _is_here(self, path: str, item: Item, seen: Seen | None) -> bool:
        if seen is None or seen.size != item.size or not item.digest:
            return False
        if self._index.says(path, *seen):
            return True
        with suppress(OSError):
            return digest_of_file(self._folder / path).hex() == item.digest
        return False

    def _fetch(self, path: str, place: Path) -> None:
        """Get one file in pieces, and check it."""
        item = self._index.items[path]
        self._meter.begin(path)
        key, cancel = self._index.key(path), wanted()
        with place.open("wb") as file:  # from the start again, where it is tried again
            for start in range(0, item.size, _RANGE):
                cancel.check()
                piece = self._store.get(key, start, min(start + _RANGE, item.size))
                file.write(piece)
                self._meter.moved(len(piece))
        if not item.size and not item.digest:
            self._store.get(key)
        if place.stat().st_size != item.size or (item.digest and digest_of_file(place).hex() != item.digest):
            raise CorruptError(f"{path!r} in {self._store.url} is not what was sent there")
        if item.time:
            os.utime(place, ns=(item.time, item.time))
        self._meter.ended()

    def _place(self, staged: Mapping[str, Path], gone: Iterable[str]) -> None:
        """Give the fetched files their names, and take them back if that fails half-way."""
        done: list[tuple[Path, Path | None]] = []
        former = self._stage / "former"
        former.mkdir()
        try:
            for number, path in enumerate([*staged, *gone]):
                target, aside = self._folder / path, former / str(number)
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.exists():
                    target.replace(aside)
                done.append((target, aside if aside.exists() else None))
                if path in staged:
                    staged[path].replace(target)
        except BaseException:
            for target, was in reversed(done):
                target.unlink(missing_ok=True)
                if was is not None:
                    was.replace(target)
            raise


def delete(store: Store, *, terms: Terms | None = None) -> int:
    """Remove a whole target, the index first, so that nobody takes what is left for it.

    Returns:
        How many files were removed.

    Raises:
        StoreError: The storage failed; trying again goes on.
    """
    work = (terms or Terms()).work(store.url)
    keys = work.one(lambda: list(store.keys()))
    work.one(partial(store.delete, KEY))
    work.all(partial(store.delete, key) for key in keys)
    return sum(not _is_own(key) for key in keys)


def scan(folder: Path, excluded: Callable[[str], bool]) -> Iterator[tuple[str, Seen]]:
    """Yield the files in a folder with their sizes and times; what vanishes meanwhile is left out.

    Links to files count as the files; links to folders are not followed.
    """
    waiting = [(folder, "")]
    while waiting:
        place, prefix = waiting.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda it: it.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"cannot read {str(place)!r}: {error.strerror or error}") from error
        for entry in entries:
            path = prefix + entry.name
            if excluded(path):
                continue
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), f"{path}/"))
                elif entry.is_file():
                    found = entry.stat()
                    yield check_key(path), Seen(found.st_size, found.st_mtime_ns)


def contents(file: Path, size: int) -> Buffer:
    """Return the first *size* bytes of a file; those of a large one are not read into memory.

    Raises:
        OSError: It cannot be read, or is shorter.
    """
    with file.open("rb") as opened:
        if size < _MAPPED:
            data: Buffer = opened.read(size)
        else:
            data = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))[:size]
    if len(data) != size:
        raise OSError(f"it became shorter while it was read: {len(data)} of {size} bytes")
    return data


def _in_order(paths: Iterable[str], every: Mapping[str, Seen]) -> tuple[list[str], list[str]]:
    """Return the paths of contents, and those of names: a file that says that a folder beside it is whole."""
    folders = {parent for path in every for parent in _parents(path)}
    first: list[str] = []
    last: list[str] = []
    for path in paths:
        (last if path.endswith(".json") and path.removesuffix(".json") in folders else first).append(path)
    return first, last


def _is_own(key: str) -> bool:
    return key.startswith(f"{OWN}/")


def _parents(path: str) -> Iterator[str]:
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)


class explained:  # noqa: N801  used as a function
    """Turn an OSError of the disk in a block into a StoreError that names the place."""

    def __init__(self, action: str, place: Path) -> None:
        self._text = f"cannot {action} {str(place)!r}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, StoreError):
            raise StoreError(f"{self._text}: {error.strerror or error}") from error
