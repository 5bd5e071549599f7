"""Packs: what goes into one comes out, and what was not put in never does."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.packs.format import (
    PACK_SIZE,
    PAGE,
    RAW,
    Piece,
    build,
    compressed,
    pack_key,
    pack_of,
    parse_index,
    read_head,
    read_index,
    salt,
)
from nbckpt.core.packs.relocation import find_index, moved_key, table
from nbckpt.errors import CorruptError, FormatError, NotFoundError
from nbckpt.store import MemoryStore

HEAD, ENTRY = struct.Struct("<8sQ"), struct.Struct("<32sQQQQ")


def raw(data: bytes, *, aligned: bool = False) -> Piece:
    return Piece(PREFERRED.digest(data), data, len(data), RAW, aligned=aligned)


def small(data: bytes) -> Piece:
    return compressed(data, PREFERRED.digest(data), PREFERRED)


def put(store: MemoryStore, pieces: list[Piece]) -> str:
    pack, parts = build(pieces, PREFERRED)
    store.put(pack_key(pack), parts)
    return pack


def read_all(store: MemoryStore, pack: str) -> list[bytes]:
    whole = store.get(pack_key(pack))
    return [
        bytes(blob.decode(whole[blob.offset : blob.offset + blob.stored])) for blob in read_index(store, pack)
    ]


def forged(blob: tuple[bytes, int, int, int, int]) -> tuple[MemoryStore, str]:
    """Return a store with a pack that is right in itself, and says what the test wants it to say."""
    head = HEAD.pack(PREFERRED.magic, 1) + ENTRY.pack(*blob)
    store, pack = MemoryStore(), PREFERRED.digest(head).hex()
    store.put(pack_key(pack), head + bytes(100))
    return store, pack


@given(st.lists(st.tuples(st.binary(max_size=9000), st.booleans(), st.booleans()), max_size=8))
def test_any_blobs_can_be_read_from_a_pack(blobs: list[tuple[bytes, bool, bool]]) -> None:
    store = MemoryStore()
    pack = put(
        store, [raw(data, aligned=aligned) if plain else small(data) for data, plain, aligned in blobs]
    )
    index = read_index(store, pack)
    assert read_all(store, pack) == [blob[0] for blob in blobs]
    assert all(
        blob.offset % PAGE == 0
        for blob, (_, plain, aligned) in zip(index, blobs, strict=True)
        if plain and aligned
    )


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4), st.data())
def test_every_flipped_bit_is_found(blobs: list[bytes], data: st.DataObject) -> None:
    store = MemoryStore()
    pack = put(store, [small(data) for data in blobs])
    whole = bytearray(store.get(pack_key(pack)))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    store.put(pack_key(pack), bytes(whole))
    with pytest.raises((CorruptError, FormatError)):
        read_all(store, pack)


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4), st.data())
def test_a_pack_that_was_cut_short_is_found(blobs: list[bytes], data: st.DataObject) -> None:
    store = MemoryStore()
    pack = put(store, [raw(data) for data in blobs])
    whole = store.get(pack_key(pack))
    store.put(pack_key(pack), whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(CorruptError):
        read_all(store, pack)


def test_equal_blobs_give_equal_packs_and_a_salt_another() -> None:
    pieces = [raw(b"a"), raw(b"b")]
    assert build(pieces, PREFERRED)[0] == build(pieces, PREFERRED)[0]
    salted = {build([*pieces, salt(PREFERRED)], PREFERRED)[0] for _ in range(3)}
    assert len(salted | {build(pieces, PREFERRED)[0]}) == 4


def test_a_blob_is_compressed_only_if_that_saves_space() -> None:
    plain, packed = [b"", b"a" * 255, bytes(range(256))], [b"a" * 256, b"ab" * 5000]
    assert [small(data).codec for data in plain + packed] == [RAW] * 3 + [PREFERRED.codec] * 2
    assert all(len(small(data).data) <= len(data) for data in plain + packed)


@pytest.mark.slow
def test_a_large_index_is_read_whole() -> None:
    store = MemoryStore()
    blobs = [b"%d" % n for n in range(70_000)]
    pack = put(store, [raw(data) for data in blobs])
    assert len(read_head(store, pack)) == 16 + 64 * len(blobs)
    assert [blob.digest for blob in read_index(store, pack)] == [PREFERRED.digest(data) for data in blobs]


def test_a_missing_pack_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        read_index(MemoryStore(), "ab" * 32)


def test_a_flipped_bit_in_the_count_does_not_allocate_memory(subtests: pytest.Subtests) -> None:
    store = MemoryStore()
    pack = put(store, [raw(b"abc"), raw(b"def")])
    whole = store.get(pack_key(pack))
    (count,) = struct.unpack_from("<Q", whole, 8)
    for bit in range(64):
        store.put(pack_key(pack), whole[:8] + struct.pack("<Q", count ^ (1 << bit)) + whole[16:])
        with subtests.test(bit=bit), pytest.raises(CorruptError):
            read_index(store, pack)


IMPOSSIBLE = {
    "longer": (10, 5, RAW),
    "shorter": (5, 10, RAW),
    "huge": (1 << 63, 1 << 63, RAW),
    "bomb": (5, PACK_SIZE + 1, PREFERRED.codec),
    "unknown": (10, 10, 3),
    "nonsense": (5, 5, 1 << 60),
}
"""The stored size, the size and the codec of a blob."""


def test_an_impossible_blob_is_refused(subtests: pytest.Subtests) -> None:
    for case, blob in IMPOSSIBLE.items():
        store, pack = forged((bytes(32), 80, *blob))
        with subtests.test(case), pytest.raises(CorruptError, match="one of its blobs is impossible"):
            read_index(store, pack)


@pytest.mark.parametrize("claimed", [2, 4])
def test_a_blob_that_decompresses_to_another_size_is_refused(claimed: int) -> None:
    small = PREFERRED.compress(b"abc")
    store, pack = forged((PREFERRED.digest(b"abc"), 80, len(small), claimed, PREFERRED.codec))
    with pytest.raises(CorruptError, match="is damaged in bytes"):
        read_index(store, pack)[0].decode(small)


@pytest.mark.parametrize("magic", [b"NBCKPAK2", b"PK\3\4\0\0\0\0"])
def test_a_pack_of_an_unknown_version_is_a_format_error(magic: bytes) -> None:
    with pytest.raises(FormatError, match="not an nbckpt pack of a known version"):
        parse_index(magic + bytes(100), "ab" * 32)


def test_the_id_is_in_the_key() -> None:
    assert pack_of(pack_key("ab" * 32)) == "ab" * 32


# Packs that moved.


def moved(store: MemoryStore) -> tuple[str, str]:
    """Move the first and last of three blobs; return the old pack and the new one."""
    old, new = put(store, [raw(b"one"), raw(b"two"), raw(b"three")]), put(store, [raw(b"three"), raw(b"one")])
    store.put(moved_key(old), table(read_head(store, old), [new]))
    store.delete(pack_key(old))
    return old, new


def test_a_moved_pack_can_still_be_read() -> None:
    store = MemoryStore()
    old, new = moved(store)
    index = find_index(store, old)
    assert [blob and store.get(pack_key(new), blob.offset, blob.offset + blob.stored) for blob in index] == [
        b"one",
        None,
        b"three",
    ]


def test_an_existing_pack_takes_precedence_over_a_moved_one() -> None:
    store = MemoryStore()
    old, _ = moved(store)
    put(store, [raw(b"one"), raw(b"two"), raw(b"three")])
    assert {blob.pack for blob in find_index(store, old) if blob} == {old}


def test_an_invalid_table_of_a_moved_pack_is_refused(subtests: pytest.Subtests) -> None:
    store = MemoryStore()
    invalid = [b"", b"{", b"[]", b"null", b'{"head":"","packs":[]}', b'{"head":"!","packs":5}', b'{"head":5}']
    for data in (*invalid, b"[" * 99_999):
        store.put(moved_key("ab" * 32), data)
        with subtests.test(data=data[:30]), pytest.raises(CorruptError):
            find_index(store, "ab" * 32)


def test_circular_tables_of_moved_packs_are_refused() -> None:
    store = MemoryStore()
    a, b = ([raw(data)] for data in (b"a", b"b"))
    first, second = build(a, PREFERRED)[0], build(b, PREFERRED)[0]
    for pieces, pack, to in ((a, first, second), (b, second, first)):
        store.put(moved_key(pack), table(bytes(build(pieces, PREFERRED)[1][0]), [to]))
    with pytest.raises(CorruptError):
        find_index(store, first)


def test_a_pack_without_file_and_table_is_not_found() -> None:
    store = MemoryStore()
    old, new = moved(store)
    store.delete(pack_key(new))
    for pack in (old, new):
        with pytest.raises(NotFoundError):
            find_index(store, pack)
