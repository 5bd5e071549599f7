"""Digest: what identifies the contents of a value, the same in every kernel.

A pickle depends on the order of sets, on which equal texts are one object, and on numbers that cloudpickle
draws. Here only contents count, and which mutable objects are one.
"""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import types
from bisect import bisect, bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import Field
from operator import itemgetter
from typing import Any, TypeVar

from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.definitions import contents_of, is_of_python
from nbckpt.core.instances import VIEWS
from nbckpt.core.reducers import OWNERS, byte_range
from nbckpt.core.spans import NO_OVERLAPS, address_of
from nbckpt.core.values.links import can_change
from nbckpt.core.values.pickler import Pickler
from nbckpt.errors import CodecError

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_GENERATORS = {"Random": ("random", "random"), "RandomState": ("numpy.random", "rand")}
_start, _end = itemgetter(0), itemgetter(1)
_IN_C_ORDER, _IN_FORTRAN_ORDER, _WRITEABLE = 1, 2, 0x400  # NumPy's flags of an array
_VIEWS = {types.MappingProxyType, *VIEWS}
"""The types whose objects show a mapping that they refer to."""
_CAN_RECUR = (type, types.FunctionType, types.CellType, types.CodeType)
_NOT_OF_CLASS = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__slotnames__", "__firstlineno__", "__annotate__"),
        *("__static_attributes__", "__annotate_func__", "__annotations_cache__", "_abc_impl"),
        # Pydantic makes these from the other attributes, with the id of the class, or fills them when used.
        *("__pydantic_core_schema__", "__pydantic_validator__", "__pydantic_serializer__"),
        *("__pydantic_setattr_handlers__", "__pydantic_parent_namespace__", "__signature__"),
    }
)
_OF_CODE = (
    *("co_name", "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags"),
    *("co_argcount", "co_kwonlyargcount", "co_posonlyargcount", "co_consts", "co_exceptiontable"),
)
_OF_FUNCTION = "__closure__", "__defaults__", "__kwdefaults__", "__name__", "__qualname__", "__doc__"
_OF_TYPE_VARIABLE = "__name__", "__constraints__", "__bound__", "__covariant__", "__contravariant__"


class Digester:
    """Digests the values of a namespace, one after the other.

    An object that two values share counts at its second place as the one of the first place.

    Args:
        namespace: The variables; functions with these globals are digested without them.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._module = namespace.get("__name__", "__main__")
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        self._ranges: list[tuple[int, int, int, int]] = []
        self._buffers = 0
        self._hasher = PREFERRED.hasher()
        self._pickler = Pickler(len, namespace, NO_OVERLAPS, lambda _: True)

    def digest(self, value: object) -> str:
        """Return the digest of a value.

        Raises:
            CodecError: It has none, since it cannot be pickled.
        """
        self._hasher = PREFERRED.hasher()
        try:
            self._feed(value)
        except Exception as error:
            raise CodecError(f"{type(error).__name__}: {error}") from error
        return self._hasher.digest().hex()

    def branch(self) -> Digester:
        """Return a digester that has digested the same values, and that goes on by itself."""
        other = copy.copy(self)
        other._numbers, other._kept = dict(self._numbers), [*self._kept]
        other._ranges = [*self._ranges]
        return other

    def _write(self, kind: str, data: bytes = b"") -> None:
        self._hasher.update(f"{kind} {len(data)} ".encode() + data)

    def _feed(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS:
            text = value if kind is str else format(value, "x") if kind is int else repr(value)
            self._write(kind.__name__, text.encode("utf-8", "surrogatepass"))
        elif kind is tuple:
            self._items("tuple", value)
        elif isinstance(value, types.ModuleType):
            self._write("module", value.__name__.encode())
        elif not self._is_known(value):
            self._feed_new(value)

    def _is_known(self, value: object) -> bool:
        """Tell whether an object that can change was digested before. Then its number is written."""
        if not (isinstance(value, _CAN_RECUR) or can_change(type(value))):
            return False
        number = self._numbers.setdefault(id(value), len(self._numbers))
        if number < len(self._kept):
            self._write("again", str(number).encode())
            return True
        self._kept.append(value)  # another object must not get its id
        return False

    def _feed_new(self, value: Any) -> None:
        kind = type(value)
        if kind is list:
            self._items("list", value)
        elif kind is dict:
            self._items("dict", [part for pair in value.items() for part in pair])
        elif kind in {set, frozenset}:
            self._unordered(kind.__name__, value)
        elif kind is TypeVar:
            self._items("type variable", [getattr(value, name) for name in _OF_TYPE_VARIABLE])
        elif kind is types.CodeType:
            self._items("code", [getattr(value, name) for name in _OF_CODE])
        elif kind is types.FunctionType:
            self._function(value)
        elif kind is types.CellType:
            self._items("cell", list(contents_of(value)))
        elif kind in {staticmethod, classmethod}:
            self._items(kind.__name__, [value.__func__])
        elif kind is property:
            self._items("property", [value.fget, value.fset, value.fdel])
        elif isinstance(value, type):
            self._class(value)
        elif kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            self._array(value)
        elif kind.__name__ in _GENERATORS and _is_librarys(value):
            self._write("generator", kind.__name__.encode())  # see docs/decisions/0096
        elif kind is pickle.PickleBuffer:
            self._shared_bytes(value.raw())
            self._write("read-only" if value.raw().readonly else "writable")
            self._memory(value.raw())
        elif kind in _VIEWS:
            self._items(kind.__name__, gc.get_referents(value))
        elif kind is Field:  # the empty metadata of all fields is one object, and not after a restore
            self._write("field")
            fields = {name: getattr(value, name) for name in Field.__slots__}
            self._attributes({**fields, "metadata": dict(value.metadata)})
        else:
            if issubclass(kind, OWNERS):
                self._shared_bytes(memoryview(value))
            self._reduced(value)

    def _items(self, kind: str, values: Any) -> None:
        self._write(kind, str(len(values)).encode())
        if len(values) > 8 and _ATOMS.issuperset(map(type, values)):
            self._write("plain", repr(list(values)).encode("utf-8", "surrogatepass"))
            return
        for value in values:
            self._feed(value)

    def _unordered(self, kind: str, values: Iterable[object]) -> None:
        alone = Digester(self._namespace)
        self._write(kind, "".join(sorted(map(alone.digest, values))).encode())

    def _attributes(self, values: Mapping[Any, object]) -> None:
        """Feed attributes, whose order does not matter. One that is the id of another one counts as that."""
        names = sorted(values, key=str)
        ids = {id(values[name]): name for name in reversed(names)}
        for name in names:
            value = values[name]
            self._feed(name)
            self._feed(("id of", ids[value]) if type(value) is int and value in ids else value)

    def _array(self, array: Any) -> None:
        dtype, flags = array.dtype, array.flags.num  # the attribute flags.writeable can warn
        is_plain = dtype.names is None and dtype.metadata is None
        is_fortran = flags & (_IN_C_ORDER | _IN_FORTRAN_ORDER) == _IN_FORTRAN_ORDER
        described = [str(dtype) if is_plain else dtype, array.shape, is_fortran, bool(flags & _WRITEABLE)]
        self._items("array", described)
        if array.size:
            self._shared_memory(*byte_range(array))
        if array.dtype.hasobject:
            self._items("objects", array.ravel().tolist())
        else:
            self._memory(memoryview(array.ravel().view("u1")) if array.size else b"")

    def _shared_bytes(self, view: memoryview) -> None:
        if _is_fixed(view):
            self._items("shared", ())
        elif view.nbytes:
            low = address_of(view)
            self._shared_memory(low, low + view.nbytes)

    def _shared_memory(self, low: int, high: int) -> None:
        """Feed the numbers of the first buffers with which a buffer shares memory, and where.

        Only the memory counts: a restored array has another base.
        """
        ranges, number, first = self._ranges, self._buffers, low
        begin = bisect(ranges, low, key=_end)
        met = ranges[begin : bisect_left(ranges, high, key=_start)]
        self._items("shared", [(number, low - first) for _, _, number, first in met])
        if met:
            number, first = met[0][2:]
            low, high = min(low, met[0][0]), max(high, met[-1][1])
        ranges[begin : begin + len(met)] = [(low, high, number, first)]
        self._buffers += 1

    def _memory(self, data: Any) -> None:
        self._write("memory", str(len(data)).encode())
        self._hasher.update(data)

    def _function(self, function: types.FunctionType) -> None:
        is_own = function.__globals__ is self._namespace or function.__module__ == self._module
        if not is_own and _is_importable(function):  # a wrapper that a library made has the user's module
            self._write("name", f"{function.__module__}:{function.__qualname__}".encode())
            return
        held = [getattr(function, name) for name in _OF_FUNCTION]
        self._items("function", [function.__code__, *held, _annotations(function)])
        self._attributes(function.__dict__)

    def _class(self, kind: type) -> None:
        is_in_c = is_of_python(kind)  # such as types.MappingProxyType, which has no place
        if is_in_c or (kind.__module__ != self._module and _is_importable(kind)):
            self._write("name", f"{kind.__module__}:{kind.__qualname__}".encode())
            return
        self._items("class", [kind.__qualname__, type(kind), kind.__bases__])
        self._attributes({name: member for name, member in vars(kind).items() if name not in _NOT_OF_CLASS})

    def _reduced(self, value: Any) -> None:
        reduced = self._pickler.reducer_override(value)
        if reduced is NotImplemented:
            reduce = self._pickler.dispatch_table.get(type(value))
            reduced = reduce(value) if reduce else value.__reduce_ex__(5)
        self._kept_alive(reduced)
        if isinstance(reduced, str):
            self._write("name", f"{type(value).__module__}:{reduced}".encode())
            return
        maker, arguments, state, *rest = (*reduced, None, None, None)[:5]
        self._write("reduced")
        self._feed(maker)
        self._feed(arguments)
        self._state(state)
        for items in rest:
            self._items("items", list(items) if items is not None else [])

    def _state(self, state: Any) -> None:
        if type(state) is dict:
            self._attributes(state)
        elif type(state) is tuple and len(state) == 2 and {*map(type, state)} <= {dict, type(None)}:
            for part in state:
                self._attributes(part or {})
        else:
            self._feed(state)

    def _kept_alive(self, value: object) -> None:
        if id(value) not in self._numbers:  # a text that names an object can be one text each time
            self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)


def _is_librarys(value: object) -> bool:
    """Tell whether a value is the random generator that the functions of a library use."""
    functions = (getattr(sys.modules.get(module), name, None) for module, name in _GENERATORS.values())
    return any(getattr(function, "__self__", None) is value for function in functions)


def _is_fixed(view: memoryview) -> bool:
    """Tell whether a view shows an object that nothing can change, such as bytes."""
    owner: Any = view
    while type(owner) is memoryview:
        owner = owner.obj
    is_array = owner is None or hasattr(owner, "base")  # a read-only array can be a view of another one
    return view.readonly and not is_array and memoryview(owner).readonly


def _annotations(function: types.FunctionType) -> Any:
    """Return the annotations of a function, or the function that gives them if it fails now."""
    lazy = getattr(function, "__annotate__", None)  # from Python 3.14 on: reading the annotations keeps them
    try:
        return lazy(1) if lazy else function.__annotations__
    except Exception:  # noqa: BLE001  it is the user's code: maybe a name of it is bound later
        return lazy


def _is_importable(value: Any) -> bool:
    """Tell whether a function or class is found under its name in its module."""
    part: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        part = getattr(part, name, None)
    return part is value
