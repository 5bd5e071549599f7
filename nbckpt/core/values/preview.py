"""Previews: descriptions of values as plain JSON, made at the save, so that showing them loads nothing."""

from __future__ import annotations

import inspect
import io
import re
import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from sys import modules
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakSet

MOST_TEXT = 200
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{4,16}")  # an address carries no information and differs each time
_MOST_COLUMNS = 200
_NUMBERS = frozenset({float, complex, bool, type(None)})
_WIDE = 10**100  # an int can have more digits than can be shown
_PICTURE = 480  # pixels along the longer side: sharp at the height that a page shows
_LAID_OUT: WeakSet[Any] = WeakSet()
"""The figures whose layout engine has already run for a picture."""


def type_name(kind: type) -> str:
    """Return a type's name as a user would write it."""
    module = kind.__module__
    return kind.__qualname__ if module in {"builtins", "__main__"} else f"{module}.{kind.__qualname__}"


def describe(value: Any) -> dict[str, Any]:
    """Return the facts about *value* that a table can show: type, short text, and shape, length or columns.

    Never raises. If a value's own `repr` or `len` fails, only its type is described.
    """
    preview: dict[str, Any] = {"type": type_name(type(value))}
    if _is_number(value):
        preview["text"] = str(value)
        return preview
    if type(value) in _SIZED:
        preview["length"] = len(value)
    elif type(value) is not int:
        preview |= _asked(value)
    preview["text"] = text_of(value)
    if isinstance(value, type):
        preview["class"] = True
    return preview


def _asked(value: Any) -> dict[str, Any]:
    answers = {}
    for name, read in _READ:
        try:
            answer = read(value)
        except Exception:  # noqa: BLE001  a user's object may raise anything
            continue
        if answer is not None:
            answers[name] = answer
    return answers


def _is_number(value: Any) -> bool:
    return type(value) in _NUMBERS or (type(value) is int and -_WIDE < value < _WIDE)


def text_of(value: Any) -> str:
    """Return a short text of *value*'s content, on one line."""
    try:
        own = _plain_text(value) if type(value) in _SIZED else _code_text(value) or _numpy_text(value)
        text = own or _REPR.repr(value)
    except Exception as error:  # noqa: BLE001  a user's object may raise anything
        text = f"<repr failed: {type(error).__name__}>"
    text = " ".join(text.split())
    if " at 0x" in text:
        text = _ADDRESS.sub("", text)
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def picture_of(value: Any) -> bytes | None:
    """Return a small PNG of a matplotlib figure, or None for anything else."""
    figures = modules.get("matplotlib.figure")
    if figures is None or not issubclass(type(value), figures.Figure):
        return None
    try:
        return draw(value, _PICTURE / max(*value.get_size_inches(), 0.1))
    except Exception:  # noqa: BLE001  a figure that cannot be drawn can still be saved
        return None


def draw(figure: Any, dpi: float) -> bytes:
    """Return a matplotlib figure as a PNG, and leave the figure as it is."""
    file = io.BytesIO()
    with _in_place(figure):
        figure.savefig(file, format="png", dpi=dpi, pil_kwargs={"compress_level": 1})
    return file.getvalue()


@contextmanager
def _in_place(figure: Any) -> Iterator[None]:
    """Let the block draw a figure without moving its parts, so that an untouched figure stays the same.

    A layout engine moves the parts at every drawing, if only by a rounding error. So it runs once, before the
    block.
    """
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    if figure not in _LAID_OUT:
        figure.draw_without_rendering()
        _LAID_OUT.add(figure)
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


class _Repr(reprlib.Repr):
    """A repr with limits on depth, width and the length of each part."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = MOST_TEXT
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = 6
        self.maxlevel = 3

    repr_bytes = repr_bytearray = reprlib.Repr.repr_str  # this does not make the whole text first

    def repr_ndarray(self, array: Any, level: int) -> str:
        """Return a short text of a long array in a container. NumPy makes a text of 1,000 elements first."""
        text = _numpy_text(array) if array.size > MOST_TEXT // 2 else ""
        return f"array({text})" if text else str(self.repr_instance(array, level))


_REPR = _Repr()


def _code_text(value: Any) -> str:
    """Return the source form of a function, class or module, because its usual repr contains addresses."""
    if isinstance(value, ModuleType):
        return f"{value.__name__} {vars(value).get('__version__', '')}"
    if isinstance(value, FunctionType):
        return f"{value.__qualname__}{inspect.signature(value)}"
    return f"class {value.__qualname__}" if isinstance(value, type) else ""


def _plain_text(value: Any) -> str:
    """Return the repr of a text or a few numbers, which is what `_REPR` returns more slowly, or ""."""
    if type(value) is str:
        return repr(value) if len(value) < MOST_TEXT // 10 else ""
    few = type(value) in {list, tuple} and len(value) <= _REPR.maxlist
    return repr(value) if few and all(map(_is_number, value)) else ""


def _numpy_text(value: Any) -> str:
    numpy = modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or value.dtype.hasobject:
        return ""
    with numpy.printoptions(threshold=8, edgeitems=3, precision=4):
        if isinstance(value, getattr(modules.get("numpy.ma"), "MaskedArray", ())):
            return str(value)  # array2string would warn of each masked element
        return str(numpy.array2string(value, separator=", "))


def _shape(value: Any) -> list[int] | None:
    shape = getattr(value, "shape", None)
    return [int(n) for n in shape] if isinstance(shape, tuple) and len(shape) < 33 else None


def _dtype(value: Any) -> str | None:
    return str(value.dtype) if _shape(value) is not None and hasattr(value, "dtype") else None


def _length(value: Any) -> int | None:
    return (
        len(value) if isinstance(value, (str, bytes, bytearray, list, tuple, dict, set, frozenset)) else None
    )


def _columns(value: Any) -> list[list[str]] | None:
    pandas = modules.get("pandas")
    if pandas is None or not isinstance(value, pandas.DataFrame):
        return None
    return [[str(name), str(dtype)] for name, dtype in list(value.dtypes.items())[:_MOST_COLUMNS]]


_READ: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("shape", _shape),
    ("dtype", _dtype),
    ("length", _length),
    ("columns", _columns),
)
_SIZED = frozenset({str, bytes, list, tuple, dict, set})
