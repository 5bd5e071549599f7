"""diff: what is different between two checkpoints, or between one and what is live.

Equal digests mean equal values and cost nothing. Where they differ, the stored previews tell most of
it; how many elements of an array changed takes both values, and so is only told where they may be
loaded.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import modules
from types import FunctionType
from typing import Any, Literal

from nbckpt.core.manifest import Manifest, Value

Change = Literal["added", "removed", "changed", "same"]
Loaded = Callable[[str], Any]
"""Gives a value by its name; raises where it may not or cannot be loaded."""

_NUMBERS = ("int", "float", "bool")
_MADE_BY_PYTHON = frozenset({"__dict__", "__weakref__", "__doc__", "_abc_impl", "__firstlineno__"})


@dataclass(frozen=True)
class Difference:
    """How one name differs."""

    name: str
    change: Change
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: its values by name, and how to load them."""

    values: Mapping[str, Value]
    load: Loaded | None


def compare(old: Side, new: Side) -> list[Difference]:
    """Return the differences by name; those that are the same come last."""
    found = []
    for name in sorted(old.values.keys() | new.values.keys()):
        before, after = old.values.get(name), new.values.get(name)
        if before is None or after is None:
            found.append(
                Difference(name, "removed" if after is None else "added", (_summary(before or after),))
            )
        elif before.digest == after.digest and before.digest:
            found.append(Difference(name, "same"))
        else:
            details = _details(before, after, old, new)
            found.append(Difference(name, "changed" if details else "same", details))
    return sorted(found, key=lambda it: it.change == "same")


def source_diff(old: Manifest, new: Manifest) -> list[str]:
    """Return the lines of the cells' sources that differ, as a unified diff."""
    before, after = (str(it.provenance.get("cell", {}).get("source", "")) for it in (old, new))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return list(lines)[2:]


def package_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the packages whose versions differ: name, old and new; those on one side only are left out."""
    return [
        (name, old[name], new[name]) for name in sorted(old.keys() & new.keys()) if old[name] != new[name]
    ]


def _summary(value: Value | None) -> str:
    if value is None:
        return ""
    shape = value.preview.get("shape")
    size = f" {shape}" if shape else ""
    return f"{value.preview.get('type', '?')}{size}"


def _details(before: Value, after: Value, old: Side, new: Side) -> tuple[str, ...]:
    a, b = before.preview, after.preview
    if a.get("type") != b.get("type"):
        return (
            f"type {a.get('type')} -> {b.get('type')}",
            f"{a.get('text', '')} -> {b.get('text', '')}",
        )
    found = []
    for what in ("shape", "dtype", "length"):
        if a.get(what) != b.get(what):
            found.append(f"{what} {_plain(a.get(what))} -> {_plain(b.get(what))}")
    found += _columns(a.get("columns"), b.get("columns"))
    if a.get("type") in _NUMBERS:
        return (_number(str(a.get("text")), str(b.get("text"))),) if a.get("text") != b.get("text") else ()
    deeper = _deeper(before.name, old, new, same_form=not found)
    if deeper is not None:
        return (*found, *deeper)
    if a.get("text") != b.get("text") and a.get("columns") is None:
        found.append(f"{a.get('text', '')} -> {b.get('text', '')}")
    return tuple(found) or ("contents differ",)


def _plain(it: Any) -> str:
    return "(" + ", ".join(map(str, it)) + ")" if isinstance(it, list) else str(it)


def _number(old: str, new: str) -> str:
    try:
        before, after = float(old), float(new)
        share = f" ({(after - before) / abs(before):+.1%})" if before and old not in {"True", "False"} else ""
    except (ValueError, OverflowError):
        share = ""
    return f"{old} -> {new}{share}"


def _columns(old: Any, new: Any) -> list[str]:
    before, after = (dict(map(tuple, it or ())) for it in (old, new))
    found = [f"column {name} added ({after[name]})" for name in after if name not in before]
    found += [f"column {name} removed" for name in before if name not in after]
    return found + [
        f"column {name}: {before[name]} -> {after[name]}"
        for name in before
        if after.get(name, before[name]) != before[name]
    ]


def _deeper(name: str, old: Side, new: Side, *, same_form: bool) -> list[str] | None:
    """Compare the values themselves; None where they may not be loaded or cannot be compared."""
    if old.load is None or new.load is None:
        return None
    try:
        before, after = old.load(name), new.load(name)
        if (numpy := modules.get("numpy")) and isinstance(before, numpy.ndarray) and same_form:
            return _elements(before, after)
        if (pandas := modules.get("pandas")) and isinstance(before, pandas.DataFrame) and same_form:
            return _cells(before, after)
        return [] if same_form and bool(_definition(before) == _definition(after)) else None
    except Exception:  # noqa: BLE001  loading and comparing run the values' own code
        return None


def _definition(value: Any) -> Any:
    """Return what a function or a class says, which two of one origin share; any other value as it is."""
    if isinstance(value, FunctionType):
        return value.__code__, value.__defaults__, value.__kwdefaults__
    if isinstance(value, type):
        own = {name: it for name, it in vars(value).items() if name not in _MADE_BY_PYTHON}
        return {name: _definition(it) for name, it in own.items()}, value.__bases__
    return value


def _elements(before: Any, after: Any) -> list[str]:
    changed = before != after
    if before.dtype.kind in "fc":
        changed &= ~((before != before) & (after != after))  # NaN is unequal to itself
    count = int(changed.sum())
    if not count:
        return []
    text = f"{_share(count, changed.size)} of {changed.size:,} elements differ"
    if before.dtype.kind in "iuf":
        text += f", by at most {abs(after[changed].astype(float) - before[changed].astype(float)).max():.4g}"
    return [text]


def _cells(before: Any, after: Any) -> list[str]:
    found = []
    for at, name in enumerate(before.columns):
        one, other = before.iloc[:, at], after.iloc[:, at]
        differ = (one.to_numpy() != other.to_numpy()) & ~(one.isna().to_numpy() & other.isna().to_numpy())
        if differ.any():
            found.append(
                f"column {name}: {_share(int(differ.sum()), len(differ))} of {len(differ):,} rows differ"
            )
    return found if found or before.index.equals(after.index) else ["the index differs"]


def _share(count: int, total: int) -> str:
    share = 100 * count / total
    return f"{share:.0f} %" if share >= 10 or count == total else f"{share:.2g} %"
