"""OpenPack: collects new blobs into a pack and puts each full one, while the next one fills.

Four threads put the packs, so that copying, writing and waiting for the disk overlap. (A single thread that
writes one file leaves the disk idle while it copies, and copies nothing while it syncs.)
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any

from nbckpt.core.algorithms import Algorithms
from nbckpt.core.packs.format import (
    MOST_BLOBS,
    PACK_SIZE,
    Blob,
    Body,
    Piece,
    build,
    pack_key,
    parse_index,
    salt,
)
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.lent import Lent
from nbckpt.core.packs.pools import Pool
from nbckpt.store import Store

INLINE_SIZE = 16 << 10
"""If the new blobs of a save are smaller than this, their pack is stored inside the manifest."""

COPIED_PACK, COPIED_PACKS = 16 << 20, 2
"""The size of packs of copied blobs, and how many are written at once: copies take memory."""

_WRITERS = 4  # see docs/decisions/0002


class OpenPack:
    """The pack that is being filled, and the packs before it. Any thread that holds the lock may add to it.

    Args:
        store: Where the packs are put.
        known: The blobs that the store has.
        lent: The memory that may change before it is written.
        tasks: The work under way; each put joins it.
        failed: Set if a task failed; then nothing more is put.
        algorithms: The algorithms that hash.
        salted: Whether packs need another id than usual, because packs of the same blobs are being collected.

    Attributes:
        lock: Held while the pack changes.
        most: The size at which the pack is full.
        done: The number of bytes that need no further work.
        new_bytes: The number of bytes that were added.
        inline: The one small pack, by its id, that was not put.
        packs: The ids of the packs that were put, or are on their way.
        puts: The puts of the packs.
        places: The pack of each blob that was put, and its number there.
        indexes: The blobs of each pack that was put.
    """

    def __init__(
        self,
        store: Store,
        known: Known,
        lent: Lent,
        tasks: list[Future[Any]],
        failed: threading.Event,
        *,
        algorithms: Algorithms,
        salted: bool,
    ) -> None:
        self.lock = threading.RLock()
        self.most = PACK_SIZE
        self.done = self.new_bytes = 0
        self.inline: dict[str, bytes] = {}
        self.packs: list[str] = []
        self.puts: list[Future[Any]] = []
        self.places: dict[bytes, tuple[str, int]] = {}
        self.indexes: dict[str, list[Blob]] = {}
        self._store, self._known, self._lent = store, known, lent
        self._tasks, self._failed = tasks, failed
        self._algorithms, self._salted = algorithms, salted
        self._pieces: list[Piece] = []
        self._size = 0
        self._names: dict[bytes, bool] = {}  # blobs on their way, and whether their memory is lent
        self._writers: Pool | None = None

    def lacks(self, name: bytes, *, lent: bool) -> bool:
        """Return whether a blob has to go into a pack. Bytes that cannot change do not rely on lent bytes."""
        if name in self._names and (lent or not self._names[name]):
            return False
        return self._known.find(name) is None

    def add(self, piece: Piece) -> None:
        """Add a blob, unless another thread added the same bytes meanwhile. Put the pack if it is full."""
        if not self.lacks(piece.digest, lent=piece.lent):
            self.done += piece.size
            return
        self._pieces.append(piece)
        self._names[piece.digest] = piece.lent
        self._size += len(piece.data)
        self.new_bytes += len(piece.data)
        if self._size >= self.most or len(self._pieces) >= MOST_BLOBS - 1:  # one place stays for the salt
            self._close()

    def end(self, *, may_inline: bool) -> None:
        """Put the blobs that are left.

        With *may_inline*, they go into `inline` instead if they are small and no pack was put before.
        """
        with self.lock:
            if may_inline and not self.packs and self._size <= INLINE_SIZE and self._pieces:
                pack, body, pieces = self._shut()
                self.inline[pack] = b"".join(body)
                self._note_put(pack, pieces)
            elif self._pieces:
                self._close()

    def put_lost(self) -> None:
        """Put the blobs of packs that were not put, from copies that cannot change. No other thread adds."""
        self.most = COPIED_PACK
        for piece in self._lent.copies(lambda name: bool(name in self.places or self._known.find(name))):
            self.add(piece)
            wait_for(self._tasks[:-COPIED_PACKS])
        self.end(may_inline=False)

    def end_threads(self) -> None:
        """Wait for the puts that have begun. The others are given up."""
        if self._writers is not None:
            self._writers.shutdown(wait=True, cancel_futures=True)

    def _shut(self) -> tuple[str, Body, list[Piece]]:
        pieces = self._pieces
        if self._salted:
            pieces = [*pieces, salt(self._algorithms)]
        pack, body = build(pieces, self._algorithms)
        self._pieces, self._size = [], 0
        return pack, body, pieces

    def _close(self) -> None:
        pack, body, pieces = self._shut()
        self.packs.append(pack)
        if self._writers is None:
            self._writers = Pool(_WRITERS, "nbckpt-write")
        self.puts.append(self._writers.submit(self._put, pack, body, pieces))
        self._tasks.append(self.puts[-1])

    def _put(self, pack: str, body: Body, pieces: list[Piece]) -> None:
        if self._failed.is_set():
            return
        try:
            self._store.put(pack_key(pack), body)
        except Exception:
            if not body.changed:
                raise
            self._lose(pack, pieces)
        else:
            self.indexes[pack] = parse_index(body[0], pack)
            self._note_put(pack, pieces)

    def _note_put(self, pack: str, pieces: list[Piece]) -> None:
        with self.lock:
            self.places.update((piece.digest, (pack, at)) for at, piece in enumerate(pieces))
            self.done += sum(piece.size for piece in pieces)

    def _lose(self, pack: str, pieces: list[Piece]) -> None:
        """Record that a pack was not put, because lent memory changed before it was written."""
        with self.lock:
            self._lent.lose(pieces)
            self.packs.remove(pack)
            for piece in pieces:
                self._names.pop(piece.digest, None)
                self.new_bytes -= len(piece.data)
