"""Surroundings: the state of libraries that a notebook's results depend on, and where a save was made.

The states are saved beside the variables under names with a dot, which no variable has.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from sys import modules, stdlib_module_names
from typing import Any, NamedTuple


class _Setting(NamedTuple):
    """How to read and write one library's state; the library must be imported already."""

    module: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]


def _set_print_options(numpy: Any, options: dict[str, Any]) -> None:
    numpy.set_printoptions(**{name: it for name, it in options.items() if name != "override_repr"})


_SETTINGS: dict[str, _Setting] = {
    "random.state": _Setting("random", lambda m: m.getstate(), lambda m, it: m.setstate(it)),
    "numpy.random.state": _Setting(
        "numpy", lambda m: m.random.get_state(), lambda m, it: m.random.set_state(it)
    ),
    "numpy.printoptions": _Setting("numpy", lambda m: dict(m.get_printoptions()), _set_print_options),
    "torch.random.state": _Setting(
        "torch",
        lambda m: m.get_rng_state().tolist(),
        lambda m, it: m.set_rng_state(m.tensor(it, dtype=m.uint8)),
    ),
}

NAMES = frozenset(_SETTINGS)
"""The names under which the states are saved."""


def read_states() -> dict[str, Any]:
    """Return the states of the libraries that are imported, by their names here."""
    return {
        name: setting.read(modules[setting.module])
        for name, setting in _SETTINGS.items()
        if setting.module in modules
    }


def write_states(states: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Set the states of the libraries; return those that were replaced, and why others could not be set.

    A library may be missing here, or of another version, whose states look different.
    """
    before: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, state in states.items():
        setting = _SETTINGS[name]
        try:
            module = modules.get(setting.module) or __import__(setting.module)
            former = setting.read(module)
            setting.write(module, state)
        except Exception as error:  # noqa: BLE001  a library's own check of what is not its state
            reasons[name] = f"{type(error).__name__}: {error}"
        else:
            before[name] = former
    return before, reasons


def packages() -> dict[str, str]:
    """Return the versions of the imported packages that tell theirs, by name."""
    found = {}
    for name, module in list(modules.items()):
        # Not getattr: asking some modules for it imports more, or warns.
        version = getattr(module, "__dict__", {}).get("__version__") if _is_package(name) else None
        if isinstance(version, str):
            found[name] = version
    return dict(sorted(found.items()))


def _is_package(name: str) -> bool:
    return "." not in name and not name.startswith("_") and name not in stdlib_module_names


def machine() -> dict[str, str]:
    """Return the Python and the system that this is."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
