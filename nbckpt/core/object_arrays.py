"""Object arrays: take apart large NumPy arrays of Python objects. `reducers` has what rebuilds them."""

from __future__ import annotations

import ctypes
import sys
from operator import countOf
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

from nbckpt.core.reducers import Made, byte_range, made_array, make_repeated, make_strings, make_view

if TYPE_CHECKING:
    import numpy as np

_MANY_OBJECTS = 1000
_SAMPLE = 4000
_STRINGS_AT_ONCE = 1 << 14
_POINTERS_AT_ONCE = 1 << 16


def reduce_objects(array: np.ndarray[Any, Any]) -> Any:
    """Reduce a large object array: as one text if it holds many strings, or by its repeated objects.

    Any other array is left to pickle, which visits every object.
    """
    is_contiguous = array.flags.c_contiguous or array.flags.f_contiguous
    if array.dtype != object or array.size < _MANY_OBJECTS or not is_contiguous:
        return NotImplemented
    flat = array.ravel(order="K")
    sample = flat[:: max(1, flat.size // _SAMPLE)].tolist()
    order = "C" if array.flags.c_contiguous else "F"
    if len(set(map(id, sample))) < 0.9 * len(sample):
        return _reduce_repeated(flat, array.shape, order)
    if sum(type(item) is str for item in sample) >= len(sample) / 2:
        return _reduce_strings(flat, array.shape, order)
    return NotImplemented


def objects_at(array: np.ndarray[Any, Any], low: int, high: int) -> Any:
    """Return the objects in a range of memory; None if *array* does not view an array with them all."""
    base: Any = array
    while base.base is not None:
        base = base.base
    if type(base) is not type(array) or base.dtype != object or not base.flags.forc:
        return None
    start, end = byte_range(base)
    size = base.itemsize
    return (
        base.ravel("K")[(low - start) // size : (high - start) // size]
        if start <= low < high <= end
        else None
    )


def reduce_view(array: np.ndarray[Any, Any], root: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Reduce an array of objects to its place in the memory that others use too."""
    start, here = (part.__array_interface__["data"][0] for part in (root, array))
    place = (here - start) // array.itemsize
    return make_view, (root, place, array.shape, array.strides, array.flags.writeable)


def _reduce_strings(flat: np.ndarray[Any, Any], shape: Any, order: str) -> Any:
    """Join the strings, one slice at a time. Values that are not strings are kept separately."""
    text, end = Made(), 0
    others: dict[int, Any] = {}
    for start in range(0, flat.size, _STRINGS_AT_ONCE):
        items = flat[start : start + _STRINGS_AT_ONCE].tolist()
        if countOf(map(type, items), str) < len(items):
            mine = {at: item for at, item in enumerate(items) if type(item) is not str}
            others |= {start + at: item for at, item in mine.items()}
            for at in mine:
                items[at] = ""
        items.append("")
        part = "\0".join(items).encode("utf-8", "surrogatepass")
        if part.count(0) != len(items) - 1:
            return NotImplemented  # a string contains the separator
        if not start:  # allocate all at once: a growing text would leave equally large holes in the heap
            text = Made(len(part) * (flat.size // len(items) + 1))
        text[end : end + len(part)] = part
        end += len(part)
    del text[max(0, end - 1) :]
    return make_strings, (PickleBuffer(text), shape, order, others)


def _reduce_repeated(flat: np.ndarray[Any, Any], shape: Any, order: str) -> Any:
    """Store each distinct object once, and for each element the number of its object."""
    np = sys.modules["numpy"]
    memory = (ctypes.c_ssize_t * flat.size).from_address(flat.ctypes.data)
    pointers = np.frombuffer(memory, np.intp)
    table: dict[int, int] = {}
    codes = []
    # All at once would need as much memory as the pointers.
    for start in range(0, flat.size, _POINTERS_AT_ONCE):
        places, distinct = _factorize(pointers[start : start + _POINTERS_AT_ONCE])
        mine = [table.setdefault(address, len(table)) for address in distinct.tolist()]
        if len(table) > flat.size // 16 or 0 in table:  # a null pointer is an unset None of NumPy
            return NotImplemented
        codes.append(np.array(mine, np.min_scalar_type(len(table)))[places])
    objects = [ctypes.cast(address, ctypes.py_object).value for address in table]
    joined = made_array(flat.shape, np.min_scalar_type(len(objects)))
    np.concatenate(codes, out=joined, casting="unsafe")
    return make_repeated, (joined, objects, shape, order)


def _factorize(pointers: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Return the number of the distinct pointer for each pointer, and the distinct pointers."""
    if pandas := sys.modules.get("pandas"):
        return pandas.factorize(pointers)  # type: ignore[no-any-return]  # pandas has no types here
    distinct, codes = sys.modules["numpy"].unique(pointers, return_inverse=True)
    return codes, distinct
