"""Differences: the ranges in which two stored contents differ. No byte of them is read."""

from __future__ import annotations

from collections.abc import Iterator

from nbckpt.core.packs.content import Content, Run
from nbckpt.core.packs.reader import Reader

Difference = tuple[int, int, list[Run]]
"""Where a content differs from another one: the offsets of the range, and its runs in the content."""


def differences(content: Content, other: Content, readers: tuple[Reader, Reader]) -> list[Difference]:
    """Return the ranges of a content that differ from another one of the same size, in order.

    Ranges are whole blobs. Equal runs are passed without a look at their blobs. If the two are cut into blobs
    of other sizes, they differ from there to the end.

    Args:
        content: The content.
        other: The content to compare it with.
        readers: A reader for each of the two.

    Raises:
        CorruptError: A pack is missing or damaged.
    """
    differ: list[Difference] = []
    at = 0
    was_same = True
    for run, size, is_same in _pairs(content, other, readers):
        if not is_same and was_same:
            differ.append((at, at, []))
        if not is_same:
            start, end, runs = differ[-1]
            runs.append(run)
            differ[-1] = start, end + size, runs
        at += size
        was_same = is_same
    return differ


def _pairs(
    content: Content, other: Content, readers: tuple[Reader, Reader]
) -> Iterator[tuple[Run, int, bool]]:
    """Yield the runs of *content*, cut where the other's begin: each with its size, and if it is equal."""
    runs, others = [*reversed(readers[0].sized(content))], [*reversed(readers[1].sized(other))]
    while runs and others:
        (pack, first, count), (other_pack, other_first, other_count) = runs.pop(), others.pop()
        both = min(count, other_count)
        if count > both:
            runs.append((pack, first + both, count - both))
        if other_count > both:
            others.append((other_pack, other_first + both, other_count - both))
        if (pack, first) == (other_pack, other_first):
            yield (pack, first, both), readers[0].size((pack, first, both)), True
            continue
        blobs = readers[0].blobs([(pack, first, both)]), readers[1].blobs([(other_pack, other_first, both)])
        for at, (blob, other_blob) in enumerate(zip(*blobs, strict=True), first):
            yield (pack, at, 1), blob.size, blob.digest == other_blob.digest
            if blob.size != other_blob.size:
                runs.append((pack, at + 1, first + both - at - 1))
                others.clear()
                break
    yield from ((run, readers[0].size(run), False) for run in reversed(runs))
