"""By value: cloudpickle's pickler, and the names of the files that functions come from.

cloudpickle 3.1.3 leaves these names out. With them, a traceback of a function shows its lines where the file
is, and `inspect.getsource` finds a restored function of this kernel.
"""

from __future__ import annotations

from collections import ChainMap
from io import BytesIO
from types import CodeType
from typing import Any, BinaryIO

from cloudpickle import Pickler

_LEFT_OUT = "<dynamic-code>"


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    make, parts, *rest = Pickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if part == _LEFT_OUT else part for part in parts), *rest


class ByValuePickler(Pickler):  # type: ignore[misc]  # cloudpickle ships no types
    """Pickles functions and classes of `__main__` by value, as cloudpickle does."""

    dispatch_table = ChainMap({CodeType: _reduce_code}, Pickler.dispatch_table)


def dump(value: Any, file: BinaryIO) -> None:
    """Write the pickle of a value."""
    ByValuePickler(file, protocol=5).dump(value)


def dumps(value: Any) -> bytes:
    """Return the pickle of a value."""
    file = BytesIO()
    dump(value, file)
    return file.getvalue()
