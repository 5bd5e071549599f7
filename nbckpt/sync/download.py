"""Download: update a local folder from a target and check every byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from nbckpt.core.algorithms import of_checksum
from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.store import Store, wanted
from nbckpt.store.base import PIECE
from nbckpt.store.files import explained
from nbckpt.sync.exclude import excluding, parents
from nbckpt.sync.files import FileStat, StagedUpdate, contents, digest_of, scan
from nbckpt.sync.index import Index, Item
from nbckpt.sync.progress import ProgressTracker
from nbckpt.sync.target import index_of
from nbckpt.sync.transfer import Moved, TransferOptions, TransferPool

_MOST_TRIES = 3


def download(
    store: Store,
    folder: str | os.PathLike[str],
    *,
    exclude: Iterable[str] | None = None,
    delete_missing: bool = False,
    options: TransferOptions | None = None,
) -> Moved:
    """Update a folder from a target and check every byte.

    All files are fetched before the first one is replaced. After an error or a cancel the folder is as
    before. Files that another tool uploaded without an index are fetched too. If only folders below the
    target have indexes, the files of those indexes are fetched.

    Args:
        store: The target.
        folder: The folder; it is made if it does not exist.
        exclude: Patterns of files to leave out, see exclude.py.
        delete_missing: Remove files from the folder that the target does not have; excluded files stay.
        options: The timeout, the retries and the progress.

    Raises:
        NotFoundError: The target is empty.
        CorruptError: The target's files differ from its index.
        StoreError: The storage or the disk failed, or the download was cancelled or took too long.
    """
    options = options or TransferOptions()
    local = Path(folder).absolute()
    work, excluded = options.work(f"down:{local}"), excluding(exclude)
    tries = 0
    while True:
        index = index_of(store, work)
        transfer = _Download(local, store, index, excluded, work, ProgressTracker(options.on_progress))
        try:
            return transfer.run(delete_missing=delete_missing)
        except CorruptError:
            tries += 1
            # A writer may have replaced files that the index listed.
            if tries == _MOST_TRIES or index_of(store, work) == index:
                raise


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
        """Fetch the missing files, then replace and remove files of the folder."""
        items = {path: item for path, item in self._index.items.items() if not self._excluded(path)}
        self._check_paths(items)
        with explained("read", self._folder):
            is_there = self._folder.is_dir()
        seen = scan(self._folder, self._excluded, {}) if is_there else {}
        needed = [path for path in items if path not in seen or not self._is_current(path, seen[path])]
        gone = sorted(seen.keys() - items.keys()) if delete_missing else []
        if needed or gone or not is_there:
            self._meter.plan(len(needed), sum(items[path].size for path in needed))
            with StagedUpdate(self._folder) as stage:
                self._work.all(
                    partial(self._fetch, path, stage.staged(number)) for number, path in enumerate(needed)
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

    def _is_current(self, path: str, seen: FileStat) -> bool:
        return self._index.says(path, seen.size, seen.time)

    def _is_here(self, path: str, item: Item) -> bool:
        file = self._folder / path
        with suppress(OSError):
            if item.digest and file.is_file() and file.stat().st_size == item.size:
                return digest_of(contents(file, item.size), item.digest) == item.digest
        return False

    def _fetch(self, path: str, staged: Path) -> None:
        """Fetch one file in pieces and check it, unless the folder has the same contents."""
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
            ):  # each attempt begins at the start of the file
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
