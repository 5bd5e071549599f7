"""note, untag: say in words what a trial is. `tag` is in housekeeping.py: checkpoints have it too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nbckpt.commands.options import Text, Word
from nbckpt.commands.table import Session
from nbckpt.errors import UsageError
from nbckpt.render import Hint, Page, Result
from nbckpt.trials.model import annotation
from nbckpt.trials.model.view import internals

TrialName = Annotated[str, Word("TRIAL", "trial", "A trial: EXP/t3, or t3 of the newest experiment.")]


@dataclass(frozen=True, repr=False)
class TrialAnnotated(Result):
    """A trial's note and tags after a change.

    Attributes:
        trial: The trial's full name.
        note: The note; empty if there is none.
        tags: The tags.
    """

    trial: str
    note: str
    tags: tuple[str, ...]

    def page(self) -> Page:
        """See `Result.page`."""
        tags = f"Tags: {', '.join(self.tags)}" if self.tags else ""
        note = f"Note: {self.note}" if self.note else ""
        notes = tuple(filter(None, (tags, note))) or ("It has neither a note nor tags.",)
        return Page(self.trial, notes=notes, hints=(Hint("Details", f"%ckpt show {self.trial}"),))


def note(session: Session, trial: TrialName, *words: Text, clear: bool = False) -> TrialAnnotated:
    """Write a note on a trial, also while it runs.

    Without a text, show its note and tags.

    Args:
        words: The note. It replaces the former one.
        clear: Remove the note.
    """
    if clear and words:
        raise UsageError("--clear removes the note: leave out the text")
    return annotate(session, trial, " ".join(words) if words or clear else None)


def untag(session: Session, trial: TrialName, *tags: Text) -> TrialAnnotated:
    """Remove tags from a trial.

    Args:
        tags: The tags.
    """
    if not tags:
        raise UsageError(f"which tag? For example %ckpt untag {trial} good")
    return annotate(session, trial, remove=tags)


def annotate(
    session: Session,
    ref: str,
    text: str | None = None,
    *,
    add: tuple[str, ...] = (),
    remove: tuple[str, ...] = (),
) -> TrialAnnotated:
    """Change the note or the tags of a trial, and return both. Without a change, return what there is."""
    experiment, trial = session.library.trial(ref)
    now = trial.annotation
    if text is not None or add or remove:
        now = annotation.change(trial.folder, note=text, add=add, remove=remove)
        internals(experiment).touch()  # tables that follow the trials show it
    return TrialAnnotated(f"{experiment.name}/{trial.id}", now.note, now.tags)
