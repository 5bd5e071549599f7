"""Comparing: the two sides of a comparison, checkpoints or live variables, and their differences."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from sys import modules
from typing import Any

from nbckpt._private_apis import unchanged_figures
from nbckpt.cells.digest import Digester
from nbckpt.core import environment
from nbckpt.core.diff import Difference, Loaded, Side, compare, package_diff, source_diff
from nbckpt.core.manifest import Manifest, Value
from nbckpt.core.packs.reader import Reader
from nbckpt.core.selection import Selection
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.codec import dump
from nbckpt.core.values.loading import load_values
from nbckpt.core.values.preview import picture_of
from nbckpt.errors import CodecError, UsageError
from nbckpt.provenance.checkpoint import AGAIN, Origin, read_provenance
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.lines import differences as differences_of
from nbckpt.render import size
from nbckpt.states.snapshot import is_state, snapshots
from nbckpt.tracker.results import Compared

LiveValues = Callable[[Mapping[str, Any], dict[str, Any]], dict[str, Value]]
"""Returns the values that a save of variables would have, without saving."""


@dataclass(frozen=True)
class Comparable:
    """One side of a comparison.

    Attributes:
        manifest: The checkpoint; None for the live variables.
        values: The values by name.
        load: Returns a value by its name; None if no value may be loaded.
        files: For each file its size, and a text that is equal for equal contents.
        packages: The versions of the packages.
        provenance: What is needed to do it again; None if that is not known.
        is_part: Whether this is the live side and holds only the names of the other side.
        namespace: The globals of the functions among the values.
    """

    manifest: Manifest | None
    values: Mapping[str, Value]
    load: Loaded | None
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    packages: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance | None = None
    is_part: bool = False
    namespace: dict[str, Any] = field(default_factory=dict)

    def contents(self, value: Any) -> str:
        """Return the digest of what a value contains, which is the same in every kernel.

        Raises:
            CodecError: It cannot be pickled.
        """
        _draw_figures(value, self.namespace)
        return Digester(self.namespace).digest(value)


def _draw_figures(value: Any, namespace: dict[str, Any]) -> None:
    """Draw the figures that a value reaches. Drawing lays a figure out, and the other side may be drawn."""
    if (figures := getattr(modules.get("matplotlib.figure"), "Figure", None)) is None:
        return
    visited: list[object] = []
    with suppress(Exception):  # any exception of the value's own pickling
        dump([value], namespace, write=len, visited=visited)
    for figure in {id(part): part for part in visited if issubclass(type(part), figures)}.values():
        picture_of(figure)


def is_whole(manifest: Manifest) -> bool:
    """Tell whether a checkpoint has all variables of its time: then it also has the states of libraries."""
    return any(value.name in environment.NAMES for value in manifest.values)


def by_name(manifest: Manifest) -> dict[str, Value]:
    """Return the values of a checkpoint by their names."""
    return {value.name: value for value in manifest.values}


def stored(manifest: Manifest, source: Reader, *, trusted: bool) -> Comparable:
    """Return a checkpoint as one side of a comparison. If it is not trusted, no value may be loaded."""
    namespace: dict[str, Any] = {}

    def load(name: str) -> Any:
        loaded, failed = load_values(manifest, source, [name], namespace, classes=Classes("apart"))
        if failed:
            raise CodecError(failed[0].reason)
        return loaded[name]

    return Comparable(
        manifest,
        by_name(manifest),
        load if trusted else None,
        {path: (content.size, repr(content.runs)) for path, content in manifest.files.items()},
        manifest.provenance.get("packages", {}),
        read_provenance(manifest, source),
        namespace=namespace,
    )


def live(
    old: Comparable, namespace: dict[str, Any] | None, hidden: Container[str], live_values: LiveValues
) -> Comparable:
    """Return the live namespace as the new side of a comparison with a checkpoint.

    Raises:
        UsageError: There is no namespace.
    """
    before = old.manifest
    if namespace is None or before is None:
        raise UsageError("a shell has no variables. Compare two checkpoints: %ckpt diff A B")
    variables = Selection(hidden=hidden).of(namespace)
    if not is_whole(before):
        variables = {name: value for name, value in variables.items() if before.find(name)}
    if any(is_state(value.name) for value in before.values):
        variables |= snapshots()
    return Comparable(
        None,
        live_values(variables, namespace),
        variables.__getitem__,
        packages=environment.packages(),
        provenance=Origin().provenance() if before.provenance.get(AGAIN) else None,
        is_part=not is_whole(before),
        namespace=namespace,
    )


def compared(before: Comparable, after: Comparable) -> Compared:
    """Compare two sides. Values are loaded only if both sides may be loaded."""
    old = before.manifest
    assert old is not None  # the live namespace is always the new side
    may_load = before.load is not None and after.load is not None
    with unchanged_figures():  # pyplot takes in each figure that is loaded
        differences = compare(
            *(Side(side.values, side.load if may_load else None, side.contents) for side in (before, after))
        )
    return Compared(
        old,
        after.manifest,
        [difference for difference in differences if difference.name not in environment.NAMES],
        source_diff(old, after.manifest) if after.manifest else [],
        package_diff(before.packages, after.packages),
        may_load,
        after.is_part,
        differences_of(before.provenance, after.provenance),
        [] if after.manifest is None else _files(before.files, after.files),
    )


def _files(old: Mapping[str, tuple[int, str]], new: Mapping[str, tuple[int, str]]) -> list[Difference]:
    """Return the differences of files, by path."""
    differences = []
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before is None or after is None:
            taken = size((before or after or (0, ""))[0])
            differences.append(Difference(path, "added" if before is None else "removed", (taken,)))
        elif before == after:
            differences.append(Difference(path, "same"))
        else:
            differences.append(Difference(path, "changed", (f"{size(before[0])} -> {size(after[0])}",)))
    return differences
