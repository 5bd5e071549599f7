"""Packer: turns buffers into packs. Hashing and writing overlap, and no pack is in memory as a whole.

Buffers are cut into blobs of a fixed size. Two threads hash them. Blobs that the store lacks go into an
`OpenPack`, which other threads put when it is full.

Memory that is lent to a save can change at any time. Each blob of it is copied and hashed again on its way
into a pack, so a pack that does not match its index is never put. The blobs of such a pack are handled at the
end: each is first copied, then hashed. Their values are marked as changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from functools import partial
from types import TracebackType
from typing import Any, Self

from nbckpt.core.algorithms import PREFERRED, Algorithms
from nbckpt.core.packs.content import Run, Stored, parts
from nbckpt.core.packs.format import RAW, Piece, compressed
from nbckpt.core.packs.hashes import Hashes
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.later import Later
from nbckpt.core.packs.lent import Lent
from nbckpt.core.packs.open_pack import COPIED_PACK, COPIED_PACKS, OpenPack
from nbckpt.core.packs.pools import Pool
from nbckpt.store import Buffer, Store

Progress = Callable[[int, int], None]
"""Called repeatedly, in the thread that saves or restores, with the bytes done and the total."""

ALIGNED_SIZE = 64 << 10
"""Buffers of at least this size are stored raw and on page boundaries, so that they can be mapped."""

RECORD_BLOB = 1 << 20
"""The size of a record's blobs."""

_BLOB, _LARGE_BLOB, _LARGE = 256 << 10, 1 << 20, 1 << 30
_STRETCH = 4 << 20
_MUCH = 256 << 20
_FEW = 4
"""The number of blobs that are hashed faster than they are handed to a thread."""
_HASHERS = 2  # see docs/decisions/0002


class Packer:
    """Puts buffers into a store as packs. Use it in a `with` block and call `finish` at the end of the block.

    The buffers may change until `finish` returns. If they do, each blob is stored in one of its states, and
    the bytes are marked as changed; see docs/decisions/0043. After an exception in the block, no manifest
    names its packs. Every pack that was put is whole, and `gc` removes it.

    A packer for *later* does not use the store before `go`. Until then it hashes records only, and copies
    lent memory that it may have to write, up to 64 MiB: see docs/decisions/0099. Its *digest* replaces that
    of its *algorithms* for blobs, and must give the same.

    Attributes:
        lends: Whether it needs memory of others until `finish` returns.
        algorithms: The algorithms that hash and compress.
        new_bytes: The number of new bytes in the store, after compression.
        inline: The one small pack, by its id, that the manifest must carry.
        packs: The ids of the packs that were put.
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
        later: Later | None = None,
        digest: Callable[[Buffer], bytes] | None = None,
    ) -> None:
        self.algorithms = algorithms
        self._digest = digest or algorithms.digest
        self.lends = False
        self._store = store
        self._known = known or Known(store)
        self._may_inline = inline
        self._dry = dry
        self._salted = salted
        self._pool: Pool | None = None
        self._tasks: list[Future[Any]] = []
        self._hashes: list[Future[Any]] = []
        self._tickets, self._turn = 0, 1
        self._hashed: dict[int, list[Piece]] = {}
        self._unwritten = Hashes(algorithms)
        self._lent = Lent(self._digest, self._unwritten.touched)
        self._later = later
        self._end_copies = later.end if later is not None else lambda: None
        self._failed = threading.Event()
        self._total = self._skipped = 0
        self._pack = OpenPack(
            store,
            self._known,
            self._lent,
            self._tasks,
            self._failed,
            algorithms=algorithms,
            salted=salted,
        )

    @property
    def new_bytes(self) -> int:
        """See the class."""
        return self._pack.new_bytes

    @property
    def inline(self) -> dict[str, bytes]:
        """See the class."""
        return self._pack.inline

    @property
    def packs(self) -> list[str]:
        """See the class."""
        return self._pack.packs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failed.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pack.end_threads()
        self._unwritten.end()
        self._end_copies()

    def add(self, data: Buffer, *, lent: bool = True) -> Stored:
        """Take a buffer. Its blobs stay raw if it is large enough to be mapped.

        A small buffer is copied. A large buffer may change if it is *lent*; otherwise it belongs to the
        packer.
        """
        view = memoryview(data).cast("B")
        size = len(view)
        if size < ALIGNED_SIZE:
            return self._take(memoryview(bytes(view)), _BLOB)
        blob = _LARGE_BLOB if size > _LARGE else _BLOB
        return self._take(view, blob, aligned=True, lent=lent and not isinstance(view.obj, bytes))

    def add_record(self, record: bytes, blob: int = RECORD_BLOB) -> Stored:
        """Take a pickled record, in blobs of *blob* bytes. They are compressed if that saves space."""
        return self._take(memoryview(record), blob)

    def beside(self, *, inline: bool) -> Packer:
        """Return another packer for the same checkpoint. It counts its new bytes itself."""
        return Packer(
            self._store, self._known, algorithms=self.algorithms, inline=inline, salted=self._salted
        )

    def add_more(self, stored: Stored, data: bytes) -> None:
        """Take the next whole blobs, or the last part, of a long record. Waits while much data is unwritten.

        *stored* describes the record; it is empty at first. See docs/decisions/0061.
        """
        self.go()
        self._pack.most = COPIED_PACK
        first = len(stored.digests)
        stored.digests += [b""] * -(-len(data) // RECORD_BLOB)
        stored.size += len(data)
        self._total += len(data)
        work = partial(self._work, stored, memoryview(data), first, RECORD_BLOB, self._ticket())
        self._submit(partial(work, aligned=False, lent=False))
        wait_for(self._hashes[:-_HASHERS])
        del self._hashes[:-_HASHERS]
        wait_for(self._pack.puts[: 1 - COPIED_PACKS])

    def runs(self, stored: Stored) -> list[Run]:
        """Return the place of the bytes in packs. Call it after `finish`."""
        here, known = self._pack.places.get, self._known.find
        runs: list[Run] = []
        pack, first, end = "", 0, 0
        for name in stored.digests:
            where, at = here(name) or known(name) or ("", 0)
            if where != pack or at != end:
                if end > first:
                    runs.append((pack, first, end - first))
                pack, first = where, at
            end = at + 1
        return [*runs, (pack, first, end - first)] if stored.digests else runs

    def settle(self) -> None:
        """Wait until all data so far is hashed. Writing continues."""
        wait_for(self._hashes)
        self._hashes.clear()

    def drain(self) -> None:
        """If much data is pending, wait until it is written, so that copies of it do not accumulate."""
        if self._total - self._done > _MUCH:
            self._await(None)

    def end_looks(self) -> None:
        """Free the memory of others, if it is not lent."""
        self._unwritten.end()

    def go(self) -> None:
        """Do what a packer for later has put off, and from now on put off nothing."""
        later, self._later = self._later, None
        for work, is_short in later.take() if later else ():
            self._submit(work, is_short=is_short)

    def finish(self, progress: Progress | None = None) -> None:
        """Wait until everything is stored durably.

        Raises:
            StoreError: A put failed. No manifest names the written packs.
        """
        self._await(progress)
        self._pack.end(may_inline=self._may_inline)
        self._await(progress)
        if self._lent.has_lost:
            self._pack.put_lost()
            self._await(progress)
        for check in self._lent.checks():
            self._submit(check)
        self._await(None)
        self._unwritten.keep()
        for pack, blobs in self._pack.indexes.items():
            self._known.add(pack, blobs)

    def _take(self, view: memoryview, blob: int, *, aligned: bool = False, lent: bool = False) -> Stored:
        stored = Stored(len(view), [b""] * -(-len(view) // blob))
        self._total += len(view)
        if lent:
            self._unwritten.known(view, blob, stored)
        later = self._later
        copied = later.copied(stored, blob, self._known) if lent and later is not None else None
        if later is not None and not aligned:
            stored.digests[:] = [self._digest(part) for part in parts(view, blob)]
        elif lent and copied is None and not self._dry:
            self._lent.add(stored, view, blob)
            self.lends = True
        if lent and self._is_there(stored.digests):  # at once: in parts, 1 GiB takes a millisecond
            self._skipped += len(view)
            return stored
        step = blob if copied is not None or len(view) <= blob else max(_STRETCH, blob)
        is_short = stored.digests.count(b"") <= max(1, min(_FEW, len(stored.digests) // 2))
        for at in range(0, len(view), step) if copied is None else copied:
            part, first = view[at : at + step], at // blob
            names = stored.digests[first : -(-(at + len(part)) // blob)]
            if lent and self._is_there(names):
                self._skipped += len(part)
                continue
            part = later.copy(part) if copied and later is not None else part
            work = partial(self._work, stored, part, first, blob, self._ticket())
            work = partial(work, aligned=aligned, lent=lent and not copied)
            (later.add if later else self._submit)(work, is_short=is_short)
        return stored

    def _is_there(self, names: Sequence[bytes]) -> bool:
        """Tell whether all of these digests are known, and the store has their blobs."""
        return all(names) and (self._dry or self._known.has_all(names))

    def _ticket(self) -> int:
        """Return the next number in the queue. Blobs go into packs in the order in which they arrived."""
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
        """Hash one range of a buffer, and add its new blobs to the open pack when its turn comes."""
        if self._failed.is_set():
            return
        cuts, pack, lacks = parts(view, blob), self._pack, self._pack.lacks
        known = stored.digests[first : first + len(cuts)]
        names = [name or self._digest(cut) for name, cut in zip(known, cuts, strict=True)]
        stored.digests[first : first + len(names)] = names
        if self._dry:
            return
        new = [(name, cut) for name, cut in zip(names, cuts, strict=True) if lacks(name, lent=lent)]
        pieces = [
            Piece(name, cut, len(cut), RAW, aligned=True, lent=lent)
            if aligned
            else compressed(cut, name, self.algorithms)
            for name, cut in new
        ]
        with pack.lock:
            pack.done += len(view) - sum(piece.size for piece in pieces)
            self._hashed[ticket] = pieces
            while self._turn in self._hashed:
                for piece in self._hashed.pop(self._turn):
                    pack.add(piece)
                self._turn += 1

    @property
    def _done(self) -> int:
        """The number of bytes that need no further work."""
        return self._skipped + self._pack.done

    def _submit(self, work: Callable[[], None], *, is_short: bool = False) -> None:
        if is_short:
            work()
        else:
            self._pool = self._pool or Pool(_HASHERS, "nbckpt-hash")
            self._hashes.append(self._pool.submit(work))
            self._tasks.append(self._hashes[-1])

    def _await(self, progress: Progress | None) -> None:
        """Wait for the tasks, including tasks that tasks start. The first failure stops the others."""
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
