"""The ranges in which two stored contents differ, without a look at their bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.content import Content
from nbckpt.core.packs.differences import differences
from nbckpt.core.packs.reader import Reader
from nbckpt.store import MemoryStore
from nbckpt.tracker import Tracker

BLOB = 256 << 10
SIZE = 6 * BLOB + 1000
EDITS = st.lists(st.sets(st.integers(0, SIZE - 1), max_size=4), min_size=1, max_size=4)


def root_of(manifest: Manifest) -> Content:
    (content,) = (root for group in manifest.groups for root in group.roots)
    return content


def patched(base: bytes, content: Content, other: Content, readers: tuple[Reader, Reader]) -> bytes:
    memory = bytearray(base)
    for low, high, runs in differences(content, other, readers):
        memory[low:high] = readers[0].read(runs)
    return bytes(memory)


@given(edits=EDITS)
def test_the_ranges_turn_one_content_into_the_other(edits: list[set[int]]) -> None:
    array, tracker = np.random.default_rng(0).integers(0, 256, SIZE, "u1"), Tracker(MemoryStore())
    saved = [(tracker.save({"a": array}, "a").manifest, array.tobytes())]
    for places in edits:
        array[[*places]] ^= 1
        saved.append((tracker.save({"a": array}, "a").manifest, array.tobytes()))
    for one, data in saved:
        for other, base in saved:
            readers = tracker.read(one), tracker.read(other)
            contents = root_of(one), root_of(other)
            assert patched(base, *contents, readers) == data
            blobs = {
                at // BLOB for at in np.flatnonzero(np.frombuffer(data, "u1") != np.frombuffer(base, "u1"))
            }
            ranges = [(low, high) for low, high, _ in differences(*contents, readers)]
            assert {at for low, high in ranges for at in range(low // BLOB, -(-high // BLOB))} == blobs


def test_contents_in_other_blobs_differ_to_the_end() -> None:
    data = np.random.default_rng(0).bytes(SIZE)
    tracker = Tracker(MemoryStore())
    one = tracker.save({"a": np.frombuffer(data, "u1").copy()}, "a").manifest
    other = tracker.save({"a": data}, "b").manifest
    contents, readers = (root_of(one), other.groups[0].record), (tracker.read(one), tracker.read(other))
    assert contents[1].runs  # a long text is a record, in blobs of its own size
    assert [(low, high) for low, high, _ in differences(*contents, readers)] == [(0, SIZE)]
    assert readers[0].read(differences(*contents, readers)[0][2]) == data
