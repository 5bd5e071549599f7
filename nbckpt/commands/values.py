"""Values on a command line: functions, and `k=v` words, where v is a literal, a variable or a range."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion
from nbckpt.trials.model import optuna
from nbckpt.trials.model.space import Domain, choice, lograndint, loguniform, quniform, randint, uniform
from nbckpt.trials.schedulers import ASHA, PBT, MedianStopping, OptunaPruner, Scheduler
from nbckpt.trials.search import OptunaSampler

Namespace = Mapping[str, Any]

RANGES: dict[str, Callable[..., Domain]] = {
    make.__name__: make for make in (choice, uniform, loguniform, quniform, randint, lograndint)
}
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|\S)+""")
SCHEDULERS: dict[str, type[Scheduler]] = {"asha": ASHA, "median": MedianStopping, "pbt": PBT}


def words_of(text: str) -> list[str]:
    """Return the words of a text, which spaces separate. Spaces in quotes and in brackets separate nothing.

    >>> words_of("name='a b' widths=[8, 16] lr=0.1")
    ["name='a b'", 'widths=[8, 16]', 'lr=0.1']
    """
    return _WORD.findall(text)


def assignments(words: Iterable[str], namespace: Namespace | None) -> dict[str, Any]:
    """Return the dict that `k=v` words describe; `a/b=v` makes a nested dict.

    Raises:
        UsageError: A word does not have this form, its value is neither a literal nor a name, or a key comes
            twice.
    """
    values: dict[str, Any] = {}
    for word, key, text in _different(words, "leave one out"):
        _put(values, key, evaluate(text, namespace, word))
    return values


def settings(words: Sequence[str], namespace: Namespace | None) -> dict[str, Any]:
    """Return the configuration that `k=v` words describe, as `assignments` does.

    Raises:
        UsageError: As there; or several values have no brackets. One trial would get them all, as a tuple.
    """
    for word in words:
        key, text = _halves(word)
        is_open = "," in text and not text.lstrip().startswith("(")
        if is_open and isinstance(evaluate(text, namespace, word), tuple):
            raise UsageError(f"{word!r}: to try each value, --grid {word}; for one tuple, {key}=({text})")
    return assignments(words, namespace)


def lists(words: Iterable[str], namespace: Namespace | None) -> dict[str, list[Any]]:
    """Return the dict that `k=a,b` words describe, with a list of values for each key.

    A list or an array that is the only value stands for its items, as in `k=[a, b]` or `k=rates`.

    Raises:
        UsageError: A word does not have this form, or one of its values is neither a literal nor a name.
    """
    different = _different(words, "give all its values in one --grid")
    return {key: _items(evaluate(f"[{text}]", namespace, word)) for word, key, text in different}


def _items(values: list[Any]) -> list[Any]:
    only: Any = values[0] if len(values) == 1 else None
    if hasattr(only, "tolist") and getattr(only, "ndim", 0) == 1:
        only = only.tolist()
    return [*only] if isinstance(only, list | range) else values


def with_lists(config: dict[str, Any], grids: Mapping[str, Any]) -> dict[str, Any]:
    """Return *config* with *grids* added; the keys of *grids* may be `a/b` paths.

    Raises:
        UsageError: A key has a value too.
    """
    for key, grid in grids.items():
        if key in config:
            raise UsageError(f"{key} has a value and a grid: leave out {key}=… or --grid {key}=…")
        _put(config, key, grid)
    return config


def evaluate(text: str, namespace: Namespace | None, word: str) -> Any:
    """Return the value of *text*: a literal, a name, a range, or a list, tuple, set or dict of them.

    Raises:
        UsageError: It is none of these; the message names *word*, which contains the text.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"cannot read {word!r}: {_quotes(text)}") from None
    return _value(tree, namespace, word)


def _value(tree: ast.expr, namespace: Namespace | None, word: str) -> Any:
    match tree:
        case ast.Name(id=name):
            if namespace is not None and name in namespace:
                return namespace[name]
            raise UsageError(f"{word!r}: {_unknown(name, namespace)}")
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in RANGES:
            return _drawn(RANGES[name], [_value(part, namespace, word) for part in parts], word)
        case ast.List(elts=parts):
            return [_value(part, namespace, word) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_value(part, namespace, word) for part in parts)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            members = [_value(part, namespace, word) for part in [*filter(None, keys), *values]]
            return dict(zip(members[: len(keys)], members[len(keys) :], strict=True))
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise UsageError(f"cannot read {word!r}: {_quotes(ast.unparse(tree))}") from None


def _drawn(make: Callable[..., Domain], arguments: list[Any], word: str) -> Domain:
    try:
        return make(*arguments)
    except TypeError:
        raise UsageError(f"cannot read {word!r}: write {make.__name__}{inspect.signature(make)}") from None


def _unknown(name: str, namespace: Namespace | None) -> str:
    if namespace is None:
        return (
            f"a shell has no variables, so {name} is not a value. For a text write it in quotes: \"'{name}'\""
        )
    hint = suggestion(name, namespace)
    return f"there is no variable {name}. {hint}For a text write it in quotes: {name!r}"


def _quotes(text: str) -> str:
    return f"values are Python literals or names of variables. For a text write it in quotes: {text!r}"


def _halves(word: str) -> tuple[str, str]:
    key, equals, text = word.partition("=")
    if not equals or not key or not text.strip():
        raise UsageError(f"{word!r} has no value. Write NAME=VALUE, for example lr=0.1.")
    return key, text


def _different(words: Iterable[str], advice: str) -> Iterator[tuple[str, str, str]]:
    """Yield words of the form `k=v` with their halves. Refuse a key that comes twice."""
    known: dict[str, str] = {}
    for word in words:
        key, text = _halves(word)
        if key in known:
            raise UsageError(f"{key} is given twice, as {known[key]} and as {word}: {advice}")
        known[key] = word
        yield word, key, text


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Put a value into nested dicts. Dicts that are variables of the notebook stay as they are."""
    *above, last = key.split("/")
    for part in above:
        inner = values.get(part, {})
        if not isinstance(inner, Mapping):
            raise UsageError(f"{key!r} needs a dict {part!r}, and {part} is {inner!r}")
        own = values[part] = {**inner}
        values = own
    values[last] = value


def find_function(name: str, namespace: Namespace | None) -> Any:
    """Return the function *name*: a name of the notebook, `module:function` or `file.py:function`.

    Raises:
        UsageError: There is no such function, or its file cannot be imported.
    """
    source, colon, function = name.rpartition(":")
    if colon:
        module = _module(source)
        if not hasattr(module, function):
            hint = suggestion(function, vars(module))
            raise UsageError(f"there is no function {function!r} in {source}. {hint}".rstrip())
        return getattr(module, function)
    if namespace is None:
        raise UsageError(f"{name!r} names no module. In a shell write module:function or file.py:function.")
    first, *rest = name.split(".")
    if first not in namespace:
        callables = [known for known, value in dict(namespace).items() if callable(value)]
        raise UsageError(f"there is no function {first!r}. {suggestion(first, callables)}Define it first")
    value = namespace[first]
    for part in rest:
        if not hasattr(value, part):
            raise UsageError(f"there is no {part!r} in {first}: see dir({first})")
        value = getattr(value, part)
    return value


def add_working_folder() -> None:
    """Make modules in the working folder importable, as `python -m` does."""
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109  sys.path holds text
        sys.path.insert(0, "")


def _module(source: str) -> ModuleType:
    if source.endswith(".py") and not Path(source).is_file():
        raise UsageError(f"there is no file {source!r}")
    try:
        if not source.endswith(".py"):
            add_working_folder()
            return importlib.import_module(source)
        # Add a prefix to the name: an imported module may already have the file's name.
        spec = importlib.util.spec_from_file_location(f"nbckpt_file_{Path(source).stem}", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"cannot import {source}: {type(error).__name__}: {error}") from error
    # Another process cannot import a module of that name, so it is pickled by value.
    cloudpickle.register_pickle_by_value(module)
    return module


def find_scheduler(text: str, namespace: Namespace | None) -> Any:
    """Return the scheduler of `--scheduler`: a name with options, or a variable of the notebook.

    Raises:
        UsageError: The scheduler or one of its options is unknown.
    """
    name, *words = words_of(text)
    if namespace is not None and name in namespace and not words:
        return namespace[name]
    options = assignments(words, namespace)
    if name not in SCHEDULERS:
        if optuna.has("Pruner", name):
            return OptunaPruner(name, **options)
        lacking = optuna.lacking("Pruner")
        pruner = (
            f"or a variable. {lacking}" if lacking else "a pruner of Optuna such as hyperband, or a variable"
        )
        raise UsageError(f"the scheduler {name!r} is unknown: use {', '.join(SCHEDULERS)}, {pruner}")
    try:
        return SCHEDULERS[name](**options)
    except TypeError as error:
        known = ", ".join(inspect.signature(SCHEDULERS[name]).parameters)
        raise UsageError(f"cannot make the scheduler {text!r}: {error}. Its options: {known}") from None


def find_search(text: str, namespace: Namespace | None) -> Any:
    """Return the search of `--search`: an Optuna sampler's name with options, or a variable of the notebook.

    Raises:
        UsageError: The sampler or one of its options is unknown, or Optuna is not installed.
    """
    name, *words = words_of(text)
    if namespace is not None and name in namespace and not words:
        return namespace[name]
    return OptunaSampler(name, **assignments(words, namespace))
