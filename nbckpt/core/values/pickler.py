"""Pickler: cloudpickle's pickler, with nbckpt's reducers first."""

from __future__ import annotations

import dataclasses
import functools
import io
import types
import typing
from collections.abc import Callable, Mapping
from copyreg import dispatch_table
from enum import Enum
from functools import partial
from sys import modules
from typing import Any

from nbckpt.core import (
    construction,
    ctypes_data,
    elsewhere,
    enumerations,
    instances,
    named_objects,
    parts,
    reducers,
)
from nbckpt.core.definitions import contents_of
from nbckpt.core.instances import reduce_arrow
from nbckpt.core.object_arrays import objects_at, reduce_objects, reduce_view
from nbckpt.core.reducers import reduce_dtype
from nbckpt.core.spans import Overlaps, Span
from nbckpt.core.values import locks, losses, streams
from nbckpt.core.values.by_value import ByValuePickler
from nbckpt.core.values.identities import Identities

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), tuple})


class _Sieve:
    """Passes a pickle on, and drops the plain values seen since the last piece, because they are many.

    Attributes:
        forgotten: The number of dropped values.
    """

    def __init__(
        self, write: Callable[[bytes], Any], seen: list[object], classes: list[tuple[int, object]]
    ) -> None:
        self.forgotten = 0
        self._write, self._seen, self._classes = write, seen, classes
        self._looked_at = self._classes_then = 0

    def write(self, piece: bytes) -> None:
        """Take the next piece of a pickle."""
        self._write(piece)
        new = self._seen[self._looked_at :]
        if len(self._classes) == self._classes_then:  # classes hold positions in the list
            self._seen[self._looked_at :] = [value for value in new if type(value) not in _PLAIN]
        self.forgotten += self._looked_at + len(new) - len(self._seen)
        self._looked_at, self._classes_then = len(self._seen), len(self._classes)


class Pickler(ByValuePickler):
    """Pickles one value and reports which objects it visited.

    Attributes:
        seen: Every object that it visited, in order. An object that it visits twice is listed twice. If the
            pickle is made in pieces, most plain values are left out, since nothing shares them.
        reach: The memory of the strided arrays that it copied.
        pointers: The memory of the arrays of objects.
        classes: For each pickled class: the number of objects seen before it, and the last object in the
            class.
        functions: The functions that are saved without the namespace.
        notes: Objects that will not be restored completely, each with the loss.
        first: The first object of each type that pickle does not know itself.
        calls: The functions and classes that a load calls, because a class of the notebook says so.
        nans: The NaNs that are not constants of a library, if identities are kept.
    """

    def __init__(
        self,
        write: Callable[[bytes], Any],
        namespace: dict[str, Any],
        overlaps: Overlaps,
        take: Callable[..., Any],
        *,
        in_pieces: bool = False,
        keeps_identities: bool = False,
        visited: list[object] | None = None,
    ) -> None:
        self.seen: list[object] = [] if visited is None else visited
        self.seen.clear()
        self.classes: list[tuple[int, object]] = []
        self.sieve = _Sieve(write, self.seen, self.classes)
        # list.append does not let another thread run between two pieces.
        super().__init__(self.sieve if in_pieces else types.SimpleNamespace(write=write), 5, take)
        self.reach: list[Span] = []
        self.pointers: list[Span] = []
        self.functions: list[types.FunctionType] = []
        self.notes: list[tuple[object, str]] = []
        self.first: dict[type, Any] = {}
        self.nans: list[float] = []
        self.calls: list[Any] = []
        # Called for every object, at the speed of C. list.append returns None, which means: pickle it as
        # usual. See docs/decisions/0003.
        self.persistent_id = self._see_and_identify() if keeps_identities else self.seen.append
        self._namespace = namespace
        self._overlaps = overlaps
        self._filled_later: dict[int, types.CellType] = {}
        self._by_kind: dict[type, _Reduce] = {}
        self._tried: dict[int, bool] = {}
        self._roots: dict[tuple[int, int], Any] = {}
        self._sources: dict[int, Any] = {}

    def _see_and_identify(self) -> Callable[[Any], int | str | None]:
        see, identity = self.seen.append, Identities(self.nans).of

        def see_and_identify(obj: Any) -> int | str | None:
            see(obj)
            return identity(obj)

        return see_and_identify

    def reducer_override(self, obj: Any) -> Any:
        """See `pickle.Pickler.reducer_override`."""
        kind = type(obj)
        reduce = self._by_kind.get(kind)
        if reduce is None:
            reduce = self._by_kind[kind] = _reducer_of(kind)
            self.first[kind] = obj
        return reduce(self, obj)

    def _function(self, function: types.FunctionType) -> Any:
        own = function.__globals__ is self._namespace
        reduced = reducers.reduce_function(function) if own else super().reducer_override(function)
        if function.__closure__ and reduced is not NotImplemented:
            self._filled_later |= {id(cell): cell for cell in function.__closure__}
        if own:
            self.functions.append(function)
        return reduced if own else reducers.with_cells(function, reduced)

    def _cell(self, cell: types.CellType) -> Any:
        """Make a cell. It is empty if a function has it, because the cell may contain that function."""
        return types.CellType, () if id(cell) in self._filled_later else contents_of(cell)

    def _class(self, kind: type) -> Any:
        if (reduced := ctypes_data.reduce_ctypes_type(kind)) is not None:
            return reduced
        reduced = super().reducer_override(kind)
        if isinstance(reduced, tuple) and len(reduced) > 2:
            attributes, last = reduced[2]
            ctypes_data.drop_ctypes_fields(attributes)
            attributes.pop("__slotnames__", None)  # it appears after an instance was pickled
            if _makes_slots(kind, attributes) and reduced[0].__name__ == "_make_skeleton_class":
                slots = attributes["__slots__"]
                reduced[1][3]["__slots__"] = slots  # cloudpickle alone sets it when it is too late
            if not attributes.get("__annotations__", True):
                del attributes["__annotations__"]  # it appears when it is read
            if issubclass(kind, Enum):
                reduced = enumerations.reduce_enumeration(kind, reduced)
                last = reduced[2][-1]
            self.classes.append((len(self.seen), last))
        return reduced

    def _own_way(self, instance: Any) -> Any:
        """Reduce an instance as pickle would, and record which attributes it omits. Once per class."""
        kind = type(instance)
        self._by_kind[kind] = Pickler._constructed if construction.needs_construction(kind) else _as_usual
        reduced = instance.__reduce_ex__(5)
        if lost := losses.left_out(instance, reduced):
            self.notes.append((instance, losses.Omission.of(kind, lost)))
        reduced = construction.constructed(instance, reduced)
        if type(reduced) is tuple:
            self.calls.append(reduced[0])
        if type(reduced) is tuple and not construction.fits(reduced[0], *reduced[1]):
            name = getattr(reduced[0], "__qualname__", "a call")
            raise TypeError(
                f"a load would call {name} with {len(reduced[1])} arguments, which it does not take"
            )
        return reduced

    def _constructed(self, instance: Any) -> Any:
        return construction.constructed(instance, instance.__reduce_ex__(5))

    def _exception(self, error: BaseException) -> Any:
        if error.__traceback__ is not None:
            self.notes.append((error, "comes back without its traceback"))
        reduced = instances.reduce_exception(error, partial(self._can_save, error, "cause"))
        return construction.constructed(error, reduced)

    def _can_save(self, whole: Any, name: str, part: Any) -> bool:
        """Tell whether an optional part can be pickled. Add a note if it cannot."""
        if id(part) not in self._tried:
            self._tried[id(part)] = True  # provisional, because the part may contain itself
            self._tried[id(part)] = self._try(part)
        if not self._tried[id(part)]:
            self.notes.append((whole, f"comes back without its {name}, which cannot be saved"))
        return self._tried[id(part)]

    def _try(self, part: Any) -> bool:
        trial = Pickler(len, self._namespace, self._overlaps, lambda _: False)
        # Otherwise each exception of a chain would try the rest of the chain again.
        trial._tried = self._tried
        try:
            trial.dump(part)
        except Exception:  # noqa: BLE001  any exception of the part's own pickling
            return False
        return True

    def _view(self, view: memoryview) -> Any:
        owner = view.obj
        return reducers.reduce_memoryview(view, owner if self._overlaps.owned(owner) else None)

    def _array(self, array: Any) -> Any:
        if array.base is not None:
            self._note_source(array)
        if array.dtype.hasobject:
            return self._objects(array)
        owner = reducers.owner_of(array)
        if owner is not None and self._overlaps.owned(owner):
            return reducers.reduce_owned(array, owner)
        reduced = reducers.reduce_array(array, self._overlaps.covers)
        strided = not (array.flags.c_contiguous or array.flags.f_contiguous)
        if strided and array.size:
            # A copy goes into the record, but its source may be shared.
            low, high = reducers.byte_range(array)
            self.reach.append(Span(low, high - low, memoryview(b"")))
        return reduced

    def _objects(self, array: Any) -> Any:
        """Reduce an array of objects. If others use its memory too, it is a view of the memory of all."""
        low, high = reducers.byte_range(array)
        if array.size and not any(array is root for root in self._roots.values()):
            self.pointers.append(Span(low, high - low, memoryview(b"")))
            if whole := self._overlaps.around(low, high):
                if whole not in self._roots:
                    self._roots[whole] = objects_at(array, *whole)
                if (root := self._roots[whole]) is not None:
                    return reduce_view(array, root)
        return reduce_objects(array)

    def _memmap(self, array: Any) -> Any:
        numpy = modules["numpy"]
        if type(array) is not numpy.memmap:
            self._note_source(array)
            return NotImplemented
        view = array.view(numpy.ndarray)
        self._sources[id(view)] = array  # the pickler keeps the view alive
        return numpy.ndarray.view, (view, type(array))

    def _note_source(self, array: Any) -> None:
        if source := elsewhere.mapped_source(array):
            named = self._sources.get(id(array), array)
            self.notes.append((named, f"comes back with its contents, but apart from {source}"))

    def _refer(self, value: Any) -> Any:
        """Reduce a value as usual, and note the files to which it refers."""
        if source := elsewhere.source_of(value):
            self.notes.append((value, f"refers to {source}, whose contents are not saved"))
        return NotImplemented

    def _type_variable(self, variable: Any) -> Any:
        reduced = instances.reduce_type_parameter(variable)
        return super().reducer_override(variable) if reduced is NotImplemented else reduced

    def _ctypes_array(self, array: Any) -> Any:
        self.notes.append((array, "comes back in new memory, to which no pointer leads"))
        return ctypes_data.reduce_ctypes_array(array)

    def _subarray(self, array: Any) -> Any:
        return instances.reduce_subarray(array, partial(self._can_save, array))

    def _quantity(self, quantity: Any) -> Any:
        reduced = parts.reduce_quantity(quantity)
        if reduced is not NotImplemented:
            note = "comes back with pint's application registry in another kernel: its own cannot be saved"
            self.notes.append((quantity, note))
        return reduced

    def _tensor(self, tensor: Any) -> Any:
        reduced = (
            reducers.reduce_tensor(tensor) if type(tensor) is modules["torch"].Tensor else NotImplemented
        )
        if not tensor.is_leaf:
            self.notes.append((tensor, "comes back as a leaf: the computation that gave it is not saved"))
            return reduced
        gradient = instances.gradient_of(tensor, partial(self._can_save, tensor, "hooks"))
        if gradient is None:
            return reduced
        reduced = tensor.__reduce_ex__(5) if reduced is NotImplemented else reduced
        return (*reduced, gradient, None, None, instances.set_gradient) if len(reduced) == 2 else reduced


def _makes_slots(kind: type, attributes: Mapping[str, Any]) -> bool:
    """Tell whether a class makes slots. A named tuple makes none, and refuses to be told so."""
    return isinstance(attributes.get("__slots__"), (str, tuple, list, dict)) and not issubclass(kind, tuple)


_Reduce = Callable[[Pickler, Any], Any]
"""Reduces an object for a pickler. It must not be a bound method, because garbage collection would crash."""


def _as_usual(_: Pickler, __: object) -> Any:
    return NotImplemented


def _alone(reduce: Callable[[Any], Any]) -> _Reduce:
    return lambda _, obj: reduce(obj)


_REDUCERS: dict[type, _Reduce] = {
    types.FunctionType: Pickler._function,
    types.CellType: Pickler._cell,
    memoryview: Pickler._view,
    **{kind: _alone(reduce) for kind, reduce in locks.REDUCERS.items()},
    io.TextIOWrapper: _alone(elsewhere.reduce_file),
    io.BufferedReader: _alone(elsewhere.reduce_file),
    type(functools.lru_cache(len)): _alone(instances.reduce_cached),
    typing.NewType: _alone(instances.reduce_new_type),
    typing.ForwardRef: _alone(instances.reduce_forward_reference),
    typing.TypeVar: Pickler._type_variable,
    typing.ParamSpec: _alone(instances.reduce_type_parameter),
    typing.TypeVarTuple: _alone(instances.reduce_type_parameter),
    types.MappingProxyType: _alone(instances.reduce_proxy),
    **{kind: _alone(instances.reduce_dict_view) for kind in instances.VIEWS},
    # Restored as the same objects, because code compares by identity.
    type(dataclasses.MISSING): _alone(lambda _: "MISSING"),
    type(dataclasses.KW_ONLY): _alone(lambda _: "KW_ONLY"),
    functools.cached_property: _alone(instances.reduce_cached_property),
    dataclasses.Field: _alone(instances.reduce_slots),
    type(vars(Span)["__dataclass_params__"]): _alone(instances.reduce_slots),
}
_LIBRARIES: tuple[tuple[str, str, _Reduce], ...] = (
    ("os", "_Environ", _alone(named_objects.reduce_named)),
    ("random", "Random", _alone(named_objects.reduce_named)),
    ("numpy.random", "RandomState", _alone(named_objects.reduce_named)),
    ("matplotlib", "RcParams", _alone(named_objects.reduce_named)),
    ("scipy.stats._distn_infrastructure", "rv_generic", _alone(named_objects.reduce_named)),
    ("ipykernel.iostream", "OutStream", _alone(streams.reduce_kernel_stream)),
    ("plotly.basedatatypes", "BasePlotlyType", _alone(parts.reduce_plotly_part)),
    ("pint.util", "SharedRegistryObject", Pickler._quantity),
    ("ctypes", "Array", Pickler._ctypes_array),
    ("typing", "TypeAliasType", _alone(instances.reduce_type_alias)),
    ("concurrent.futures", "Future", _alone(instances.reduce_future)),
    ("multiprocessing.shared_memory", "SharedMemory", _alone(instances.reduce_shared_memory)),
    ("matplotlib.figure", "Figure", _alone(instances.reduce_figure)),
    ("numpy", "memmap", Pickler._memmap),
    ("sqlite3", "Connection", _alone(elsewhere.reduce_connection)),
    ("zarr", "Array", Pickler._refer),
    ("zarr", "Group", Pickler._refer),
    ("xarray.backends.file_manager", "CachingFileManager", Pickler._refer),
    ("polars", "LazyFrame", Pickler._refer),
    ("pyarrow.dataset", "FileSystemDataset", Pickler._refer),
    ("numpy", "finfo", _alone(lambda info: (type(info), (info.dtype,)))),
    ("torch", "Tensor", Pickler._tensor),
    ("pandas._libs.arrays", "NDArrayBacked", _alone(instances.reduce_dates)),
    ("pandas.api.extensions", "ExtensionArray", _alone(instances.reduce_extension)),
    ("pandas._libs.internals", "Block", _alone(instances.reduce_block)),
    ("pandas.core.internals.managers", "SingleBlockManager", _alone(instances.reduce_column)),
    ("pandas._libs.internals", "BlockValuesRefs", _alone(instances.reduce_references)),
    ("pandas", "Index", _alone(instances.reduce_index)),
    ("matplotlib.cbook", "CallbackRegistry", _alone(instances.reduce_callbacks)),
    ("matplotlib.transforms", "TransformNode", _alone(instances.reduce_node)),
    *(("pyarrow", name, _alone(reduce_arrow)) for name in ("Table", "RecordBatch", "Array", "ChunkedArray")),
)
"""Reducers for a type of a library and its subtypes. A library that is not imported has no objects."""


def _reducer_of(kind: type) -> _Reduce:
    if issubclass(kind, type):
        return Pickler._class
    if kind in _REDUCERS:
        return _REDUCERS[kind]
    if kind is getattr(modules.get("numpy"), "ndarray", None):
        return Pickler._array
    if kind is getattr(modules.get("numpy.dtypes"), "VoidDType", None):
        return _alone(reduce_dtype)
    for library, name, reduce in _LIBRARIES:
        if (base := getattr(modules.get(library), name, None)) is not None and issubclass(kind, base):
            return reduce
    if issubclass(kind, getattr(modules.get("numpy"), "ndarray", ())) and instances.pickles_as_array(kind):
        return Pickler._subarray
    return Pickler._exception if issubclass(kind, BaseException) else _reducer_of_instance(kind)


def _reducer_of_instance(kind: type) -> _Reduce:
    if instances.asks_itself(kind):
        return _alone(instances.reduce_plainly)
    if kind in dispatch_table:
        return _as_usual
    if kind.__module__ == "__main__" and losses.pickles_its_own_way(kind):
        return Pickler._own_way
    return Pickler._constructed if construction.needs_construction(kind) else _as_usual
