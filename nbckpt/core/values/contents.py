"""Contents: read what an object holds, and give it to another object of its class, without the user's code.

This is possible for objects whose whole state Python can see: attributes, slots, and the items of a list, a
dict, a set or a deque. A few types of libraries have functions of their own for that.
"""

from __future__ import annotations

import io
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from sys import modules
from types import CellType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from nbckpt.core.definitions import is_of_python

_WORD = tuple.__itemsize__
_NOT_SET = object()
_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
_MOST_COMPARED = 16 << 20

Swap = Callable[[Any], Any]
"""Returns the object that takes the place of another one."""


@dataclass(frozen=True)
class Form:
    """How to read and write the objects of one class.

    Attributes:
        read: Returns the contents of an object, with each part swapped.
        write: Gives contents to an object.
        fits: Tells whether an object can get the contents of another one.
        is_same: Tells whether two contents are certain to be equal.
    """

    read: Callable[[Any, Swap], Any]
    write: Callable[[Any, Any], object]
    fits: Callable[[Any, Any], bool] = lambda _live, _other: True
    is_same: Callable[[Any, Any], bool] = lambda _one, _other: False


@cache
def _library_forms() -> dict[type, Form]:
    return {
        io.StringIO: _STREAM,
        io.BytesIO: _STREAM,
        random.Random: Form(lambda r, _: r.getstate(), lambda r, state: r.setstate(state)),
        bytearray: Form(
            lambda data, _: bytes(data), _write_memory, lambda live, other: len(live) == len(other)
        ),
        CellType: Form(_read_cell, _write_cell),
        FunctionType: Form(
            lambda function, swap: swap(function.__defaults__),
            lambda function, defaults: setattr(function, "__defaults__", defaults),
            lambda _live, _other: False,
        ),
    }


def form_of(kind: type) -> Form | None:
    """Return how to read and write the objects of a class; None if their state is hidden in C code."""
    if (form := _library_forms().get(kind)) is not None:
        return form
    random_module = modules.get("numpy.random")
    if random_module and kind is random_module.Generator:
        return _GENERATOR
    if random_module and kind is random_module.RandomState:
        return Form(lambda r, _: r.get_state(legacy=False), lambda r, state: r.set_state(state))
    if kind is getattr(modules.get("numpy"), "ndarray", None):
        return _ARRAY
    return _plain_form(kind)


# Streams, arrays and generators.


def _write_memory(data: bytearray, content: bytes) -> None:
    data[:] = content


def _read_cell(cell: CellType, swap: Swap) -> Any:
    try:
        return swap(cell.cell_contents)
    except ValueError:  # it is empty
        return _NOT_SET


def _write_cell(cell: CellType, content: Any) -> None:
    if content is not _NOT_SET:
        cell.cell_contents = content


def _is_equal_array(live: Any, other: Any) -> bool:
    """Tell whether an array has the elements of another one. It is never written to: see decision 0102."""
    layouts = [(array.dtype, array.shape, array.strides, array.flags.writeable) for array in (live, other)]
    is_simple = layouts[0] == layouts[1] and not live.dtype.hasobject and live.nbytes <= _MOST_COMPARED
    return is_simple and bool(live.tobytes() == other.tobytes())


_STREAM = Form(
    lambda stream, _: stream.__getstate__(),
    lambda stream, state: stream.__setstate__(state),
    lambda live, _: not live.closed,
)
_GENERATOR = Form(
    lambda generator, _: generator.bit_generator.state,
    lambda generator, state: setattr(generator.bit_generator, "state", state),
    lambda live, other: type(live.bit_generator) is type(other.bit_generator),
)
_ARRAY = Form(lambda _array, _swap: None, lambda _array, _contents: None, _is_equal_array)


# Instances and containers.


@dataclass(frozen=True)
class _Layout:
    """Where the state of the instances of a class is.

    Attributes:
        items: The container of Python's whose items they have; `object` for none.
        attributes: The descriptor of their `__dict__`; None if they have none.
        slots: The descriptors of their slots.
    """

    items: type
    attributes: Any = None
    slots: tuple[Any, ...] = field(default=())


@dataclass
class _Contents:
    items: Any
    attributes: dict[str, Any] | None
    slots: list[Any]


_CONTAINERS: frozenset[type] = frozenset({object, list, dict, set, OrderedDict, defaultdict, deque})


def _plain_form(kind: type) -> Form | None:
    layout = _layout_of(kind)
    if layout is None:
        return None
    items = layout.items
    attributes_of = layout.attributes.__get__ if layout.attributes else None

    def read(obj: Any, swap: Swap) -> _Contents:
        return _Contents(
            None if items is object else _read_items(items, obj, swap),
            _read_items(dict, attributes_of(obj), swap) if attributes_of else None,
            [_read_slot(slot, obj, swap) for slot in layout.slots],
        )

    def write(obj: Any, contents: _Contents) -> None:
        _write_items(layout.items, obj, contents.items)
        if contents.attributes is not None:
            _write_items(dict, layout.attributes.__get__(obj), contents.attributes)
        for slot, value in zip(layout.slots, contents.slots, strict=True):
            _write_slot(slot, obj, value)

    def fits(live: Any, other: Any) -> bool:
        if issubclass(layout.items, deque) and live.maxlen != other.maxlen:
            return False
        # Some dicts are their own attributes.
        return layout.attributes is None or all(
            layout.attributes.__get__(obj) is not obj for obj in (live, other)
        )

    return Form(read, write, fits, _is_same)


def _is_same(one: _Contents, other: _Contents) -> bool:
    """Tell whether contents are certain to be equal: they have the same parts, or equal plain ones."""
    if type(one.items) in (tuple, set):
        return False  # with a factory, or without an order
    pairs: list[tuple[Any, Any]] = [(one.items, other.items), (one.attributes, other.attributes)]
    return _are_same(one.slots, other.slots) and all(
        _are_same([*ours], [*theirs])
        and (not isinstance(ours, dict) or _are_same([*ours.values()], [*theirs.values()]))
        for ours, theirs in pairs
        if ours is not None
    )


def _are_same(parts: list[Any], others: list[Any]) -> bool:
    return len(parts) == len(others) and all(
        ours is theirs or (type(ours) is type(theirs) and type(ours) in _PLAIN and repr(ours) == repr(theirs))
        for ours, theirs in zip(parts, others, strict=True)
    )


def _layout_of(kind: type) -> _Layout | None:
    """Return where the state of a class's instances is; None if a class in C keeps more of it."""
    slots: list[Any] = []
    base: type | None = kind
    while base is not None and base not in _CONTAINERS:
        below = base.__base__
        if below is None or is_of_python(base):
            return None
        members = vars(base)
        own = [part for part in members.values() if type(part) is MemberDescriptorType]
        own = own if "__slots__" in members else []
        more = base.__basicsize__ - below.__basicsize__ - len(own) * _WORD
        if not 0 <= more <= _WORD * (("__dict__" in members) + ("__weakref__" in members)):
            return None
        slots += own
        base = below
    attributes = next((vars(part)["__dict__"] for part in kind.__mro__ if "__dict__" in vars(part)), None)
    if base is None or not (attributes is None or type(attributes) is GetSetDescriptorType):
        return None
    return _Layout(base, attributes, tuple(slots))


def _read_items(base: Any, obj: Any, swap: Swap) -> Any:
    if base is object:
        return None
    if issubclass(base, dict):
        # Copied in one step, because a thread may change it.
        items = {swap(key): swap(value) for key, value in list(base.items(obj))}
        return (items, swap(obj.default_factory)) if base is defaultdict else items
    parts = map(swap, [*base.__iter__(obj)])
    return {*parts} if base is set else [*parts]


def _write_items(base: Any, obj: Any, items: Any) -> None:
    if base is list:
        list.__setitem__(obj, slice(None), items)
    elif base is defaultdict:
        vars(defaultdict)["default_factory"].__set__(obj, items[1])
        _write_items(dict, obj, items[0])
    elif base is not object:
        base.clear(obj)
        if base is OrderedDict:
            for key, value in items.items():
                OrderedDict.__setitem__(obj, key, value)
        else:
            (deque.extend if base is deque else base.update)(obj, items)


def _read_slot(slot: Any, obj: Any, swap: Swap) -> Any:
    try:
        return swap(slot.__get__(obj))
    except AttributeError:
        return _NOT_SET


def _write_slot(slot: Any, obj: Any, value: Any) -> None:
    if value is not _NOT_SET:
        slot.__set__(obj, value)
    elif _read_slot(slot, obj, lambda part: part) is not _NOT_SET:
        slot.__delete__(obj)


def own_parts(function: FunctionType) -> Iterator[Any]:
    """Yield what a function holds apart from its code and its globals."""
    yield from function.__closure__ or ()
    yield from (function.__defaults__, function.__kwdefaults__, function.__dict__)
