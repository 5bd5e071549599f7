"""Uses: which blobs of which packs manifests name, as ranges.

A manifest may name a range of any length, and it may come from anybody. A range costs the same whatever its
length. It is expanded only up to the size of a pack that exists. See docs/decisions/0058.
"""

from __future__ import annotations

from collections.abc import Iterator

from nbckpt.core.manifest import Manifest

Uses = dict[str, "Places"]
"""For each pack id, the positions of the named blobs."""


class Places:
    """A set of positions in a list, stored as ranges."""

    def __init__(self) -> None:
        self._stretches: list[tuple[int, int]] = []

    def add(self, first: int, count: int = 1) -> None:
        """Add *count* positions, starting at *first*."""
        self._stretches.append((first, first + count))

    def of(self, size: int) -> set[int]:
        """Return the positions that exist in a list of *size* items."""
        return {at for start, stop in self._merged() for at in range(start, min(stop, size))}

    def beyond(self, size: int) -> list[int]:
        """Return the first position of each range that lies beyond the end of such a list."""
        return [max(start, size) for start, stop in self._merged() if stop > size]

    def _merged(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges, sorted and without overlaps."""
        reached = 0
        for start, stop in sorted(self._stretches):
            if stop > reached:
                yield max(start, reached), stop
                reached = stop


def add_uses(uses: Uses, manifest: Manifest) -> None:
    """Add the blobs that a manifest names in the store's packs. Inline packs are left out."""
    for content in manifest.contents():
        for pack, first, count in content.runs:
            if pack not in manifest.inline:
                uses.setdefault(pack, Places()).add(first, count)
