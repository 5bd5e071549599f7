"""Stretches: which blobs are read together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nbckpt.core.packs.format import Blob, total

READ_STEP = 8 << 20
_READ_GAP = 64 << 10  # reading this many unused bytes is faster than a second request


def after(count: int, lists: Iterable[list[Blob]]) -> Iterator[list[Blob]]:
    """Yield *lists* without their first *count* blobs."""
    for blobs in lists:
        yield blobs[count:]
        count = max(0, count - len(blobs))


def apart(parts: Iterable[tuple[int, list[Blob]]]) -> Iterator[list[Blob]]:
    """Yield the blobs of numbered *parts* in lists. A list with a large part has parts of one number only.

    So the reads of a large value do not depend on other values, and a cache has them for another restore.
    """
    joined: list[Blob] = []
    numbers: set[int] = set()
    has_large = False
    for at, blobs in parts:
        is_large = total(blobs) >= _READ_GAP
        if (has_large or is_large) and numbers - {at}:
            yield joined
            joined, numbers, has_large = [], set(), False
        joined += blobs
        numbers.add(at)
        has_large |= is_large
    yield joined


def stretches(blobs: Iterable[Blob]) -> Iterator[list[Blob]]:
    """Yield *blobs* in lists for one read each: close together in one pack, and limited in size.

    A blob may occur twice in a list. No blob in a list lies before the first one.
    """
    stretch: list[Blob] = []
    end = 0
    for blob in blobs:
        first = stretch[0] if stretch else blob
        near = blob.pack == first.pack and first.offset <= blob.offset <= end + _READ_GAP
        if stretch and not (near and end - first.offset < READ_STEP):
            yield stretch
            stretch, end = [], 0
        stretch.append(blob)
        end = max(end, blob.offset + blob.stored)
    if stretch:
        yield stretch
