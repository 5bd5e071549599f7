"""Upload: update a target from a local folder. Files that the target has already are not sent again.

The new contents of a file are first stored aside, and the index points to them. Then they move to the
file's path.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from nbckpt.core.algorithms import PREFERRED
from nbckpt.errors import CorruptError, NotFoundError, StoreError
from nbckpt.store import Data, Pieces, Store
from nbckpt.store.base import pieces_of
from nbckpt.store.files import explained
from nbckpt.sync.exclude import excluding, parents
from nbckpt.sync.files import FileStat, contents, digest_of, scan
from nbckpt.sync.index import KEY, Index, Item, key_aside, now_ns
from nbckpt.sync.progress import ProgressTracker
from nbckpt.sync.target import foreign_index, is_own
from nbckpt.sync.transfer import Moved, TransferOptions

_log = logging.getLogger("nbckpt")


def upload(
    folder: str | os.PathLike[str],
    store: Store,
    *,
    exclude: Iterable[str] | None = None,
    delete_missing: bool = False,
    options: TransferOptions | None = None,
) -> Moved:
    """Update a target from a folder.

    At every moment `download` returns the target's contents from before or after the upload, even if the
    upload fails, is cancelled or killed. After the return other tools find the files under their paths too.
    Empty folders are not sent.

    Args:
        folder: The folder.
        store: The target, which holds only this folder; one writer at a time.
        exclude: Patterns of files to leave out, see exclude.py.
        delete_missing: Remove files from the target that the folder does not have; excluded files stay.
        options: The timeout, the retries and the progress.

    Raises:
        NotFoundError: There is no such folder.
        StoreError: The storage failed, or the upload was cancelled or took too long.
    """
    options = options or TransferOptions()
    local = Path(folder)
    with explained("read", local):
        if not local.is_dir():
            raise NotFoundError(f"there is no folder {str(folder)!r} to send to {store.url}")
    excluded = excluding(exclude)
    with suppress(NotFoundError):  # another writer has just deleted what this one had put aside
        return _Upload(local, store, excluded, options).run(delete_missing=delete_missing)
    return _Upload(local, store, excluded, options).run(delete_missing=delete_missing)


class _ChangedError(Exception):
    """A local file changed since the folder was scanned."""


class _Upload:
    def __init__(
        self, folder: Path, store: Store, excluded: Callable[[str], bool], options: TransferOptions
    ) -> None:
        self._folder = folder
        self._store = store
        self._excluded = excluded
        self._before, self._keep = options.before, options.keep
        self._meter = ProgressTracker(options.on_progress)
        self._work = options.work(store.url)
        self._index = Index()
        self._algorithms = PREFERRED
        self._there: dict[str, int] = {}
        self._folders_there: set[str] = set()
        self._new: dict[str, Item] = {}
        self._aside: set[str] = set()
        """Paths that still hold former contents in the target."""
        self._put_aside: set[str] = set()
        self._left_out: dict[str, str] = {}
        self._moved: dict[str, int] = {}
        self._looked_at = now_ns()
        seen = scan(folder, excluded, self._left_out)
        self._left_out |= options.incomplete(folder, seen.keys())
        self._seen = {path: stat for path, stat in seen.items() if path not in self._left_out}

    def run(self, *, delete_missing: bool) -> Moved:
        """Send the missing files, then write the index and remove the files that should not be there."""
        self._read_target()
        changed = self._changed()
        self._meter.plan(len(changed), sum(self._seen[path].size for path in changed))
        if changed or delete_missing:
            self._work.one(self._before)
        for paths in _in_order(changed, self._seen):
            self._work.all(partial(self._send, path) for path in paths)
        items = self._index.kept() | self._new
        gone = self._gone(items, delete_missing=delete_missing)
        self._show(items, gone)
        same = len(self._seen.keys() - self._left_out.keys()) - len(self._moved)
        return Moved(len(self._moved), sum(self._moved.values()), same, len(gone), self._left_out)

    def _read_target(self) -> None:
        """List the target. A target without an index gets one now, so that readers see no partial upload."""
        work, store = self._work, self._store
        self._there = work.one(lambda: dict(store.sizes()))
        self._folders_there = {folder for path in self._there for folder in parents(path)}
        if KEY in self._there:
            try:
                self._index = work.one(partial(Index.read, store)) or self._index
            except CorruptError as error:
                _log.warning("%s; everything is sent again", error)
                self._index = foreign_index(self._there)
        else:
            self._index = foreign_index(self._there)
            work.one(partial(self._index.write, store))
        self._aside = set(self._index.aside)
        self._algorithms = self._index.algorithms(f"the target {store.url}")

    def _changed(self) -> list[str]:
        """Return the paths of the files to send. Leave out what the target is to keep."""
        changed = {path: seen for path, seen in self._seen.items() if not self._is_there(path, seen)}
        if kept := self._keep(self._index, changed):
            self._left_out |= kept
            self._seen = {
                path: seen
                for path, seen in self._seen.items()
                if kept.keys().isdisjoint(("", path, *parents(path)))
            }
        return [path for path in changed if path in self._seen]

    def _is_there(self, path: str, seen: FileStat) -> bool:
        index = self._index
        return index.says(path, seen.size, seen.time) and self._there.get(index.key(path)) == seen.size

    def _send(self, path: str) -> None:
        """Put one file, unless the target has the same contents."""
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
        """Return the contents of a file, up to its size at the time of the scan."""
        file, seen = self._folder / path, self._seen[path]
        try:
            now = FileStat.of(file.stat())
            if now.inode != seen.inode:  # another file has replaced it
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
        """Store a file under its path or aside."""
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
        """Tell whether a put under this path would change a file that the index lists."""
        index, there = self._index, self._there
        is_shown = path in index.items and path not in index.aside and path in there
        return is_shown or path in self._folders_there or any(folder in there for folder in parents(path))

    def _check_still(self, path: str, item: Item) -> None:
        """Check that a file still begins with the contents that were read.

        Raises:
            _ChangedError: The file changed or cannot be read.
        """
        file = self._folder / path
        try:
            same = file.stat().st_mtime_ns == item.time
            if same or digest_of(contents(file, item.size), item.digest) == item.digest:
                return
        except StoreError:
            raise
        except OSError as error:
            raise _ChangedError(f"it cannot be read: {error.strerror or error}") from error
        raise _ChangedError("it changed while it was sent; the next sync sends it")

    def _gone(self, items: Mapping[str, Item], *, delete_missing: bool) -> set[str]:
        """Return the paths to remove from the target."""
        present = self._seen.keys() & items.keys()
        others = {path for path in {*items, *self._there} if path not in self._seen and not is_own(path)}
        # A file cannot stay where the source now has a folder, nor a folder where it now has a file.
        folders = {folder for path in present for folder in parents(path)} if others else set()
        return {
            path
            for path in others
            if (delete_missing and not self._excluded(path))
            or path in folders
            or any(folder in present for folder in parents(path))
        }

    def _show(self, items: Mapping[str, Item], gone: set[str]) -> None:
        """Write the index, move every file to its path, and remove the files that the index does not list."""
        work, store = self._work, self._store
        shown = {path: item for path, item in items.items() if path not in gone}
        after = Index(shown, frozenset(self._aside) & shown.keys(), self._looked_at)
        # The index comes before any change to a file that it lists: see docs/decisions/0026.
        if self._new or gone or not self._index.looked_at:
            work.one(partial(after.write, store))
        for paths in reversed(_in_order(gone, gone)):
            work.all(partial(store.delete, path) for path in paths)
        if after.aside:
            for paths in _in_order(after.aside, after.items):
                work.all(partial(store.copy, after.key(path), path) for path in paths)
            work.one(partial(after.settled().write, store))
        stale = {key for key in self._there if is_own(key)} | self._put_aside
        work.all(partial(store.delete, key) for key in stale - {KEY})


def _counted(data: Data, moved: Callable[[int], None]) -> Data:
    """Return the data. If it is read in pieces, report the bytes of each piece to *moved*."""
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
    """Return two lists: the paths to process first, then each `<folder>.json`, which marks a whole folder."""
    folders = {folder for path in every for folder in parents(path)}
    first: list[str] = []
    last: list[str] = []
    for path in paths:
        (last if path.endswith(".json") and path.removesuffix(".json") in folders else first).append(path)
    return first, last
