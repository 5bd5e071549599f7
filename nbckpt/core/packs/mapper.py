"""Mapper: blobs of packs as writable memory, mapped from files of a store and checked by other threads."""

from __future__ import annotations

import mmap
import os
from collections.abc import Container, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from functools import lru_cache

from nbckpt.core.algorithms import Algorithms
from nbckpt.core.packs.format import PAGE, RAW, Blob, pack_key, total
from nbckpt.core.packs.mapping import MOST_PIECES, overlay, prefault, reserve
from nbckpt.core.packs.writer import ALIGNED_SIZE
from nbckpt.errors import NotFoundError
from nbckpt.store import Store

_CHECK_STEP = 8 << 20


class Mapper:
    """Maps blobs, until the process has as many mappings as it may have.

    Args:
        store: The store, which may have files.
        inline: The packs that are not in the store.
    """

    def __init__(self, store: Store, inline: Container[str]) -> None:
        self._store = store
        self._inline = inline
        self._pieces = 0

    def map(self, blobs: Sequence[Blob]) -> mmap.mmap | None:
        """Map the blobs into one range, copy-on-write and unchecked; see `check`.

        Returns:
            The range; None if the blobs have to be read.

        Raises:
            NotFoundError: A pack is gone.
            CorruptError: A pack is too short.
        """
        if not self._can_map(blobs):
            return None
        try:
            return self._mapped(blobs)
        except OSError:  # the system refused
            return None

    def _can_map(self, blobs: Sequence[Blob]) -> bool:
        return (
            bool(blobs)
            and total(blobs) >= ALIGNED_SIZE
            and all(blob.codec == RAW and blob.offset % PAGE == 0 and not blob.aside for blob in blobs)
            and all(blob.pack not in self._inline for blob in blobs)
            and self._store.path(pack_key(blobs[0].pack)) is not None
        )

    def _mapped(self, blobs: Sequence[Blob]) -> mmap.mmap | None:
        region = reserve(total(blobs))
        spans = _spans(blobs)
        if self._pieces + len(spans) > MOST_PIECES:
            return None
        self._pieces += len(spans)
        with ExitStack() as opened:
            files: dict[str, int] = {}
            for _, first, last in spans:
                if first.pack not in files:
                    files[first.pack] = opened.enter_context(_descriptor(self._store, first.pack))
                _require(files[first.pack], last)
            overlay(
                region,
                [(at, files[a.pack], a.offset, b.offset + b.stored - a.offset) for at, a, b in spans],
            )
        return region


def check(region: mmap.mmap, memory: memoryview, blobs: Sequence[Blob], pool: Executor) -> list[Future[None]]:
    """Start the hashing of mapped blobs, a few megabytes at a time. Each result raises what differs."""
    checks: list[Future[None]] = []
    at = size = 0
    mine: list[Blob] = []
    for blob in blobs:
        mine.append(blob)
        size += blob.size
        if size >= _CHECK_STEP:
            checks.append(pool.submit(_check_part, region, memory, at, mine))
            at, size, mine = at + size, 0, []
    if mine:
        checks.append(pool.submit(_check_part, region, memory, at, mine))
    return checks


def _check_part(region: mmap.mmap, memory: memoryview, at: int, blobs: Sequence[Blob]) -> None:
    if not all(map(_is_zero, blobs)):
        prefault(region, at, total(blobs))
    for blob in blobs:
        if not _is_zero(blob) and blob.algorithms.digest(memory[at : at + blob.size]) != blob.digest:
            raise blob.damage()
        at += blob.size


class _descriptor:  # noqa: N801  used as a function
    """Opens a pack for the block and provides its file descriptor."""

    def __init__(self, store: Store, pack: str) -> None:
        path = store.path(pack_key(pack))
        if path is None:
            raise OSError(f"{store.url} has no files")
        try:
            self._fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise NotFoundError(f"pack {pack[:12]} is missing from {store.url}") from None

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _require(fd: int, last: Blob) -> None:
    """Check that a file contains its last blob: touching a mapping past the file's end kills the process."""
    if os.fstat(fd).st_size < last.offset + last.stored:
        raise last.damage()


def _spans(blobs: Sequence[Blob]) -> list[tuple[int, Blob, Blob]]:
    """Return the spans to map: the position in the range, the first blob and the last blob of each.

    Blobs of zeros need no file, because a fresh range contains zeros.
    """
    spans: list[tuple[int, Blob, Blob]] = []
    at = end = 0
    for blob in blobs:
        if not _is_zero(blob):
            if spans and end == at and _adjacent(spans[-1][2], blob):
                spans[-1] = (*spans[-1][:2], blob)
            else:
                spans.append((at, blob, blob))
            end = at + blob.size
        at += blob.size
    return spans


def _adjacent(one: Blob, other: Blob) -> bool:
    return one.pack == other.pack and one.offset + one.stored == other.offset


def _is_zero(blob: Blob) -> bool:
    return blob.digest == _digest_of_zeros(blob.algorithms, blob.size)


@lru_cache(maxsize=64)
def _digest_of_zeros(algorithms: Algorithms, size: int) -> bytes:
    return algorithms.digest(bytes(size))
