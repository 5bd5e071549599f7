"""States of values: of what has a `state_dict()`, and of whatever can be pickled.

A file begins with a line that names the format, then comes the record with the memory of its arrays
behind it, each aligned, so that neither writing nor reading copies them. Memory that arrays share is there
once.
"""

from __future__ import annotations

import json
import logging
import sys
import weakref
from collections.abc import MutableMapping, MutableSequence, MutableSet
from contextlib import suppress
from typing import IO, Any

from nbckpt.core import codec
from nbckpt.core.reducers import main_namespace
from nbckpt.errors import CodecError, CorruptError
from nbckpt.state.registry import current
from nbckpt.state.state import State, name_of

_MAGIC = b"nbckpt value 1\n"
_ALIGNED = 64

_log = logging.getLogger("nbckpt")


class ValueState(State):
    """The state of a value; `State.of` makes it.

    An object with `state_dict()` and `load_state_dict()` is loaded in place; while it is alive its state
    is, too. A dict, a list, a set, or an array of the same shape and type is refilled in place. Anything
    else is replaced: it is the state's `value` after a load. For all these keep the state in a variable.

    Args:
        name: The name of the state.
        value: What to save and load.

    Raises:
        UsageError: Another live state has the name.
    """

    _is_used = True

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(name)
        self._is_used = False
        self._registry = current.get()
        self.value = value

    def __del__(self) -> None:
        """Warn of a state that nobody kept."""
        if self._is_used or sys.is_finalizing():
            return
        if self._registry.find(name_of(self)) in {None, self}:
            _log.warning(
                "state %r was dropped before it was saved or loaded: keep what State.of returns",
                name_of(self),
            )

    @property
    def value(self) -> Any:
        """The value."""
        return self._held() if isinstance(self._held, weakref.ref) else self._held

    @value.setter
    def value(self, value: Any) -> None:
        self._held = value
        if _tells_its_state(value):
            with suppress(TypeError):  # not everything can be referred to weakly
                self._held = weakref.ref(value)
                # The value keeps its state alive, not the other way round.
                weakref.finalize(value, _let_go, self)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_held": self.value, "_registry": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _registry=current.get(), _is_used=True)
        self.value = self._held

    def save(self, fileobj: IO[bytes]) -> None:
        """See `State.save`.

        Raises:
            CodecError: The value, or what its `state_dict()` returns, cannot be pickled.
        """
        value, self._is_used = self.value, True
        write(value.state_dict() if _tells_its_state(value) else value, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        """See `State.load`.

        Raises:
            CorruptError: The file is none that `save` wrote.
        """
        value, loaded, self._is_used = self.value, read(fileobj), True
        if _tells_its_state(value):
            value.load_state_dict(loaded)
        elif not _refill(value, loaded):
            self.value = loaded


def _refill(value: Any, loaded: Any) -> bool:
    """Give a container the contents of another of its type; tell whether it was one."""
    if type(value) is not type(loaded):
        return False
    if isinstance(value, (MutableMapping, MutableSet)):
        value.clear()
        value |= loaded
    elif isinstance(value, MutableSequence):
        value[:] = loaded
    elif getattr(value, "shape", ()) and (value.shape, value.dtype) == (loaded.shape, loaded.dtype):
        _plain(value)[...] = _plain(loaded)
    else:
        return False
    return True


def _plain(array: Any) -> Any:
    """Return an array as it is, of a tensor what no gradient follows."""
    return array.detach() if hasattr(array, "detach") else array


def _let_go(state: ValueState) -> None:
    """Close the state of a value that is gone; until then it was kept alive to be called with."""
    state._is_used = True
    state._registry.discard(state)


def _tells_its_state(value: Any) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def write(value: Any, file: IO[bytes]) -> None:
    """Write a value to a file, the memory of its arrays as it is.

    Raises:
        CodecError: It cannot be pickled.
    """
    try:
        pickled = codec.dump(value, main_namespace())
        if overlaps := codec.Overlaps(pickled.reached):
            pickled = codec.dump(value, main_namespace(), overlaps)
    except Exception as error:
        raise CodecError(f"cannot save a {type(value).__name__}: {type(error).__name__}: {error}") from error
    spans, buffers = codec.merged(pickled.buffers)
    parts = [memoryview(pickled.record), *(span.view for span in spans)]
    file.write(_MAGIC)
    file.write(json.dumps([[len(part) for part in parts], buffers]).encode() + b"\n")
    for part in parts:
        file.write(bytes(-file.tell() % _ALIGNED))
        file.write(part)


def read(file: IO[bytes]) -> Any:
    """Return the value that `write` wrote. This runs code that the file names.

    Raises:
        CorruptError: The file is none of these, or cut short.
        CodecError: The value cannot be made here, for want of a library perhaps.
    """
    if file.readline(len(_MAGIC)) != _MAGIC:
        raise CorruptError(f"{getattr(file, 'name', 'the file')!r} is no state of a value")
    try:
        sizes, where = json.loads(file.readline())
        record, *parts = [_part(file, size) for size in sizes]
        buffers = [parts[at][offset : offset + size] for at, offset, size in where]
    except (ValueError, TypeError, IndexError) as error:
        raise CorruptError(
            f"{getattr(file, 'name', 'the file')!r} is no whole state of a value: {error}"
        ) from error
    try:
        return codec.load(record, buffers)
    except Exception as error:
        raise CodecError(f"cannot load a state's value: {type(error).__name__}: {error}") from error


def _part(file: IO[bytes], size: int) -> memoryview:
    file.read(-file.tell() % _ALIGNED)
    memory = memoryview(bytearray(size))
    filled = 0
    while filled < size:
        came = file.readinto(memory[filled:])  # type: ignore[attr-defined]  # binary files of io have it
        if not came:
            raise ValueError(f"{size - filled} bytes are missing")
        filled += came
    return memory
