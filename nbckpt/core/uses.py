"""Uses: which blobs of which packs manifests name, as stretches.

A manifest may name a stretch of any length, and anyone may have written it: a stretch costs the same however
long it is, and becomes places only within a pack that is really there. See docs/decisions/0058.
"""

from __future__ import annotations

from collections.abc import Iterator

from nbckpt.core.manifest import Manifest

Uses = dict[str, "Places"]
"""Packs by id, and the places in them of the blobs that are named."""


class Places:
    """A set of places in a list."""

    def __init__(self) -> None:
        self._stretches: list[tuple[int, int]] = []

    def add(self, first: int, count: int = 1) -> None:
        """Add *count* places from *first* on."""
        self._stretches.append((first, first + count))

    def of(self, size: int) -> set[int]:
        """Return the places that a list of *size* things has."""
        return {at for start, stop in self._merged() for at in range(start, min(stop, size))}

    def beyond(self, size: int) -> list[int]:
        """Return the first place of each stretch that such a list does not have."""
        return [max(start, size) for start, stop in self._merged() if stop > size]

    def _merged(self) -> Iterator[tuple[int, int]]:
        """Yield the stretches in order, none reaching into another."""
        reached = 0
        for start, stop in sorted(self._stretches):
            if stop > reached:
                yield max(start, reached), stop
                reached = stop


def add_uses(uses: Uses, manifest: Manifest) -> None:
    """Add the blobs that a manifest names in the store's packs."""
    for content in manifest.contents():
        for pack, first, count in content.runs:
            if pack not in manifest.inline:
                uses.setdefault(pack, Places()).add(first, count)
