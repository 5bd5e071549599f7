"""What a tracker returns: what was saved, restored and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbckpt.core.diff import Difference
from nbckpt.core.history import Ref
from nbckpt.core.loading import Failure
from nbckpt.core.manifest import Manifest


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was made.

    Attributes:
        manifest: The checkpoint.
        ref: Its name and version.
        new_bytes: What it added to the store; the rest was there already.
        seconds: How long it took, until it was durable.
    """

    manifest: Manifest
    ref: Ref
    new_bytes: int
    seconds: float

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        return self.manifest.size()


@dataclass(frozen=True)
class Restored:
    """What a restore did, or with a dry run would do.

    Attributes:
        manifest: The checkpoint.
        changes: For each name under which a value was or would be bound, what happens to it:
            `new`, `same`, `changed` or `removed`.
        failed: What could not be loaded, and why.
        apart: Names that share something with a restored one and were not asked for.
        torn: Names of those that changed while they were saved.
        seconds: How long it took.
        dry_run: Whether nothing was done.
    """

    manifest: Manifest
    changes: Mapping[str, str]
    failed: tuple[Failure, ...]
    apart: tuple[str, ...]
    seconds: float
    dry_run: bool = False
    torn: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """Two checkpoints, or one and the live namespace, side by side."""

    old: Manifest
    new: Manifest | None
    differences: list[Difference]
    source: list[str]
    packages: list[tuple[str, str, str]]
    loaded: bool
