"""Reducers: take apart, and rebuild, the objects that plain pickling handles wrongly.

A reducer returns what `object.__reduce__` returns, or NotImplemented for the default way. Records name the
functions that rebuild objects, so these functions are part of the format and never change their meaning.
"""

from __future__ import annotations

import array
import ctypes
import math
import sys
import types
from collections.abc import Callable, Sequence
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

from nbckpt.core.definitions import contents_of, current_namespace
from nbckpt.core.spans import address_of

if TYPE_CHECKING:
    import numpy as np

_FUNCTION_STATE = (
    "__defaults__",
    "__kwdefaults__",
    "__dict__",
    "__doc__",
    "__qualname__",
    "__module__",
)


# Functions of the notebook. The code is saved; the globals are the live namespace after the restore.


def reduce_function(function: types.FunctionType) -> tuple[Any, ...]:
    """Reduce a function of the notebook without its globals."""
    cells = function.__closure__ or ()
    state = {name: getattr(function, name) for name in _FUNCTION_STATE}
    state["__annotations__"] = function.__annotations__
    if parameters := getattr(function, "__type_params__", ()):  # since Python 3.12
        state["__type_params__"] = parameters
    contents = [(cell, *contents_of(cell)) for cell in cells if contents_of(cell)]
    return (
        make_function,
        (function.__code__, function.__name__, cells),
        (state, contents),
        None,
        None,
        fill_function,
    )


def make_function(code: types.CodeType, name: str, cells: tuple[types.CellType, ...]) -> types.FunctionType:
    """Make a function whose globals are the live namespace."""
    return types.FunctionType(code, current_namespace(), name, None, cells or None)


def fill_function(
    function: types.FunctionType, state: tuple[dict[str, Any], Sequence[tuple[types.CellType, Any]]]
) -> None:
    """Set the defaults of a new function and the contents of its cells. Both may refer to the function."""
    attributes, contents = state
    for name, value in attributes.items():
        if name == "__dict__":
            function.__dict__.update(value)
        elif name == "__module__" and type(value) is str:
            # The class of a method has the compiler's string. With another, an unchanged class differs.
            function.__module__ = sys.intern(value)
        # From Python 3.13 on the code has its own string. With another, an unchanged function differs.
        elif name != "__qualname__" or value != function.__qualname__:
            setattr(function, name, value)
    for cell, value in contents:
        cell.cell_contents = value


def with_cells(function: types.FunctionType, reduced: Any) -> Any:
    """Change cloudpickle's form of a library function so that it shares its cells with other functions."""
    if not function.__closure__ or reduced is NotImplemented:
        return reduced
    make, (*code, _), (attributes, members), *rest = reduced
    copies = tuple(types.CellType(*contents_of(cell)) for cell in function.__closure__)
    return make, (*code, function.__closure__), (attributes, members | {"__closure__": copies}), *rest


# Views of memory.


def reduce_memoryview(view: memoryview, owner: Any = None) -> tuple[Any, ...]:
    """Reduce a memory view to its underlying memory, so that the two stay connected.

    If an *owner* is saved as an object, the view refers to that object.
    """
    if not view.c_contiguous:
        raise TypeError("a memoryview with gaps cannot be saved")
    flat = view.cast("B")
    if not _can_be_cast(flat, view):
        import numpy as np

        return memoryview, (np.asarray(view),)
    if owner is None:
        return make_memoryview, (PickleBuffer(flat), view.format, view.shape)
    start = address_of(flat) - address_of(memoryview(owner).cast("B"))
    return make_memoryview, (owner, view.format, view.shape, start, len(flat), view.readonly)


def _can_be_cast(flat: memoryview, view: memoryview) -> bool:
    """Tell whether plain memory can be given the form of a view. Complex numbers, for example, cannot."""
    try:
        make_memoryview(flat, view.format, view.shape or ())
    except (TypeError, ValueError, NotImplementedError):
        return False
    return True


def make_memoryview(
    memory: Any,
    form: str,
    shape: tuple[int, ...],
    start: int = 0,
    size: int | None = None,
    readonly: bool = False,  # noqa: FBT001, FBT002  as in the record
) -> memoryview:
    """Rebuild a view over restored memory."""
    view = memoryview(memory).cast("B")[start : None if size is None else start + size]
    view = view if form == "B" and len(shape) == 1 else view.cast(form, shape)  # type: ignore[call-overload]  # any
    return view.toreadonly() if readonly else view


OWNERS = (bytearray, array.array)
"""Types whose objects keep their own memory in the record. Views and arrays can refer to that memory."""


def owner_of(data: np.ndarray[Any, Any]) -> Any:
    """Return the owner of the memory that an array uses, or None."""
    base: Any = data.base
    while isinstance(base, type(data)):
        base = base.base
    base = base.obj if type(base) is memoryview else base
    return base if is_owner(type(base)) and data.flags.writeable else None


def is_owner(kind: type) -> bool:
    """Tell whether objects of a type have memory of their own, which arrays may use too."""
    return kind in OWNERS or issubclass(kind, ctypes.Array)


def reduce_owned(data: np.ndarray[Any, Any], owner: Any) -> tuple[Any, ...]:
    """Reduce an array over an owner's memory to the owner and the array's place in it."""
    start = data.__array_interface__["data"][0] - address_of(memoryview(owner))
    return make_strided, (owner, data.dtype, data.shape, data.strides, start)


# NumPy arrays.


def byte_range(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the address of the first byte that *array* uses, and the address after the last."""
    low = high = array.__array_interface__["data"][0]
    for count, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += stride * (count - 1)
        else:
            high += stride * (count - 1)
    return low, high + array.itemsize


def reduce_strided(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Reduce a strided view to the memory that it uses, uncopied, and its strides."""
    np = sys.modules["numpy"]
    low, high = byte_range(array)
    start = array.__array_interface__["data"][0] - low
    flipped = array[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in array.strides)]
    as_strided = np.lib.stride_tricks.as_strided
    one = as_strided(flipped, shape=(1,), strides=(array.itemsize,)).view(np.uint8)
    memory = as_strided(one, shape=(high - low,), strides=(1,))
    if not array.flags.writeable:
        memory.flags.writeable = False
    return make_strided, (PickleBuffer(memory), array.dtype, array.shape, array.strides, start)


def make_strided(memory: Any, dtype: Any, shape: Any, strides: Any, start: int) -> Any:
    """Rebuild the view over restored memory."""
    import numpy as np

    return np.ndarray(shape, dtype, memory, start, strides)


def reduce_dtype(dtype: np.dtype[Any]) -> Any:
    """Reduce a structured type together with its table of fields, which its arrays do not share."""
    parts: Any = dtype.__reduce__()
    make, arguments, state = parts
    return make, arguments, tuple(dict(part) if type(part) is dict else part for part in state)


def reduce_datetimes(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Reduce an array of dates or durations as integers, because dates do not export their memory."""
    return make_datetimes, (array.view("i8"), array.dtype)


def make_datetimes(integers: Any, dtype: Any) -> Any:
    """Return the integers with their unit of time."""
    return integers.view(dtype)


def make_view(root: Any, start: int, shape: Any, strides: Any, writable: bool) -> Any:  # noqa: FBT001  as in the record
    """Rebuild a view of restored objects."""
    import numpy as np

    return np.lib.stride_tricks.as_strided(root[start:], shape, strides, writeable=writable)


class Made(bytearray):
    """Memory that a reducer made. Nothing else refers to it, so it is freed when it has been stored."""


def is_made(view: memoryview) -> bool:
    """Tell whether a view shows memory that a reducer made, itself or as an array."""
    return isinstance(getattr(view.obj, "base", view.obj), Made)


def made_array(shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return an array in memory that a reducer made."""
    numpy = sys.modules["numpy"]
    size = math.prod(shape) * dtype.itemsize
    return numpy.ndarray(shape, dtype, Made(size))  # type: ignore[no-any-return]  # the module is looked up


def make_strings(text: Any, shape: Any, order: Any, others: dict[int, Any]) -> Any:
    """Split the text into its strings."""
    import numpy as np

    items = str(text, "utf-8", "surrogatepass").split("\0")
    for at, item in others.items():
        items[at] = item
    return np.reshape(np.fromiter(items, object, len(items)), shape, order=order)


def make_repeated(codes: Any, objects: list[Any], shape: Any, order: Any) -> Any:
    """Put the objects into their places in the array."""
    import numpy as np

    table = np.empty(len(objects), object)
    table[:] = objects
    return np.reshape(table.take(codes), shape, order=order)


def reduce_array(array: np.ndarray[Any, Any], exact: Callable[[int, int], bool]) -> Any:
    """Reduce an array without copying its memory, if that memory can be exported.

    *exact* tells whether another array uses a range of addresses. If so, a strided view keeps all of its
    memory, however little of that it uses, because the two arrays must stay connected.
    """
    if array.dtype.kind in "mM":
        return reduce_datetimes(array)
    if array.size == 0 or array.flags.c_contiguous or array.flags.f_contiguous:
        return NotImplemented
    low, high = byte_range(array)
    if high - low <= array.nbytes or exact(low, high):
        return reduce_strided(array)
    copy = made_array(array.shape, array.dtype)
    copy[...] = array
    return copy.__reduce_ex__(5)


# Torch tensors on the CPU. Their storage is exported as bytes, so that tensors over one storage share it.


def reduce_tensor(tensor: Any) -> Any:
    """Reduce a plain dense CPU tensor to the bytes of its storage, uncopied."""
    torch = sys.modules["torch"]
    if (
        tensor.device.type != "cpu"
        or tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.is_conj()
    ):
        return NotImplemented
    if tensor.is_neg():
        return NotImplemented
    raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    how = (
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad,
    )
    return make_tensor, (PickleBuffer(raw.numpy()), *how, tensor.__dict__ or None)


def make_tensor(
    memory: Any,
    dtype: Any,
    shape: Any,
    stride: Any,
    offset: int,
    requires_grad: bool,  # noqa: FBT001  as in the record
    attributes: Any,
) -> Any:
    """Rebuild a tensor over restored memory."""
    import torch

    if len(memory):
        storage = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    else:
        storage = torch.empty(0, dtype=torch.uint8).untyped_storage()
    tensor = torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor.requires_grad_(requires_grad)
