"""Reader: packs in, bytes out, checked; large buffers by mapping their files."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack

from nbckpt.core.mapping import MAPS, MOST_PIECES, overlay, prefault, reserve
from nbckpt.core.moved import find_index
from nbckpt.core.pack import PAGE, RAW, Blob, digest, pack_key, parse_index, total
from nbckpt.core.packer import Run
from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.store import Buffer, Store

CHECKERS = 2
"""How many threads check what was mapped."""

_CHECK_STEP = 8 << 20
_READ_STEP = 8 << 20


class Reader:
    """Reads blobs of a store, and of the packs that a manifest carries *inline*.

    Attributes:
        mapping: Whether large buffers may be mapped; without it they are read.
    """

    def __init__(
        self, store: Store, inline: Mapping[str, bytes] | None = None, *, mapping: bool = True
    ) -> None:
        self.store = store
        self.mapping = mapping and MAPS
        self._inline = dict(inline or {})
        self._indexes: dict[str, list[Blob | None]] = {}

    def carrying(self, inline: Mapping[str, bytes]) -> Reader:
        """Return a reader that has these packs too."""
        return Reader(self.store, self._inline | dict(inline), mapping=self.mapping)

    def blobs(self, runs: Iterable[Run]) -> list[Blob]:
        """Return the blobs of *runs* in order.

        Raises:
            CorruptError: A pack is missing or damaged, or has no such blob.
        """
        found: list[Blob] = []
        for pack, first, count in runs:
            index = self._index(pack)
            if first < 0 or count < 0 or first + count > len(index):
                raise CorruptError(
                    f"pack {pack[:12]} has {len(index)} blobs, not those that the manifest names"
                )
            for blob in index[first : first + count]:
                if blob is None:
                    raise CorruptError(f"a blob of pack {pack[:12]} is gone: it was collected")
                found.append(blob)
        return found

    def read(self, runs: Sequence[Run]) -> bytes:
        """Return the bytes of *runs*, checked."""
        return b"".join(self.chunks(runs))

    def chunks(self, runs: Sequence[Run]) -> Iterator[Buffer]:
        """Yield the bytes of *runs* blob by blob, checked; neighbours are fetched together."""
        return self._decoded(self.blobs(runs))

    def load(self, runs: Sequence[Run]) -> memoryview:
        """Return the bytes of *runs* as writable memory of their own, checked; see `load_later`."""
        with ThreadPoolExecutor(CHECKERS, thread_name_prefix="nbckpt-check") as pool:
            memories, checks = self.load_later([runs], pool)
            for check in checks:
                check.result()
        return memories[0]

    def load_later(
        self, wanted: Sequence[Sequence[Run]], pool: Executor | None
    ) -> tuple[list[memoryview], list[Future[None]]]:
        """Return for each of *wanted* its bytes as writable memory of its own, and the checks of them.

        Where the store has files and the blobs are raw and aligned, nothing is read: the files are
        mapped copy-on-write, and hashed by *pool* while the caller goes on; without a pool they are
        not checked. Elsewhere the bytes are read, neighbours together, and checked at once.

        Raises:
            CorruptError: A pack is missing, too short, or its bytes are not the ones that were saved.
        """
        memories: list[memoryview] = []
        checks: list[Future[None]] = []
        unread: list[tuple[memoryview, list[Blob]]] = []
        for runs in wanted:
            blobs = self.blobs(runs)
            region = self._map(blobs)
            if region is None:
                memory = memoryview(bytearray(total(blobs)))
                unread.append((memory, blobs))
            else:
                memory = memoryview(region)
                checks += _check(region, memory, blobs, pool) if pool else []
            memories.append(memory)
        self._fill(unread)
        return memories, checks

    def _fill(self, unread: Sequence[tuple[memoryview, list[Blob]]]) -> None:
        """Read blobs into the memory that waits for them."""
        chunks = self._decoded(blob for _, blobs in unread for blob in blobs)
        for memory, blobs in unread:
            at = 0
            for _ in blobs:
                chunk = next(chunks)
                memory[at : at + len(chunk)] = chunk
                at += len(chunk)

    def _decoded(self, blobs: Iterable[Blob]) -> Iterator[Buffer]:
        for stretch in _stretches(blobs):
            start, stop = stretch[0].offset, stretch[-1].offset + stretch[-1].stored
            data = memoryview(self._fetch(stretch[0].pack, start, stop))
            for blob in stretch:
                yield blob.decode(data[blob.offset - start : blob.offset - start + blob.stored])

    def _map(self, blobs: list[Blob]) -> mmap.mmap | None:
        """Map the blobs into one range; None where they have to be read."""
        if not self._can_map(blobs):
            return None
        pieces = list(_stretches(blobs))
        if len(pieces) > MOST_PIECES:
            return None
        try:
            return self._mapped(pieces, total(blobs))
        except NotFoundError as error:
            raise CorruptError(str(error)) from None
        except OSError:  # the system refused
            return None

    def _can_map(self, blobs: list[Blob]) -> bool:
        return (
            self.mapping
            and bool(blobs)
            and all(it.codec == RAW and it.offset % PAGE == 0 and it.pack not in self._inline for it in blobs)
            and self.store.path(pack_key(blobs[0].pack)) is not None
        )

    def _mapped(self, pieces: list[list[Blob]], size: int) -> mmap.mmap:
        region = reserve(size)
        with ExitStack() as opened:
            files: dict[str, int] = {}
            spans = []
            at = 0
            for piece in pieces:
                pack = piece[0].pack
                if pack not in files:
                    files[pack] = opened.enter_context(_descriptor(self.store, pack))
                length = sum(blob.stored for blob in piece)
                _require(files[pack], piece[-1])
                spans.append((at, files[pack], piece[0].offset, length))
                at += length
            overlay(region, spans)
        return region

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

    def _fetch(self, pack: str, start: int, stop: int) -> bytes:
        if pack in self._inline:
            return self._inline[pack][start:stop]
        try:
            return self.store.get(pack_key(pack), start, stop)
        except NotFoundError:
            raise CorruptError(f"pack {pack[:12]} is missing from {self.store.url}") from None


class _descriptor:  # noqa: N801  used as a function
    """A file descriptor of a pack, closed at the end of the block."""

    def __init__(self, store: Store, pack: str) -> None:
        path = store.path(pack_key(pack))
        if path is None:
            raise OSError(f"{store.url} has no files")
        try:
            self._fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise NotFoundError(f"pack {pack[:12]} is missing from {store.url}") from None

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _require(fd: int, last: Blob) -> None:
    """Touching mapped memory past a file's end kills the process: make sure that it is all there."""
    if os.fstat(fd).st_size < last.offset + last.stored:
        raise last.damage()


def _stretches(blobs: Iterable[Blob]) -> Iterator[list[Blob]]:
    """Yield *blobs* in lists that lie in one pack without gaps, none longer than a read should be."""
    stretch: list[Blob] = []
    size = 0
    for blob in blobs:
        last = stretch[-1] if stretch else None
        if last and (
            last.pack != blob.pack or last.offset + last.stored != blob.offset or size >= _READ_STEP
        ):
            yield stretch
            stretch, size = [], 0
        stretch.append(blob)
        size += blob.stored
    if stretch:
        yield stretch


def _check(
    region: mmap.mmap, memory: memoryview, blobs: Sequence[Blob], pool: Executor
) -> list[Future[None]]:
    """Have the mapped bytes hashed, a few megabytes at a time."""
    checks: list[Future[None]] = []
    at = size = 0
    mine: list[Blob] = []
    for blob in blobs:
        mine.append(blob)
        size += blob.size
        if size >= _CHECK_STEP:
            checks.append(pool.submit(_check_part, region, memory, at, mine))
            at, size, mine = at + size, 0, []
    if mine:
        checks.append(pool.submit(_check_part, region, memory, at, mine))
    return checks


def _check_part(region: mmap.mmap, memory: memoryview, at: int, blobs: Sequence[Blob]) -> None:
    prefault(region, at, total(blobs))
    for blob in blobs:
        if digest(memory[at : at + blob.size]) != blob.digest:
            raise blob.damage()
        at += blob.size
