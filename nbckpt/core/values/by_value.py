"""By value: cloudpickle's pickler, with nbckpt's form of code objects."""

from __future__ import annotations

import types
from collections import ChainMap
from io import BytesIO
from typing import Any, Protocol

from cloudpickle import Pickler

from nbckpt.core.bytecode import reduce_code
from nbckpt.core.depth import bounded


class Writable(Protocol):
    """Takes the pieces of a pickle."""

    def write(self, piece: bytes, /) -> object:
        """Take the next piece."""


class ByValuePickler(Pickler):  # type: ignore[misc]  # cloudpickle ships no types
    """Pickles functions and classes of `__main__` by value, as cloudpickle does."""

    dispatch_table = ChainMap({types.CodeType: reduce_code}, Pickler.dispatch_table)

    def reducer_override(self, obj: Any) -> Any:
        """See `pickle.Pickler.reducer_override`."""
        # cloudpickle's name for this type made code in older records, so a load puts a check in its place.
        return (getattr, (types, "CodeType")) if obj is types.CodeType else super().reducer_override(obj)

    def dump(self, value: Any) -> None:
        """Write the pickle of a value. Raise an error if it is too deep for the stack."""
        with bounded():
            super().dump(value)


def dump(value: Any, file: Writable, visited: list[object] | None = None) -> None:
    """Write the pickle of a value. Add each object that is visited to *visited*, in order."""
    pickler = ByValuePickler(file, protocol=5)
    if visited is not None:
        pickler.persistent_id = visited.append  # None means: pickle it as usual
    pickler.dump(value)


def dumps(value: Any) -> bytes:
    """Return the pickle of a value."""
    file = BytesIO()
    dump(value, file)
    return file.getvalue()
