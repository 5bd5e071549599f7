"""Algorithms: how bytes are hashed and compressed, and how stored data names the algorithms it used.

BLAKE3 and Zstandard come from compiled packages, which are not available everywhere. If they cannot be
imported, new data is written with BLAKE2b and zlib, which every Python has. Both pairs are read wherever
they are available. Stored data keeps its algorithms, because equal bytes are found by equal digests.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from nbckpt.errors import FormatError
from nbckpt.store import Buffer

try:
    import blake3

    if sys.version_info >= (3, 14):  # see docs/decisions/0070
        from compression import zstd
    else:
        from backports import zstd
except ImportError:
    _HAS_PACKAGES = False
else:
    _HAS_PACKAGES = True

BLAKE3, BLAKE2B = "blake3-256", "blake2b-256"
"""The names of the digests. Each name also stands for the compression that goes with it."""

_READ = 1 << 20
_PROCESS = os.getpid()


class Hasher(Protocol):
    """A digest in progress."""

    def update(self, data: Buffer, /) -> object:
        """Add bytes."""

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""


@dataclass(frozen=True, eq=False)
class Algorithms:
    """A digest of 32 bytes and the compression that goes with it.

    Attributes:
        name: The digest's name.
        magic: The first bytes of a pack that uses them.
        codec: The number of the compression in the index of a pack.
        digest: Hashes bytes.
        digest_of_file: Hashes a file without reading it into memory as a whole.
        hasher: Returns a new hasher, which takes bytes piece by piece.
        compress: Compresses bytes; prefers speed to size.
        decompress: Takes compressed bytes and the most bytes of the result; returns b"" for damaged input.
    """

    name: str
    magic: bytes
    codec: int
    digest: Callable[[Buffer], bytes]
    digest_of_file: Callable[[Path], bytes]
    hasher: Callable[[], Hasher]
    compress: Callable[[Buffer], bytes]
    decompress: Callable[[Buffer, int], bytes]

    def __reduce__(self) -> tuple[Callable[..., Algorithms], tuple[str, str]]:
        return named, (self.name, "what comes from another process")

    def checksum(self, data: Iterable[Buffer]) -> str:
        """Return the checksum of pieces of bytes: the digest's name and its text. BLAKE3 needs no name."""
        hasher = self.hasher()
        for piece in data:
            hasher.update(piece)
        return self.text(hasher.digest())

    def checksum_of_file(self, file: Path) -> str:
        """Return the checksum of a file without reading it into memory as a whole."""
        return self.text(self.digest_of_file(file))

    def text(self, digest: bytes) -> str:
        """Return a digest as the text of a checksum."""
        return digest.hex() if self.name == BLAKE3 else f"{self.name}:{digest.hex()}"


def _blake3(data: Buffer) -> bytes:
    return blake3.blake3(data).digest()


def _blake3_of_file(file: Path) -> bytes:
    # The threads of blake3 do not exist in a forked process, which would wait for them forever.
    threads = blake3.blake3.AUTO if os.getpid() == _PROCESS else 1
    return blake3.blake3(max_threads=threads).update_mmap(file).digest()


def _zstd(data: Buffer) -> bytes:
    return zstd.compress(data, 1)


def _unzstd(data: Buffer, most: int) -> bytes:
    stream = zstd.ZstdDecompressor()
    try:
        # For a frame that states no size (None), the decoder would take the memory that the frame asks for.
        is_bounded = zstd.get_frame_info(data).decompressed_size in range(most + 1)
        plain = stream.decompress(data, most + 1) if is_bounded else b""
    except zstd.ZstdError:
        return b""
    return plain if stream.eof else b""


_new_blake2b = partial(hashlib.blake2b, digest_size=32)


def _blake2b(data: Buffer) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def _blake2b_of_file(file: Path) -> bytes:
    hasher = _new_blake2b()
    with file.open("rb", buffering=0) as opened:
        while piece := opened.read(_READ):
            hasher.update(piece)
    return hasher.digest()


def _deflate(data: Buffer) -> bytes:
    return zlib.compress(data, 1)


def _inflate(data: Buffer, most: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, most + 1)
    except zlib.error:
        return b""
    return plain if stream.eof and len(plain) <= most else b""


PORTABLE = Algorithms(
    BLAKE2B, b"NBCKPKB1", 2, _blake2b, _blake2b_of_file, _new_blake2b, _deflate, _inflate
)  # fmt: skip
"""The algorithms that every Python has."""

PREFERRED = PORTABLE  # see docs/decisions/0034
"""The algorithms for new data, if no existing data requires others."""

if _HAS_PACKAGES:
    PREFERRED = Algorithms(
        BLAKE3, b"NBCKPAK1", 1, _blake3, _blake3_of_file, blake3.blake3, _zstd, _unzstd
    )  # fmt: skip

HERE = tuple({PREFERRED.name: PREFERRED, PORTABLE.name: PORTABLE}.values())
"""The algorithms that are available in this process."""


def named(name: object, label: str) -> Algorithms:
    """Return the algorithms with this name.

    Args:
        name: The stored name of the digest.
        label: The thing that was written with them, for the error message.

    Raises:
        FormatError: They are not available here.
    """
    for algorithms in HERE:
        if algorithms.name == name:
            return algorithms
    if name == BLAKE3:
        raise FormatError(
            f"{label} was written with BLAKE3 and Zstandard, which cannot be imported here. Install them "
            "(pip install blake3 backports.zstd), or use a new folder or store, which needs neither"
        )
    raise FormatError(
        f"{label} was written with {name!r}, which this nbckpt does not know. To read it, upgrade nbckpt"
    )


def of_checksum(text: str, label: str) -> Algorithms:
    """Return the algorithms of a checksum, or the preferred ones if *text* is empty.

    Raises:
        FormatError: They are not available here.
    """
    name, colon, _ = text.rpartition(":")
    return named(name if colon else BLAKE3, label) if text else PREFERRED
