"""Packer: bytes in, packs out. Hashing and writing overlap, and nothing is copied or written twice.

Buffers are cut into blobs of a fixed size. Two threads hash them; what the store lacks is gathered
into packs; four threads put the packs, so that copying, writing and waiting for the disk overlap.
(One file written by one thread leaves the disk idle while it copies, and copies nothing while it syncs.)
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from nbckpt.core.algorithms import PREFERRED, Algorithms
from nbckpt.core.pack import (
    PACK_SIZE,
    RAW,
    Piece,
    build,
    compressed,
    pack_key,
    pack_of,
    read_index,
    salt,
)
from nbckpt.core.pools import Pool
from nbckpt.errors import CorruptError, FormatError, NotFoundError, UsageError
from nbckpt.store import Buffer, Store

Run = tuple[str, int, int]
"""A pack's id, the place of the first blob in it, and how many follow: a stretch of blobs."""

Progress = Callable[[int, int], None]
"""Called now and then, in the thread that saves or restores, with the bytes done and in all."""

INLINE_SIZE = 16 << 10
"""A save whose new blobs are smaller than this carries its pack inside the manifest."""

ALIGNED_SIZE = 64 << 10
"""A buffer of this size or more is kept raw and on page boundaries, so that it can be mapped."""

_BLOB, _LARGE_BLOB, _LARGE = 256 << 10, 1 << 20, 1 << 30
_RECORD_BLOB = 1 << 20
_STRETCH = 4 << 20
_MUCH = 256 << 20
_HASHERS, _WRITERS = 2, 4

_QUIET = frozenset({"ipykernel", "IPython", "zmq", "tqdm", "tornado"})
"""Packages whose threads live in every kernel and write to nobody's arrays."""


class Known:
    """Which blobs a store has, by digest: a cache of the packs' indexes, never the truth."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs: set[str] = set()
        self._blobs: dict[bytes, tuple[str, int]] = {}

    def refresh(self) -> None:
        """Take in the packs that came and forget those that went."""
        present = {pack_of(key) for key in self._store.keys("packs/") if key.endswith(".pack")}
        if not self._packs <= present:
            self._packs.clear()
            self._blobs.clear()
        for pack in present - self._packs:
            # A damaged pack offers nothing to share; `verify` is what reports it.
            with contextlib.suppress(NotFoundError, CorruptError, FormatError):
                self.add(pack, (blob.digest for blob in read_index(self._store, pack)))

    def forget(self, packs: Iterable[str]) -> None:
        """Offer nothing of *packs* any more."""
        gone = set(packs)
        self._packs -= gone
        self._blobs = {name: place for name, place in self._blobs.items() if place[0] not in gone}

    def add(self, pack: str, digests: Iterable[bytes]) -> None:
        """Take in one pack."""
        self._packs.add(pack)
        for place, name in enumerate(digests):
            self._blobs.setdefault(name, (pack, place))

    def find(self, name: bytes) -> tuple[str, int] | None:
        """Return the pack and the place of a blob, where the store has it."""
        return self._blobs.get(name)


@dataclass(slots=True)
class Stored:
    """Bytes handed to a packer: their digests are there once it has finished."""

    size: int
    digests: list[bytes] = field(default_factory=list)


class Packer:
    """Puts buffers into a store as packs; use it in a `with` block and call `finish` at its end.

    Until `finish` returns, the buffers must not change. After an exception in the block nothing of
    it is named by anything, and `gc` removes what was written.

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
        self._lock = threading.Lock()
        self._places: dict[bytes, tuple[str, int]] = {}
        self._open: list[Piece] = []
        self._open_names: set[bytes] = set()
        self._open_size = 0
        self._pool: Pool | None = None
        self._writers: Pool | None = None
        self._tasks: list[Future[Any]] = []
        self._hashes: list[Future[Any]] = []
        self._tickets, self._turn = 0, 1
        self._hashed: dict[int, list[Piece]] = {}
        self._lent: dict[str, list[Piece]] = {}
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

    def add(self, data: Buffer) -> Stored:
        """Take a buffer of the user's: its blobs stay raw where it is large enough to be mapped.

        A small one is copied, a large one must not change until `finish` returns.
        """
        view = memoryview(data).cast("B")
        size = len(view)
        if size < ALIGNED_SIZE:
            return self._take(memoryview(bytes(view)), _BLOB, aligned=False)
        return self._take(view, _LARGE_BLOB if size > _LARGE else _BLOB, aligned=True)

    def add_record(self, record: bytes) -> Stored:
        """Take a pickled record; its blobs are compressed where that pays."""
        return self._take(memoryview(record), _RECORD_BLOB, aligned=False)

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
        for pack in self.packs:
            self._known.add(pack, (name for name, place in self._places.items() if place[0] == pack))

    def _take(self, view: memoryview, blob: int, *, aligned: bool) -> Stored:
        stored = Stored(len(view), [b""] * -(-len(view) // blob))
        self._total += len(view)
        if len(view) <= blob:
            self._work(stored, view, 0, blob, aligned, self._ticket())
        else:
            step = max(_STRETCH, blob)
            for start in range(0, len(view), step):
                part = view[start : start + step]
                self._submit(self._work, stored, part, start // blob, blob, aligned, self._ticket())
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
        aligned: bool,  # noqa: FBT001  the pool gives it by place
        ticket: int,
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
        new = [(name, cut) for name, cut in zip(names, cuts, strict=True) if self._lacks(name)]
        pieces = [
            Piece(name, cut, len(cut), RAW, aligned=True) if aligned else compressed(cut, name, algorithms)
            for name, cut in new
        ]
        with self._lock:
            self._done += len(view) - sum(piece.size for piece in pieces)
            self._hashed[ticket] = pieces
            while self._turn in self._hashed:
                for piece in self._hashed.pop(self._turn):
                    self._place(piece)
                self._turn += 1

    def _lacks(self, name: bytes) -> bool:
        return name not in self._places and name not in self._open_names and self._known.find(name) is None

    def _place(self, piece: Piece) -> None:
        if not self._lacks(piece.digest):  # another thread brought the same bytes meanwhile
            self._done += piece.size
            return
        self._open.append(piece)
        self._open_names.add(piece.digest)
        self._open_size += len(piece.data)
        self.new_bytes += len(piece.data)
        if self._open_size >= PACK_SIZE:
            self._close_open()

    def _shut_open(self) -> tuple[str, list[Buffer], int]:
        pieces, size = self._open, sum(piece.size for piece in self._open)
        if self._salted:  # the same blobs in a pack of another id, since theirs is being collected
            pieces = [*pieces, salt(self.algorithms)]
        pack, parts = build(pieces, self.algorithms)
        self._lent[pack] = [piece for piece in pieces if piece.aligned]
        self._places.update((piece.digest, (pack, place)) for place, piece in enumerate(pieces))
        self._open, self._open_names, self._open_size = [], set(), 0
        return pack, parts, size

    def _inline_open(self) -> None:
        pack, parts, size = self._shut_open()
        self.inline[pack] = b"".join(parts)
        self._done += size

    def _close_open(self) -> None:
        pack, parts, size = self._shut_open()
        self.packs.append(pack)
        if self._writers is None:
            self._writers = Pool(_WRITERS, "nbckpt-write")
        self._tasks.append(self._writers.submit(self._put, pack, parts, size))

    def _put(self, pack: str, parts: list[Buffer], size: int) -> None:
        if self._failed.is_set():
            return
        self._store.put(pack_key(pack), parts)
        for piece in self._lent.pop(pack) if _others_run() else ():
            # Written was what the memory held then; hashed, what it held before.
            if self.algorithms.digest(piece.data) != piece.digest:
                raise UsageError(
                    "an array changed while it was saved, so nothing was saved. Stop what writes to it "
                    "(a thread?), or save a copy of it"
                )
        self._done += size

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
                progress(self._done, self._total)
            if done:
                try:
                    self._tasks[at].result()
                except BaseException:
                    self._failed.set()
                    raise
                at += 1


def _others_run() -> bool:
    """Tell whether a thread of the user's runs, which could write to an array while it is saved."""
    return any(not _is_known(thread) for thread in threading.enumerate())


def _is_known(thread: threading.Thread) -> bool:
    homes = {type(thread).__module__, getattr(getattr(thread, "_target", None), "__module__", "") or ""}
    known = any(home.partition(".")[0] in _QUIET for home in homes)
    return known or thread is threading.main_thread() or thread.name.startswith("nbckpt")
