"""The results of a tracker: of a save, a restore and a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from nbckpt.core.diff import Difference
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import Ref
from nbckpt.core.values.loading import Failure
from nbckpt.errors import visible
from nbckpt.render import count, size


@dataclass(frozen=True)
class Saved:
    """The result of a save.

    Attributes:
        manifest: The new checkpoint.
        ref: Its name and version.
        new_bytes: The bytes added to the store; the rest was there already.
        seconds: The duration, until the checkpoint was durable.
    """

    manifest: Manifest
    ref: Ref
    new_bytes: int
    seconds: float

    @property
    def size(self) -> int:
        """The bytes of the checkpoint."""
        return self.manifest.size()

    def __repr__(self) -> str:
        skipped = f", {len(self.manifest.skipped)} left out" if self.manifest.skipped else ""
        held = f"{count(len(self.manifest.values), 'value')}, {size(self.size)}, {size(self.new_bytes)} new"
        return f"Saved({visible(str(self.ref))}, {held}{skipped})"


@dataclass(frozen=True)
class Restored:
    """The result of a restore or of its dry run.

    Attributes:
        manifest: The checkpoint.
        changes: For each name that was or would be bound, the change: `new`, `same`, `changed` or `removed`.
        failed: The values that could not be loaded, with reasons.
        apart: Names that were not requested, but share objects with a restored variable.
        torn: Names of restored variables that changed during the save.
        seconds: The duration.
        dry_run: Whether nothing was restored.
        note: Why another checkpoint than the requested one was restored; "" if it was not.
        differing: The classes of restored objects whose code in the namespace is another one.
    """

    manifest: Manifest
    changes: Mapping[str, str]
    failed: tuple[Failure, ...]
    apart: tuple[str, ...]
    seconds: float
    dry_run: bool = False
    torn: tuple[str, ...] = ()
    note: str = ""
    differing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        changes = (f"{number} {change}" for change, number in Counter(self.changes.values()).items())
        failed = [f"{sum(len(failure.names) for failure in self.failed)} failed"] if self.failed else []
        done = ["dry run"] if self.dry_run else []
        return f"Restored({', '.join([self.manifest.id[:8], *changes, *failed, *done])})"


@dataclass(frozen=True)
class Compared:
    """The comparison of two checkpoints, or of one checkpoint and the live namespace.

    Attributes:
        old: The first checkpoint.
        new: The second checkpoint; None for the live namespace.
        differences: The difference of each variable.
        source: The diff of the cells' sources, as lines.
        packages: The name and the two versions of each package that differs.
        loaded: Whether values were loaded for the comparison.
        is_part: Whether only the names in *old* were compared, since it holds a part of the variables.
        provenance: What else differs: the name of each part, and its old and new value as text.
        files: The difference of each file of two checkpoints.
    """

    old: Manifest
    new: Manifest | None
    differences: list[Difference]
    source: list[str]
    packages: list[tuple[str, str, str]]
    loaded: bool
    is_part: bool = False
    provenance: list[tuple[str, str, str]] = field(default_factory=list)
    files: list[Difference] = field(default_factory=list)

    def __repr__(self) -> str:
        sides = f"{self.old.id[:8]} -> {self.new.id[:8] if self.new else 'now'}"
        changes = Counter(difference.change for difference in self.differences)
        return (
            f"Compared({', '.join([sides, *(f'{number} {change}' for change, number in changes.items())])})"
        )
