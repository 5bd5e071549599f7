"""Loading: turns records and memory into values. It unpickles, so load only trusted data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from nbckpt.core.bytecode import ForeignCodeError
from nbckpt.core.definitions import lending, live_namespace
from nbckpt.core.manifest import Group, Manifest, Value
from nbckpt.core.packs.content import Run
from nbckpt.core.packs.pools import Pool
from nbckpt.core.packs.reader import CHECKERS, Reader
from nbckpt.core.packs.writer import Progress
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.codec import load, paused_gc
from nbckpt.core.values.placement import MissingDeviceError
from nbckpt.errors import CodecError, CorruptError, NbckptError

_SMALL, _AT_ONCE = 4 << 10, 1000
BATCH_SIZE, _SPLITS = 64 << 20, 8

_DEFINITIONS = frozenset({"module", "function", "type"})

Checks = list[Future[None]]
"""Running comparisons with digests. Each raises if the bytes are damaged."""

Contents = list[memoryview] | None
"""The checked bytes of a group's roots and record, or None if the group is to be loaded alone."""


@dataclass(frozen=True)
class Failure:
    """Variables that could not be loaded, the reason, and whether the reason is damaged bytes.

    Attributes:
        names: The variables.
        reason: The reason.
        damaged: Whether the bytes are damaged.
        device: The device that they were saved on, if the reason is that it is not here.
    """

    names: tuple[str, ...]
    reason: str
    damaged: bool = False
    device: str = ""


def load_values(
    manifest: Manifest,
    reader: Reader,
    names: Iterable[str],
    namespace: dict[str, Any] | None = None,
    *,
    classes: Classes | None = None,
    verify: bool = True,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[Failure]]:
    """Load the values with these *names*. Objects that they shared are shared again.

    If a group fails, the other groups are still loaded. Functions of a notebook will read *namespace*, which
    is not changed here. Classes come from *classes*. Records are checked before they are unpickled. The
    memory of arrays is checked in parallel, and a value is only returned after its check has passed.
    """
    wanted = set(names)
    values = [value for value in manifest.values if value.name in wanted]
    reader.look_up(manifest.packs_of(wanted))
    done = 0
    with Pool(CHECKERS, "nbckpt-check") as pool, paused_gc(), live_namespace(namespace), lending() as lend:
        groups = _Groups(manifest, reader, classes or Classes(), values, pool if verify else None)
        for order in _in_order_of_need(values, groups.sizes):
            for at, contents in with_contents(order, manifest.groups, reader):
                if groups.load(at, contents) and namespace is not None:
                    lend(groups.values_of(at))
                done += groups.sizes[at]
                if progress is not None:
                    progress(done, sum(groups.sizes.values()))
        # Code that runs while a value is loaded may need a variable that was loaded later.
        while again := [at for at in groups.failed if groups.load(at)]:
            for at in again if namespace is not None else ():
                lend(groups.values_of(at))
        groups.settle()
    loaded: dict[str, Any] = {}
    for at in groups.sizes.keys() - groups.errors.keys():
        loaded |= groups.values_of(at)
    ordered = {value.name: loaded[value.name] for value in values if value.name in loaded}
    return ordered, _failures(values, groups.errors)


class _Groups:
    """The groups of some values while they are loaded.

    Args:
        manifest: The checkpoint.
        reader: Reads the packs.
        classes: The classes of instances.
        values: The values that are wanted.
        checkers: Compares memory with its digests; None to leave that out.

    Attributes:
        sizes: The size of each group, by its number.
        errors: The error of each group that was not loaded.
    """

    def __init__(
        self,
        manifest: Manifest,
        reader: Reader,
        classes: Classes,
        values: Sequence[Value],
        checkers: Executor | None,
    ) -> None:
        python = ".".join(str(manifest.provenance.get("python", "")).split(".")[:2])
        self._manifest, self._reader, self._checkers = manifest, reader, checkers
        self._classes, self._unpickle = classes, partial(classes.load, python=python)
        self._names: dict[int, dict[str, int]] = {}
        for value in values:
            self._names.setdefault(value.group, {})[value.name] = value.slot
        self.sizes = {at: _size(manifest.groups[at]) for at in self._names}
        self.errors: dict[int, BaseException] = {}
        self._slots: dict[int, list[Any]] = {}
        self._checks: dict[int, Checks] = {}

    @property
    def failed(self) -> list[int]:
        """The groups whose loading failed in code that records name."""
        return [at for at, error in self.errors.items() if not isinstance(error, NbckptError)]

    def load(self, at: int, contents: Contents = None) -> bool:
        """Load a group. Tell whether that succeeded."""
        try:
            self._load(at, contents)
            if self._classes.adopt():
                self._load(at, contents)
        except Exception as error:  # noqa: BLE001  unpickling runs any code; the other values are still loaded
            self.errors[at] = error
            return False
        self.errors.pop(at, None)
        return True

    def _load(self, at: int, contents: Contents) -> None:
        last = max(self._names[at].values())
        group = self._manifest.groups[at]
        loaded = _load(group, self._reader, self._unpickle, self._checkers, last, contents)
        self._slots[at], self._checks[at] = loaded

    def values_of(self, at: int) -> dict[str, Any]:
        """Return the values of a loaded group, by name."""
        return {name: self._slots[at][slot] for name, slot in self._names[at].items()}

    def settle(self) -> None:
        """Wait for the comparisons with digests. A group whose bytes are damaged has failed."""
        for at, pending in self._checks.items():
            damages = [damage for check in pending if (damage := check.exception()) is not None]
            if damages:
                self.errors[at] = damages[0]


def _in_order_of_need(values: Sequence[Value], sizes: Mapping[int, int]) -> Iterator[list[int]]:
    """Yield the groups of modules, functions and classes, then the others, the largest first."""
    first = {
        value.group
        for value in values
        if value.preview.get("type") in _DEFINITIONS or "class" in value.preview
    }
    for groups in (first, sizes.keys() - first):
        yield sorted(groups, key=lambda at: -sizes[at])


def last_slots(values: Iterable[Value]) -> dict[int, int]:
    """Return the highest slot in each group that the values use."""
    return {value.group: value.slot for value in sorted(values, key=lambda value: value.slot)}


def load_group(group: Group, reader: Reader, last: int, contents: Contents = None) -> list[Any]:
    """Load the values of one group, in order, from *contents*. The group must have the slot *last*.

    Raises:
        CorruptError: The bytes differ from the bytes that were saved.
        Exception: Any exception that unpickling raises.
    """
    with Pool(CHECKERS, "nbckpt-check") as checkers:
        slots, checks = _load(group, reader, load, checkers, last, contents)
        for check in checks:
            check.result()
    return slots


def with_contents(
    order: Sequence[int], groups: Sequence[Group], reader: Reader
) -> Iterator[tuple[int, Contents]]:
    """Yield each group of *order* with its contents.

    If the store is far, many groups are read together, in the order of the save: several reads are under way
    at once, and at most 64 MiB wait to be loaded. Otherwise only small groups are, and they come last.
    """
    if reader.is_far:
        together = sorted(order)
    else:
        yield from ((at, None) for at in order if not _is_small(groups[at]))
        together = [at for at in order if _is_small(groups[at])]
    for batch in _batches(together, groups):
        yield from _read(batch, groups, reader)


def _is_small(group: Group) -> bool:
    return not group.roots and group.record.size <= _SMALL


def _batches(order: Sequence[int], groups: Sequence[Group]) -> Iterator[list[int]]:
    """Yield the groups in batches of at most 64 MiB, or one larger group."""
    batch: list[int] = []
    size = 0
    for at in order:
        size += _size(groups[at])
        if batch and (len(batch) == _AT_ONCE or size > BATCH_SIZE):
            yield batch
            batch, size = [], _size(groups[at])
        batch.append(at)
    if batch:
        yield batch


def _read(batch: Sequence[int], groups: Sequence[Group], reader: Reader) -> Iterator[tuple[int, Contents]]:
    """Read a batch of groups. If one cannot be read, read parts of the batch, down to one to load alone."""
    if len(batch) == 1:
        yield batch[0], None
        return
    contents: list[list[memoryview]] = []
    with suppress(Exception):  # a group that is loaded alone reports its own error
        contents = reader.load_together([_runs(groups[at], reader) for at in batch])
    if contents:
        yield from zip(batch, contents, strict=True)
        return
    step = -(-len(batch) // _SPLITS)
    for start in range(0, len(batch), step):
        yield from _read(batch[start : start + step], groups, reader)


def _runs(group: Group, reader: Reader) -> list[Sequence[Run]]:
    """Return the runs of the roots and the record of a group."""
    return list(map(reader.sized, (*group.roots, group.record)))


def _load(
    group: Group,
    reader: Reader,
    unpickle: Callable[..., Any],
    checkers: Executor | None,
    last: int,
    contents: Contents = None,
) -> tuple[list[Any], Checks]:
    """Load a group. *checkers* may still be checking its memory; without *checkers* it is not checked."""
    checks: Checks = []
    if contents is None:
        contents, checks = reader.load_later(_runs(group, reader), checkers, checked=1)
    *roots, record = contents
    buffers = [roots[at][offset : offset + size] for at, offset, size in group.buffers]
    slots = unpickle(record, buffers)
    if not isinstance(slots, list):
        raise CodecError("a record holds no list of values")
    if last >= len(slots):
        raise CorruptError("a record holds fewer values than the manifest names")
    return slots, checks


def _names(values: Iterable[Value], group: int) -> tuple[str, ...]:
    return tuple(value.name for value in values if value.group == group)


def _failures(values: Sequence[Value], errors: Mapping[int, BaseException]) -> list[Failure]:
    """Return the failures: one for each device that is not here, and one for each other group."""
    away: dict[str, Failure] = {}
    others = []
    for at, error in errors.items():
        names = _names(values, at)
        if isinstance(error, MissingDeviceError):
            before = away.get(error.device, Failure((), "")).names
            away[error.device] = Failure((*before, *names), str(error), device=error.device)
        else:
            others.append(_failure(names, error))
    return [*away.values(), *others]


def _failure(names: tuple[str, ...], error: BaseException) -> Failure:
    damaged = isinstance(error, CorruptError)
    is_plain = isinstance(error, (CorruptError, ForeignCodeError))
    return Failure(names, str(error) if is_plain else f"{type(error).__name__}: {error}", damaged)


def _size(group: Group) -> int:
    return group.record.size + sum(root.size for root in group.roots)
