"""Reach: the functions and variables that code leads to, through the values that it names."""

from __future__ import annotations

import builtins
import gc
import sys
import weakref
from collections.abc import Iterable
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
    TracebackType,
)
from typing import Any, TypeGuard

from nbckpt.cells import tricks
from nbckpt.cells.code import Uses, uses, words_of
from nbckpt.cells.lookups import Lookup
from nbckpt.cells.own_modules import is_own, redirected

_MOST = 2_000_000
"""The number of objects to look at before giving up."""

_PLAIN: frozenset[type] = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, bytearray, range, slice, type(...)),
        *(CodeType, FrameType, TracebackType, type(NotImplemented)),
    }
)
"""Types whose objects lead nowhere."""

_LIVE = (GeneratorType, CoroutineType, AsyncGeneratorType, weakref.ReferenceType)
_IN_C: type = type(exec)
_SPECIAL: frozenset[type] = frozenset({FunctionType, ModuleType, dict, _IN_C, *_LIVE})
_WRAPPERS = frozenset({property, staticmethod, classmethod})
_CONTAINERS = frozenset({"builtins", "collections", "functools", "itertools", "operator", "types"})
"""The modules of types whose objects hand on what they hold. All others are objects of libraries."""

_NEVER_DRAW = words_of(
    """
    _io _thread abc builtins codecs collections dataclasses datetime encodings enum functools itertools json
    math numpy operator pathlib random re string time types typing
    """
)
"""The packages whose functions and objects never use pyplot."""
_UNPICKLE = frozenset({"load", "loads"})
"""Attributes of these packages whose calls can return an object of any library."""

_BUILTINS = vars(builtins).keys()
_FRAMES = frozenset({"cudf", "modin", "pandas"})
_NEVER_FRAMES = _NEVER_DRAW | {"scipy", "torch"}
"""The packages whose functions never return a frame of pandas."""
_LOOKS_UP = "it uses query or eval with a text that is made when the cell runs"
_IMMUTABLE_TYPE = 1 << 8


class Reach:
    """What code leads to.

    Args:
        namespace: The variables.

    Attributes:
        names: The variables that the code can touch.
        reads: The variables among them whose values the code, or a function that it can call, reads by name.
        binds: The variables among them that the code, or such a function, can bind or delete.
        deletes: Names that the code, or such a function, can delete.
        placed: The notebook's functions that modules and objects of libraries hold, with their place there if
            it has a name.
        everything: Why it can touch every variable; None if it touches only `names`.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.names: set[str] = set()
        self.reads: set[str] = set()
        self.binds: set[str] = set()
        self.deletes: set[str] = set()
        self.placed: list[tuple[str, FunctionType]] = []
        self.everything: str | None = None
        self._namespace = namespace
        self._module = namespace.get("__name__", "__main__")
        self._looked_at: set[str] = set()
        self._seen: dict[int, object] = {}
        self._ours: list[object] = []
        self._others: list[object] = []
        self._modules: dict[str, ModuleType] = {}
        self._attributes: set[str] = set()
        self._packages: set[str] = set()
        self._lookups: set[Lookup] = set()
        numpy = sys.modules.get("numpy")
        self._array: type | None = getattr(numpy, "ndarray", None)
        self._iterators = {getattr(numpy, name, None) for name in ("flatiter", "nditer")}
        self._special = _SPECIAL | self._iterators | {self._array}

    def follow(self, used: Uses, *, is_cell: bool = True) -> None:
        """Add what code leads to, directly and through everything that it can call."""
        self._use(used, is_cell=is_cell)
        self._take(redirected(self._module) if is_cell else (), ours=False)
        while self.everything is None and (
            self._ours or self._others or self._of_modules() or self._of_pyplot() or self._of_lookups()
        ):
            if len(self._seen) > _MOST:
                self.everything = f"it reaches more than {_MOST:,} objects"
            ours = bool(self._ours)
            batch = self._ours or self._others
            self._ours, self._others = ([], self._others) if ours else (self._ours, [])
            held = gc.get_referents(*batch)
            if not _PLAIN.issuperset(map(type, held)):  # a list of a million numbers
                self._take(held, ours=ours)
        self.names |= {name for name, value in dict(self._namespace).items() if id(value) in self._seen}

    def _use(self, used: Uses, *, is_cell: bool) -> None:
        """Add the variables that code names, and their values."""
        self.everything = self.everything or tricks.in_code(used, self._namespace, is_cell=is_cell)
        self._attributes |= used.attributes
        self._lookups |= used.lookups
        self.names |= used.binds
        self.binds |= used.binds
        self.deletes |= used.deletes
        self._read(used.reads, used.binds)
        self._take((sys.modules.get(name) for name in used.imports), ours=False)
        unknown = used.reads - used.binds - self._namespace.keys() - _BUILTINS
        self._packages |= {name.partition(".")[0] for name in used.imports} | unknown

    def _read(self, reads: Iterable[str], binds: Iterable[str] = ()) -> None:
        """Take the values of variables that code reads or binds."""
        known = {name for name in reads if name in self._namespace}
        self.reads |= known
        self.names |= known
        new = known.union(name for name in binds if name in self._namespace) - self._looked_at
        self._looked_at |= new
        values = [self._namespace.get(name) for name in new]
        self.everything = self.everything or next(filter(None, map(tricks.in_value, values)), None)
        self._take(values, ours=True)

    def _of_lookups(self) -> bool:
        """Take the variables that pandas finds by names in texts. Return False if there are no new ones."""
        may_be_open = False
        for lookup in self._lookups:
            is_known = lookup.receiver in self._namespace and lookup.receiver not in self.binds
            receiver = self._namespace.get(lookup.receiver) if is_known else None
            module = lookup.module or (_package_of(receiver) if isinstance(receiver, ModuleType) else "")
            values = {
                name: self._namespace.get(name) for name in lookup.names or () if name not in self.binds
            }
            if module in _FRAMES:
                self.everything = f"it uses {module}.eval"
            elif _is_frame(receiver) and lookup.is_open(values):
                self.everything = _LOOKS_UP
            elif not module and (_is_frame(receiver) or not is_known):
                may_be_open = may_be_open or lookup.is_open(values)
                self._read(lookup.reads(values))
        if may_be_open and self._may_be_frames():
            self.everything = _LOOKS_UP
        return bool(self._ours or self._others)

    def _may_be_frames(self) -> bool:
        """Tell whether the code reaches a library that may return a frame of pandas."""
        packages = self._packages | {_package_of(kind) for kind in set(map(type, self._seen.values()))}
        is_loaded = "pandas" in sys.modules or "pandas" in packages
        return is_loaded and bool(packages - _NEVER_FRAMES - {self._module})

    def _take(self, objects: Iterable[Any], *, ours: bool) -> None:
        """Take the objects that were not seen before, to follow what they hold.

        Args:
            objects: The objects.
            ours: Whether the notebook's values hand them on, and not an object of a library. What a library
                holds for itself, such as the namespace, is not what the code uses.
        """
        seen, special = self._seen, self._special
        for obj in objects:
            kind = type(obj)
            if kind in _PLAIN or id(obj) in seen:
                continue
            seen[id(obj)] = obj
            if kind in special or issubclass(kind, type):
                self._special_case(obj, ours=ours)
            elif issubclass(kind, ModuleType):
                self._module_case(obj, ours=ours)
            elif ours and (kind.__module__ in _CONTAINERS or kind.__module__ == self._module):
                self._ours.append(obj)
            elif not kind.__name__.endswith(("StringArray", "OutStream")):  # many texts; the kernel
                self._others.append(obj)

    def _special_case(self, obj: Any, *, ours: bool) -> None:
        """Take a function, a class, a module or another object with rules of its own."""
        kind: type = type(obj)
        self._packages.add(_package_of(obj))
        if isinstance(obj, FunctionType):
            self._function(obj, ours=ours)
        elif isinstance(obj, type):
            self._take(self._of_class(obj), ours=ours)
        elif isinstance(obj, ModuleType):
            self._module_case(obj, ours=ours)
        elif reason := self._unbounded(obj):
            self.everything = reason if ours else self.everything
        elif kind is _IN_C:  # a method that is written in C
            self._take([obj.__self__], ours=ours and not isinstance(obj.__self__, ModuleType))
        elif kind is self._array:
            self._take(obj.ravel().tolist() if obj.dtype.hasobject else (), ours=ours)
        elif kind in self._iterators:
            self._take(_arrays_of(obj), ours=ours)
        else:
            (self._ours if ours else self._others).append(obj)

    def _unbounded(self, obj: object) -> str:
        """Return why code with this object can touch every variable; empty if it cannot."""
        if isinstance(obj, _LIVE):
            return f"it reaches a {type(obj).__name__}, whose contents cannot be saved"
        if obj is self._namespace or obj is sys.modules:
            return "it reaches the namespace"
        return f"it reaches {getattr(obj, '__name__', obj)}" if id(obj) in tricks.OBJECTS else ""

    def _function(self, function: FunctionType, *, ours: bool) -> None:
        if function.__globals__ is self._namespace:
            self._use(uses(function.__code__, inside=True), is_cell=False)
            self.placed += [] if ours else [("", function)]
        elif is_own(function.__globals__):
            used = uses(function.__code__, inside=True)
            self._attributes |= used.attributes
            names = used.reads & function.__globals__.keys()
            self._take((function.__globals__[name] for name in names), ours=False)
        held = (function.__closure__, function.__defaults__, function.__kwdefaults__, function.__dict__)
        self._take((part for part in held if part), ours=ours)

    def _of_class(self, kind: type) -> Iterable[object]:
        """Yield what a class of the notebook holds; of another class only the notebook's functions in it."""
        if kind.__flags__ & _IMMUTABLE_TYPE:
            return
        yield from (type(kind), *kind.__bases__)
        is_ours = kind.__module__ == self._module
        is_users = is_ours or is_own(vars(sys.modules.get(kind.__module__, sys)))
        for name, member in dict(vars(kind)).items():
            if is_users:
                yield member
            if not is_ours:
                inner = gc.get_referents(member) if type(member) in _WRAPPERS else (member,)
                for part in filter(self._is_own_function, inner):
                    self.placed.append((f"{kind.__module__}.{kind.__qualname__}.{name}", part))
                    yield part

    def _is_own_function(self, obj: object) -> TypeGuard[FunctionType]:
        return type(obj) is FunctionType and obj.__globals__ is self._namespace

    def _module_case(self, module: ModuleType, *, ours: bool) -> None:
        name = module.__name__
        if vars(module) is self._namespace or name in tricks.MODULES:
            if ours:
                self.everything = f"it uses {name}"
        else:
            self._modules[name] = module

    def _of_modules(self) -> bool:
        """Take the attributes of modules that the code names. Return False if there are no new ones."""
        self.everything = tricks.in_modules(self._modules, self._attributes) or self.everything
        held = []
        for module in self._modules.values():
            for name in self._attributes & vars(module).keys():
                held.append(value := vars(module)[name])
                if self._is_own_function(value):
                    self.placed.append((f"{module.__name__}.{name}", value))
        self._take(held, ours=False)
        return bool(self._others)

    def _of_pyplot(self) -> bool:
        """Take the open figures if the code may draw on them. Return False if there are no new ones."""
        if (figures := _open_figures()) and self._may_draw():
            self._take(figures, ours=False)
        return bool(self._others)

    def _may_draw(self) -> bool:
        """Tell whether the code reaches a name, a library or an object that may lead to pyplot."""
        packages = self._packages | {_package_of(kind) for kind in set(map(type, self._seen.values()))}
        return bool(packages - _NEVER_DRAW - {self._module} or self._attributes & _UNPICKLE)


def _arrays_of(iterator: Any) -> Iterable[object]:
    """Return the arrays that an iterator of NumPy can write: gc does not know them."""
    try:
        return iterator.operands if hasattr(type(iterator), "operands") else [iterator.base]
    except ValueError:  # it is closed
        return ()


def _is_frame(value: object) -> bool:
    return any(_package_of(kind) in _FRAMES for kind in type(value).__mro__)


def _package_of(obj: Any) -> str:
    """Return the name of the package of a module, a class or a function."""
    name = obj.__name__ if isinstance(obj, ModuleType) else getattr(obj, "__module__", None)
    return name.partition(".")[0] if isinstance(name, str) else "builtins"


def _open_figures() -> Iterable[object]:
    """Return the figures that pyplot, or a library with pyplot, can draw on."""
    pylab = sys.modules.get("matplotlib._pylab_helpers")
    managers = getattr(getattr(pylab, "Gcf", None), "figs", {})
    return [manager.canvas.figure for manager in list(managers.values())]
