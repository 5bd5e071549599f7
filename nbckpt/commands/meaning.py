"""What a word on a command line means: a checkpoint of variables, a trial, or a trial's checkpoint."""

from __future__ import annotations

import re

from nbckpt.commands.table import Session
from nbckpt.errors import NbckptError, NotFoundError, UsageError

_TRIAL = re.compile(r"(.+/)?t\d+(@\d+)?")


def is_ref(session: Session, word: str) -> bool:
    """Tell whether there is a checkpoint of variables by that name."""
    try:
        session.tracker.find(word)
    except (NotFoundError, UsageError):
        return False
    return True


def is_trial(word: str) -> bool:
    """Tell whether a word reads like a trial, t3 or EXP/t3, or a trial's checkpoint, t3@10."""
    return _TRIAL.fullmatch(word) is not None


def also_a_trial(session: Session, ref: str) -> str:
    """Return a sentence where a checkpoint has the name of a trial, too: the checkpoint is what is meant."""
    if not is_trial(ref):
        return ""
    try:
        experiment, trial = session.library.trial(ref.partition("@")[0])
    except NbckptError:
        return ""
    return f"{ref} is a checkpoint of variables here; the trial is {experiment.name}/{trial.id}"
