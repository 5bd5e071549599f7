"""Record: a pickle on its way into packs. A long record is never in memory as a whole.

A short record is kept until it is known whether it is used: values that share objects are pickled again,
together. Whole blobs of a long record go to the packer as they come; see docs/decisions/0061.
"""

from __future__ import annotations

from nbckpt.core.algorithms import Hasher
from nbckpt.core.packs.content import Stored
from nbckpt.core.packs.writer import RECORD_BLOB, Packer
from nbckpt.core.values.identities import MOST_NUMBERED, holds_nan
from nbckpt.store import Buffer

_OVERLAP = 8  # a NaN may lie in two parts
KEPT = 4 << 20
"""The most bytes of a record that are kept in memory."""


class Record:
    """Takes a pickle piece by piece. Once complete, it provides the digest and the place of the pickle.

    Args:
        packer: Takes the bytes.
        most: The most bytes to keep in memory.

    Attributes:
        size: The number of bytes so far.
    """

    __slots__ = ("_end", "_had_nan", "_hasher", "_packer", "_stored", "kept", "most", "size")

    def __init__(self, packer: Packer, most: int = KEPT) -> None:
        self.size, self.most = 0, most
        self.kept = bytearray()
        self._packer = packer
        self._stored: Stored | None = None
        self._hasher: Hasher | None = None
        self._had_nan, self._end = False, b""

    def write(self, piece: Buffer) -> None:
        """Take the next piece. It is copied, so it may change afterwards."""
        view = memoryview(piece)
        self.size += len(view)
        for at in range(0, len(view), RECORD_BLOB):
            self.kept += view[at : at + RECORD_BLOB]
            if self.size > self.most and len(self.kept) >= RECORD_BLOB:
                self._hand_over(len(self.kept) // RECORD_BLOB * RECORD_BLOB)

    def digest(self) -> bytes:
        """Return the digest of the whole record. The rest of a long record goes to the packer."""
        if self.size <= self.most:
            return self._packer.algorithms.digest(self.kept)
        if self.kept:
            self._hand_over(len(self.kept))
        assert self._hasher is not None
        return self._hasher.digest()

    @property
    def has_nan(self) -> bool:
        """Whether the record is short and may hold a NaN as a float."""
        return self.size <= MOST_NUMBERED and (self._had_nan or holds_nan(self._end + self.kept))

    @property
    def whole(self) -> bytearray | None:
        """The whole record, or None if it is long."""
        return self.kept if len(self.kept) == self.size else None

    def stored(self) -> Stored:
        """Hand over the rest, and return where the whole record goes."""
        if self._stored is None or self.kept:
            self._hand_over(len(self.kept))
        assert self._stored is not None
        return self._stored

    def _hand_over(self, size: int) -> None:
        data = bytes(memoryview(self.kept)[:size])
        if not self._had_nan and self.size <= MOST_NUMBERED:
            self._had_nan, self._end = holds_nan(self._end + data), data[-_OVERLAP:]
        del self.kept[:size]
        if self.size <= self.most:
            self._stored = self._packer.add_record(data)
            return
        if self._stored is None or self._hasher is None:
            self._stored, self._hasher = Stored(0), self._packer.algorithms.hasher()
        self._hasher.update(data)
        self._packer.add_more(self._stored, data)
