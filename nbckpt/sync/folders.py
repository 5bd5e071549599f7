"""Folders: a local folder up to a target and down from it. What is there already is not moved again.

A target is a store of its own, with the files under their paths and an index beside them, which is put
last. What replaces a file is put aside first and shown by the index; then it takes its path, too.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.errors import CorruptError, NotFoundError, StoreError, UsageError
from nbckpt.store import Data, Pieces, PrefixStore, Store, check_key, wanted
from nbckpt.store.base import PIECE, pieces_of
from nbckpt.sync.exclude import OWN, excluding, parents
from nbckpt.sync.files import FileStat, StagedUpdate, contents, digest_of, explained, scan
from nbckpt.sync.index import KEY, Index, Item, key_aside, now_ns
from nbckpt.sync.progress import ProgressTracker
from nbckpt.sync.transfer import TransferOptions, TransferPool

_MOST_TRIES = 3

_log = logging.getLogger("nbckpt")


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

    def __repr__(self) -> str:
        numbers = f"files={self.files}, size={self.size}, same={self.same}, removed={self.removed}"
        return f"Moved({numbers}, left_out={len(self.left_out)})"


def upload(
    folder: str | os.PathLike[str],
    store: Store,
    *,
    exclude: Iterable[str] | None = None,
    delete_missing: bool = False,
    options: TransferOptions | None = None,
) -> Moved:
    """Bring a target up to what a folder holds.

    Whoever reads the target with `download` sees at every moment what it held before, or all of what it
    holds after; also when this fails, is cancelled or killed. The files are under their paths for any other
    tool, too, once it returns. Folders that hold no file are not carried.

    Args:
        folder: The folder.
        store: The target, which holds this folder and nothing else; one writer at a time.
        exclude: Patterns of what is left out, see exclude.py.
        delete_missing: Remove from the target what the folder has no more; what is excluded stays.
        options: The timeout, the retries and the progress.

    Raises:
        NotFoundError: There is no such folder.
        StoreError: The storage failed; it was cancelled or took too long.
    """
    options = options or TransferOptions()
    place = Path(folder)
    if not place.is_dir():
        raise NotFoundError(f"there is no folder {str(folder)!r} to send to {store.url}")
    return _Upload(place, store, excluding(exclude), options).run(delete_missing=delete_missing)


class _ChangedError(Exception):
    """A local file is not what it was when it was looked at."""


class _Upload:
    def __init__(
        self, folder: Path, store: Store, excluded: Callable[[str], bool], options: TransferOptions
    ) -> None:
        self._folder = folder
        self._store = store
        self._excluded = excluded
        self._meter = ProgressTracker(options.told)
        self._work = options.work(store.url)
        self._index = Index()
        self._algorithms = PREFERRED
        self._there: dict[str, int] = {}
        self._folders_there: set[str] = set()
        self._new: dict[str, Item] = {}
        self._aside: set[str] = set()
        """Paths that have former contents still."""
        self._put_aside: set[str] = set()
        self._left_out: dict[str, str] = {}
        self._moved: dict[str, int] = {}
        self._looked_at = now_ns()
        self._seen = scan(folder, excluded, self._left_out)

    def run(self, *, delete_missing: bool) -> Moved:
        """Do it."""
        self._look_there()
        changed = [path for path, seen in self._seen.items() if not self._is_there(path, seen)]
        self._meter.plan(len(changed), sum(self._seen[path].size for path in changed))
        for paths in _in_order(changed, self._seen):
            self._work.all(partial(self._send, path) for path in paths)
        items = self._index.kept() | self._new
        gone = self._gone(items, delete_missing=delete_missing)
        self._show(items, gone)
        same = len(self._seen.keys() - self._left_out.keys()) - len(self._moved)
        return Moved(len(self._moved), sum(self._moved.values()), same, len(gone), self._left_out)

    def _look_there(self) -> None:
        """See what the target holds; one without an index gets it now, so that nothing half is seen."""
        work, store = self._work, self._store
        self._there = work.one(lambda: dict(store.sizes()))
        self._folders_there = {folder for path in self._there for folder in parents(path)}
        if KEY in self._there:
            try:
                self._index = work.one(partial(Index.read, store)) or self._index
            except CorruptError as error:
                _log.warning("%s; everything is sent again", error)
                self._index = _foreign(self._there)
        else:
            self._index = _foreign(self._there)
            work.one(partial(self._index.write, store))
        self._aside = set(self._index.aside)
        self._algorithms = self._index.algorithms(f"the target {store.url}")

    def _is_there(self, path: str, seen: FileStat) -> bool:
        index = self._index
        return index.says(path, seen.size, seen.time) and self._there.get(index.key(path)) == seen.size

    def _send(self, path: str) -> None:
        """Put one file, unless the target has these very contents."""
        try:
            with self._meter.file(path) as moved:
                item, data = self._read(path)
                index, known = self._index, self._index.items.get(path)
                is_known = known is not None and known.digest == item.digest
                if is_known and self._there.get(index.key(path)) == item.size:
                    moved(item.size)
                else:
                    self._put(path, item, _counted(data, moved))
                    self._moved[path] = item.size
                    if not isinstance(data, Pieces):
                        moved(item.size)
                self._new[path] = item
        except _ChangedError as error:
            self._left_out[path] = str(error)
            self._meter.plan(-1, -self._seen[path].size)

    def _read(self, path: str) -> tuple[Item, Data]:
        """Return what a file held when it was looked at; of one that grew since, no more than that."""
        file, seen = self._folder / path, self._seen[path]
        try:
            now = FileStat.of(file.stat())
            if now.inode != seen.inode:  # another file has taken its name
                self._meter.plan(0, now.size - seen.size)
                self._seen[path] = seen = now
            data = contents(file, seen.size)
            item = Item(seen.size, seen.time, self._algorithms.checksum(pieces_of(data)))
        except StoreError:
            raise
        except OSError as error:
            raise _ChangedError(f"it cannot be read: {error.strerror or error}") from error
        if not isinstance(data, Pieces):
            self._check_still(path, item)
        return item, data

    def _put(self, path: str, item: Item, data: Data) -> None:
        """Put a file under its path, or aside."""
        key = key_aside(path, item) if self._is_taken(path) else path
        if key != path:
            self._put_aside.add(key)
        try:
            self._store.put(key, data)
        except OSError:
            self._check_still(path, item)
            raise
        if isinstance(data, Pieces):
            self._check_still(path, item)
        (self._aside.discard if key == path else self._aside.add)(path)

    def _is_taken(self, path: str) -> bool:
        """Tell whether the index shows something now that a put under this path would touch."""
        index, there = self._index, self._there
        is_shown = path in index.items and path not in index.aside and path in there
        return is_shown or path in self._folders_there or any(folder in there for folder in parents(path))

    def _check_still(self, path: str, item: Item) -> None:
        """Hold that a file begins with what was read."""
        file = self._folder / path
        try:
            same = file.stat().st_mtime_ns == item.time
            if same or digest_of(contents(file, item.size), item.digest) == item.digest:
                return
        except StoreError:
            raise
        except OSError as error:
            raise _ChangedError(f"it cannot be read: {error.strerror or error}") from error
        raise _ChangedError("it changed while it was sent; the next time takes it along")

    def _gone(self, items: Mapping[str, Item], *, delete_missing: bool) -> set[str]:
        """Return what the target is not to hold any more."""
        present = self._seen.keys() & items.keys()
        others = {path for path in {*items, *self._there} if path not in self._seen and not _is_own(path)}
        # A file where the folder has a folder now, or the other way round, cannot stay in any case.
        folders = {folder for path in present for folder in parents(path)} if others else set()
        return {
            path
            for path in others
            if (delete_missing and not self._excluded(path))
            or path in folders
            or any(folder in present for folder in parents(path))
        }

    def _show(self, items: Mapping[str, Item], gone: set[str]) -> None:
        """Put the index, then everything under its path, and remove what the index does not show any more."""
        work, store = self._work, self._store
        shown = {path: item for path, item in items.items() if path not in gone}
        after = Index(shown, frozenset(self._aside) & shown.keys(), self._looked_at)
        # Before anything that is shown is touched: see docs/decisions/0026.
        if self._new or gone or not self._index.looked_at:
            work.one(partial(after.write, store))
        for paths in reversed(_in_order(gone, gone)):
            work.all(partial(store.delete, path) for path in paths)
        if after.aside:
            for paths in _in_order(after.aside, after.items):
                work.all(partial(store.copy, after.key(path), path) for path in paths)
            work.one(partial(after.settled().write, store))
        stale = {key for key in self._there if _is_own(key)} | self._put_aside
        work.all(partial(store.delete, key) for key in stale - {KEY})


def download(
    store: Store,
    folder: str | os.PathLike[str],
    *,
    exclude: Iterable[str] | None = None,
    delete_missing: bool = False,
    options: TransferOptions | None = None,
) -> Moved:
    """Bring a folder up to what a target holds, every byte checked.

    Everything is fetched before anything is replaced. After an error, or when it was cancelled, the
    folder is as before. Files that another tool put there, without an index, are fetched too; and where
    there is no index but those of targets in the folders below, what these show is.

    Args:
        store: The target.
        folder: The folder, which is made if it is not there.
        exclude: Patterns of what is left out, see exclude.py.
        delete_missing: Remove from the folder what the target has not; what is excluded stays.
        options: The timeout, the retries and the progress.

    Raises:
        NotFoundError: The target holds nothing.
        CorruptError: It does not hold what its index says.
        StoreError: The storage or the disk failed; it was cancelled or took too long.
    """
    options = options or TransferOptions()
    place = Path(folder).absolute()
    work, excluded = options.work(f"down:{place}"), excluding(exclude)
    tries = 0
    while True:
        index = index_of(store, work)
        load = _Download(place, store, index, excluded, work, ProgressTracker(options.told))
        try:
            return load.run(delete_missing=delete_missing)
        except CorruptError:
            tries += 1
            # A writer may have replaced what the index showed.
            if tries == _MOST_TRIES or index_of(store, work) == index:
                raise


def index_of(store: Store, work: TransferPool) -> Index:
    """Return what a target holds; without an index, what can be told from its files and those below."""
    # An experiment has no index, its trials have: see docs/decisions/0032.
    index = work.one(partial(Index.read, store)) or _joined(store, work)
    if not index.items and not index.looked_at:
        raise NotFoundError(f"there is nothing at {store.url}")
    return index


def _joined(store: Store, work: TransferPool) -> Index:
    """Return what a folder without an index holds, as the indexes in the folders below tell it."""
    sizes = work.one(lambda: dict(store.sizes()))
    tops = {key.removesuffix(f"/{KEY}") for key in sizes if key.endswith(f"/{KEY}")}
    found: list[Index] = []
    work.all(partial(_read_below, store, top, found) for top in tops)
    loose = {path: size for path, size in sizes.items() if tops.isdisjoint(parents(path))}
    items, keys = dict(_foreign(loose).items), dict[str, str]()
    for index in found:
        items.update(index.items)
        keys.update(index.keys)
    return Index(items, looked_at=min((it.looked_at for it in found), default=0), keys=keys)


def _read_below(store: Store, folder: str, found: list[Index]) -> None:
    index = Index.read(PrefixStore(store, folder))
    if index is not None:
        found.append(index.below(folder))


def _foreign(sizes: Mapping[str, int]) -> Index:
    return Index({check_key(path): Item(size, 0, "") for path, size in sizes.items() if not _is_own(path)})


class _Download:
    def __init__(
        self,
        folder: Path,
        store: Store,
        index: Index,
        excluded: Callable[[str], bool],
        work: TransferPool,
        meter: ProgressTracker,
    ) -> None:
        self._folder = folder
        self._store = store
        self._index = index
        self._excluded = excluded
        self._work = work
        self._meter = meter
        self._fetched: dict[str, Path] = {}
        self._left_out: dict[str, str] = {}

    def run(self, *, delete_missing: bool) -> Moved:
        """Do it."""
        items = {path: it for path, it in self._index.items.items() if not self._excluded(path)}
        self._check_paths(items)
        seen = scan(self._folder, self._excluded, {}) if self._folder.is_dir() else {}
        needed = [path for path in items if path not in seen or not self._says(path, seen[path])]
        gone = sorted(seen.keys() - items.keys()) if delete_missing else []
        if needed or gone or not self._folder.is_dir():
            self._meter.plan(len(needed), sum(items[path].size for path in needed))
            with StagedUpdate(self._folder) as stage:
                self._work.all(
                    partial(self._fetch, path, stage.place(number)) for number, path in enumerate(needed)
                )
                stage.seal()
                for path in gone:
                    stage.remove(path)
                for path, staged in sorted(self._fetched.items()):
                    stage.put(staged, path)
        size = sum(items[path].size for path in self._fetched)
        return Moved(len(self._fetched), size, len(items) - len(self._fetched), len(gone))

    def _check_paths(self, items: Mapping[str, Item]) -> None:
        for both in {folder for path in items for folder in parents(path)} & items.keys():
            raise UsageError(f"{both!r} in {self._store.url} is a file and a folder at once: exclude one")

    def _says(self, path: str, seen: FileStat) -> bool:
        return self._index.says(path, seen.size, seen.time)

    def _is_here(self, path: str, item: Item) -> bool:
        file = self._folder / path
        with suppress(OSError):
            if item.digest and file.is_file() and file.stat().st_size == item.size:
                return digest_of(contents(file, item.size), item.digest) == item.digest
        return False

    def _fetch(self, path: str, staged: Path) -> None:
        """Get one file in pieces, and check it, unless the folder has these very contents."""
        item = self._index.items[path]
        with self._meter.file(path) as moved:
            if self._is_here(path, item):
                moved(item.size)
                return
            algorithms = of_checksum(item.digest, f"{path!r} in {self._store.url}")
            hasher = algorithms.hasher()
            with (
                explained("write", self._folder),
                staged.open("wb") as file,
            ):  # from the start in each attempt
                for piece in self._pieces(path, item):
                    file.write(piece)
                    hasher.update(piece)
                    moved(len(piece))
            if item.digest not in {"", algorithms.text(hasher.digest())}:
                raise CorruptError(f"{path!r} in {self._store.url} is not what was sent there")
            if item.time:
                os.utime(staged, ns=(item.time, item.time))
            self._fetched[path] = staged

    def _pieces(self, path: str, item: Item) -> Iterator[bytes]:
        key, cancel = self._index.key(path), wanted()
        for start in range(0, item.size, PIECE):
            cancel.check()
            stop = min(start + PIECE, item.size)
            try:
                piece = self._store.get(key, start, stop)
            except NotFoundError:
                raise CorruptError(f"{path!r} is missing in {self._store.url}") from None
            if len(piece) != stop - start:
                raise CorruptError(f"{path!r} in {self._store.url} is shorter than what was sent there")
            yield piece


def delete(store: Store, *, options: TransferOptions | None = None) -> int:
    """Remove a whole target, the index first, so that nobody takes what is left for it.

    Returns:
        How many files were removed.

    Raises:
        StoreError: The storage failed; trying again goes on.
    """
    work = (options or TransferOptions()).work(store.url)
    keys = work.one(lambda: [key for key in list(store.keys()) if key != KEY])
    if keys:
        work.one(partial(Index().write, store))
    work.all(partial(store.delete, key) for key in keys)
    work.one(partial(store.delete, KEY))
    return sum(not _is_own(key) for key in keys)


def _counted(data: Data, moved: Callable[[int], None]) -> Data:
    """Return data that tells how many bytes of it were taken, where it is read piece by piece."""
    if not isinstance(data, Pieces):
        return data
    read, left = data.read, data.size

    def counted(start: int, stop: int) -> bytes:
        nonlocal left
        fresh = min(stop - start, left)  # a store may read it twice
        left -= fresh
        moved(fresh)
        return read(start, stop)

    return Pieces(data.size, counted)


def _in_order(paths: Iterable[str], every: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the paths of contents, and those of names: a file that says that a folder beside it is whole."""
    folders = {folder for path in every for folder in parents(path)}
    first: list[str] = []
    last: list[str] = []
    for path in paths:
        (last if path.endswith(".json") and path.removesuffix(".json") in folders else first).append(path)
    return first, last


def _is_own(key: str) -> bool:
    return key.startswith(f"{OWN}/")
