"""CachedStore: a remote store with a cache of its reads on the local disk."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nbckpt.store.base import Data, Store
from nbckpt.store.files import rename
from nbckpt.store.remote import RemoteStore

# see docs/decisions/0028
_KEPT = "packs/", "checkpoints/", "points/", "cells/", "catalogue/parts/", "store.json"
"""Prefixes of the keys whose bytes never change and are read repeatedly."""

_WRITTEN_AGAIN = ".moved"
"""End of the keys of tables: a pack that is pushed again can be compacted again, into another pack."""

_DIGEST = 32
_SIZE = 4 << 30


class CachedStore(Store):
    """Wraps another store and caches the ranges that were read in a local folder.

    Cached bytes are checked whenever they are read again. Any process may remove them at any time.

    Args:
        store: The store to wrap. The bytes of its keys never change.
        folder: The folder of the cache. Several processes may share it.
        most: The approximate number of bytes to keep. The least recently used files are removed first.
    """

    def __init__(self, store: Store, folder: str | os.PathLike[str], most: int) -> None:
        self.url = store.url
        self.lists_in_pages = store.lists_in_pages
        self._store = store
        self._folder = Path(folder) / hashlib.blake2b(store.url.encode(), digest_size=8).hexdigest()
        self._most = most
        self._is_trimmed = False

    @property
    def origin(self) -> Store:
        """See `Store.origin`."""
        return self._store.origin

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        if not key.startswith(_KEPT) or key.endswith(_WRITTEN_AGAIN):
            return self._store.get(key, start, stop)
        file = self._folder_of(key) / f"{start}-{stop}"
        data = _read(file)
        if data is None:
            data = self._store.get(key, start, stop)
            self._keep(file, data)
        return data

    def _folder_of(self, key: str) -> Path:
        """Return the cache folder of a key."""
        return self._folder / hashlib.blake2b(key.encode(), digest_size=16).hexdigest()

    def forget(self, key: str) -> None:
        """See `Store.forget`."""
        shutil.rmtree(self._folder_of(key), ignore_errors=True)
        self._store.forget(key)

    def _keep(self, file: Path, data: bytes) -> None:
        """Cache bytes. A disk error is ignored, because the store can be asked again."""
        staged = file.with_name(f"{file.name}.{uuid.uuid4().hex[:8]}")
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                staged.write_bytes(_digest(data) + data)
                rename(staged, file)
            finally:
                staged.unlink(missing_ok=True)
        self._trim()

    def _trim(self) -> None:
        """Remove the least recently used files, once per opened store."""
        if self._is_trimmed:
            return
        self._is_trimmed = True
        with suppress(OSError):
            files = [(file.stat(), file) for file in self._folder.parent.glob("*/*/*")]
            left = sum(stat.st_size for stat, _ in files)
            for stat, file in sorted(files, key=lambda pair: pair[0].st_mtime):
                if left <= self._most:
                    return
                file.unlink(missing_ok=True)
                left -= stat.st_size

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        self._store.put(key, data)
        self.forget(key)  # a put replaces a pack that was damaged

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        return self._store.exists(key)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        return self._store.keys(prefix)

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """See `Store.sizes`."""
        return self._store.sizes(prefix)

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._store.delete(key)
        self.forget(key)

    def copy(self, source: str, target: str) -> None:
        """See `Store.copy`."""
        self._store.copy(source, target)

    def move(self, source: str, target: str) -> None:
        """See `Store.move`."""
        self._store.move(source, target)
        self.forget(source)


def _read(file: Path) -> bytes | None:
    """Return the cached bytes in a file, or None if the file is missing or damaged."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    if data[:_DIGEST] != _digest(data[_DIGEST:]):
        return None
    with suppress(OSError):  # records the time of the last use
        os.utime(file, (time.time(), time.time()))
    return data[_DIGEST:]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def with_cache(store: Store, folder: Path | None) -> Store:
    """Return the store, with a cache in *folder* if it is read over a network."""
    return CachedStore(store, folder, _SIZE) if folder is not None and is_far(store) else store


def is_far(store: Store) -> bool:
    """Tell whether a store is read over a network."""
    return isinstance(store, (CachedStore, RemoteStore)) and not store.url.startswith("memory:")
