"""Codec: turns values into records with the memory of their arrays beside them, and back.

A record is a pickle of protocol 5. Large memory is not in the record. It is handed over as *spans*, which are
views of the objects' own memory, so that nothing is copied. The pickler also reports which objects it
visited: `links` are the mutable objects that a record reaches.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
import types
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from nbckpt.core import reducers
from nbckpt.core.definitions import lending, live_namespace
from nbckpt.core.spans import NO_OVERLAPS, Overlaps, Span, address_of
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.identities import MOST_NUMBERED, holds_nan, is_container
from nbckpt.core.values.lending import Lending, needed
from nbckpt.core.values.links import links_of
from nbckpt.core.values.pickler import Pickler
from nbckpt.core.values.texts import is_long_text, pickled_text
from nbckpt.store import Buffer

_MANY = 200_000
_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None)})
_SHORT, _FEW = 1000, 100
SMALL = 4 << 10
"""Memory smaller than this stays in the record, unless another array shares it."""


@dataclass(frozen=True, slots=True)
class Again:
    """How a value must be pickled a second time.

    Attributes:
        lent: The definitions that its load needs; see `lending`.
    """

    lent: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Pickled:
    """A value as a record.

    Attributes:
        record: The pickle. Empty if it went to `write`.
        buffers: The memory beside the record, in the order of the record's references.
        reached: All memory that the value's arrays use, including memory that is copied into the record.
        pointers: The memory of its arrays of objects.
        links: The mutable objects that the value reaches, and its NaNs.
        class_links: The links that the value reaches through a class of the notebook. A load makes each class
            once, for any number of records, so these objects stay shared without being in one record.
        owners: The links that have memory of their own in the record.
        functions: The functions that are saved without the namespace.
        notes: The parts that will not be restored completely, each with the loss.
        plain: Whether the value is short and consists of built-in types only.
        first: The first object of each type that pickle does not know itself.
        again: How the value must be pickled a second time, if it must.
    """

    record: bytes
    buffers: list[Span] = field(default_factory=list)
    reached: list[Span] = field(default_factory=list)
    pointers: list[Span] = field(default_factory=list)
    links: list[object] = field(default_factory=list)
    class_links: list[object] = field(default_factory=list)
    owners: list[Any] = field(default_factory=list)
    functions: list[types.FunctionType] = field(default_factory=list)
    notes: list[tuple[object, str]] = field(default_factory=list)
    plain: bool = False
    first: dict[type, Any] = field(default_factory=dict)
    again: Again | None = None

    @property
    def memory(self) -> list[Span]:
        """All memory through which the value can share elements or objects with another one."""
        return self.reached + self.pointers


def dump(
    value: Any,
    namespace: dict[str, Any],
    overlaps: Overlaps = NO_OVERLAPS,
    write: Callable[[bytes], object] | None = None,
    *,
    in_one_step: bool = False,
    left: Container[str] = (),
    again: Again | None = None,
    visited: list[object] | None = None,
) -> Pickled:
    """Turn *value* into a record. If *write* is given, it takes the pieces of all but short plain records.

    Functions whose globals are *namespace* are saved without it. Small memory goes into the record unless
    *overlaps* says that it is shared. *in_one_step*, handing over a piece runs no code except *write*. The
    record lends its load the definitions that it needs if they are in *left*: names that are not saved beside
    it. If *write* is given, the record may have to be pickled *again*; see `Pickled.again`. *visited* becomes
    the objects that it visited, in order, also if it fails.

    Raises:
        Exception: Any exception that the value's own pickling raises.
    """
    if again is None and (simple := _dump_simple(value, write)) is not None:
        return simple
    chunks, memory = list[bytes](), _Memory(overlaps)
    pickler = Pickler(
        write or chunks.append,
        namespace,
        overlaps,
        memory.take,
        in_pieces=write is not None and not in_one_step,
        keeps_identities=again is not None,
        visited=visited,
    )
    with paused_gc():
        pickler.dump(Lending(again.lent, value) if again and again.lent else value)
        links, class_links, has_containers = links_of(pickler.seen, pickler.classes)
    links += pickler.nans
    _forget(pickler)
    owners, record = _owners(links), b"".join(chunks)
    second = None if again else _second(pickler, record, namespace, left, has_containers)
    if write is None and second:
        return dump(value, namespace, overlaps, again=second, visited=visited)
    return Pickled(
        record,
        memory.beside,
        [*memory.reached, *_memory_of(owners), *pickler.reach],
        pickler.pointers,
        links,
        class_links,
        owners,
        pickler.functions,
        pickler.notes,
        first=pickler.first,
        again=second,
    )


def _second(
    pickler: Pickler,
    record: bytes,
    namespace: dict[str, Any],
    left: Container[str],
    has_containers: bool,  # noqa: FBT001  a fact, not a switch
) -> Again | None:
    lent = needed(pickler.first, pickler.calls, namespace, left)
    has_nan = len(record) <= MOST_NUMBERED and holds_nan(record)
    return Again(lent) if has_containers or has_nan or lent else None


class _Memory:
    """The memory of one value: all of it, and that which goes beside the record."""

    def __init__(self, overlaps: Overlaps) -> None:
        self._overlaps = overlaps
        self.beside: list[Span] = []
        self.reached: list[Span] = []

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """Take the next buffer. Tell whether it stays in the record."""
        view = buffer.raw()
        span = Span(address_of(view), len(view), view)
        if span.size and not reducers.is_made(view):
            self.reached.append(span)
        # Shared memory never goes into the record: see docs/decisions/0004.
        if span.size < SMALL and not self._overlaps.covers(span.address, span.end):
            return True
        self.beside.append(span)
        return False


def _owners(links: list[object]) -> list[Any]:
    kinds = set(filter(reducers.is_owner, set(map(type, links))))
    return [link for link in links if type(link) in kinds] if kinds else []


def _forget(pickler: Pickler) -> None:
    """Free the memory of a long pickling."""
    if len(pickler.seen) + pickler.sieve.forgotten > _MANY:
        pickler.seen.clear()
        pickler.clear_memo()
        _give_back()  # see docs/decisions/0014


def _memory_of(owners: list[Any]) -> list[Span]:
    views = [memoryview(owner) for owner in owners]
    return [Span(address_of(view), view.nbytes, memoryview(b"")) for view in views]


def _dump_simple(value: Any, write: Callable[[bytes], object] | None) -> Pickled | None:
    """Return the record of a short plain value or of a long text, and None for any other value."""
    if (plain := dump_plain(value)) is not None:
        return plain
    if not is_long_text(value):
        return None
    pieces = pickled_text(value[0])
    if write is None:
        return Pickled(b"".join(pieces))
    for piece in pieces:
        write(piece)
    return Pickled(b"")


def dump_plain(value: Any) -> Pickled | None:
    """Return the record of a short plain value, and None for any other value."""
    if (links := plain_links(value)) is None:
        return None
    record = pickle.dumps(value, 5)
    return None if holds_nan(record) else Pickled(record, links=links, plain=True)


def plain_links(value: Any) -> list[object] | None:
    """Return the links of a short list of plain values and short containers of them, else None.

    Such a list is pickled without nbckpt's pickler, which costs more to create than thousands of such values.
    """
    if type(value) is not list or len(value) != 1:
        return None
    (only,) = value
    if type(only) in _ATOMS:
        return [] if not isinstance(only, (str, bytes)) or len(only) < _SHORT else None
    if type(only) not in (list, tuple, dict) or len(only) > _FEW or is_container(only):
        return None
    parts = [*only, *only.values()] if type(only) is dict else only
    plain = all(
        type(part) in _ATOMS and (type(part) not in (str, bytes) or len(part) < _SHORT) for part in parts
    )
    return [only] * (type(only) is not tuple) if plain else None


def load(
    record: Buffer,
    buffers: Sequence[memoryview],
    namespace: dict[str, Any] | None = None,
    classes: Classes | None = None,
) -> Any:
    """Turn a record into its value. This runs code that the record names.

    Functions of a notebook read and write *namespace*, by default the namespace of the running program. Its
    classes come from *classes*, by default the live ones. Live classes are never changed.
    """
    with live_namespace(namespace), lending(), paused_gc():
        return (classes or Classes()).load(record, buffers)


def _give_back() -> None:
    """Return free memory to the system, if the C library can. A long pickling leaves 20 MiB unused."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the cyclic garbage collector while many objects are made, which is 4 times faster."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
