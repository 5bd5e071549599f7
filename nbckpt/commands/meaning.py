"""Classify a word on a command line: a checkpoint of variables, a trial, or a trial's checkpoint."""

from __future__ import annotations

import re

from nbckpt.commands.table import Session
from nbckpt.core.references import Entry
from nbckpt.errors import NbckptError, NotFoundError, UsageError

_TRIAL = re.compile(r"(.+/)?t\d+(@\d+)?")


def find_ref(session: Session, word: str) -> Entry | None:
    """Return the checkpoint of variables that *word* refers to, or None.

    The name of an experiment takes precedence over an id that begins with it.
    """
    try:
        entry = session.tracker.find(word)
    except (NotFoundError, UsageError):
        return None
    is_by_id = entry.id.startswith(word) and word in session.library.names()
    return entry if not is_by_id or _has_version(session, word) else None


def _has_version(session: Session, name: str) -> bool:
    history = session.tracker.history
    return bool(history.named(history.refs(name)))


def is_ref(session: Session, word: str) -> bool:
    """Tell whether *word* refers to a checkpoint of variables."""
    return find_ref(session, word) is not None


def is_trial(word: str) -> bool:
    """Tell whether a word has the form of a trial, t3 or EXP/t3, or of a trial's checkpoint, t3@10."""
    return _TRIAL.fullmatch(word) is not None


def also_a_trial(session: Session, ref: str) -> str:
    """Return a note if a trial has the same name as the checkpoint *ref*, which is used; else ""."""
    if not is_trial(ref):
        return ""
    try:
        experiment, trial = session.library.trial(ref.partition("@")[0])
    except NbckptError:
        return ""
    return f"{ref} means the checkpoint of variables. The trial is {experiment.name}/{trial.id}."
