"""Stores: bytes by key, in memory, in a folder, in an archive, or at any URL."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nbckpt.store.archive import DAMAGE, ArchiveStore, ArchiveWriter, open_archive
from nbckpt.store.base import STAGING, Buffer, Data, Pieces, Store, check_key, pieces_of
from nbckpt.store.cached import CachedStore, is_far, with_cache
from nbckpt.store.cancel import Cancel, CancelledError, TimedOutError, wanted
from nbckpt.store.files import exchange
from nbckpt.store.fsync import sync_file, sync_folder
from nbckpt.store.local import LocalStore
from nbckpt.store.masking import check_no_secret, masked, masked_url
from nbckpt.store.memory import MemoryStore
from nbckpt.store.prefix import PrefixStore
from nbckpt.store.remote import RemoteStore, check_protocol, trimmed

__all__ = [
    "DAMAGE",
    "STAGING",
    "ArchiveStore",
    "ArchiveWriter",
    "Buffer",
    "CachedStore",
    "Cancel",
    "CancelledError",
    "Data",
    "LocalStore",
    "MemoryStore",
    "Pieces",
    "PrefixStore",
    "RemoteStore",
    "Store",
    "TimedOutError",
    "check_key",
    "check_no_secret",
    "check_protocol",
    "exchange",
    "is_far",
    "local_folder",
    "masked",
    "masked_url",
    "open_archive",
    "open_store",
    "pieces_of",
    "sync_file",
    "sync_folder",
    "trimmed",
    "wanted",
    "with_cache",
]


def open_store(where: str | os.PathLike[str] | Store) -> Store:
    """Return the store at *where*: a folder, a `file://` URL or any URL that fsspec knows.

    Nothing is made or read until the store is used.

    Raises:
        UsageError: No such protocol, or its package is missing.

    Examples:
        >>> store = nbckpt.store.open_store("memory://bytes")
        >>> store.put("a", b"0123")
        >>> store.get("a", 1, 3), store.exists("b"), list(store.sizes())
        (b'12', False, [('a', 4)])
        >>> store.copy("a", "b")
        >>> store.move("b", "c")
        >>> store.delete("a")
        >>> list(store.keys())
        ['c']
    """
    if isinstance(where, Store):
        return where
    folder = local_folder(where)
    return LocalStore(folder) if folder is not None else RemoteStore(os.fspath(where))


def local_folder(where: str | os.PathLike[str]) -> Path | None:
    """Return the local folder that *where* names, or None if it is a remote URL.

    `file://` URLs are percent-decoded, because `pathlib.Path.as_uri` encodes them.
    """
    if isinstance(where, os.PathLike):
        return Path(where)
    if where.startswith("file://"):
        split = urlsplit(where)
        # In a path that is not encoded, a '?' or '#' is part of the name.
        rest = where[len("file://") + len(split.netloc) :]
        if os.name != "nt":
            return Path(unquote(rest))
        from urllib.request import url2pathname  # 30 ms to import http and ssl; only drive letters need it

        return Path(url2pathname(rest))
    return None if "://" in where else Path(where)
