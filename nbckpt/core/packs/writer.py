"""Packer: bytes in, packs out. Hashing and writing overlap, and no pack is in memory whole.

Buffers are cut into blobs of a fixed size. Two threads hash them; what the store lacks is gathered
into packs; four threads put the packs, so that copying, writing and waiting for the disk overlap.
(One file written by one thread leaves the disk idle while it copies, and copies nothing while it syncs.)

Memory that is lent to a save can change at any time. Each blob of it is copied and hashed once more on
its way into a pack, so a pack that would not hold what its index says is never put. Its blobs are copied
first and hashed then, at the end, and what they belong to is marked as changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

from nbckpt.core.algorithms import PREFERRED, Algorithms
from nbckpt.core.packs.content import Run
from nbckpt.core.packs.format import (
    MOST_BLOBS,
    PACK_SIZE,
    RAW,
    Blob,
    Body,
    Piece,
    build,
    compressed,
    pack_key,
    parse_index,
    salt,
)
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.pools import Pool, others_run
from nbckpt.store import Buffer, Store

Progress = Callable[[int, int], None]
"""Called now and then, in the thread that saves or restores, with the bytes done and in all."""

INLINE_SIZE = 16 << 10
"""A save whose new blobs are smaller than this carries its pack inside the manifest."""

ALIGNED_SIZE = 64 << 10
"""A buffer of this size or more is kept raw and on page boundaries, so that it can be mapped."""

RECORD_BLOB = 1 << 20
"""The size of a record's blobs."""

_BLOB, _LARGE_BLOB, _LARGE = 256 << 10, 1 << 20, 1 << 30
_STRETCH = 4 << 20
_MUCH = 256 << 20
_HASHERS, _WRITERS = 2, 4  # see docs/decisions/0002
_COPIED_PACK, _COPIED_PACKS = 16 << 20, 2
"""How large packs of copied blobs are, and how many are written at once: copies take memory."""


@dataclass(slots=True)
class Stored:
    """Bytes handed to a packer: their digests are there once it has finished.

    Attributes:
        size: How many bytes.
        digests: Those of the blobs.
        changed: Whether they were seen to change during the save, so that the blobs are of several moments.
    """

    size: int
    digests: list[bytes] = field(default_factory=list)
    changed: bool = False


@dataclass(frozen=True, slots=True)
class _Lent:
    """Memory that others may change, and the size of the blobs that it is cut into."""

    stored: Stored
    view: memoryview
    blob: int

    def blobs(self) -> Iterator[tuple[int, bytes, memoryview]]:
        """Yield the place, the digest and the memory of each blob."""
        for at, name in enumerate(self.stored.digests):
            yield at, name, self.view[at * self.blob : (at + 1) * self.blob]


class Packer:
    """Puts buffers into a store as packs; use it in a `with` block and call `finish` at its end.

    The buffers may change until `finish` returns: then each blob is kept as it was at some moment, and
    the bytes are marked as changed, see docs/decisions/0043. After an exception in the block nothing of
    it is named by anything, every pack that was put is whole, and `gc` removes them.

    Attributes:
        algorithms: How it hashes and compresses.
        new_bytes: Bytes that the store did not have, as they are stored.
        inline: The one small pack, by its id, that was left for the manifest to carry.
        packs: Ids of the packs that were put.
    """

    def __init__(
        self,
        store: Store,
        known: Known | None = None,
        *,
        algorithms: Algorithms = PREFERRED,
        inline: bool = True,
        dry: bool = False,
        salted: bool = False,
    ) -> None:
        self.algorithms = algorithms
        self.new_bytes = 0
        self.inline: dict[str, bytes] = {}
        self.packs: list[str] = []
        self._store = store
        self._known = known or Known(store)
        self._may_inline = inline
        self._dry = dry
        self._salted = salted
        self._lock = threading.RLock()
        self._places: dict[bytes, tuple[str, int]] = {}
        self._names: dict[bytes, bool] = {}  # of the blobs on their way, and whether their memory is lent
        self._open: list[Piece] = []
        self._open_size = 0
        self._most = PACK_SIZE
        self._pool: Pool | None = None
        self._writers: Pool | None = None
        self._tasks: list[Future[Any]] = []
        self._hashes: list[Future[Any]] = []
        self._puts: list[Future[Any]] = []
        self._tickets, self._turn = 0, 1
        self._hashed: dict[int, list[Piece]] = {}
        self._lent: list[_Lent] = []
        self._lost: list[Piece] = []
        self._has_lost = False
        self._indexes: dict[str, list[Blob]] = {}
        self._watched = False
        self._failed = threading.Event()
        self._total = self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failed.set()
        for threads in (self._pool, self._writers):
            if threads is not None:
                threads.shutdown(wait=True, cancel_futures=True)

    def add(self, data: Buffer, *, lent: bool = True) -> Stored:
        """Take a buffer: its blobs stay raw where it is large enough to be mapped.

        A small one is copied. A large one that is *lent* may change; one that is not belongs to the packer.
        """
        view = memoryview(data).cast("B")
        size = len(view)
        if size < ALIGNED_SIZE:
            return self._take(memoryview(bytes(view)), _BLOB)
        blob = _LARGE_BLOB if size > _LARGE else _BLOB
        lent = lent and not isinstance(view.obj, bytes)
        stored = self._take(view, blob, aligned=True, lent=lent)
        if lent and not self._dry:
            self._watched = self._watched or others_run()
            self._lent.append(_Lent(stored, view, blob))
        return stored

    def add_record(self, record: bytes) -> Stored:
        """Take a pickled record; its blobs are compressed where that pays."""
        return self._take(memoryview(record), RECORD_BLOB)

    def add_more(self, stored: Stored, data: bytes) -> None:
        """Take the next whole blobs of a long record, or its last; wait while much of it is to be written.

        What it belongs to is *stored*, which is empty at first. See docs/decisions/0061.
        """
        self._most = _COPIED_PACK
        first = len(stored.digests)
        stored.digests += [b""] * -(-len(data) // RECORD_BLOB)
        stored.size += len(data)
        self._total += len(data)
        work = partial(self._work, stored, memoryview(data), first, RECORD_BLOB, self._ticket())
        self._submit(partial(work, aligned=False, lent=False))
        wait_for(self._hashes[:-_HASHERS])
        del self._hashes[:-_HASHERS]
        wait_for(self._puts[: 1 - _COPIED_PACKS])

    def runs(self, stored: Stored) -> list[Run]:
        """Return where the bytes are, after `finish`."""
        runs: list[Run] = []
        for name in stored.digests:
            pack, place = self._places.get(name) or self._known.find(name) or ("", 0)
            last = runs[-1] if runs else None
            if last and last[0] == pack and last[1] + last[2] == place:
                runs[-1] = (pack, last[1], last[2] + 1)
            else:
                runs.append((pack, place, 1))
        return runs

    def settle(self) -> None:
        """Wait until what was handed over is hashed; writing it goes on."""
        wait_for(self._hashes)
        self._hashes.clear()

    def drain(self) -> None:
        """Wait for what was handed over, once it is much, so that copies of it need not pile up."""
        if self._total - self._done > _MUCH:
            self._await(None)

    def finish(self, progress: Progress | None = None) -> None:
        """Wait until everything is stored durably.

        Raises:
            StoreError: A put failed; nothing names what was written.
        """
        self._await(progress)
        with self._lock:
            if self._may_inline and not self.packs and self._open_size <= INLINE_SIZE and self._open:
                self._inline_open()
            elif self._open:
                self._close_open()
        self._await(progress)
        if self._has_lost:
            self._copy_lost(progress)
        if self._watched or (self._lent and others_run()):
            self._look_again()
        for pack, blobs in self._indexes.items():
            self._known.add(pack, blobs)

    def _take(self, view: memoryview, blob: int, *, aligned: bool = False, lent: bool = False) -> Stored:
        stored = Stored(len(view), [b""] * -(-len(view) // blob))
        self._total += len(view)
        step = len(view) if len(view) <= blob else max(_STRETCH, blob)
        for start in range(0, len(view), step or 1):
            work = partial(self._work, stored, view[start : start + step], start // blob, blob)
            work = partial(work, self._ticket(), aligned=aligned, lent=lent)
            work() if step == len(view) else self._submit(work)
        return stored

    def _ticket(self) -> int:
        """Return the next place in the line: blobs go into packs in the order in which they came."""
        self._tickets += 1
        return self._tickets

    def _work(
        self,
        stored: Stored,
        view: memoryview,
        first: int,
        blob: int,
        ticket: int,
        *,
        aligned: bool,
        lent: bool,
    ) -> None:
        """Hash one stretch, and hand what is new to the open pack when its turn has come."""
        if self._failed.is_set():
            return
        cuts = [view[at : at + blob] for at in range(0, len(view), blob)]
        algorithms, digest = self.algorithms, self.algorithms.digest
        names = [digest(cut) for cut in cuts]
        stored.digests[first : first + len(names)] = names
        if self._dry:
            return
        new = [(name, cut) for name, cut in zip(names, cuts, strict=True) if self._lacks(name, lent=lent)]
        pieces = [
            Piece(name, cut, len(cut), RAW, aligned=True, lent=lent)
            if aligned
            else compressed(cut, name, algorithms)
            for name, cut in new
        ]
        with self._lock:
            self._done += len(view) - sum(piece.size for piece in pieces)
            self._hashed[ticket] = pieces
            while self._turn in self._hashed:
                for piece in self._hashed.pop(self._turn):
                    self._place(piece)
                self._turn += 1

    def _lacks(self, name: bytes, *, lent: bool) -> bool:
        """Tell whether a blob has to go into a pack: what is not lent does not rely on what may change."""
        if name in self._names and (lent or not self._names[name]):
            return False
        return self._known.find(name) is None

    def _place(self, piece: Piece) -> None:
        if not self._lacks(piece.digest, lent=piece.lent):  # another thread brought the same bytes meanwhile
            self._done += piece.size
            return
        self._open.append(piece)
        self._names[piece.digest] = piece.lent
        self._open_size += len(piece.data)
        self.new_bytes += len(piece.data)
        if self._open_size >= self._most or len(self._open) >= MOST_BLOBS - 1:  # and salt
            self._close_open()

    def _shut_open(self) -> tuple[str, Body, list[Piece]]:
        pieces = self._open
        if self._salted:  # the same blobs in a pack of another id, since theirs is being collected
            pieces = [*pieces, salt(self.algorithms)]
        pack, body = build(pieces, self.algorithms)
        self._open, self._open_size = [], 0
        return pack, body, pieces

    def _inline_open(self) -> None:
        pack, body, pieces = self._shut_open()
        self.inline[pack] = b"".join(body)
        self._note_put(pack, pieces)

    def _close_open(self) -> None:
        pack, body, pieces = self._shut_open()
        self.packs.append(pack)
        if self._writers is None:
            self._writers = Pool(_WRITERS, "nbckpt-write")
        self._puts.append(self._writers.submit(self._put, pack, body, pieces))
        self._tasks.append(self._puts[-1])

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
            self._indexes[pack] = parse_index(body[0], pack)
            self._note_put(pack, pieces)

    def _note_put(self, pack: str, pieces: list[Piece]) -> None:
        with self._lock:
            self._places.update((piece.digest, (pack, place)) for place, piece in enumerate(pieces))
            self._done += sum(piece.size for piece in pieces)

    def _lose(self, pack: str, pieces: list[Piece]) -> None:
        """Note that a pack was not put, since lent memory changed before it was written."""
        with self._lock:
            self._has_lost = True
            self.packs.remove(pack)
            for piece in pieces:
                self._names.pop(piece.digest, None)
                self.new_bytes -= len(piece.data)
            self._lost += [piece for piece in pieces if not piece.lent]

    def _copy_lost(self, progress: Progress | None) -> None:
        """Put what was not put: blob by blob it is copied, hashed, and written from the copy."""
        self._most = _COPIED_PACK
        for piece in self._lost:
            self._place(piece)
        for lent in self._lent:
            for at, name, memory in lent.blobs():
                if name in self._places or self._known.find(name):
                    continue
                copy = bytes(memory)
                new = lent.stored.digests[at] = self.algorithms.digest(copy)
                lent.stored.changed |= new != name
                self._place(Piece(new, copy, len(copy), RAW, aligned=True))
                wait_for(self._tasks[:-_COPIED_PACKS])
        if self._open:
            self._close_open()
        self._await(progress)

    def _look_again(self) -> None:
        """Compare lent memory with what was stored of it: if it is equal now, it is all of this moment."""

        def compare(lent: _Lent) -> None:
            digest = self.algorithms.digest
            lent.stored.changed |= any(digest(memory) != name for _, name, memory in lent.blobs())

        for lent in self._lent:
            if not lent.stored.changed:
                self._submit(compare, lent)
        self._await(None)

    def _submit(self, work: Callable[..., None], *arguments: Any) -> None:
        if self._pool is None:
            self._pool = Pool(_HASHERS, "nbckpt-hash")
        task = self._pool.submit(work, *arguments)
        self._tasks.append(task)
        self._hashes.append(task)

    def _await(self, progress: Progress | None) -> None:
        """Wait for the tasks, those that tasks start included; the first failure stops the others."""
        at = 0
        while at < len(self._tasks):
            done, _ = wait_for([self._tasks[at]], timeout=0.25)
            if progress is not None:
                progress(min(self._done, self._total), self._total)
            if done:
                try:
                    self._tasks[at].result()
                except BaseException:
                    self._failed.set()
                    raise
                at += 1
