"""States of values: objects that have a `state_dict()`, and any object that can be pickled.

A file begins with a line that names the format and a line of JSON with sizes. The record and the memory of
its arrays follow. Each part is aligned, so that neither writing nor reading copies it. Memory that arrays
share is stored once.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, Any

from nbckpt.core import spans
from nbckpt.core.definitions import main_namespace
from nbckpt.core.depth import deeply
from nbckpt.core.values import codec
from nbckpt.core.values.diagnose import paths_to
from nbckpt.core.values.proof import prove
from nbckpt.errors import CodecError, CorruptError
from nbckpt.states.refill import SCALARS, filled, has_state_dict, state_of
from nbckpt.states.registry import current
from nbckpt.states.state import State, StateOf, make_state, name_of

_MAGIC = b"nbckpt value 1\n"
_ALIGNED = 64

_log = logging.getLogger("nbckpt")


class ValueState(StateOf[Any]):
    """The state of a value; `State.of` makes it.

    An object with `state_dict()` and `load_state_dict()` is loaded in place. It is saved while the object is
    alive, even if no variable keeps the state. A dict, a list, a set, a random generator, or an array of the
    same shape and type is refilled in place. Such objects inside dicts, lists and tuples are refilled too.
    Any other value is replaced: after a load the new object is the state's `value`. A warning says so,
    except for numbers and text. For all values without `state_dict()`, keep the state in a variable.

    Args:
        name: The name of the state.
        value: What to save and load.

    Raises:
        UsageError: Another live state has the name.
    """

    _is_used = True

    def __init__(self, name: str, value: Any) -> None:
        self._registry = current.get()
        self._weakly = [_weak(value)]  # see docs/decisions/0025
        self._value = value
        super().__init__(name)
        self._is_used = False

    def _reference(self) -> Callable[[], State | None]:
        """Return a function that finds the state while it, or a value with `state_dict()`, is alive."""
        reference, weakly, name = weakref.ref(self), self._weakly, name_of(self)

        def find() -> State | None:
            nonlocal reference
            state, value = reference(), weakly[0]()
            if state is None and value is not None:
                state = ValueState.__new__(ValueState)
                state.__setstate__({"_State__name": name, "_value": value})
                reference, state._weakly = weakref.ref(state), weakly
            return state

        return find

    def __del__(self) -> None:
        """Make the next save warn about a state that no variable kept."""
        if self._is_used or sys.is_finalizing() or self._weakly[0]() is not None:
            return
        registered = self._registry.find(name_of(self))
        if registered is None or registered is self:
            self._registry.drop(name_of(self))

    @property
    def value(self) -> Any:
        """The value."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value, self._weakly[0] = value, _weak(value)

    def _shown(self) -> dict[str, Any]:
        return {"value": self.value}

    def __getstate__(self) -> dict[str, Any]:
        return {"_State__name": name_of(self), "_value": self.value}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _registry=current.get(), _weakly=[_weak(state["_value"])])

    def save(self, fileobj: IO[bytes]) -> None:
        """See `State.save`.

        Raises:
            CodecError: The value, or the result of its `state_dict()`, cannot be pickled.
        """
        value, self._is_used = self.value, True
        write(state_of(value), fileobj, f"state {name_of(self)!r}: value")

    def load(self, fileobj: IO[bytes]) -> None:
        """See `State.load`.

        Raises:
            CorruptError: `save` did not write the file.
        """
        value, loaded, self._is_used = self.value, read(fileobj), True
        self.value = filled(value, loaded)
        if self.value is not value and not isinstance(value, SCALARS):
            _log.warning(
                "state %r: a %s cannot be filled in place. The loaded value is a new object: state.value",
                name_of(self),
                type(value).__name__,
            )


def _weak(value: Any) -> Callable[[], Any]:
    """Return a weak reference to a value with `state_dict()`; for any other value, a dead reference."""
    if has_state_dict(value):
        with suppress(TypeError):  # some types do not support weak references
            return weakref.ref(value)
    return lambda: None


def write(value: Any, file: IO[bytes], name: str = "value") -> None:
    """Write a value to a file. The memory of its arrays is written unchanged.

    A warning in the log says what comes back as less than it was, with the path in the value of this *name*.

    Raises:
        CodecError: The value cannot be pickled.
    """
    try:
        make = partial(codec.dump, value, main_namespace(), left=main_namespace())
        pickled = deeply(make)
        if overlaps := spans.Overlaps(pickled.memory, pickled.owners):
            pickled = deeply(partial(make, overlaps))
        prove(pickled, pickled.record, main_namespace())
    except Exception as error:
        raise CodecError(f"cannot save a {type(value).__name__}: {type(error).__name__}: {error}") from error
    paths = paths_to(name, value, [part for part, _ in pickled.notes])
    for path, (_, lost) in zip(paths, pickled.notes, strict=True):
        _log.warning("%s: %s", path, lost)
    roots, buffers = spans.merged(pickled.buffers)
    parts = [memoryview(pickled.record), *(span.view for span in roots)]
    file.write(_MAGIC)
    file.write(json.dumps([[len(part) for part in parts], buffers]).encode() + b"\n")
    for part in parts:
        file.write(bytes(-file.tell() % _ALIGNED))
        file.write(part)


def read(file: IO[bytes]) -> Any:
    """Return the value that `write` wrote. This runs code that the file names.

    Raises:
        CorruptError: `write` did not write the file, or the file is truncated.
        CodecError: The value cannot be built here, for example because a library is missing.
    """
    if file.readline(len(_MAGIC)) != _MAGIC:
        raise CorruptError(f"{getattr(file, 'name', 'the file')!r} is not the state of a value")
    try:
        sizes, buffer_spans = json.loads(file.readline())
        record, *parts = [_part(file, size) for size in sizes]
        buffers = [parts[at][offset : offset + size] for at, offset, size in buffer_spans]
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError) as error:
        raise CorruptError(
            f"{getattr(file, 'name', 'the file')!r} is not the whole state of a value: {error}"
        ) from error
    try:
        return codec.load(record, buffers)
    except Exception as error:
        raise CodecError(f"cannot load a state's value: {type(error).__name__}: {error}") from error


def _part(file: IO[bytes], size: int) -> memoryview:
    """Return the next part of a file. Memory is allocated only if the file holds *size* more bytes.

    Raises:
        ValueError: Bytes are missing.
    """
    start = file.tell() + -file.tell() % _ALIGNED
    missing = start + size - file.seek(0, os.SEEK_END)
    if missing > 0:
        raise ValueError(f"{missing} bytes are missing")
    file.seek(start)
    memory = memoryview(bytearray(size))
    end = 0
    while end < size:
        count = file.readinto(memory[end:])  # type: ignore[attr-defined]  # binary files of io have it
        if not count:
            raise ValueError(f"{size - end} bytes are missing")
        end += count
    return memory


make_state.function = ValueState
