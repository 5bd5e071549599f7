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
_WORDS = {status: status.lower() for status in Status} | {Status.TERMINATED: "done", Status.ERROR: FAILED}
_ASKED = {"pause": "pausing", "stop": "stopping", "checkpoint": "saving"}


def states_of(experiment: ExperimentView) -> dict[str, str]:
    """Return each trial's status in words: also whether it was interrupted, or is about to save or end."""
    states = {trial.id: word(trial) for trial in experiment.trials}
    unfinished = [name for name, state in states.items() if state in {PENDING, RUNNING}]
    states |= dict.fromkeys(internals(experiment).lost(unfinished), INTERRUPTED)
    asked = internals(experiment).asked
    signals = {name: asked(name) for name, state in states.items() if state == RUNNING}
    return states | {name: _ASKED[signal] for name, signal in signals.items() if signal}


def word(trial: Trial) -> str:
    """Return a trial's status in a word, regardless of who runs it."""
    return "stopped" if trial.stopped_early else _WORDS[trial.status]


def counted(states: Mapping[str, str]) -> str:
    """Return the number of trials, in total and in each status."""
    parts = [f"{number} {state}" for state, number in Counter(states.values()).items()]
    return ", ".join([count(len(states), "trial"), *parts])


def nothing_to_resume(name: str, trials: Iterable[Trial], asked: Callable[[str], str]) -> str:
    """Return what to say of an experiment none of whose trials can be resumed now.

    Args:
        name: The experiment's name.
        trials: Its trials.
        asked: What a running trial was asked to do next: see `Runner.asked`.
    """
    known = [*trials]
    pausing = [trial.id for trial in known if asked(trial.id) == "pause"]
    failed = any(trial.status == Status.ERROR for trial in known)
    stopped = [trial.id for trial in known if trial.stopped_early]
    hints = [
        *([f"{pausing[0]} pauses after its next result: resume it then"] if pausing else []),
        *([f"Retry failed trials: %ckpt resume {name} --errored"] if failed else []),
        *([f"Continue a stopped trial: %ckpt resume {name}/{stopped[0]}"] if stopped else []),
    ]
    return ". ".join([f"{name!r} has nothing to resume", *hints])


def no_trials(name: str) -> str:
    """Return why an experiment that nobody runs has no trials, and what to do."""
    again = f"nbckpt.run(…, name={name!r})"
    return f"{name!r} has no trials: its process ended before they were made. Run it again: {again}"


def last_line(trial: Trial) -> str:
    """Return the first line of a trial's error message."""
    return (trial.error.strip().splitlines() or ["failed"])[0]
