"""Packer: each byte is written once, and what is in a store is found there."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.packs.content import Stored
from nbckpt.core.packs.format import PACK_SIZE, PAGE, RAW, read_index
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.later import KeptMemory, Later
from nbckpt.core.packs.open_pack import INLINE_SIZE
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import ALIGNED_SIZE, Packer
from nbckpt.errors import StoreError
from nbckpt.store import MemoryStore, Store
from nbckpt.testing import FaultyStore

KB, MB = 1 << 10, 1 << 20
EDGES = [n + d for n in (4 * KB, 16 * KB, 64 * KB, 256 * KB, MB) for d in (-1, 0, 1)]
SIZES = [0, 1, *EDGES, 4 * MB + 1, 5 * MB]


def noise(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def packed(
    store: MemoryStore, *buffers: bytes, records: bool = False, **options: Any
) -> tuple[Packer, list[Stored]]:
    with Packer(store, **options) as packer:
        stored = [packer.add_record(data) if records else packer.add(data) for data in buffers]
        packer.finish()
    return packer, stored


def read(store: MemoryStore, packer: Packer, stored: Stored) -> bytes:
    return Reader(store, packer.inline).read(packer.runs(stored))


def test_any_buffer_can_be_read_back(subtests: pytest.Subtests) -> None:
    for size, records in itertools.product(SIZES, (False, True)):
        with subtests.test(size=size, records=records):
            store, data = MemoryStore(), noise(size)
            packer, (stored,) = packed(store, data, records=records)
            assert read(store, packer, stored) == data
            assert stored.size == size


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from([0, 1, *EDGES]), st.integers(0, 1), st.booleans()), max_size=6))
def test_any_mixture_of_buffers_and_records_can_be_read_back(parts: list[tuple[int, int, bool]]) -> None:
    store = MemoryStore()
    buffers = [noise(size, seed) for size, seed, _ in parts]
    with Packer(store) as packer:
        stored = [
            packer.add_record(data) if record else packer.add(data)
            for data, (_, _, record) in zip(buffers, parts, strict=True)
        ]
        packer.finish()
    assert [read(store, packer, part) for part in stored] == buffers


def test_equal_bytes_are_kept_once(subtests: pytest.Subtests) -> None:
    for size in SIZES[1:]:
        with subtests.test(size=size):
            packer, stored = packed(MemoryStore(), *[noise(size)] * 3)
            assert packer.new_bytes == size
            assert packer.runs(stored[0]) == packer.runs(stored[2])


@pytest.mark.parametrize("size", [ALIGNED_SIZE, MB, 5 * MB])
def test_data_in_the_store_is_not_written_again(size: int) -> None:
    store = MemoryStore()
    data = noise(size)
    packed(store, data)
    known = Known(store)
    known.refresh()
    packer, (stored,) = packed(store, data, known=known)
    assert (packer.new_bytes, packer.packs, packer.inline) == (0, [], {})
    assert read(store, packer, stored) == data


def test_a_small_change_costs_one_blob() -> None:
    store = MemoryStore()
    data = bytearray(noise(5 * MB))
    packed(store, bytes(data))
    data[3 * MB] ^= 1
    known = Known(store)
    known.refresh()
    packer, (stored,) = packed(store, bytes(data), known=known)
    assert packer.new_bytes == 256 * KB
    assert read(store, packer, stored) == data


def test_adjacent_blobs_are_one_run() -> None:
    packer, (stored,) = packed(MemoryStore(), noise(4 * MB))
    assert [run[1:] for run in packer.runs(stored)] == [(0, 16)]


@pytest.mark.parametrize(("size", "inline"), [(1, True), (INLINE_SIZE, True), (INLINE_SIZE + 1, False)])
def test_little_data_is_stored_in_the_manifest(size: int, inline: bool) -> None:
    store = MemoryStore()
    packer, _ = packed(store, noise(size))
    assert (len(packer.inline), len(packer.packs)) == ((1, 0) if inline else (0, 1))
    assert len(list(store.keys())) == len(packer.packs)


def test_empty_buffers_make_no_pack() -> None:
    store = MemoryStore()
    packer, _ = packed(store, b"", b"")
    assert (packer.inline, packer.packs, list(store.keys())) == ({}, [], [])


@pytest.mark.parametrize(("size", "aligned"), [(ALIGNED_SIZE, True), (ALIGNED_SIZE - 1, False)])
def test_large_buffers_are_raw_and_aligned(size: int, aligned: bool) -> None:
    store = MemoryStore()
    packer, _ = packed(store, bytes(noise(3)), bytes(size), inline=False)
    (pack,) = packer.packs
    blob = read_index(store, pack)[-1]
    assert (blob.codec, blob.offset % PAGE == 0) == ((RAW, True) if aligned else (PREFERRED.codec, False))


def test_records_are_compressed_if_that_saves_space() -> None:
    store = MemoryStore()
    packer, _ = packed(store, b"ab" * 500_000, noise(100_000), records=True)
    assert [blob.codec for blob in read_index(store, packer.packs[0])] == [PREFERRED.codec, RAW]
    assert packer.new_bytes < 110_000


@pytest.mark.slow
def test_a_full_pack_is_closed() -> None:
    store = MemoryStore()
    data = noise(PACK_SIZE + 3 * MB)
    packer, (stored,) = packed(store, data)
    assert len(packer.packs) == 2
    assert all(len(store.get(key)) < PACK_SIZE + 5 * MB for key in store.keys())  # noqa: SIM118
    assert read(store, packer, stored) == data


def test_a_dry_run_writes_nothing_and_returns_the_digests() -> None:
    store = MemoryStore()
    data = noise(MB)
    _, (dry,) = packed(store, data, dry=True)
    assert list(store.keys()) == []
    _, (wet,) = packed(store, data)
    assert dry.digests == wet.digests


def test_the_salt_gives_another_pack_of_the_same_bytes() -> None:
    store = MemoryStore()
    data = noise(MB)
    first, _ = packed(store, data)
    second, (stored,) = packed(store, data, salted=True)
    assert first.packs != second.packs
    assert read(store, second, stored) == data


def pack_and(store: Store, error: BaseException | None = None) -> None:
    with Packer(store) as packer:
        packer.add(noise(5 * MB))
        if error:
            raise error
        packer.finish()


def test_a_failed_put_fails_the_whole_packing() -> None:
    store = FaultyStore(MemoryStore(), when=lambda call: call.op == "put")
    with pytest.raises(StoreError):
        pack_and(store)
    assert list(store.store.keys()) == []


def test_an_interrupt_leaves_no_thread() -> None:
    with pytest.raises(KeyboardInterrupt):
        pack_and(MemoryStore(), KeyboardInterrupt())
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("nbckpt")] == []


def test_progress_reaches_the_end() -> None:
    store, seen = MemoryStore(), []
    with Packer(store) as packer:
        packer.add(noise(5 * MB))
        packer.finish(lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5 * MB, 5 * MB)


def test_a_deleted_pack_is_written_again() -> None:
    store = MemoryStore()
    data = noise(MB)
    known = Known(store)
    packed(store, data, known=known)
    for key in list(store.keys()):
        store.delete(key)
    known.refresh()
    packer, (stored,) = packed(store, data, known=known)
    assert packer.new_bytes == MB
    assert read(store, packer, stored) == data


def test_blobs_of_a_damaged_pack_are_not_shared() -> None:
    store = MemoryStore()
    data = noise(MB)
    packed(store, data)
    (key,) = store.keys()
    store.put(key, b"x" + store.get(key)[1:])
    known = Known(store)
    known.refresh()
    packer, (stored,) = packed(store, data, known=known)
    assert read(store, packer, stored) == data


def putting_off(store: MemoryStore, kept: KeptMemory, *arrays: np.ndarray) -> tuple[Packer, list[Stored]]:
    packer = Packer(store, later=Later(kept=kept))
    return packer, [packer.add(array) for array in arrays]


@pytest.mark.parametrize("size", [MB, 5 * MB, 20 * MB])
def test_what_is_written_later_is_what_was_added(size: int) -> None:
    store, kept = MemoryStore(), KeptMemory()
    for round_ in range(3):
        arrays = [
            np.frombuffer(bytearray(noise(size, seed)), np.uint8) for seed in (2 * round_, 2 * round_ + 1)
        ]
        expected = [array.tobytes() for array in arrays]
        packer, stored = putting_off(store, kept, *arrays)
        for array in arrays:
            array[:] = 0
        with packer:
            packer.go()
            packer.finish()
        assert [read(store, packer, one) for one in stored] == expected
        assert not any(one.changed for one in stored)


def test_copies_take_at_most_64_mib(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    copies: list[int] = []
    monkeypatch.setattr(Later, "copy", lambda _, part: copies.append(len(part)) or part)
    for *sizes, copied in ((64, 64), (65, 0), (40, 40, 40), (40, 24, 64), (40, 25, 24, 64)):
        with subtests.test(sizes=sizes):
            copies.clear()
            arrays = [np.zeros(size * MB, np.uint8) for size in sizes]
            packer, _ = putting_off(MemoryStore(), KeptMemory(), *arrays)
            with packer:
                assert sum(copies) == copied * MB
                assert packer.lends == (copied < sum(sizes))


def test_two_packers_at_once_do_not_share_copies() -> None:
    store, kept = MemoryStore(), KeptMemory()
    arrays = [np.frombuffer(bytearray(noise(5 * MB, seed)), np.uint8) for seed in range(2)]
    expected = [array.tobytes() for array in arrays]
    made = [putting_off(store, kept, array) for array in arrays]
    for array in arrays:
        array[:] = 0
    for (packer, (stored,)), data in zip(made, expected, strict=True):
        with packer:
            packer.go()
            packer.finish()
        assert read(store, packer, stored) == data


def test_memory_for_copies_is_used_again() -> None:
    kept, part = KeptMemory(), memoryview(noise(MB))
    addresses = set()
    for _ in range(3):
        later = Later(kept=kept)
        addresses.add(np.frombuffer(later.copy(part), np.uint8).ctypes.data)
        later.end()
    assert len(addresses) == 1
