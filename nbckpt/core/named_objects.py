"""Named objects: objects that a module has once for the session, such as `os.environ` and NumPy's generator.

They are saved by name. So a restored `randint` still is that of `random`, and the environment of another
machine is never saved. The state of generators and settings is saved beside the variables, by
`nbckpt.core.environment`.
"""

from __future__ import annotations

import importlib
import sys
from functools import reduce
from typing import Any

_OBJECTS = (
    ("os", "environ"),
    ("os", "environb"),
    ("random", "_inst"),
    ("numpy.random.mtrand", "_rand"),
    ("matplotlib", "rcParams"),
    ("matplotlib", "rcParamsDefault"),
)


def find(module: str, path: str) -> Any:
    """Return an object of a module."""
    return reduce(getattr, path.split("."), importlib.import_module(module))


def reduce_named(value: Any) -> Any:
    """Reduce an object of a module to its name."""
    name = getattr(value, "name", None)  # that of a distribution
    places = [*_OBJECTS, ("scipy.stats", name)] if isinstance(name, str) else _OBJECTS
    for module, path in places:
        if getattr(sys.modules.get(module), path, None) is value:
            return find, (module, path)
    return NotImplemented
