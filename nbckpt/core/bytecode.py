"""Bytecode: code objects in records. A version of Python crashes on the bytecode of another one.

A record names the Python that made a code object, and has its source if that compiles to an equal one.
Another Python compiles the source. Records name `make_code`, so it keeps its meaning.
"""

from __future__ import annotations

import opcode
import sys
from functools import cache
from types import CodeType
from typing import Any

from cloudpickle import Pickler

from nbckpt._private_apis import inline_caches
from nbckpt.core.code_sources import Source, compiled, remember, source_of
from nbckpt.core.dataclass_methods import MADE_BY_DATACLASSES, stand_in
from nbckpt.errors import CodecError

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"

Parts = tuple[tuple[Any, ...], tuple[tuple[int, Any], ...]]
"""The arguments of `CodeType`, with None for each code object among the constants; and by its position, the
parts of each of those."""

# cloudpickle 3.1.3 puts this in place of the file's name. With the name, a traceback of a function shows its
# lines, and `inspect.getsource` finds a restored function of this kernel.
_LEFT_OUT = "<dynamic-code>"
_FLAGS, _BYTES, _CONSTANTS, _FILE, _QUALNAME, _LINE, _FREE = 5, 6, 7, 10, 12, 13, 16
_BEFORE_RESUME = {"COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "POP_TOP", "EXTENDED_ARG"}


class ForeignCodeError(CodecError):
    """A code object was made by another version of Python, and has no source that this one compiles to it."""

    def __init__(self, python: str) -> None:
        maker = f"Python {python}" if python else "another version of Python"
        super().__init__(
            f"its code was made by {maker} and cannot run in Python {PYTHON}: run its cell again"
        )


def reduce_code(code: CodeType) -> tuple[Any, ...]:
    """Reduce a code object to the version of Python that made it, its source and its parts."""
    return make_code, (PYTHON, source_of(code), _parts(code))


def make_code(python: str, source: Source | None, parts: Parts) -> CodeType:
    """Make a code object of this Python.

    Raises:
        ForeignCodeError: Another Python made it, and it has no source that compiles to it here.
    """
    code = _made(parts) if python == PYTHON else _compiled_again(python, source, parts[0])
    remember(code, source)
    return code


def make_untagged_code(python: str, *parts: Any) -> CodeType:
    """Make a code object from a record that does not say which Python made it; *python* may be unknown, "".

    Raises:
        ForeignCodeError: Another Python made it.
    """
    if python or not _is_of_this_python(parts):
        raise ForeignCodeError(python)
    return CodeType(*parts)


def _parts(code: CodeType) -> Parts:
    _, parts = Pickler.dispatch_table[CodeType](code)
    parts = tuple(code.co_filename if type(part) is str and part == _LEFT_OUT else part for part in parts)
    inner = tuple((at, _parts(part)) for at, part in enumerate(code.co_consts) if isinstance(part, CodeType))
    return _with_constants(parts, dict.fromkeys(at for at, _ in inner)), inner


def _made(parts: Parts) -> CodeType:
    outer, inner = parts
    return CodeType(*_with_constants(outer, {at: _made(part) for at, part in inner}))


def _with_constants(parts: tuple[Any, ...], inner: dict[int, CodeType | None]) -> tuple[Any, ...]:
    if not inner:
        return parts
    constants = tuple(inner.get(at, part) for at, part in enumerate(parts[_CONSTANTS]))
    return *parts[:_CONSTANTS], constants, *parts[_CONSTANTS + 1 :]


def _compiled_again(python: str, source: Source | None, parts: tuple[Any, ...]) -> CodeType:
    code = None
    if source is not None:
        code = compiled(source, parts[_FILE], parts[_QUALNAME], parts[_LINE], parts[_FLAGS])
    elif parts[_QUALNAME].startswith(MADE_BY_DATACLASSES):
        code = stand_in(parts[_FREE])
    if code is None or code.co_freevars != tuple(parts[_FREE]):  # the function's cells are in this order
        raise ForeignCodeError(python)
    return code


def _is_of_this_python(parts: tuple[Any, ...]) -> bool:
    """Tell whether this Python could have made it: each instruction exists, and its cache is empty."""
    data = parts[_BYTES] if len(parts) > _BYTES else None
    if not isinstance(data, bytes):
        return False
    at, resumed, spaces = 0, False, _spaces()
    while at < len(data):
        name = opcode.opname[data[at]]
        end = at + 2 + 2 * spaces.get(data[at], 0)
        resumed |= name == "RESUME"
        if data[at] not in spaces or end > len(data) or any(data[at + 2 : end : 2]):
            return False
        if not (resumed or name in _BEFORE_RESUME):
            return False
        at = end
    return resumed


@cache
def _spaces() -> dict[int, int]:
    """Return the instructions of this Python, each with the number of units that follow for its cache."""
    caches = inline_caches()
    return {number: caches.get(name, 0) for name, number in opcode.opmap.items() if name != "CACHE"}
