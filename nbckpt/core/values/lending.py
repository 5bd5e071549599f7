"""Lending: definitions that the notebook's own code needs while a record is loaded.

Functions of the notebook read the live namespace. A record that is loaded without its namespace, as the state
of a trial is, therefore brings the helpers of a `__setstate__`, for the time of the load.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from nbckpt.core.definitions import found_by_name, lend_missing
from nbckpt.core.values.diagnose import global_names

_LENT = (types.ModuleType, types.FunctionType, type, int, float, str, bytes, type(None))


class Lending:
    """A value with the definitions that its load needs. A load returns the value alone."""

    def __init__(self, definitions: dict[str, Any], value: Any) -> None:
        self._definitions, self._value = definitions, value

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the definitions, which come first, and the value."""
        return take, (_Definitions(self._definitions), self._value)


class _Definitions:
    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions

    def __reduce__(self) -> tuple[Any, ...]:
        return lend_missing, (self._definitions,)


def take(_: None, value: Any) -> Any:
    """Return the value of a record that lends definitions. Records call it."""
    return value


def needed(
    kinds: Iterable[type], calls: Iterable[Any], namespace: Mapping[str, Any], names: Container[str]
) -> dict[str, Any]:
    """Return the definitions among *names* that the `__setstate__` of *kinds* and *calls* may use."""
    own = [kind for kind in kinds if hasattr(kind, "__setstate__") and not found_by_name(kind)]
    todo = [*(kind.__setstate__ for kind in own), *calls]
    definitions: dict[str, Any] = {}
    while todo:
        for code in _codes(todo.pop()):
            for name in global_names(code):
                if name not in definitions and name in names and name in namespace:
                    value = namespace[name]
                    if isinstance(value, _LENT):
                        definitions[name] = value
                        todo.append(value)
    return definitions


def _codes(definition: Any) -> Iterator[types.CodeType]:
    """Yield the code of a function, or of the methods of a class of the notebook."""
    if isinstance(definition, type):
        methods: list[Callable[..., Any]] = [] if found_by_name(definition) else [*vars(definition).values()]
    else:
        methods = [definition]
    yield from (code for method in methods if (code := getattr(method, "__code__", None)) is not None)
