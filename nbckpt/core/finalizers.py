"""Finalizers: objects whose end destroys what is the user's, such as the folder of a `TemporaryDirectory`.

A restore or an undo replaces objects. It must not end them: only the user's own code may.
"""

from __future__ import annotations

import ctypes
import gc
import io
import types
import weakref
from collections.abc import Iterable
from typing import Any

_MOST = 200_000
"""The most objects to look through before the values are kept alive as a whole."""

_LEAD_NOWHERE = (type, types.ModuleType, types.CodeType, types.FrameType, int, float, complex, str, bytes)
_HOLD_MEMORY_ONLY = (io.StringIO, io.BytesIO)

_alive: dict[int, Any] = {}


def keep_alive(values: Iterable[Any]) -> None:
    """Keep alive what these values hold and whose end runs code, until `release` or the process ends."""
    values = [*values]
    owners = _owners(values)
    _alive.update((id(owner), owner) for owner in (values if owners is None else owners))


def kept_alive() -> list[Any]:
    """Return the objects that are kept alive."""
    return [*_alive.values()]


def release(objects: Iterable[Any]) -> None:
    """Leave the end of these objects to the user again: a variable leads to them."""
    for obj in objects:
        _alive.pop(id(obj), None)


def never_end(obj: Any) -> None:
    """Let an object never be finalized, even at the end of the process: another one has its contents."""
    if hasattr(type(obj), "__del__"):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(obj))


def _owners(values: list[Any]) -> list[Any] | None:
    """Return the objects among all that values hold whose end runs code; None if they hold too many."""
    seen: dict[int, Any] = {}
    owners: list[Any] = []
    todo = values
    while todo:
        # Not isinstance: it would ask the object, which may be a proxy without its object.
        new = {
            id(obj): obj for obj in todo if id(obj) not in seen and not issubclass(type(obj), _LEAD_NOWHERE)
        }
        seen |= new
        if len(seen) > _MOST:
            return None
        owners += filter(_runs_code_at_its_end, new.values())
        todo = [part for obj in new.values() for part in _parts(obj)]
    return owners


def _parts(obj: Any) -> list[Any]:
    if type(obj) is types.FunctionType:  # its globals are a whole module
        return [*(obj.__closure__ or ()), *(obj.__defaults__ or ()), *(obj.__kwdefaults__ or {}).values()]
    return gc.get_referents(obj)


def _runs_code_at_its_end(obj: Any) -> bool:
    if hasattr(type(obj), "__del__") and not issubclass(type(obj), _HOLD_MEMORY_ONLY):
        return True
    refs = (ref for ref in weakref.getweakrefs(obj) if type(ref) not in weakref.ProxyTypes)  # asks the object
    return any(type(ref.__callback__) is weakref.finalize for ref in refs)
