"""Comparing: one of two that are compared, a checkpoint or what is live, and how they differ."""

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
        manifest: The checkpoint; None for what is live.
        values: Its values by name.
        load: Gives a value by its name; None if nothing of it may be loaded.
        files: The size of each file, and what is equal for equal contents.
        packages: The versions of the packages.
        is_part: Whether it is live, and of it only the names of the other side.
    """

    manifest: Manifest | None
    values: Mapping[str, Value]
    load: Loaded | None
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    packages: Mapping[str, Any] = field(default_factory=dict)
    is_part: bool = False


def is_whole(manifest: Manifest) -> bool:
    """Tell whether a checkpoint has all variables that there were: it has the states of libraries too."""
    return any(value.name in environment.NAMES for value in manifest.values)


def by_name(manifest: Manifest) -> dict[str, Value]:
    """Return the values of a checkpoint by their names."""
    return {value.name: value for value in manifest.values}


def compared(old: Manifest, before: Comparable, after: Comparable) -> Compared:
    """Return how two sides differ; values are loaded only if those of both may be."""
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
    """Return how files differ, by their paths."""
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
