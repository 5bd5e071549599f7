"""Statuses: the words that people see for a trial's `Status`; only this module maps one to the other.

It also counts the trials in each status, and says why a trial failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from nbckpt.render import count
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import ExperimentView, internals

PENDING, RUNNING, PAUSED, FAILED, INTERRUPTED = "pending", "running", "paused", "failed", "interrupted"
PAUSING, STOPPED_EARLY = "pausing", "stopped"
_WORDS = {status: status.lower() for status in Status} | {Status.TERMINATED: "done", Status.ERROR: FAILED}
_ASKED = {"pause": PAUSING, "stop": "stopping", "checkpoint": "saving"}


def states_of(experiment: ExperimentView) -> dict[str, str]:
    """Return each trial's status in words: also whether it was interrupted, or is about to save or end."""
    states = {trial.id: word(trial) for trial in experiment.trials}
    unfinished = [name for name, state in states.items() if state in {PENDING, RUNNING}]
    states |= dict.fromkeys(internals(experiment).lost(unfinished), INTERRUPTED)
    return _with_signals(states, internals(experiment).asked)


def _with_signals(states: Mapping[str, str], asked: Callable[[str], str]) -> dict[str, str]:
    """Return *states*, and for a running trial what it was asked to do next."""
    return {
        name: _ASKED.get(asked(name), state) if state == RUNNING else state for name, state in states.items()
    }


def word(trial: Trial) -> str:
    """Return a trial's status in a word, regardless of who runs it."""
    return STOPPED_EARLY if trial.stopped_early else _WORDS[trial.status]


def counted(states: Mapping[str, str]) -> str:
    """Return the number of trials, in total and in each status."""
    parts = [f"{number} {state}" for state, number in Counter(states.values()).items()]
    return ", ".join([count(len(states), "trial"), *parts])


def nothing_to_resume(name: str, trials: Iterable[Trial], asked: Callable[[str], str]) -> str:
    """Return what to say if none of these trials can be resumed now, and what can be done instead.

    Args:
        name: The name of the experiment, or of its trial if it is only about one.
        trials: The trials, at least one.
        asked: What a running trial was asked to do next: see `Runner.asked`.
    """
    states = _with_signals({trial.id: word(trial) for trial in trials}, asked)
    first = {state: trial for trial, state in reversed(states.items())}
    said = [f"{name!r} has nothing to resume: {counted(states)}"]
    if PAUSING in first:
        said.append(f"{first[PAUSING]} pauses after its next result: resume it then")
    if FAILED in first:
        said.append(f"Retry failed trials: %ckpt resume {name} --errored")
    if STOPPED_EARLY in first:
        said.append(f"Continue a stopped trial: %ckpt resume {name}/{first[STOPPED_EARLY]}")
    return ". ".join(said)


def no_trials(name: str) -> str:
    """Return why an experiment that nobody runs has no trials, and what to do."""
    again = f"nbckpt.run(…, name={name!r})"
    return f"{name!r} has no trials: its process ended before they were made. Run it again: {again}"


def last_line(trial: Trial) -> str:
    """Return the first line of a trial's error message."""
    return (trial.error.strip().splitlines() or ["failed"])[0]
