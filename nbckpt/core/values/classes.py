"""Classes: the notebook's classes, whose definitions travel in every record that needs them.

cloudpickle gives each such class a number. Loading a record with cloudpickle alone refills the live class of
that number, so inspecting an old checkpoint would change the running code. Here a class is made once for all
records of one load, and a live class is never changed.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import EnumMeta
from functools import partial
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any, Literal

from cloudpickle import cloudpickle

from nbckpt._private_apis import class_tracker
from nbckpt.core.bytecode import PYTHON, make_untagged_code
from nbckpt.core.dataclass_methods import make_methods_again
from nbckpt.core.depth import bounded
from nbckpt.core.values.identities import Found
from nbckpt.core.values.placement import LOADER, load_storage
from nbckpt.core.values.sameness import doubles, unchanged
from nbckpt.store import Buffer

Origin = Literal["live", "same", "new", "apart"]
"""The origin of classes: the live classes if they exist; the same, with the attributes that they had at the
save; new ones; or new ones that nobody else sees."""

MOVED = {
    "nbckpt.state": "nbckpt.states",
    "nbckpt.state.folder": "nbckpt.states.folder",
    "nbckpt.state.generators": "nbckpt.states.generators",
    "nbckpt.state.maker": "nbckpt.states.maker",
    "nbckpt.state.refill": "nbckpt.states.refill",
    "nbckpt.state.registry": "nbckpt.states.registry",
    "nbckpt.state.replica": "nbckpt.states.replica",
    "nbckpt.state.save": "nbckpt.states.save",
    "nbckpt.state.saving": "nbckpt.states.saving",
    "nbckpt.state.signals": "nbckpt.states.signals",
    "nbckpt.state.snapshot": "nbckpt.states.snapshot",
    "nbckpt.state.state": "nbckpt.states.state",
    "nbckpt.state.values": "nbckpt.states.values",
    "nbckpt.sync.folders": "nbckpt.sync.transfer",
    "nbckpt.trials.callbacks": "nbckpt.trials.model.callback",
    "nbckpt.trials.checkpoints": "nbckpt.trials.checkpoints.folder",
    "nbckpt.trials.durable": "nbckpt.trials.training.durable",
    "nbckpt.trials.experiment": "nbckpt.trials.engine.experiment",
    "nbckpt.trials.function": "nbckpt.trials.training.function",
    "nbckpt.trials.space": "nbckpt.trials.model.space",
    "nbckpt.trials.syncing": "nbckpt.trials.engine.upload",
    "nbckpt.trials.trainable": "nbckpt.trials.training.trainable",
    "nbckpt.trials.trial": "nbckpt.trials.model.trial",
    "pathlib._local": "pathlib",  # in Python 3.13
}
"""Modules that pickles name by another path, with the paths that exist in every version."""

RENAMED = {
    ("nbckpt.states.registry", "states"): "use_folder",
    ("_thread", "lock"): "LockType",  # since Python 3.13
}
"""Names in these modules, with the names that exist in every version."""

if not hasattr(dataclasses, "_replace"):  # since Python 3.13, the method of each dataclass
    RENAMED["dataclasses", "_replace"] = "replace"

# For cloudpickle's functions that make a class: the position of the class's number in the arguments.
_MAKERS = {"_make_skeleton_class": 4, "_make_skeleton_enum": 5, "make_enumeration": 5}
_FILLERS = {"_class_setstate", "fill_enumeration"}
_MODULES = {cloudpickle.__name__, "nbckpt.core.enumerations"}

_PYTHONS_OWN = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__doc__", "__slotnames__", "__abstractmethods__"),
        *("__firstlineno__", "__static_attributes__"),  # since Python 3.13
        *("__annotate_func__", "__annotations_cache__"),  # since Python 3.14
    }
)
"""What Python sets in each class, or adds to one by itself. It is never what the user added."""


class Classes:
    """The notebook's classes while one checkpoint is loaded.

    Args:
        origin: `live` gives loaded instances the live class, as it is now. `same` gives them the live class
            too, and sets it back to what it was at the save. `new` gives them the class as it was at the
            save, and leaves the live class alone. `apart` does the same, for values that are only inspected.
        namespace: The namespace of the live classes.
        hold_off: Called before a live class is set back, to hold off interrupts.
        are_equal: Tells whether two classes have the same code. If so, `adopt` finds live classes.
        is_trial: Whether this must fail if a new kernel, without variables, would fail.

    Attributes:
        differing: The names of the new classes that differ from the live classes of these names.
        doubles: The functions that were loaded for live classes that keep their own, each with that one.
    """

    def __init__(
        self,
        origin: Origin = "live",
        namespace: Mapping[str, Any] | None = None,
        hold_off: Callable[[], object] = lambda: None,
        are_equal: Callable[[type, type], bool] | None = None,
        *,
        is_trial: bool = False,
    ) -> None:
        self._origin, self._hold_off, self.is_trial = origin, hold_off, is_trial
        self._tracker = class_tracker()
        self._bound: dict[str | None, type] = {}
        for kind in (namespace or {}).values():
            if issubclass(type(kind), type):
                with suppress(Exception):  # a class that cannot be hashed has no number
                    self._bound[self._tracker.numbers.get(kind)] = kind
        self._namespace, self._are_equal = namespace or {}, are_equal
        self._new: dict[str, type] = {}
        self.differing: list[str] = []
        self.doubles: list[tuple[FunctionType, FunctionType]] = []
        self._made: dict[str, type] = {}
        self._whole: set[type] = set()

    def take(self, live: Mapping[str, type]) -> None:
        """Use these live classes, by the numbers of the saved ones."""
        self._made |= live
        self._whole |= {*live.values()}

    def adopt(self) -> bool:
        """Find the classes of the namespace that have the names and the code of those that were loaded.

        The cell of a class may have run again. If there are such classes, what was loaded since the last call
        has to be loaded again. Then it has the classes of the namespace, and `isinstance` holds.
        """
        new, self._new = self._new, {}
        if self._are_equal is None:
            return False
        live: dict[str, type] = {}
        for number, kind in new.items():
            bound = self._namespace.get(kind.__qualname__)
            if isinstance(bound, type) and bound is not kind:
                live[number] = bound
        twins = {number: kind for number, kind in live.items() if self._are_equal(new[number], kind)}
        self.differing += [kind.__qualname__ for number, kind in live.items() if number not in twins]
        self.take(twins)
        return bool(twins)

    def load(self, record: Buffer, buffers: Sequence[memoryview], python: str = "") -> Any:
        """Unpickle a record. This runs code that the record names.

        *python* is the version of Python that wrote it, if that is known, such as "3.11".
        """
        with bounded():
            return _Unpickler(self, record, buffers, python).load()

    def make(self, maker: Callable[..., type], at: int, *arguments: Any) -> type:
        """Return the class that a record asks for. A new class is still empty."""
        number = arguments[at]
        if number not in self._made:
            live = self._bound.get(number) or self._tracker.classes.get(number)
            if live is not None and (self._origin == "live" or self._may_set_back(live)):
                self._made[number] = self._new[number] = live
                if self._origin == "live":
                    self._whole.add(live)
            else:
                kind, name, bases, *rest = arguments
                rest[at - 3] = None
                with self._quiet(bases):
                    self._made[number] = made = maker(self._maker(kind), name, bases, *rest)
                self._new[number] = made
                self._remember(number, made)
        return self._made[number]

    def fill(self, filler: Callable[[type, Any], Any], kind: type, state: Any) -> Any:
        """Set the attributes of a new class. A class that already has its attributes keeps them."""
        if kind not in self._whole:  # a live class is complete: see docs/decisions/0011
            self._whole.add(kind)
            if self._origin == "same":
                added, same = _added(kind, state[0]), unchanged(kind, state[0])
                self.doubles += doubles(kind, same)
                if not added and len(same) == len(state[0]):
                    return kind
                self._hold_off()
                for name in added:
                    type.__delattr__(kind, name)
                # With an equal attribute that was loaded, the class would be pickled to other bytes.
                state = ({name: value for name, value in state[0].items() if name not in same}, *state[1:])
            filler(kind, state)
            make_methods_again(kind)
            intern_texts(kind)
        return kind

    def _may_set_back(self, live: type) -> bool:
        """Tell whether to set a live class back. Members of an enumeration cannot be set."""
        return self._origin == "same" and not isinstance(live, EnumMeta)

    def _maker(self, kind: type) -> Any:
        """Return the maker of a metaclass's classes. A metaclass of the notebook ran before the save."""
        if kind not in self._made.values() or issubclass(kind, EnumMeta):
            return kind
        library = next(base for base in kind.__mro__ if base not in self._made.values())
        return partial(library.__new__, kind)

    @contextmanager
    def _quiet(self, bases: tuple[type, ...]) -> Iterator[None]:
        """Do not call `__init_subclass__` of the classes made here, because it was called before the save."""
        made = [
            base for kind in bases for base in getattr(kind, "__mro__", ()) if base in self._made.values()
        ]
        hooks = {base: vars(base)["__init_subclass__"] for base in made if "__init_subclass__" in vars(base)}
        for base in hooks:
            type.__setattr__(base, "__init_subclass__", classmethod(_nothing))
        try:
            yield
        finally:
            for base, hook in hooks.items():
                type.__setattr__(base, "__init_subclass__", hook)

    def _remember(self, number: str, made: type) -> None:
        """Keep the number of a class for the next save, so that an unchanged class gives equal bytes."""
        if self._origin != "apart":
            with self._tracker.lock:
                self._tracker.numbers[made] = number
                self._tracker.classes[number] = made


def _added(kind: type, saved: Mapping[str, Any]) -> list[str]:
    """Return the attributes and methods that a class got since it was saved."""
    return [
        name
        for name, value in vars(kind).items()
        if not (name in saved or name in _PYTHONS_OWN or name.startswith("_abc_"))
        and not isinstance(value, MemberDescriptorType)
        and (name, value) != ("__annotations__", {})  # Python adds that when it is looked at
    ]


def intern_texts(kind: type) -> None:
    """Make the names in `__static_attributes__` those of the instances' attributes, as the compiler does.

    Python 3.13 added that tuple. With other strings of equal content, an unchanged instance would be pickled
    to other bytes. So would a class whose module is another string than that of its methods.
    """
    if type(kind.__module__) is str:
        with suppress(TypeError):  # a metaclass in C, as that of ctypes, refuses
            type.__setattr__(kind, "__module__", sys.intern(kind.__module__))
    names = vars(kind).get("__static_attributes__")
    if type(names) is tuple and all(type(name) is str for name in names):
        type.__setattr__(kind, "__static_attributes__", tuple(map(sys.intern, names)))


def _nothing(*_: Any, **_keywords: Any) -> None:
    pass


def _numpy_name(module: str) -> str:
    """Return the name that a private module of NumPy has in the installed version. NumPy 2 renamed them."""
    parts = module.split(".")
    if parts[0] != "numpy" or parts[1:2] not in (["core"], ["_core"], ["rec"]):
        return module
    import numpy

    if numpy.lib.NumpyVersion(numpy.__version__) >= "2.0.0":
        return module.replace("numpy.core", "numpy._core", 1)
    return "numpy.core.records" if parts[1] == "rec" else module.replace("numpy._core", "numpy.core", 1)


class _Unpickler(pickle.Unpickler):
    def __init__(self, classes: Classes, record: Buffer, buffers: Sequence[memoryview], python: str) -> None:
        super().__init__(io.BytesIO(record), buffers=buffers)
        self._classes = classes
        self.persistent_load = Found().find  # type: ignore[method-assign]  # pickle looks it up so
        self._code_type = CodeType if python == PYTHON else partial(make_untagged_code, python)

    def find_class(self, module_name: str, global_name: str) -> Any:
        """See `pickle.Unpickler.find_class`."""
        if (module_name, global_name) == LOADER:
            return load_storage
        module_name = _numpy_name(MOVED.get(module_name, module_name))
        global_name = RENAMED.get((module_name, global_name), global_name)
        if module_name == "__main__" and self._classes.is_trial:
            raise pickle.UnpicklingError(f"{global_name} is saved by name, and a new kernel has no such name")
        named = super().find_class(module_name, global_name)
        if named is cloudpickle.subimport:  # a function's record names each module that its code may mean
            return lambda name: named(MOVED.get(name, name))
        if named is CodeType:
            return self._code_type
        if module_name not in _MODULES:
            return named
        if global_name == "_builtin_type":
            return lambda name: self._code_type if name == "CodeType" else named(name)
        if global_name in _MAKERS:
            return partial(self._classes.make, named, _MAKERS[global_name])
        return partial(self._classes.fill, named) if global_name in _FILLERS else named
