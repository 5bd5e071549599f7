"""Statuses: each trial's current status, the number of trials in each status, and why a trial failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nbckpt.render import count
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import ExperimentView

CUT = "cut off"
_ASKED = {"pause": "pausing", "stop": "stopping", "checkpoint": "saving"}


def states_of(experiment: ExperimentView) -> dict[str, str]:
    """Return each trial's status, or that it was interrupted, or is about to save, pause or stop."""
    trials = experiment.trials
    unfinished = {trial.id for trial in trials if trial.status in {Status.RUNNING, Status.PENDING}}
    is_cut = bool(unfinished) and not experiment.running and not experiment.runs_elsewhere()
    states = {trial.id: CUT if is_cut and trial.id in unfinished else str(trial.status) for trial in trials}
    running = [trial for trial in trials if trial.status == Status.RUNNING]
    signals = {trial.id: experiment.asked(trial) for trial in running}
    return states | {name: _ASKED[signal] for name, signal in signals.items() if signal}


def counted(states: Mapping[str, str]) -> str:
    """Return the number of trials, in total and in each status."""
    parts = [f"{number} {state}" for state, number in Counter(states.values()).items()]
    return ", ".join([count(len(states), "trial"), *parts])


def last_line(trial: Trial) -> str:
    """Return the first line of a trial's error message."""
    return (trial.error.strip().splitlines() or ["failed"])[0]
