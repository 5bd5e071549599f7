"""diff: the differences between two checkpoints, or between a checkpoint and live variables.

Equal digests mean equal values, and need no loading. For the others, the stored previews show most of the
differences. The number of changed elements of an array needs both values, and is only reported if they may
be loaded.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from sys import modules
from typing import Any, Literal

from nbckpt.core.depth import bounded
from nbckpt.core.manifest import Manifest, Value
from nbckpt.render import short

Change = Literal["added", "removed", "changed", "same"]
Loaded = Callable[[str], Any]
"""Returns a value by its name. Raises if the value may not or cannot be loaded."""

_MOST_DETAIL = 2000
_NUMBERS = ("int", "float", "bool")


@dataclass(frozen=True)
class Difference:
    """How one name differs.

    Attributes:
        name: The name.
        change: How it differs.
        details: The differences, as texts.
        form: The shape and dtype of an array or a frame; both sides if they differ. Empty for other values.
    """

    name: str
    change: Change
    details: tuple[str, ...] = ()
    form: str = ""


@dataclass(frozen=True)
class Side:
    """One of the two sides of a comparison.

    Attributes:
        values: Its values by name.
        load: Returns a value by its name; None if no value may be loaded.
        contents: Returns what is equal for values with equal contents. It may raise.
    """

    values: Mapping[str, Value]
    load: Loaded | None
    contents: Callable[[Any], str]


def compare(old: Side, new: Side) -> list[Difference]:
    """Return the differences by name. Equal values come last."""
    with bounded():  # the values' own comparisons may be recursive
        return _compare(old, new)


def _compare(old: Side, new: Side) -> list[Difference]:
    differences = []
    for name in sorted(old.values.keys() | new.values.keys()):
        before, after = old.values.get(name), new.values.get(name)
        if before is None or after is None:
            change: Change = "removed" if after is None else "added"
            differences.append(Difference(name, change, (_summary(before or after),), _form(before, after)))
        elif before.digest == after.digest and before.digest:
            differences.append(Difference(name, "same"))
        else:
            # Previews may come from a stranger, and have any length.
            details = tuple(short(detail, _MOST_DETAIL) for detail in _details(before, after, old, new))
            differences.append(
                Difference(name, "changed" if details else "same", details, _form(before, after))
            )
    return sorted(differences, key=lambda difference: difference.change == "same")


def source_diff(old: Manifest, new: Manifest) -> list[str]:
    """Return a unified diff of the cells' sources."""
    before, after = (str(manifest.provenance.get("cell", {}).get("source", "")) for manifest in (old, new))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return list(lines)[2:]


def package_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the packages whose versions differ: name, old, new. Packages on one side only are left out."""
    return [
        (name, old[name], new[name]) for name in sorted(old.keys() & new.keys()) if old[name] != new[name]
    ]


def _summary(value: Value | None) -> str:
    if value is None:
        return ""
    shape = value.preview.get("shape")
    size = f" {shape}" if shape else ""
    return short(f"{value.preview.get('type', '?')}{size}", _MOST_DETAIL)


def _details(before: Value, after: Value, old: Side, new: Side) -> tuple[str, ...]:
    a, b = before.preview, after.preview
    if a.get("type") != b.get("type"):
        return (
            f"type {a.get('type')} -> {b.get('type')}",
            f"{a.get('text', '')} -> {b.get('text', '')}",
        )
    details = []
    for fact in ("shape", "dtype", "length"):
        if a.get(fact) != b.get(fact):
            details.append(f"{fact} {_plain(a.get(fact))} -> {_plain(b.get(fact))}")
    details += _columns(a.get("columns"), b.get("columns"))
    if a.get("type") in _NUMBERS and a.get("text") != b.get("text"):
        return (_number(str(a.get("text")), str(b.get("text"))),)
    if a.get("type") in _NUMBERS and (a["type"] != "int" or str(a.get("text")).lstrip("-").isdecimal()):
        return ()  # of a longer int, the preview holds a part
    deeper = _deeper(before.name, old, new, same_form=not details)
    if deeper is not None:
        return (*details, *deeper)
    if a.get("text") != b.get("text") and a.get("columns") is None:
        details.append(f"{a.get('text', '')} -> {b.get('text', '')}")
    return tuple(details) or ("contents differ",)


def _form(*sides: Value | None) -> str:
    """Return the shape and dtype of the sides, such as `(500,) int64 -> (400,) int64`."""
    previews = [value.preview for value in sides if value is not None]
    shaped = [preview for preview in previews if isinstance(preview.get("shape"), list)]
    forms = [f"{_plain(preview['shape'])} {preview.get('dtype', '')}".strip() for preview in shaped]
    return short(" -> ".join(dict.fromkeys(forms)), _MOST_DETAIL)


def _plain(fact: Any) -> str:
    return "(" + ", ".join(map(str, fact)) + ")" if isinstance(fact, list) else str(fact)


def _number(old: str, new: str) -> str:
    try:
        before, after = float(old), float(new)
        share = f" ({(after - before) / abs(before):+.1%})" if before and old not in {"True", "False"} else ""
    except (ValueError, OverflowError):
        share = ""
    return f"{old} -> {new}{share}"


def _columns(old: Any, new: Any) -> list[str]:
    before, after = (dict(map(tuple, columns or ())) for columns in (old, new))
    lines = [f"column {name} added ({after[name]})" for name in after if name not in before]
    lines += [f"column {name} removed" for name in before if name not in after]
    return lines + [
        f"column {name}: {before[name]} -> {after[name]}"
        for name in before
        if after.get(name, before[name]) != before[name]
    ]


def _deeper(name: str, old: Side, new: Side, *, same_form: bool) -> list[str] | None:
    """Compare the values themselves. Return None if they may not be loaded or cannot be compared."""
    if old.load is None or new.load is None:
        return None
    try:
        before, after = old.load(name), new.load(name)
        if (numpy := modules.get("numpy")) and type(before) is numpy.ndarray and same_form:
            is_same = before.dtype.hasobject and old.contents(before) == new.contents(after)
            return [] if is_same else _elements(before, after)
        if (pandas := modules.get("pandas")) and isinstance(before, pandas.DataFrame):
            return _cells(before, after) if len(before) == len(after) else None
        return [] if same_form and _is_same(before, after, old, new) else None
    except Exception:  # noqa: BLE001  loading and comparing run the values' own code
        return None


def _is_same(before: Any, after: Any, old: Side, new: Side) -> bool:
    """Tell whether two values are equal. Many objects compare only their identity, so contents count too."""
    with suppress(Exception):  # the values' own code
        if before == after:
            return True
    return old.contents(before) == new.contents(after)


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
    lines = []
    for name, at, there in _same_columns(before, after):
        one, other = before.iloc[:, at], after.iloc[:, there]
        differ = (one.to_numpy() != other.to_numpy()) & ~(one.isna().to_numpy() & other.isna().to_numpy())
        if differ.any():
            lines.append(
                f"column {name}: {_share(int(differ.sum()), len(differ))} of {len(differ):,} rows differ"
            )
    lines += [] if before.index.identical(after.index) else ["the index differs"]
    same_names = before.columns.identical(after.columns) or not before.columns.equals(after.columns)
    lines += [] if same_names else ["the names of the columns' levels differ"]
    return lines if before.attrs == after.attrs else [*lines, "the attrs differ"]


def _same_columns(before: Any, after: Any) -> list[tuple[Any, int, int]]:
    """Return the columns that two frames share, with their positions. Duplicate names are left out."""
    if before.columns.equals(after.columns):
        return [(name, at, at) for at, name in enumerate(before.columns)]
    old, new = list(before.columns), list(after.columns)
    return [
        (name, at, new.index(name)) for at, name in enumerate(old) if old.count(name) == new.count(name) == 1
    ]


def _share(count: int, total: int) -> str:
    share = 100 * count / total
    return f"{share:.0f} %" if share >= 10 or count == total else f"{share:.2g} %"
