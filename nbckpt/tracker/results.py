"""What a tracker returns: what was saved, restored and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from nbckpt.core.diff import Difference
from nbckpt.core.history import Ref
from nbckpt.core.manifest import Manifest
from nbckpt.core.values.loading import Failure
from nbckpt.render import count, size, visible


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

    def __repr__(self) -> str:
        skipped = f", {len(self.manifest.skipped)} left out" if self.manifest.skipped else ""
        held = f"{count(len(self.manifest.values), 'value')}, {size(self.size)}, {size(self.new_bytes)} new"
        return f"Saved({visible(str(self.ref))}, {held}{skipped})"


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

    def __repr__(self) -> str:
        changes = (f"{number} {change}" for change, number in Counter(self.changes.values()).items())
        failed = [f"{sum(len(it.names) for it in self.failed)} failed"] if self.failed else []
        done = ["dry run"] if self.dry_run else []
        return f"Restored({', '.join([self.manifest.id[:8], *changes, *failed, *done])})"


@dataclass(frozen=True)
class Compared:
    """Two checkpoints, or one and the live namespace, side by side.

    Attributes:
        old: The one.
        new: The other one; None for what is live.
        differences: How each variable differs.
        source: How the cells' sources differ, as lines.
        packages: Names, and the two versions, of packages that differ.
        loaded: Whether values were loaded to compare them.
        is_part: Whether only the names of *old* were compared, which has a part of the variables.
        files: How each file of two checkpoints differs.
    """

    old: Manifest
    new: Manifest | None
    differences: list[Difference]
    source: list[str]
    packages: list[tuple[str, str, str]]
    loaded: bool
    is_part: bool = False
    files: list[Difference] = field(default_factory=list)

    def __repr__(self) -> str:
        sides = f"{self.old.id[:8]} -> {self.new.id[:8] if self.new else 'now'}"
        changes = Counter(it.change for it in self.differences)
        return f"Compared({', '.join([sides, *(f'{number} {what}' for what, number in changes.items())])})"
