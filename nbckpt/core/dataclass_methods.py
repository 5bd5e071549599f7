"""Methods of dataclasses: the module dataclasses makes them of texts that it does not keep.

So their code has no source. In another Python, other code stands in for it until the class is complete. Then
dataclasses makes the methods again.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from types import CodeType, FunctionType
from typing import Any

MADE_BY_DATACLASSES = "__create_fn__.<locals>."
"""Begins the qualified name of each code object that dataclasses made."""

_STAND_IN = "<made by dataclasses in another Python>"
_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")


def stand_in(names: tuple[str, ...]) -> CodeType | None:
    """Return code with these free variables, or None if they are not names."""
    if not all(name.isidentifier() for name in names):
        return None
    listed = "".join(f"{name}, " for name in names)
    text = f"def outer({listed}):\n def inner(): return ({listed})"
    try:
        outer = _only_code(compile(text, _STAND_IN, "exec", dont_inherit=True))
    except SyntaxError:
        return None
    return _only_code(outer)


def make_methods_again(kind: type) -> None:
    """Let dataclasses make the methods for which other code stands in. Other classes stay as they are."""
    if "__dataclass_fields__" not in vars(kind):
        return
    names = [name for name, value in vars(kind).items() if _stands_in(value)]
    if not names:
        return
    if "__eq__" in names and vars(kind).get("__hash__", kind) is None:
        names.append("__hash__")  # dataclasses sets it to None together with __eq__
    for name in names:
        type.__delattr__(kind, name)
    fields_by_name: dict[str, Any] = {field.name: field for field in fields(kind)}
    own = {name: fields_by_name[name] for name in inspect.get_annotations(kind) if name in fields_by_name}
    before = {name: vars(kind)[name] for name in own if name in vars(kind)}
    for name, field in own.items():
        type.__setattr__(kind, name, field)
    params: Any = vars(kind)["__dataclass_params__"]
    options = {name: getattr(params, name) for name in _OPTIONS}
    dataclass(**options, match_args="__match_args__" in vars(kind))(kind)
    for name in own:  # defaults, and the slots that dataclasses added
        if name in vars(kind):
            type.__delattr__(kind, name)
        if name in before:
            type.__setattr__(kind, name, before[name])


def _stands_in(value: Any) -> bool:
    """Tell whether code stands in for that of a function, or of one that it wraps."""
    while isinstance(value, FunctionType):
        if value.__code__.co_filename == _STAND_IN:
            return True
        value = vars(value).get("__wrapped__")
    return False


def _only_code(code: CodeType) -> CodeType:
    return next(part for part in code.co_consts if isinstance(part, CodeType))
