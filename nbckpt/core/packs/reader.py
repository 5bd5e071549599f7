"""Reader: turns packs into checked bytes. A `Mapper` maps large buffers from their files."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import copy_context
from itertools import accumulate, chain, islice
from typing import TypeVar

from nbckpt.core.packs.content import Content, Run
from nbckpt.core.packs.format import Blob, pack_key, parse_index, total
from nbckpt.core.packs.mapper import Mapper, check
from nbckpt.core.packs.mapping import MAPS
from nbckpt.core.packs.pools import InlineExecutor, Pool
from nbckpt.core.packs.relocation import find_index
from nbckpt.core.packs.stretches import after, apart, stretches
from nbckpt.errors import CorruptError, NbckptError, NotFoundError, RefusedError, StoreError, UsageError
from nbckpt.store import Buffer, Store

CHECKERS = 2
"""The number of threads that check mapped bytes."""

AT_ONCE = 8
_MOST_INDEXES = 1024

_Unread = tuple[memoryview, list[Blob]]
"""Blobs, and the memory allocated for them."""

_A = TypeVar("_A")
_T = TypeVar("_T")


_GONE = -(1 << 100)


class _GoneError(CorruptError):
    """A pack whose index was read is gone."""

    def __init__(self, pack: str, url: str) -> None:
        super().__init__(f"pack {pack[:12]} is missing from {url}")
        self.pack = pack


class Reader:
    """Reads blobs from a store, and from the packs that a manifest carries *inline*.

    Attributes:
        mapping: Whether large buffers may be mapped. Otherwise they are read.
    """

    def __init__(
        self, store: Store, inline: Mapping[str, bytes] | None = None, *, mapping: bool = True
    ) -> None:
        self.store = store
        self.mapping = mapping and MAPS
        self._inline = dict(inline or {})
        self._indexes: dict[str, list[Blob | None]] = {}
        self._sums: dict[str, list[int]] = {}
        self._mapper = Mapper(store, self._inline)

    @property
    def is_far(self) -> bool:
        """Whether the store has no local files, so that several reads are under way at once."""
        try:
            return self.store.path(pack_key("0" * 64)) is None
        except RefusedError:  # a link leads out of the store: a read of a pack says so
            return False

    def carrying(self, inline: Mapping[str, bytes]) -> Reader:
        """Return a reader that also has these packs. The two share the indexes that they read.

        Only one thread at a time may use either of them.
        """
        if len(self._indexes) > _MOST_INDEXES:
            self._indexes.clear()
            self._sums.clear()
        reader = Reader(self.store, self._inline | dict(inline), mapping=self.mapping)
        reader._indexes, reader._sums = self._indexes, self._sums
        return reader

    def blobs(self, runs: Iterable[Run]) -> list[Blob]:
        """Return the blobs of *runs*, in order.

        Raises:
            CorruptError: A pack is missing or damaged, or has no such blob.
        """
        blobs: list[Blob] = []
        for pack, first, count in runs:
            index = self._index(pack)
            if first < 0 or count < 0 or first + count > len(index):
                raise _too_short(pack, len(index))
            for blob in index[first : first + count]:
                if blob is None:
                    raise CorruptError(f"a blob of pack {pack[:12]} is gone: it was collected")
                blobs.append(blob)
        return blobs

    def sized(self, content: Content) -> Sequence[Run]:
        """Return the runs of *content* after checking that their size matches its size.

        Raises:
            CorruptError: The sizes differ, a pack is missing or damaged, or a pack has no such blob.
        """
        size = sum(map(self.size, content.runs))
        if size != content.size:
            raise CorruptError(
                f"the packs hold {size} bytes where the manifest names {content.size}"
                if size >= 0
                else "a blob that the manifest names is gone: it was collected"
            )
        return content.runs

    def size(self, run: Run) -> int:
        """Return the number of bytes of a run; a negative number if a blob is gone.

        Raises:
            CorruptError: The pack is missing or damaged, or has no such blob.
        """
        pack, first, count = run
        sums = self._sums_of(pack)
        if first + count >= len(sums):
            raise _too_short(pack, len(sums) - 1)
        return sums[first + count] - sums[first]

    def read(self, runs: Sequence[Run]) -> bytes:
        """Return the bytes of *runs*, checked."""
        return b"".join(self.parts(runs))

    def parts(self, runs: Sequence[Run]) -> list[Buffer]:
        """Return the bytes of *runs* blob by blob, checked, without a copy of them together."""
        return self._settled(lambda: [*self._decoded([self.blobs(runs)])])

    def chunks(self, *wanted: Sequence[Run]) -> Iterator[Buffer]:
        """Yield the checked bytes of each of *wanted* blob by blob. Neighbours are fetched together."""
        for runs in wanted:
            self.blobs(runs)  # raises before the first chunk is asked for
        return self._chunks(wanted)

    def _chunks(self, wanted: Sequence[Sequence[Run]]) -> Iterator[Buffer]:
        gone: set[str] = set()
        done = 0
        while True:
            try:
                lists = list(map(self.blobs, wanted))
                for chunk in self._decoded(apart(enumerate(after(done, lists)))):
                    yield chunk
                    done += 1
                return
            except _GoneError as error:  # the blobs are in the same order elsewhere
                self._look_again(error, gone)

    def load(self, runs: Sequence[Run]) -> memoryview:
        """Return the checked bytes of *runs* as new writable memory; see `load_later`."""
        with Pool(CHECKERS, "nbckpt-check") as checkers:
            memories, checks = self.load_later([runs], checkers)
            for check in checks:
                check.result()
        return memories[0]

    def load_later(
        self, wanted: Sequence[Sequence[Run]], pool: Executor | None, *, checked: int = 0
    ) -> tuple[list[memoryview], list[Future[None]]]:
        """Return the bytes of each of *wanted* as new writable memory, and the pending checks of these bytes.

        If the store has files and the blobs are raw and aligned, the files are mapped copy-on-write and not
        read. *pool* hashes them while the caller continues. Without a pool, mapped bytes are not checked. All
        other bytes are read, neighbours together, and checked before the return. The last *checked* of
        *wanted* are always read and checked this way, because they will be unpickled.

        Raises:
            CorruptError: A pack is missing or too short, or its bytes differ from the bytes that were saved.
        """
        return self._settled(lambda: self._load(wanted, pool, len(wanted) - checked))

    def load_together(self, wanted: Sequence[Sequence[Sequence[Run]]]) -> list[list[memoryview]]:
        """Return the bytes of each content of each of *wanted* as new writable memory, read and checked.

        Neighbours are read together, but a large content only with those of the same one of *wanted*.

        Raises:
            CorruptError: A pack is missing or too short, or its bytes differ from the bytes that were saved.
        """
        return self._settled(lambda: self._load_together(wanted))

    def _load_together(self, wanted: Sequence[Sequence[Sequence[Run]]]) -> list[list[memoryview]]:
        unread = [[_allocated(self.blobs(runs)) for runs in contents] for contents in wanted]
        self._fill(unread)
        return [[memory for memory, _ in contents] for contents in unread]

    def _load(
        self, wanted: Sequence[Sequence[Run]], pool: Executor | None, mappable: int
    ) -> tuple[list[memoryview], list[Future[None]]]:
        memories: list[memoryview] = []
        checks: list[Future[None]] = []
        unread: list[_Unread] = []
        for at, runs in enumerate(wanted):
            blobs = self.blobs(runs)
            region = self._map(blobs) if at < mappable else None
            if region is None:
                unread.append(_allocated(blobs))
                memory = unread[-1][0]
            else:
                memory = memoryview(region)
                checks += check(region, memory, blobs, pool) if pool else []
            memories.append(memory)
        self._fill([unread])
        return memories, checks

    def _fill(self, unread: Sequence[Sequence[_Unread]]) -> None:
        """Read blobs into the memory allocated for them."""
        parts = [(at, memory, blobs) for at, several in enumerate(unread) for memory, blobs in several]
        parts.sort(key=lambda part: [(blob.pack, blob.offset) for blob in part[2][:1]])
        chunks = self._decoded(apart((at, blobs) for at, _, blobs in parts))
        for _, memory, blobs in parts:
            at = 0
            for _ in blobs:
                chunk = next(chunks)
                memory[at : at + len(chunk)] = chunk
                at += len(chunk)

    def _decoded(self, lists: Iterable[Iterable[Blob]]) -> Iterator[Buffer]:
        """Yield the decoded blobs of *lists*. No read has blobs of two lists."""
        reads = chain.from_iterable(map(stretches, lists))
        for stretch, fetched in self._side_by_side(self._fetch, reads):
            start, data = stretch[0].offset, memoryview(fetched)
            for blob in stretch:
                yield blob.decode(data[blob.offset - start : blob.offset - start + blob.stored])

    def _side_by_side(self, fetch: Callable[[_A], _T], items: Iterable[_A]) -> Iterator[tuple[_A, _T]]:
        """Yield each item with the result of *fetch* for it, in order.

        Over a network, several are fetched ahead. Together they take at most 64 MiB.
        """
        rest = iter(items)
        first_two = list(islice(rest, 2))
        at_once = AT_ONCE if len(first_two) > 1 and self.is_far else 1
        ahead: deque[tuple[_A, Future[_T]]] = deque()
        pool = Pool(at_once, "nbckpt-fetch") if at_once > 1 else InlineExecutor()
        try:
            for item in chain(first_two, rest):
                ahead.append((item, pool.submit(copy_context().run, fetch, item)))
                if len(ahead) == at_once:
                    first, fetched = ahead.popleft()
                    yield first, fetched.result()
            for item, fetched in ahead:
                yield item, fetched.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def look_up(self, packs: Iterable[str]) -> None:
        """Read the indexes of packs, several at once. An error is raised when the pack is used."""

        def look(pack: str) -> None:
            with suppress(NbckptError):
                self._index(pack)

        deque(self._side_by_side(look, [pack for pack in packs if pack not in self._indexes]), maxlen=0)

    def _map(self, blobs: list[Blob]) -> mmap.mmap | None:
        """Map the blobs into one range, or return None if they have to be read."""
        if not self.mapping:
            return None
        try:
            return self._mapper.map(blobs)
        except NotFoundError:
            gone = (blob.pack for blob in blobs if not self.store.exists(blob.key))
            raise _GoneError(next(gone, blobs[0].pack), self.store.url) from None

    def _sums_of(self, pack: str) -> list[int]:
        """Return the total sizes of the first 0, 1, 2 … blobs of a pack; negative from a missing blob on."""
        if pack not in self._sums:
            sizes = (blob.size if blob else _GONE for blob in self._index(pack))
            self._sums[pack] = list(accumulate(sizes, initial=0))
        return self._sums[pack]

    def _index(self, pack: str) -> list[Blob | None]:
        if pack not in self._indexes:
            try:
                carried = self._inline.get(pack)
                self._indexes[pack] = (
                    list(parse_index(carried, pack)) if carried else find_index(self.store, pack)
                )
            except (NotFoundError, UsageError):
                raise CorruptError(f"pack {pack[:12]} is missing from {self.store.url}") from None
        return self._indexes[pack]

    def _settled(self, work: Callable[[], _T]) -> _T:
        """Do *work*, and repeat it if a pack is gone: a collector may have compacted the pack."""
        gone: set[str] = set()
        while True:
            try:
                return work()
            except _GoneError as error:
                self._look_again(error, gone)
            except MemoryError:
                raise StoreError("there is not enough memory for these values. Read fewer at once") from None

    def _look_again(self, error: _GoneError, gone: set[str]) -> None:
        """Forget the places of all blobs, and a cached copy of the pack that is gone. Add it to *gone*.

        Raises:
            _GoneError: It was in *gone* before, so its blobs are nowhere else.
        """
        if error.pack in gone:
            raise error
        gone.add(error.pack)
        self.store.forget(pack_key(error.pack))
        self._indexes.clear()
        self._sums.clear()

    def _fetch(self, stretch: list[Blob]) -> bytes:
        first = stretch[0]
        start, stop = first.offset, max(blob.offset + blob.stored for blob in stretch)
        if first.pack in self._inline:
            return self._inline[first.pack][start:stop]
        try:
            return self.store.get(first.key, start, stop)
        except NotFoundError:
            raise _GoneError(first.pack, self.store.url) from None


def _too_short(pack: str, count: int) -> CorruptError:
    return CorruptError(f"pack {pack[:12]} has {count} blobs, not those that the manifest names")


def _allocated(blobs: list[Blob]) -> _Unread:
    return memoryview(bytearray(total(blobs))), blobs
