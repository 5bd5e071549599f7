"""Algorithms: how bytes are hashed and compressed, and how what was written says which ones it used.

BLAKE3 and Zstandard are compiled packages, which are not to be had everywhere. Where they cannot be
imported, everything new is written with BLAKE2b and zlib, which every Python has; both are read wherever
they can be. What is written once keeps its algorithms: equal bytes are found by equal digests.
"""

from __future__ import annotations

import hashlib
import os
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
    import zstandard
except ImportError:
    _HAS_PACKAGES = False
else:
    _HAS_PACKAGES = True

BLAKE3, BLAKE2B = "blake3-256", "blake2b-256"
"""The names of the digests, which stand for what is compressed along with them, too."""

_READ = 1 << 20
_PROCESS = os.getpid()


class Hasher(Protocol):
    """A digest on its way."""

    def update(self, data: Buffer, /) -> object:
        """Take in more bytes."""

    def digest(self) -> bytes:
        """Return the digest of what was taken in."""


@dataclass(frozen=True, eq=False)
class Algorithms:
    """A digest of 32 bytes and a compression that go together.

    Attributes:
        name: The digest's name.
        magic: What packs with them begin with.
        codec: The number of the compression in the index of a pack.
        digest: Hashes bytes.
        digest_of_file: Hashes a file, which is not read into memory whole.
        hasher: Begins to hash bytes that come one after the other.
        compress: Compresses bytes, quickly rather than well.
        decompress: Takes compressed bytes and how many they may become; gives none where they are not whole.
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
        """Return the digest of pieces of bytes as text that says what it is; BLAKE3's has no name in it."""
        hasher = self.hasher()
        for piece in data:
            hasher.update(piece)
        return self.text(hasher.digest())

    def checksum_of_file(self, file: Path) -> str:
        """Return the checksum of a file, which is not read into memory whole."""
        return self.text(self.digest_of_file(file))

    def text(self, digest: bytes) -> str:
        """Return a digest as a checksum."""
        return digest.hex() if self.name == BLAKE3 else f"{self.name}:{digest.hex()}"


def _blake3(data: Buffer) -> bytes:
    return blake3.blake3(data).digest()


def _blake3_of_file(file: Path) -> bytes:
    # The threads of blake3 do not come along into a fork, which would wait for them for ever.
    threads = blake3.blake3.AUTO if os.getpid() == _PROCESS else 1
    return blake3.blake3(max_threads=threads).update_mmap(file).digest()


def _zstd(data: Buffer) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(data)


def _unzstd(data: Buffer, most: int) -> bytes:
    try:
        # The frame says how much memory to take; a damaged one may say anything.
        honest = 0 <= zstandard.frame_content_size(data) <= most
        return zstandard.decompress(data) if honest else b""
    except zstandard.ZstdError:
        return b""


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
"""What every Python has."""

PREFERRED = PORTABLE  # see docs/decisions/0034
"""What is written with where nothing is there yet that says something else."""

if _HAS_PACKAGES:
    PREFERRED = Algorithms(
        BLAKE3, b"NBCKPAK1", 1, _blake3, _blake3_of_file, blake3.blake3, _zstd, _unzstd
    )  # fmt: skip

HERE = tuple({PREFERRED.name: PREFERRED, PORTABLE.name: PORTABLE}.values())
"""What can be read here."""


def named(name: object, what: str) -> Algorithms:
    """Return the algorithms of a name.

    Args:
        name: What was written down for the digest.
        what: What was written with them, for the message.

    Raises:
        FormatError: They are not to be had here.
    """
    for it in HERE:
        if it.name == name:
            return it
    if name == BLAKE3:
        raise FormatError(
            f"{what} was written with the packages blake3 and zstandard, which cannot be imported here: "
            "install them (pip install blake3 zstandard), or use a new place: here it is written without them"
        )
    raise FormatError(f"{what} was written with {name!r}, which this nbckpt does not know: upgrade nbckpt")


def of_checksum(text: str, what: str) -> Algorithms:
    """Return the algorithms that made a checksum; where there is none, those to make one with.

    Raises:
        FormatError: They are not to be had here.
    """
    name, colon, _ = text.rpartition(":")
    return named(name if colon else BLAKE3, what) if text else PREFERRED
