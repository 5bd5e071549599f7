"""JSON: a result as data for other programs, and the schema of that data. Both follow the type hints.

An object becomes what its `for_json` returns, if it has that method; a dataclass becomes an object with its
public fields. Whatever JSON lacks becomes text, and a number that is not finite becomes null.
"""

from __future__ import annotations

import base64
import json
import math
import types
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from nbckpt.render.page import Page
from nbckpt.render.result import Result

_NULL = {"type": "null"}
_PLAIN: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    Path: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"anyOf": [{"type": "number"}, _NULL]},
    type(None): _NULL,
}


@dataclass(frozen=True, repr=False)
class AsJson(Result):
    """A result as JSON.

    Attributes:
        result: The result.
    """

    result: Result

    @property
    def exit_status(self) -> int:
        """See `Result.exit_status`."""
        return self.result.exit_status

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return self.result.warns

    @property
    def data(self) -> Any:
        """The result in the types of JSON."""
        return to_json(self.result)

    def page(self) -> Page:
        """See `Result.page`."""
        return _page(self.data)


@dataclass(frozen=True, repr=False)
class Schema(Result):
    """The JSON Schema of the results of a command.

    Attributes:
        kind: The type hint of the results.
    """

    kind: Any

    @property
    def data(self) -> dict[str, Any]:
        """The schema, in the types of JSON."""
        return schema_of(self.kind)

    def page(self) -> Page:
        """See `Result.page`."""
        return _page(self.data)


def _page(data: Any) -> Page:
    return Page("", code=json.dumps(data, indent=2, allow_nan=False))


def to_json(value: Any) -> Any:
    """Return a value in the types of JSON."""
    match value:
        case None | bool() | str():
            return value
        case Enum():
            return to_json(value.value)
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case bytes():
            return base64.b64encode(value).decode()
        case _ if hasattr(type(value), "for_json"):
            return to_json(value.for_json())
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {name: to_json(getattr(value, name)) for name in _public(type(value))}
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case Sequence() | AbstractSet():
            return [to_json(item) for item in value]
    item = getattr(value, "item", None)  # a number of NumPy
    return to_json(item()) if callable(item) and getattr(value, "ndim", None) == 0 else str(value)


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of what `to_json` returns for values of a type hint."""
    definitions: dict[str, dict[str, Any]] = {}
    schema = _schema(kind, definitions)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": definitions}


def _schema(kind: Any, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return {"anyOf": [_schema(argument, definitions) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if origin is tuple and arguments[-1] is not ...:
        parts = [_schema(argument, definitions) for argument in arguments]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if origin is not None:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if hasattr(kind, "for_json"):
        return _schema(get_type_hints(kind.for_json)["return"], definitions)
    return _of_class(kind, definitions) if is_dataclass(kind) else {}


def _of_class(kind: Any, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a reference to the schema of a dataclass, which is added to *definitions* once."""
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}
        hints = get_type_hints(kind)
        definitions[name] = {
            "type": "object",
            "properties": {part: _schema(hints[part], definitions) for part in _public(kind)},
            "required": _public(kind),
        }
    return {"$ref": f"#/$defs/{name}"}


def _public(kind: Any) -> list[str]:
    return [part.name for part in fields(kind) if part.repr and not part.name.startswith("_")]
