"""Packs: many blobs in one immutable file, after an index that names them.

    magic, count      16 bytes
    index             64 bytes per blob: digest, offset, stored size, size, codec
    blobs             large raw blobs at 4 KiB boundaries, so that they can be mapped

A pack's id is the digest of its magic, count and index, and the index holds the digest of every blob. So the
id is enough to check every byte. The magic names the algorithms of the pack. FORMAT.md states the details.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import overload

from nbckpt.core.algorithms import BLAKE3, HERE, Algorithms, named
from nbckpt.errors import CorruptError, FormatError, NbckptError
from nbckpt.store import Buffer, Store

PAGE = 4096
PACK_SIZE = 64 << 20
"""A pack is closed when its blobs reach this many bytes."""

MOST_BLOBS = 1 << 20
"""A pack is closed when it has this many blobs."""

RAW = 0
"""The codec of an uncompressed blob. Every other codec belongs to one of the algorithms."""

LARGEST_PACK = 3 * PACK_SIZE
"""The most bytes of a pack: one blob more than `PACK_SIZE`, the index, and the padding between the blobs."""

MAGIC = b"NBCKP"
"""The first bytes of the packs of every version."""

_BLAKE3_MAGIC = b"NBCKPAK1"
_HEAD = struct.Struct("<8sQ")
_ENTRY = struct.Struct("<32sQQQQ")
_FIRST_READ = _HEAD.size + 256 * _ENTRY.size  # the index of a full pack of large blobs, in one request
_MOST_READ = 4 << 20
_MOST_UNPACKED = 1 << 20
_WORTH_TRYING, _WORTH_KEEPING = 256, 0.9


@dataclass(frozen=True, slots=True)
class Blob:
    """A range of bytes in a pack: *stored* bytes at *offset*, which decode to *size* bytes."""

    pack: str
    algorithms: Algorithms
    digest: bytes
    offset: int
    stored: int
    size: int
    codec: int
    aside: bool = False

    @property
    def key(self) -> str:
        """The key of its pack, or of the damaged pack that was set aside."""
        return aside_key(self.pack) if self.aside else pack_key(self.pack)

    def decode(self, data: Buffer) -> Buffer:
        """Return the blob's bytes, decoded from its bytes in the pack.

        Raises:
            CorruptError: They differ from the bytes that were saved.
        """
        plain = data if self.codec == RAW else self.algorithms.decompress(data, self.size)
        if len(plain) != self.size or self.algorithms.digest(plain) != self.digest:
            raise self.damage()
        return plain

    def damage(self) -> CorruptError:
        """Return an error that names the place of the damage."""
        return CorruptError(
            f"pack {self.pack[:12]} is damaged in bytes {self.offset} to {self.offset + self.stored}: "
            "they are not the ones that were saved. `%ckpt verify` lists the affected checkpoints"
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes on their way into a pack. If they are *lent*, they may change meanwhile."""

    digest: bytes
    data: Buffer
    size: int
    codec: int
    aligned: bool
    lent: bool = False


class _ChangedError(NbckptError):
    """Lent bytes differ from the bytes that were hashed."""


class Body(Sequence[Buffer]):
    """The bytes of a pack, in order. Lent bytes are copied when they are read, and the copy is compared.

    Attributes:
        changed: Whether lent bytes had changed. Reading them raised an error, so the pack cannot have been
            put.
    """

    def __init__(self, parts: Sequence[Buffer | Piece], algorithms: Algorithms) -> None:
        self.changed = False
        self._parts = parts
        self._digest = algorithms.digest

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, at: int) -> Buffer: ...
    @overload
    def __getitem__(self, at: slice) -> list[Buffer]: ...
    def __getitem__(self, at: int | slice) -> Buffer | list[Buffer]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        part = self._parts[at]
        return self._copied(part) if isinstance(part, Piece) else part

    def _copied(self, piece: Piece) -> bytes:
        copy = bytes(piece.data)  # see docs/decisions/0043
        if self._digest(copy) != piece.digest:
            self.changed = True
            raise _ChangedError("memory changed between its hash and its turn to be written")
        return copy


def compressed(data: Buffer, name: bytes, algorithms: Algorithms) -> Piece:
    """Return *data* as a piece, compressed if that saves at least a tenth."""
    if len(data) >= _WORTH_TRYING:
        small = algorithms.compress(data)
        if len(small) < _WORTH_KEEPING * len(data):
            small = bytes(memoryview(small))  # a copy, because the result may hold as much memory as the data
            return Piece(name, small, len(data), algorithms.codec, aligned=False)
    return Piece(name, data, len(data), RAW, aligned=False)


def salt(algorithms: Algorithms) -> Piece:
    """Return a random piece, which gives a pack a different id from any pack of the same blobs."""
    data = secrets.token_bytes(16)
    return Piece(algorithms.digest(data), data, len(data), RAW, aligned=False)


def build(pieces: Sequence[Piece], algorithms: Algorithms) -> tuple[str, Body]:
    """Lay out a pack. Return its id and its bytes as a list of buffers, in order.

    *algorithms* are those that hashed and compressed the pieces.
    """
    at = _HEAD.size + len(pieces) * _ENTRY.size
    index = [_HEAD.pack(algorithms.magic, len(pieces))]
    body: list[Buffer | Piece] = []
    for piece in pieces:
        gap = -at % PAGE if piece.aligned else 0
        if gap:
            body.append(bytes(gap))
        at += gap
        index.append(_ENTRY.pack(piece.digest, at, len(piece.data), piece.size, piece.codec))
        body.append(piece if piece.lent else piece.data)
        at += len(piece.data)
    head = b"".join(index)  # its digest vouches for every blob: see docs/decisions/0001
    return algorithms.digest(head).hex(), Body([head, *body], algorithms)


def pack_key(pack: str) -> str:
    """Return the key of the pack with this id."""
    return f"packs/{pack[:2]}/{pack}.pack"


def aside_key(pack: str) -> str:
    """Return the key of a pack that was set aside because it is damaged; see damage.py."""
    return f"damaged/{pack}"


def pack_of(key: str) -> str:
    """Return the id of the pack with this key."""
    return key.rpartition("/")[2].removesuffix(".pack")


def read_index(store: Store, pack: str, *, aside: bool = False) -> list[Blob]:
    """Return the blobs of a pack in order, from its checked index.

    Raises:
        NotFoundError: The store has no such pack, or none that was set *aside*.
        CorruptError: The index does not match the pack's id.
    """
    if not aside:
        return parse_index(read_head(store, pack), pack)
    blobs = parse_index(read_head(store, pack, aside_key(pack)), pack)
    return [replace(blob, aside=True) for blob in blobs]


def read_head(store: Store, pack: str, key: str = "") -> bytes:
    """Return a pack's magic, count and index, or less if the pack is truncated; see `parse_index`."""
    key = key or pack_key(pack)
    head = store.get(key, 0, _FIRST_READ)
    needed = index_size(head, pack)
    # Read in steps, because a damaged count may ask for more bytes than there is memory.
    while len(head) < needed:
        more = store.get(key, len(head), min(needed, len(head) + _MOST_READ))
        if not more:
            break
        head += more
    return head[:needed]


def index_size(head: Buffer, pack: str) -> int:
    """Return the size of a pack's head in bytes, given its first bytes."""
    return _read_start(head, pack)[1]


def _read_start(head: Buffer, pack: str) -> tuple[Algorithms, int]:
    """Return the algorithms of a pack, and the size of its head in bytes."""
    if len(head) < _HEAD.size:
        raise CorruptError(f"pack {pack[:12]} is cut short: it has {len(head)} bytes")
    magic, count = _HEAD.unpack_from(head)
    if count > MOST_BLOBS:
        raise CorruptError(f"the index of pack {pack[:12]} is damaged: it cannot have {count} blobs")
    size = _HEAD.size + int(count) * _ENTRY.size
    for algorithms in HERE:
        if magic == algorithms.magic:
            return algorithms, size
    if magic == _BLAKE3_MAGIC:
        named(BLAKE3, f"pack {pack[:12]}")
    raise FormatError(f"pack {pack[:12]} is not an nbckpt pack of a known version")


def parse_index(head: Buffer, pack: str) -> list[Blob]:
    """Return the blobs that *head*, the first bytes of a pack, describes."""
    algorithms, needed = _read_start(head, pack)
    index = memoryview(head)[:needed]
    if len(index) < needed or algorithms.digest(index).hex() != pack:
        raise CorruptError(f"the index of pack {pack[:12]} is damaged: it is not the one that was saved")
    blobs = [Blob(pack, algorithms, *fields) for fields in _ENTRY.iter_unpack(index[_HEAD.size :])]
    end = needed
    for blob in blobs:
        if not _possible(blob, end):
            raise CorruptError(f"pack {pack[:12]} was not written by nbckpt: one of its blobs is impossible")
        end = blob.offset + blob.stored
    return blobs


def _possible(blob: Blob, end: int) -> bool:
    """Tell whether a blob after *end* is plausible. Memory is laid out by these numbers."""
    if blob.offset < end or blob.stored > PACK_SIZE:
        return False
    if blob.codec == RAW:
        return blob.stored == blob.size
    return blob.codec == blob.algorithms.codec and blob.size <= _MOST_UNPACKED


def size_of(blobs: Sequence[Blob]) -> int:
    """Return the size in bytes of the pack of these blobs."""
    return max((blob.offset + blob.stored for blob in blobs), default=_HEAD.size)


def check_pack(data: Buffer, pack: str) -> None:
    """Check all bytes of a pack.

    Raises:
        CorruptError: They do not match the pack's id.
        FormatError: It is not a pack, or its version is not known here.
    """
    view = memoryview(data)
    blobs = parse_index(view, pack)
    if len(view) != size_of(blobs):
        raise CorruptError(f"pack {pack[:12]} is damaged: it has {len(view)} bytes, not {size_of(blobs)}")
    for blob in blobs:
        blob.decode(view[blob.offset : blob.offset + blob.stored])


def piece_of(store: Store, blob: Blob) -> Piece:
    """Return a stored blob as a piece for another pack.

    Raises:
        NotFoundError: Its pack is gone.
        CorruptError: Its bytes are damaged, and must not come into a pack that looks whole.
    """
    data = store.get(blob.key, blob.offset, blob.offset + blob.stored)
    if len(data) != blob.stored:
        raise blob.damage()
    blob.decode(data)
    aligned = blob.codec == RAW and blob.offset % PAGE == 0
    return Piece(blob.digest, data, blob.size, blob.codec, aligned=aligned)


def total(blobs: Iterable[Blob]) -> int:
    """Return the number of bytes that *blobs* decode to."""
    return sum(blob.size for blob in blobs)
