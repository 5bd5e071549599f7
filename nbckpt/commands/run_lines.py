"""Run lines: for each function of a notebook that can be run as trials, a command to begin with."""

from __future__ import annotations

import ast
import inspect
import textwrap
from contextlib import suppress
from types import FunctionType
from typing import Any

from nbckpt.commands.table import Session

_MOST = 20
_EXAMPLE = "lr"


def run_lines(session: Session) -> list[str]:
    """Return a command for each function of one argument that reports; if none does, for the notebook's own.

    Nothing is called. The values in a command are examples.
    """
    namespace = dict(session.namespace or {})
    names = [name for name in namespace if name not in session.hidden and not name.startswith("_")]
    functions = {name: namespace[name] for name in names if _takes_one(namespace[name])}
    reporting = {name: function for name, function in functions.items() if _reports(function)}
    own = {
        name: function
        for name, function in functions.items()
        if function.__module__ == namespace.get("__name__")
    }
    return [_line(name, function) for name, function in [*(reporting or own).items()][:_MOST]]


def _takes_one(value: Any) -> bool:
    """Return whether a value is a function that can be called with one argument."""
    if not isinstance(value, FunctionType):
        return False
    try:
        inspect.signature(value).bind(None)
    except (TypeError, ValueError):
        return False
    return value.__code__.co_argcount > 0


def _reports(function: FunctionType) -> bool:
    return "report" in function.__code__.co_names


def _line(name: str, function: FunctionType) -> str:
    first, *others = _settings(function) or [_EXAMPLE]
    return " ".join([f"%ckpt run {name} --grid {first}=0.1,0.01", *(f"{other}=1" for other in others)])


def _settings(function: FunctionType) -> list[str]:
    """Return the names that a function looks up in its argument, such as `config["lr"]`."""
    argument = function.__code__.co_varnames[0]
    names: dict[str, None] = {}
    with suppress(OSError, TypeError, SyntaxError):  # its source is not there
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            match node:
                case ast.Subscript(value=ast.Name(id=held), slice=ast.Constant(value=str(name))):
                    names |= {name: None} if held == argument and name.isidentifier() else {}
    return list(names)
