"""Environment: the state of libraries that results depend on, and the machine of a save.

The states are saved beside the variables under names with a dot, which no variable can have.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from sys import modules, stdlib_module_names
from typing import Any, NamedTuple

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_LONG = 32


class _Setting(NamedTuple):
    """How to read and write the state of one library, which must already be imported."""

    module: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]


def _set_print_options(numpy: Any, options: dict[str, Any]) -> None:
    numpy.set_printoptions(**{name: option for name, option in options.items() if name != "override_repr"})


def _cuda_states(torch: Any) -> list[list[int]] | None:
    """Return the state of each GPU's generator; None if CUDA was not started, which reading would do."""
    if not torch.cuda.is_initialized():
        return None
    return [state.tolist() for state in torch.cuda.get_rng_state_all()]


def _set_cuda_states(torch: Any, states: list[list[int]] | None) -> None:
    if states is not None:
        torch.cuda.set_rng_state_all([torch.tensor(state, dtype=torch.uint8) for state in states])


_SETTINGS: dict[str, _Setting] = {
    "random.state": _Setting("random", lambda m: m.getstate(), lambda m, state: m.setstate(state)),
    "numpy.random.state": _Setting(
        "numpy", lambda m: m.random.get_state(), lambda m, state: m.random.set_state(state)
    ),
    "numpy.printoptions": _Setting("numpy", lambda m: dict(m.get_printoptions()), _set_print_options),
    "torch.random.state": _Setting(
        "torch",
        lambda m: m.get_rng_state().tolist(),
        lambda m, state: m.set_rng_state(m.tensor(state, dtype=m.uint8)),
    ),
    "torch.cuda.random.state": _Setting("torch", _cuda_states, _set_cuda_states),
}

NAMES = frozenset(_SETTINGS)
"""The names of the saved states."""


def read_states() -> dict[str, Any]:
    """Return the states of the imported libraries, by their names here."""
    states = {
        name: setting.read(modules[setting.module])
        for name, setting in _SETTINGS.items()
        if setting.module in modules
    }
    return {name: state for name, state in states.items() if state is not None}


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two states are certain to be pickled alike. Only plain values and arrays can be."""
    if type(one) is not type(other):
        return False
    if type(one) in (tuple, list):
        if len(one) > _LONG:  # the numbers of a generator
            return bool(one == other)
        return len(one) == len(other) and all(map(is_same, one, other))
    if type(one) is dict:
        return [*one] == [*other] and all(map(is_same, one.values(), other.values()))
    if type(one) is getattr(modules.get("numpy"), "ndarray", None):
        is_alike = (one.dtype, one.shape) == (other.dtype, other.shape) and not one.dtype.hasobject
        return is_alike and one.tobytes() == other.tobytes()
    return type(one) in _PLAIN and repr(one) == repr(other)  # 0.0 equals -0.0


def write_states(states: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Set the states of the libraries. Return the replaced states, and the reasons for those that failed.

    A library may be missing here, or have another version with a different form of its state.
    """
    before: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, state in states.items():
        setting = _SETTINGS[name]
        try:
            module = modules.get(setting.module) or __import__(setting.module)
            former = setting.read(module)
            setting.write(module, state)
        except Exception as error:  # noqa: BLE001  the library itself rejects a foreign state
            reasons[name] = f"{type(error).__name__}: {error}"
        else:
            before[name] = former
    return before, reasons


def packages() -> dict[str, str]:
    """Return the versions of the imported packages that have one, by name."""
    versions = {}
    # Not `list(modules.items())`: making tuples can collect garbage, and a finalizer can import a module.
    for name, module in dict(modules).items():
        if "." in name or name.startswith("_") or name in stdlib_module_names:
            continue
        # Not getattr: on some modules it imports more modules, or warns.
        version = getattr(module, "__dict__", {}).get("__version__")
        if isinstance(version, str):
            versions[name] = version
    return dict(sorted(versions.items()))


def machine() -> dict[str, str]:
    """Return the versions of Python and of the system."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
