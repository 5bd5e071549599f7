"""Live: compares live memory with stored bytes. Nothing is stored."""

from __future__ import annotations

from itertools import accumulate

from nbckpt.core.memory.userfault import Ranges, joined
from nbckpt.core.packs.content import Content, Run
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer


def differing(memory: memoryview, content: Content, reader: Reader) -> Ranges:
    """Return the byte ranges of live memory that differ from a stored content of the same size.

    Ranges are whole blobs, in order; `reader.read` of the same blobs makes the memory equal. Only blobs that
    may have been written since they were hashed for a save, or for such a comparison, are hashed. A *reader*
    that is used again has the indexes of the packs.

    Raises:
        CorruptError: A pack is missing or damaged.
    """
    blobs = reader.blobs(reader.sized(content))
    if not blobs:
        return []
    with Packer(reader.store, algorithms=blobs[0].algorithms, dry=True) as packer:
        live = packer.add(memory)
        packer.finish()
    size = blobs[0].size
    if len(blobs) != len(live.digests) or any(blob.size != size for blob in blobs[:-1]):
        return [(0, content.size)]
    pairs = enumerate(zip(blobs, live.digests, strict=True))
    changed = [(at * size, blob.size) for at, (blob, digest) in pairs if blob.digest != digest]
    return joined([(start, start + length) for start, length in changed])


def runs_between(content: Content, low: int, high: int, reader: Reader) -> list[Run]:
    """Return the runs of the blobs of a content between two offsets, at which blobs begin or end."""
    places = [(pack, at, 1) for pack, first, count in content.runs for at in range(first, first + count)]
    ends = accumulate(blob.size for blob in reader.blobs(content.runs))
    return [place for place, end in zip(places, ends, strict=True) if low < end <= high]
