"""Construction: makes instances of the notebook's classes by the library below them, without the user's code.

Pickle makes many instances by a call of their class, and sets items one by one through methods of the class.
If the class has an `__init__` or `__new__` with other parameters, or a `__setitem__` that needs attributes,
that fails at the load. Records name the functions that make and fill instances, so these functions keep their
meaning.
"""

from __future__ import annotations

import copyreg
import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from nbckpt.core.definitions import found_by_name, is_of_python
from nbckpt.core.instances import Reduced, set_state

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
_NEW = vars(copyreg)["__newobj__"]
_MAKERS = ("__new__", "__init__")
_ITEM_METHODS = ("append", "extend", "__setitem__")
_REDUCTIONS = ("__reduce__", "__reduce_ex__")

_fitting: WeakKeyDictionary[Callable[..., Any], dict[int, bool]] = WeakKeyDictionary()


def needs_construction(kind: type) -> bool:
    """Tell whether pickle could run code of the notebook, or fail, when it makes or fills an instance."""
    base = _base(kind)
    is_called = any(getattr(kind, name) is not getattr(object, name) for name in _REDUCTIONS)
    makers = _MAKERS if is_called else _MAKERS[:1]
    if issubclass(kind, dict) and kind.__dictoffset__:
        return True
    if _is_of_library(kind):
        return not _reduces_itself(kind, base) and any(_in_python(getattr(kind, name)) for name in makers)
    return any(_is_own(kind, base, name) for name in (*makers, "__setattr__", "__hash__", *_ITEM_METHODS))


def constructed(instance: Any, reduced: Reduced) -> Reduced:
    """Return what pickles an instance so that a load runs no constructor and no item method of its class.

    Those of an installed class run, unless they cannot take the arguments.
    """
    kind = type(instance)
    base = _base(kind)
    if type(reduced) is not tuple or kind is base:
        return reduced
    make, arguments, state, items, pairs, setter = (*reduced, *[None] * 4)[:6]
    is_library, maker = _is_of_library(kind), _arguments_for(kind) or base
    if (
        make is kind
        and not _reduces_itself(kind, base)
        and any(_is_own(kind, base, name) for name in _MAKERS)
    ):
        is_error = isinstance(instance, BaseException)  # its arguments need not be those of its `__init__`
        if is_error or not (is_library and fits(kind, *arguments)):
            make, arguments = make_initialised, (base, kind, *arguments)
    elif make is _NEW and _is_own(kind, maker, "__new__"):
        is_singleton = len(arguments) == 1  # at most: a `__new__` without parameters may return one
        if not ((is_library or is_singleton) and fits(kind.__new__, *arguments)):
            make, arguments = make_instance, (maker, *arguments)
    if state is instance:  # `self.__dict__ = self`
        return make, arguments, True, items, pairs, use_as_attributes
    if is_library:
        return make, arguments, state, items, pairs, setter
    has_setter = hasattr(kind, "__setstate__")
    if make is _NEW and type(state) is dict and not has_setter and _hashes_attributes(kind, base):
        # In a cycle, a set or a dict asks for the hash before the instance is filled.
        plain = {name: value for name, value in state.items() if type(value) in _PLAIN}
        make, arguments = make_hashable, (base, kind, plain)
        state = {name: value for name, value in state.items() if name not in plain} or None
    if (items or pairs) and any(_is_own(kind, base, name) for name in _ITEM_METHODS):
        parts = [None if part is None else [*part] for part in (items, pairs)]
        return make, arguments, (base, setter, state, *parts), None, None, fill_instance
    if setter is None and _is_own(kind, base, "__setattr__") and not has_setter:
        setter = set_state if state is not None else None
    return make, arguments, state, items, pairs, setter


def fits(call: Callable[..., Any], *arguments: Any) -> bool:
    """Tell whether a call takes this number of arguments, by its signature."""
    answers = _fitting.setdefault(call, {})
    if len(arguments) not in answers:
        try:
            inspect.signature(call).bind(*arguments)
            answers[len(arguments)] = True
        except TypeError:
            answers[len(arguments)] = False
        except ValueError:  # a function of C without a signature
            answers[len(arguments)] = True
    return answers[len(arguments)]


def make_instance(library: Any, kind: type, *arguments: Any) -> Any:
    """Make an instance by the `__new__` of the library's class below it."""
    return library.__new__(kind, *arguments)


def make_initialised(library: Any, kind: type, *arguments: Any) -> Any:
    """Make an instance by the `__new__` and the `__init__` of the library's class below it."""
    instance = library.__new__(kind, *arguments)
    library.__init__(instance, *arguments)
    return instance


def make_hashable(library: Any, kind: type, attributes: dict[str, Any]) -> Any:
    """Make an instance with its plain attributes, on which its hash may depend."""
    instance = library.__new__(kind)
    set_state(instance, attributes)
    return instance


def use_as_attributes(instance: Any, _: object) -> None:
    """Make a dict its own attributes."""
    instance.__dict__ = instance


def fill_instance(instance: Any, parts: tuple[Any, ...]) -> None:
    """Set the attributes of an instance, then its items by the methods of the library's class below it."""
    library, setter, state, items, pairs = parts
    if setter is not None:
        setter(instance, state)
    elif hasattr(type(instance), "__setstate__"):
        instance.__setstate__(state)
    elif state is not None:
        set_state(instance, state)
    if items is not None:
        library.extend(instance, items)
    for key, value in pairs or ():
        library.__setitem__(instance, key, value)


def _base(kind: type) -> Any:
    """Return the class below *kind* that makes instances without code of the notebook.

    It is the first class of a library; below an exception and below a library's class, the first of Python.
    """
    is_own = issubclass(kind, BaseException) or _is_of_library(kind)
    is_made = is_of_python if is_own else _is_of_library
    return next(base for base in kind.__mro__ if is_made(base))


def _is_of_library(kind: type) -> bool:
    """Tell whether a class was not made in the notebook. A type of C code may have no name to find."""
    return is_of_python(kind) or found_by_name(kind)


def _is_own(kind: type, base: type, name: str) -> bool:
    return getattr(kind, name, None) is not getattr(base, name, None)


def _hashes_attributes(kind: type, base: type) -> bool:
    """Tell whether the notebook defines the hash of instances, and leaves their state to Python."""
    has_hash = getattr(kind, "__hash__", None) is not None and _is_own(kind, base, "__hash__")
    return has_hash and not _is_own(kind, base, "__getstate__")


def _reduces_itself(kind: type, base: type) -> bool:
    return any(_is_own(kind, base, name) for name in _REDUCTIONS)


def _in_python(function: Any) -> bool:
    return hasattr(function, "__code__")


def _arguments_for(kind: type) -> Any:
    """Return the class whose `__new__` takes what `__getnewargs__` returns, or None."""
    return next((base for base in kind.__mro__ if "__getnewargs__" in vars(base)), None)
