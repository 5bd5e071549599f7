"""Retention: which of a trial's checkpoints are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from nbckpt.errors import UsageError
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.metrics import lookup, whole_number

Mode = Literal["min", "max"]


@dataclass(frozen=True)
class RetentionPolicy:
    """Keep some of a trial's checkpoints: the newest, or the best by a metric and also the newest.

    Attributes:
        count: How many checkpoints to keep.
        metric: The metric that compares checkpoints; without a metric their age counts.
        mode: Whether `min` or `max` of the metric is best.

    Examples:
        >>> best = nbckpt.trials.RetentionPolicy(3, "loss", "min")  # nbckpt.run(…, keep_checkpoints=best)
        >>> best.count
        3
    """

    count: int
    metric: str = ""
    mode: Mode = "min"

    def __post_init__(self) -> None:
        """Refuse a policy that keeps nothing."""
        object.__setattr__(self, "count", whole_number("keep_checkpoints", self.count))
        if self.count < 1:
            raise UsageError(
                f"keep_checkpoints={self.count} would keep none: give 1 or more, or None for all"
            )
        if not isinstance(self.metric, str | None):
            raise UsageError(f"metric={self.metric!r} is not the name of a metric")
        if self.mode not in {"min", "max"}:
            raise UsageError(f"mode={self.mode!r} is unknown: use 'min' or 'max'")

    def superfluous(self, records: Sequence[Record], needed: Collection[str]) -> list[Record]:
        """Return the checkpoints to remove; never the newest, and never one of *needed*.

        Args:
            records: All checkpoints, the oldest first.
            needed: The names of the checkpoints in use.
        """
        ranked = sorted(records[:-1], key=self._rank) if self.metric else list(reversed(records[:-1]))
        # Without a metric, the newest counts among those to keep; with a metric it is kept in addition.
        kept = self.count if self.metric else self.count - 1
        if self.metric and records and self._rank(records[-1]) < self._rank_at(ranked, kept - 1):
            kept -= 1
        return [record for record in ranked[max(kept, 0) :] if record.name not in needed]

    def _rank_at(self, ranked: Sequence[Record], at: int) -> tuple[bool, float]:
        return self._rank(ranked[at]) if 0 <= at < len(ranked) else (True, float("inf"))

    def _rank(self, record: Record) -> tuple[bool, float]:
        value = lookup(record.metrics, self.metric)
        if not isinstance(value, (int, float)) or value != value:
            return True, 0.0
        return False, value if self.mode == "min" else -value
