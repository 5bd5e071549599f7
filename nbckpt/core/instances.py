"""Instances: reducers for objects that pickle restores incompletely, or fails to restore.

Records name the functions that rebuild objects, as in `reducers`, so these functions keep their meaning.
"""

from __future__ import annotations

import functools
import gc
import typing
from collections import OrderedDict
from collections.abc import Callable
from copyreg import dispatch_table
from sys import modules
from types import MappingProxyType
from typing import Any

from nbckpt._private_apis import index_references, set_index_references, set_tensor_hooks, tensor_hooks
from nbckpt.core.definitions import found_by_name

Reduced = Any
"""The return value of `object.__reduce_ex__`."""

VIEWS: dict[type, Callable[..., Any]] = {
    type(view(kind())): view for kind in (dict, OrderedDict) for view in (kind.keys, kind.values, kind.items)
}
"""The types of the views of a dict, each with what makes them."""


# Functions with a cache. They are found by name.


def reduce_cached(function: Any) -> Reduced:
    """Reduce a function that `functools.lru_cache` made, without its cached results."""
    if found_by_name(function) or not hasattr(function, "cache_parameters"):
        return NotImplemented
    attributes = {name: value for name, value in vars(function).items() if name != "cache_parameters"}
    parameters = function.cache_parameters()
    return make_cached, (function.__wrapped__, parameters["maxsize"], parameters["typed"]), attributes


def make_cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:  # noqa: FBT001  as in the record
    """Wrap a function with an empty cache."""
    return functools.lru_cache(maxsize, typed)(function)


def reduce_dict_view(view: Any) -> Reduced:
    """Reduce the keys, the values or the items of a dict to the dict itself, which may be a variable too."""
    (owner,) = gc.get_referents(view)
    return VIEWS[type(view)], (owner,)


def reduce_proxy(proxy: MappingProxyType[Any, Any]) -> Reduced:
    """Reduce a read-only view of a mapping to the mapping itself."""
    (owner,) = gc.get_referents(proxy)
    return MappingProxyType, (owner,)


def reduce_new_type(kind: Any) -> Reduced:
    """Reduce a `typing.NewType`, which is found by name."""
    if found_by_name(kind):
        return NotImplemented
    return typing.NewType, (kind.__name__, kind.__supertype__), {"__module__": kind.__module__}


def reduce_type_parameter(parameter: Any) -> Reduced:
    """Reduce a parameter of types of the notebook. typing would look for it in `__main__`."""
    is_new = getattr(parameter, "__infer_variance__", False)  # as in `def f[T]`, since Python 3.12
    if found_by_name(parameter) or (isinstance(parameter, typing.TypeVar) and not is_new):
        return NotImplemented
    names = {
        typing.TypeVar: ("__constraints__", "__bound__"),
        typing.ParamSpec: ("__bound__", "__covariant__", "__contravariant__"),
    }
    options = {name.strip("_"): getattr(parameter, name) for name in names.get(type(parameter), ())}
    if is_new:
        options["infer_variance"] = True
    return (
        make_type_parameter,
        (type(parameter), parameter.__name__, options),
        {"__module__": parameter.__module__} if hasattr(parameter, "__dict__") else None,
    )


def reduce_type_alias(alias: Any) -> Reduced:
    """Reduce an alias of the notebook. typing would look for it in `__main__`."""
    if found_by_name(alias):
        return NotImplemented
    return make_type_alias, (alias.__name__, alias.__value__, alias.__type_params__)


def make_type_alias(name: str, value: Any, parameters: tuple[Any, ...]) -> Any:
    """Make an alias as `type NAME = VALUE` does, since Python 3.12."""
    return vars(typing)["TypeAliasType"](name, value, type_params=parameters)


def make_type_parameter(kind: Any, name: str, options: dict[str, Any]) -> Any:
    """Make a `TypeVar`, a `ParamSpec` or a `TypeVarTuple`."""
    constraints = options.get("constraints", ())
    return kind(name, *constraints, **{key: value for key, value in options.items() if key != "constraints"})


# Instances of classes with a `__getattr__`. Pickle would look up `__setstate__` on the empty instance.


def asks_itself(kind: type) -> bool:
    """Tell whether a type defines `__getattr__` and no pickling of its own."""
    own = any("__getattr__" in vars(base) for base in kind.__mro__)
    return own and not hasattr(kind, "__setstate__") and not reduces_itself(kind)


def reduces_itself(kind: type) -> bool:
    """Tell whether a type defines its own reduction."""
    names = ("__reduce__", "__reduce_ex__")
    return kind in dispatch_table or any(getattr(kind, name) is not getattr(object, name) for name in names)


def reduce_plainly(instance: Any) -> Reduced:
    """Reduce an instance so that it is filled without any lookup in it."""
    make, arguments, state, *items = instance.__reduce_ex__(5)
    items = [*items, None, None][:2]
    return (
        (make, arguments, state, *items, set_state) if state is not None else (make, arguments, None, *items)
    )


def set_state(instance: Any, state: Any) -> None:
    """Fill an instance as pickle does, but without any lookup in it."""
    attributes, slots = state if type(state) is tuple else (state, None)
    if attributes:
        object.__getattribute__(instance, "__dict__").update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(instance, name, value)


# Cached properties. Until Python 3.11 they have a lock.


def reduce_cached_property(cached: Any) -> Reduced:
    """Reduce a cached property to its function and its name."""
    state = {name: part for name, part in vars(cached).items() if name not in ("func", "lock")}
    return type(cached), (cached.func,), state


# Parts of dataclasses and annotations. Versions of Python have different slots in them.


def reduce_forward_reference(reference: Any) -> Reduced:
    """Reduce a name in an annotation without its code, which the name is compiled to."""
    names = ("__forward_is_argument__", "__forward_is_class__", "__forward_module__")
    slots = {name: getattr(reference, name) for name in names if hasattr(reference, name)}
    return type(reference), (reference.__forward_arg__,), (None, slots), None, None, fill_slots


def reduce_slots(instance: Any) -> Reduced:
    """Reduce an instance to its slots, of which another Python sets those that it has."""
    make, arguments, state = instance.__reduce_ex__(5)[:3]
    return make, arguments, state, None, None, fill_slots


def fill_slots(instance: Any, state: tuple[None, dict[str, Any]]) -> None:
    """Set the slots of an instance, except those that its class does not have."""
    for name, value in state[1].items():
        if hasattr(type(instance), name):
            object.__setattr__(instance, name, value)


# Exceptions with their causes.


def reduce_exception(error: BaseException, can_save: Callable[[Any], bool]) -> Reduced:
    """Reduce an exception with its cause and its context, if these can be saved."""
    reduced: Any = error.__reduce_ex__(5)
    cause, context = (linked if can_save(linked) else None for linked in (error.__cause__, error.__context__))
    if type(reduced) is tuple and len(reduced) == 3 and not reduced[2]:
        reduced = reduced[:2]  # looking at an exception gives it an empty dict
    chained = cause is not None or context is not None or error.__suppress_context__
    if not chained or type(reduced) is not tuple or len(reduced) > 3:
        return reduced
    make, arguments, *state = reduced
    chain = (state[0] if state else None, cause, context, error.__suppress_context__)
    return make, arguments, chain, None, None, set_exception


def set_exception(error: BaseException, chain: tuple[Any, BaseException, BaseException, bool]) -> None:
    """Set the attributes, the cause and the context of an exception."""
    state, error.__cause__, error.__context__, error.__suppress_context__ = chain
    if state is not None:
        error.__setstate__(state)


# Gradients of tensors.


def gradient_of(tensor: Any, can_save: Callable[[Any], bool]) -> tuple[Any, Any, Any] | None:
    """Return a leaf's gradient, hooks and post-accumulation hooks, without hooks that cannot be saved."""
    parts = (tensor.grad, *(hook if hook and can_save(hook) else None for hook in tensor_hooks(tensor)))
    return parts if any(part is not None for part in parts) else None


def set_gradient(tensor: Any, parts: tuple[Any, Any, Any]) -> None:
    """Set a tensor's gradient and its hooks, under the numbers that their handles use."""
    from torch.utils.hooks import RemovableHandle

    tensor.grad, hooks, after = parts
    set_tensor_hooks(tensor, hooks, after)
    RemovableHandle.next_id = max(
        RemovableHandle.next_id, *(at + 1 for numbered in (hooks, after) for at in numbered or (-1,))
    )


# Arrays of a subclass of NumPy's. NumPy copies their elements into pickles, and leaves their attributes out.


def pickles_as_array(kind: type) -> bool:
    """Tell whether a subclass of NumPy's array has no pickling of its own, apart from that of NumPy."""
    numpy = modules["numpy"]
    names = ("__reduce__", "__reduce_ex__", "__setstate__")
    known = numpy.ndarray, numpy.ma.MaskedArray
    own = any(all(getattr(kind, name) is not getattr(base, name) for base in known) for name in names)
    return kind not in dispatch_table and not own


def reduce_subarray(array: Any, can_save: Callable[[str, Any], bool]) -> Reduced:
    """Reduce an array of a subclass to its memory, which views share, and to its attributes."""
    ndarray = modules["numpy"].ndarray
    if array.dtype.hasobject:
        return NotImplemented
    attributes = {
        name: part for name, part in vars(array).items() if isinstance(part, ndarray) or can_save(name, part)
    }
    reduced = ndarray.view, (ndarray.view(array, ndarray), type(array))
    return (*reduced, attributes, None, None, set_state) if attributes else reduced


# Figures. Some parts are numbered by address or by a global counter, so equal figures would give different
# bytes.


def reduce_figure(figure: Any) -> Reduced:
    """Reduce a figure with its resolution. matplotlib would save that of its creation."""
    reduced: Any = figure.__reduce_ex__(5)
    if type(reduced) is not tuple or len(reduced) < 3 or "_original_dpi" not in (reduced[2] or ()):
        return reduced
    ratio = getattr(figure.canvas, "device_pixel_ratio", 1)
    dpi = figure.get_dpi() if ratio == 1 else figure.get_dpi() / ratio  # without the pixels of a screen
    state = reduced[2] | {"_dpi": dpi, "_original_dpi": dpi}
    if "_restore_to_pylab" in state:
        state.pop("_number", None)  # pyplot numbers a restored figure anew
    return (*reduced[:2], state, *reduced[3:])


def reduce_callbacks(registry: Any) -> Reduced:
    """Reduce a figure's callbacks. The next number follows the last saved number."""

    def after_last(state: dict[str, Any]) -> int:
        return 1 + max((number for named in state["callbacks"].values() for number in named), default=-1)

    return _with(registry, "_cid_gen", after_last)


def reduce_node(node: Any) -> Reduced:
    """Reduce a node of a figure's transforms. The child nodes are numbered in their order."""
    return _with(node, "_parents", lambda state: dict(enumerate(state["_parents"].values())))


def _with(instance: Any, name: str, make: Callable[[dict[str, Any]], Any]) -> Reduced:
    """Reduce an instance with one attribute of its state replaced."""
    reduced: Any = instance.__reduce_ex__(5)
    if type(reduced) is not tuple or len(reduced) < 3 or name not in (reduced[2] or ()):
        return reduced
    return (*reduced[:2], reduced[2] | {name: make(reduced[2])}, *reduced[3:])


# Frames of pandas. A frame that was made from another may use its memory: the one that is written to first
# makes a copy. pandas knows whose memory others use from a list of references, which pickles leave out. See
# docs/decisions/0122.


def reduce_block(block: Any) -> Reduced:
    """Reduce a block of columns with its references."""
    refs = getattr(block, "refs", None)
    return NotImplemented if refs is None else (make_block, (*block.__reduce__()[:2], refs))


def make_block(make: Callable[..., Any], arguments: tuple[Any, ...], refs: Any) -> Any:
    """Make a block and add it to its references."""
    block = make(*arguments)
    block.refs = refs
    refs.add_reference(block)
    return block


def reduce_column(manager: Any) -> Reduced:
    """Reduce the content of a series to its block. pandas would make another block, with other references."""
    return type(manager), (manager.blocks[0], manager.axes[0])


def reduce_references(refs: Any) -> Reduced:
    """Reduce a list of references. What it refers to adds itself again."""
    return type(refs), ()


def reduce_index(index: Any) -> Reduced:
    """Reduce an index with its references, if it uses the memory of a column."""
    refs, reduced = index_references(index), index.__reduce__()
    return NotImplemented if refs is None else (*reduced[:2], refs, None, None, set_references)


def set_references(index: Any, refs: Any) -> None:
    """Add an index to its references."""
    set_index_references(index, refs)
    refs.add_index_reference(index)


# Dates of pandas. They note facts about themselves when they are read.


def reduce_dates(dates: Any) -> Reduced:
    """Reduce an array of dates, durations or periods without the facts that it noted."""
    make, arguments, state = dates.__reduce__()
    if type(state) is not tuple or not isinstance(state[-1], dict):
        return make, arguments, state
    attributes = _without_cache(state[-1])
    return make, arguments, (*state[:-1], *([attributes] if attributes else []))


def reduce_extension(array: Any) -> Reduced:
    """Reduce an array of pandas of another kind without the facts that it noted about itself."""
    reduced: Reduced = array.__reduce_ex__(5)
    state = reduced[2] if len(reduced) > 2 else None
    if type(state) is not dict or "_cache" not in state:
        return reduced
    return *reduced[:2], _without_cache(state), *reduced[3:]


def _without_cache(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name != "_cache"}


# What lives outside of the values of a kernel.


def reduce_shared_memory(_: Any) -> Reduced:
    """Refuse shared memory: a pickle has its name alone, and the memory ends with its last process."""
    raise TypeError(
        "shared memory lives outside of the kernel, and cannot be saved: save a copy of its contents"
    )


def reduce_future(future: Any) -> Reduced:
    """Reduce a future that is done. Nothing would ever end another one after a restore."""
    if not future.done():
        raise TypeError("a future that is not done cannot be saved: wait for its result")
    return NotImplemented


# Arrow columns. A slice refers to the memory of the whole column.

_SPARED, _MOST_COPIED = 64 << 10, 32 << 20


def reduce_arrow(data: Any) -> Reduced:
    """Reduce a slice of a much larger column or table to a copy of its own rows."""
    size = data.nbytes
    if size > _MOST_COPIED or data.get_total_buffer_size() < 4 * size + _SPARED:
        return NotImplemented
    try:
        return data.take(modules["pyarrow"].array(range(len(data)))).__reduce_ex__(5)
    except modules["pyarrow"].ArrowNotImplementedError:  # a type that does not support taking rows
        return NotImplemented
