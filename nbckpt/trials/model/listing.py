"""Listing: the trials in an experiment's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path

from nbckpt.store.files import explained
from nbckpt.trials.model import journal, params, summary_file
from nbckpt.trials.model.trial import Trial, state_of

_NAME = re.compile("t[0-9]{1,18}")


def trial_names(folder: Path) -> list[str]:
    """Return the names of the trials in an experiment's folder, in the order in which they were made."""
    names: list[str] = []
    # The experiment may have been removed just now.
    with explained("read", folder), suppress(FileNotFoundError):
        names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]  # noqa: PTH208
    return sorted(names, key=lambda name: int(name[1:]))


def read_trials(
    folder: Path, known: Mapping[str, Trial], mine: Container[str] = (), *, summaries: bool = False
) -> list[Trial]:
    """Return the trials in an experiment's folder, in the order in which they were made.

    A *known* trial is not read again if its journal has not changed, or if it is *mine* to write. With
    *summaries*, the summary of another trial is read instead of its journal, if it is good.
    """
    trials = []
    for name in trial_names(folder):
        trial, trial_folder = known.get(name), folder / name
        if trial is None or (name not in mine and _has_changed(trial)):
            trial = summary_file.read(trial_folder) if summaries else None
            trial = trial or _read(trial_folder)
        trials += [trial] if trial else []
    return trials


def _read(folder: Path) -> Trial | None:
    """Return the trial in *folder*, unless it is still being made."""
    is_made = (folder / journal.FILE).exists() or (folder / params.FILE).exists()
    return Trial.read(folder) if is_made else None


def _has_changed(trial: Trial) -> bool:
    """Return whether a trial's journal changed since it was read, is damaged, or was never read."""
    state, now = state_of(trial), journal.stamp(trial.folder / journal.FILE)
    return bool(state.damage) or state.read_at is None or state.read_at != now
