"""Comparing: the two sides of a comparison, checkpoints or live variables, and their differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbckpt.core import environment
from nbckpt.core.diff import Difference, Loaded, Side, compare, package_diff, source_diff
from nbckpt.core.manifest import Manifest, Value
from nbckpt.render import size
from nbckpt.tracker.results import Compared


@dataclass(frozen=True)
class Comparable:
    """One side of a comparison.

    Attributes:
        manifest: The checkpoint; None for the live variables.
        values: The values by name.
        load: Returns a value by its name; None if no value may be loaded.
        files: For each file its size, and a text that is equal for equal contents.
        packages: The versions of the packages.
        is_part: Whether this is the live side and holds only the names of the other side.
    """

    manifest: Manifest | None
    values: Mapping[str, Value]
    load: Loaded | None
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    packages: Mapping[str, Any] = field(default_factory=dict)
    is_part: bool = False


def is_whole(manifest: Manifest) -> bool:
    """Tell whether a checkpoint has all variables of its time: then it also has the states of libraries."""
    return any(value.name in environment.NAMES for value in manifest.values)


def by_name(manifest: Manifest) -> dict[str, Value]:
    """Return the values of a checkpoint by their names."""
    return {value.name: value for value in manifest.values}


def compared(old: Manifest, before: Comparable, after: Comparable) -> Compared:
    """Compare two sides. Values are loaded only if both sides may be loaded."""
    may_load = before.load is not None and after.load is not None
    differences = compare(
        Side(before.values, before.load if may_load else None),
        Side(after.values, after.load if may_load else None),
    )
    found = [it for it in differences if it.name not in environment.NAMES]
    return Compared(
        old,
        after.manifest,
        found,
        source_diff(old, after.manifest) if after.manifest else [],
        package_diff(before.packages, after.packages),
        may_load,
        after.is_part,
        [] if after.manifest is None else _files(before.files, after.files),
    )


def _files(old: Mapping[str, tuple[int, str]], new: Mapping[str, tuple[int, str]]) -> list[Difference]:
    """Return the differences of files, by path."""
    found = []
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before is None or after is None:
            taken = size((before or after or (0, ""))[0])
            found.append(Difference(path, "added" if before is None else "removed", (taken,)))
        elif before == after:
            found.append(Difference(path, "same"))
        else:
            found.append(Difference(path, "changed", (f"{size(before[0])} -> {size(after[0])}",)))
    return found
