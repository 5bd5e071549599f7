"""Proof: at the save, loads a pickle with a new type once, so that a value that cannot come back is named.

A finished pickle is not a promise: many classes pickle, and fail at the load. The trial makes the notebook's
classes apart, so it changes no live object. It does not run loading code of the user's own modules, nor of
objects that own something outside of their value, such as a window, a process or a temporary folder.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from copyreg import dispatch_table
from io import IOBase
from typing import Any

from nbckpt.core.definitions import is_installed
from nbckpt.core.depth import is_too_deep
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.codec import Pickled, dump, load
from nbckpt.core.values.placement import LOADER
from nbckpt.store import Buffer

_MOST_BYTES, _MOST_SAMPLED = 32 << 10, 4 << 20
"""The size limits, in bytes: of a record that is loaded, and of a value from which samples are taken."""

_HOOKS = ("__setstate__", "__reduce__", "__reduce_ex__", "__new__", "__setitem__", "append", "extend")
_LEFT_OUT = frozenset(
    {"nbckpt", "multiprocessing", "matplotlib", "IPython", "ipywidgets", "ipykernel", "comm"}
)
"""Libraries whose objects register themselves, or open something, when they are loaded."""
_ON_DEVICE = LOADER[1].encode()
"""The name by which a record asks for memory of a device."""
_OWNERS = (weakref.finalize, IOBase)

_tried: weakref.WeakSet[type] = weakref.WeakSet()


class NotLoadableError(TypeError):
    """A value was pickled, but its pickle does not load."""


def prove(
    pickled: Pickled, record: Buffer | None, namespace: dict[str, Any], *, is_sample: bool = False
) -> list[Any] | None:
    """Load a record with a type that no record had before. Return its values, or None if it was not loaded.

    A long record, or one with a type that may not be loaded here, is not loaded. Instead, the first object of
    each new type is pickled and loaded alone, unless the record itself *is_sample* or has megabytes.

    Raises:
        NotLoadableError: The record, or one of these objects, does not load.
    """
    new = [kind for kind in pickled.first if kind not in _tried]
    if not new:
        return None
    loaded = None
    size = sum(span.size for span in pickled.buffers)
    if record is not None and _ON_DEVICE in record:
        return None
    if record is not None and len(record) + size <= _MOST_BYTES and all(map(_may_load, pickled.first)):
        loaded = _load(pickled, record, namespace)
    elif size + len(record or b"") > _MOST_SAMPLED:
        return None
    elif not is_sample:
        for kind in filter(_may_load, new):
            pickle_and_prove(pickled.first[kind], namespace, is_sample=True)
    # Exceptions of one type differ in their arguments.
    _tried.update(kind for kind in new if not issubclass(kind, BaseException))
    return loaded


def pickle_and_prove(
    value: Any,
    namespace: dict[str, Any],
    *,
    is_sample: bool = False,
    write: Callable[[bytes], object] = len,
) -> None:
    """Pickle a value, and do what `prove` does. A sample that is long is left alone.

    Raises:
        NotLoadableError: The pickle does not load.
        Exception: Any exception that the value's own pickling raises.
    """
    record = bytearray()

    def take(piece: bytes) -> None:
        write(piece)
        if len(record) <= _MOST_BYTES:
            record.extend(piece)
        elif is_sample:
            raise _TooLongError

    try:
        pickled = dump([value], namespace, write=take)
    except _TooLongError:
        return
    except Exception as error:
        if is_sample and is_too_deep(error):
            return
        raise
    record += pickled.record
    prove(pickled, record if len(record) <= _MOST_BYTES else None, namespace, is_sample=is_sample)


class _TooLongError(Exception):
    pass


def _load(pickled: Pickled, record: Buffer, namespace: dict[str, Any]) -> list[Any] | None:
    # A copy, because a load may write to the memory of its arrays.
    buffers = [memoryview(bytearray(span.view)) for span in pickled.buffers]
    try:
        return load(bytes(record), buffers, namespace, Classes("apart", is_trial=True))  # type: ignore[no-any-return]  # a list
    except Exception as error:
        if is_too_deep(error):
            return None
        raise NotLoadableError(f"its pickle cannot be loaded: {type(error).__name__}: {error}") from error


def _may_load(kind: type) -> bool:
    """Tell whether an object of a type can be made without code of the user and without a trace elsewhere."""
    if (
        hasattr(kind, "__del__")
        or issubclass(kind, _OWNERS)
        or kind.__module__.partition(".")[0] in _LEFT_OUT
    ):
        return False
    hooks = [getattr(kind, name, None) for name in _HOOKS]
    return not any(map(_is_of_user, (*hooks, dispatch_table.get(kind))))


def _is_of_user(function: Any) -> bool:
    """Tell whether a function was written in Python outside of the installed libraries."""
    code = getattr(function, "__code__", None)
    return code is not None and not is_installed(code.co_filename)
