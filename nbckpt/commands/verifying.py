"""verify: check all data of a store and of its experiments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nbckpt.commands.meaning import is_ref, is_trial
from nbckpt.commands.options import Item
from nbckpt.commands.table import Session
from nbckpt.core.references import SHORT
from nbckpt.core.verify import Verified
from nbckpt.errors import UsageError
from nbckpt.render import Column, Hint, Page, Result, Table, count, size
from nbckpt.trials.verify import VerifiedTrials, verify_trials


@dataclass(frozen=True, repr=False)
class Verification(Result):
    """The data that verify read, and the damage that it found.

    Attributes:
        verified: The store.
        source: The source of repairs; empty if there is none.
        trials: The experiments.
    """

    verified: Verified
    source: str = ""
    trials: VerifiedTrials = field(default_factory=VerifiedTrials)

    @property
    def exit_status(self) -> int:
        """See `Result.exit_status`."""
        return 2 if self.verified.damages or self.trials.damages else 0

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self._rows())

    def _rows(self) -> tuple[tuple[str, str], ...]:
        """Return the damage that was not repaired, and the checkpoints that it touches."""
        rows = [
            (damage.problem, "; ".join(_touched(*touched) for touched in damage.touches))
            for damage in self.verified.damages
            if damage.pack not in self.verified.repaired
        ]
        return (*rows, *((problem, name) for name, problem in self.trials.damages))

    def page(self) -> Page:
        """See `Result.page`."""
        verified, rows = self.verified, self._rows()
        checked = count(verified.checkpoints, "checkpoint")
        if self.trials.checkpoints:
            checked += f" and {self.trials.checkpoints:,} of trials"
        if self.trials.media:
            checked += f", {count(self.trials.media, 'file')} of media"
        packs = f"{count(verified.packs, 'pack')}, {size(verified.size + self.trials.size)} read"
        damages = len(verified.damages) + len(self.trials.damages)
        if not damages:
            return Page(f"Everything verified: {checked}, no damage.", notes=(packs,))
        table = Table("damage", (Column("what"), Column("touches", code=True)), rows)
        notes = tuple(self._notes(damages - len(rows), len(rows)))
        hints = [Hint("Restore one variable", "%ckpt restore REF VAR")] if verified.damages and rows else []
        if self.source and verified.damages and not verified.repaired:
            hints.append(Hint(f"Repair from {self.source}", "%ckpt verify --repair"))
        headline = f"Found {count(damages, 'damage')}: {checked}, {packs}."
        return Page(headline, (table,) if rows else (), notes, hints=tuple(hints))

    def _notes(self, repaired: int, left: int) -> Iterator[str]:
        if repaired:
            yield f"Repaired from {self.source}: {count(repaired, 'damage')}."
        if self.verified.failure:
            yield f"Not everything was repaired: {self.verified.failure}"
        if left:
            yield "All other data is undamaged."
        if left > len(self.trials.damages):
            yield "The next save of the same data writes it again."
        if self.trials.damages:
            yield "A trial resumes from its newest undamaged checkpoint."


def _touched(name: str, values: tuple[str, ...]) -> str:
    return f"{name[:SHORT]}: {', '.join(values) or 'all of it'}"


def verify(session: Session, *refs: Item, repair: bool = False) -> Verification:
    """Read all data, and report what is damaged.

    Damaged data of checkpoints is set aside, so that no save uses it.

    Args:
        refs: Check only these checkpoints, experiments, trials (EXP/t3) or checkpoints of trials (EXP/t3@10).
        repair: Fetch damaged data from the location that the store is synced to.
    """
    source = session.auto.url
    if repair and not source:
        raise UsageError(
            "this store is not synced, so there is no copy to repair it from. Name one: %ckpt sync URL"
        )
    others, trials = _verify_experiments(session, refs)
    if refs and len(others) == len(refs):
        return Verification(Verified(), source, trials)
    mine = [ref for ref in refs if ref not in others]
    verified = session.tracker.verify(mine, session.progress, repair_from=source if repair else None)
    return Verification(verified, source, trials)


def _verify_experiments(session: Session, refs: Sequence[str]) -> tuple[list[str], VerifiedTrials]:
    """Verify all experiments, or those among *refs*; return these refs and the result."""
    try:
        library = session.library
    except UsageError as error:  # it is a link that leads outside: the rest of the store is verified
        return [], VerifiedTrials(damages=[] if refs else [("experiments", str(error))])
    names = library.names()
    others = [ref for ref in refs if not is_ref(session, ref) and (ref in names or is_trial(ref))]
    return others, verify_trials(library, others if refs else names)
