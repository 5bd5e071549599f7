"""Members: the distinct objects of a namespace, each pickled alone.

A member keeps its record until it is known whether it shares objects with other members. Then all of them are
pickled again, together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from mmap import mmap
from types import CellType, CodeType, FunctionType
from typing import Any
from weakref import ReferenceType

from nbckpt.core.depth import deeply
from nbckpt.core.manifest import Skipped
from nbckpt.core.packs.content import Stored
from nbckpt.core.packs.pools import others_run
from nbckpt.core.packs.writer import Packer
from nbckpt.core.reducers import is_made
from nbckpt.core.spans import NO_OVERLAPS, Overlaps, Span
from nbckpt.core.values.codec import Again, Pickled, dump, dump_plain
from nbckpt.core.values.diagnose import blame
from nbckpt.core.values.preview import picture_of
from nbckpt.core.values.proof import pickle_and_prove, prove
from nbckpt.core.values.record import KEPT, Record
from nbckpt.core.values.sizes import rough_size

_LARGE = 1 << 20
_CONSTANT = frozenset({str, bytes})
_DEFINITIONS = (type, FunctionType, CodeType, CellType)
_MOST_TRIES = 3
MOST_KEPT, _ALWAYS_KEPT = 16 << 20, 4 << 10
"""The most bytes of all kept records together, and the size of a record that is always kept."""

_STEP = 8 << 20
"""The most bytes of a record that is made in one step while other threads of the user run."""


@dataclass(slots=True)
class Member:
    """One distinct object, with all names that are bound to it. See `Print` about `links` and `root`."""

    names: list[str]
    value: Any
    pickled: Pickled
    record: Record
    stored: list[Stored]
    hash: bytes
    links: Sequence[int] = ()
    root: ReferenceType[Any] | None = None

    def digest(self, digest: Callable[[bytes], bytes]) -> str:
        """Return the digest of the value: of its record's digest, and of those of its memory."""
        names = [name for stored in self.stored for name in stored.digests]
        return digest(b"".join([self.hash, *names])).hex()[:32]

    def release(self) -> None:
        """Forget everything that `Captured` does not need, so the garbage collector has less to search."""
        del self.value, self.pickled, self.record


@dataclass
class Taker:
    """Hands each range of memory to the packer once, however many records refer to it.

    The spans are kept alive. Otherwise another object could reuse the address of a temporary one.

    Attributes:
        left: The variables that are not saved. A record lends those definitions that its load needs.
        kept: The number of bytes of kept records.
        is_alone: Whether no other thread of the user runs.
    """

    packer: Packer
    left: frozenset[str] = frozenset()
    taken: dict[tuple[int, int], tuple[Stored, Span]] = field(default_factory=dict)
    kept: int = 0
    is_alone: bool = field(default_factory=lambda: not others_run())

    def __call__(self, span: Span) -> Stored:
        """Hand over a range of memory, and return where it goes."""
        key = (span.address, span.size)
        if key not in self.taken:
            self.taken[key] = self.packer.add(span.view), span
        return self.taken[key][0]

    def dump(
        self,
        values: list[Any],
        namespace: dict[str, Any],
        overlaps: Overlaps = NO_OVERLAPS,
        visited: list[object] | None = None,
    ) -> tuple[Pickled, Record]:
        """Return `dump` of the values. Try again if another thread changes a container meanwhile."""
        if (plain := dump_plain(values)) is not None:
            return plain, self._written(Record(self.packer, KEPT), plain)
        in_pieces = self.is_alone or _CONSTANT.issuperset(map(type, values))
        make = partial(dump, values, namespace, overlaps, left=self.left, visited=visited)
        pickled, record = deeply(partial(self._dump, make, in_pieces=in_pieces))
        if again := pickled.again or (Again() if record.has_nan else None):
            pickled, record = deeply(partial(self._dump, partial(make, again=again), in_pieces=in_pieces))
        return pickled, self._written(record, pickled)

    def _written(self, record: Record, pickled: Pickled) -> Record:
        """Write what is not in the record yet."""
        if pickled.record:
            record.write(pickled.record)
            pickled.record = b""
        self.kept += len(record.kept)
        return record

    def _dump(self, make: Callable[..., Pickled], *, in_pieces: bool) -> tuple[Pickled, Record]:
        most = KEPT if self.kept < MOST_KEPT else _ALWAYS_KEPT
        for tries in range(1, _MOST_TRIES + 1):
            record = Record(self.packer, most)
            try:
                if in_pieces:
                    pickled = make(record.write)
                else:
                    pickled = make() if tries == _MOST_TRIES else self._dump_beside(make, record)
                break
            except RuntimeError as error:
                if tries == _MOST_TRIES or not _is_changing(error):
                    raise
        record.write(pickled.record)
        pickled.record = b""
        return pickled, record

    def _dump_beside(self, make: Callable[..., Pickled], record: Record) -> Pickled:
        """Pickle into *record* what other threads may change meanwhile. See docs/decisions/0061.

        Raises:
            RuntimeError: It changed.
        """
        with suppress(ValueError):  # it is too long, or the error is the value's own and comes again
            self._step.seek(0)
            pickled = make(self._step.write, in_one_step=True)
            with memoryview(self._step) as step, step[: self._step.tell()] as piece:
                record.write(piece)
            return pickled
        pickled = make(record.write)
        again = self.packer.algorithms.hasher()
        make(again.update)
        if again.digest() != record.digest():
            raise RuntimeError("the value changed during iteration")
        return pickled

    @cached_property
    def _step(self) -> mmap:
        """Memory for a record that is made in one step. No thread runs while it takes a piece."""
        return mmap(-1, _STEP)

    def whole(self, pickled: Pickled) -> list[Stored]:
        """Hand over all memory of a record, and release memory that was made only for the record."""
        stored = []
        for at, span in enumerate(pickled.buffers):
            if is_made(span.view):
                # Another object may reuse its address, so it gets an address that no object can have.
                pickled.buffers[at] = Span(-1 - len(self.taken), span.size, memoryview(b""))
                self.taken[pickled.buffers[at].address, span.size] = (
                    self.packer.add(span.view, lent=False),
                    pickled.buffers[at],
                )
            stored.append(self(pickled.buffers[at]))
        return stored


def pickle_each(
    items: Mapping[str, Any],
    namespace: dict[str, Any],
    take: Taker,
    skipped: list[Skipped],
    pictures: dict[str, Stored],
) -> list[Member]:
    """Pickle every distinct object alone, the largest first, so that the disk has work early.

    Objects that cannot be pickled are added to *skipped*, and pictures of figures to *pictures*.
    """
    by_identity: dict[int, list[str]] = {}
    for name, value in items.items():
        by_identity.setdefault(id(value), []).append(name)
    arrays, frames, others = _by_size(by_identity.values(), items)
    members: dict[str, Member] = {}

    def pickle_one(names: list[str]) -> None:
        if member := _pickle_one(names, items[names[0]], namespace, take, skipped):
            members[names[0]] = member

    for names in arrays:
        pickle_one(names)
        # Pickling holds the GIL, and hashing needs it often, so the two run one after the other. Writing
        # hardly needs it and continues. See docs/decisions/0012.
        take.packer.settle()
    # Drawing changes caches inside a figure, so it comes before pickling: see docs/decisions/0005.
    _draw({names[0]: items[names[0]] for names in others}, pictures, take.packer)
    # The frames come last: the joined strings stay in memory until they are written, see docs/decisions/0014.
    for names in (*others, *frames):
        pickle_one(names)
    return [members[names[0]] for names in by_identity.values() if names[0] in members]


def _pickle_one(
    names: list[str], value: Any, namespace: dict[str, Any], take: Taker, skipped: list[Skipped]
) -> Member | None:
    """Return the object as a member, or None if it cannot be pickled."""
    visited: list[object] = []
    try_again: Callable[..., object] = dump
    try:
        pickled, record = take.dump([value], namespace, visited=visited)
        loaded = None
        if pickled.first and record.size <= KEPT:
            visited = [part for part in pickled.first.values() if not isinstance(part, _DEFINITIONS)]
            try_again = pickle_and_prove
            loaded = prove(pickled, record.whole, namespace)
        if loaded is not None and (back := type(loaded[0]).__qualname__) != type(value).__qualname__:
            pickled.notes.append((value, f"comes back as another type, {back}"))
    except Exception as error:  # noqa: BLE001  a value's own pickling may raise anything; the others are saved
        path, reason = names[0], why_changing(error)
        if not _is_changing(error):
            path, reason = blame(names[0], value, error, visited, partial(try_again, namespace=namespace))
        skipped += [Skipped(name, path, reason) for name in names]
        return None
    stored = take.whole(pickled)
    return Member(names, value, pickled, record, stored, record.digest())


def _is_changing(error: BaseException) -> bool:
    """Tell whether pickling failed because another thread changed a container meanwhile."""
    return isinstance(error, RuntimeError) and str(error).endswith("during iteration")


def why_changing(error: BaseException) -> str:
    """Return why pickling failed, and what to do if another thread changed the value."""
    if not _is_changing(error):
        return f"{type(error).__name__}: {error}"
    return f"it changed while it was saved, {_MOST_TRIES} times ({error}): save it when nothing writes to it"


def _by_size(
    objects: Iterable[list[str]], items: Mapping[str, Any]
) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """Return the names of the large arrays and of the large frames, both largest first, and of the others."""
    arrays: list[tuple[int, list[str]]] = []
    frames: list[tuple[int, list[str]]] = []
    others: list[list[str]] = []
    for names in objects:
        value = items[names[0]]
        size = rough_size(value)
        if size < _LARGE:
            others.append(names)
        else:
            (arrays if hasattr(value, "nbytes") else frames).append((size, names))
    for sized in (arrays, frames):
        sized.sort(key=lambda pair: -pair[0])
    return [names for _, names in arrays], [names for _, names in frames], others


def _draw(values: Mapping[str, Any], pictures: dict[str, Stored], packer: Packer) -> None:
    for name, value in values.items():
        if picture := picture_of(value):
            pictures[name] = packer.add(picture)
