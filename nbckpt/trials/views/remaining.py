"""Remaining: the progress of the trials that run, and how long all of them still take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from nbckpt.render import count, duration
from nbckpt.trials.model.trial import Status, Trial, is_held, state_of
from nbckpt.trials.model.view import ExperimentView, internals
from nbckpt.trials.views.eta import Progress, left_in_all, progress, typical
from nbckpt.trials.views.statuses import INTERRUPTED


def progress_of(
    experiment: ExperimentView, shown: Sequence[Trial], states: Mapping[str, str]
) -> dict[str, Progress]:
    """Return the progress of each running trial."""
    running = [t for t in shown if t.status == Status.RUNNING and states[t.id] != INTERRUPTED]
    if not running:
        return {}
    finished = (
        trial for trial in experiment.trials if trial.status == Status.TERMINATED and not trial.stopped_early
    )
    usual, stop = typical(trial.iteration for trial in finished), experiment.spec.stop
    return {
        trial.id: progress(list(state_of(trial).times), trial.iteration, trial.elapsed_s, stop, usual)
        for trial in running
    }


def left_of(experiment: ExperimentView, running: Mapping[str, Progress]) -> Iterator[str]:
    """Yield how long all trials still take, if several run or wait and that is known.

    Trials that wait also take time to start, so less than a second is a few seconds then.
    """
    trials = {trial.id: trial for trial in experiment.trials}
    waiting = max(internals(experiment).unfinished - len(running), 0)
    if len(running) + waiting < 2:
        return
    ended = [
        trial.elapsed_s for trial in trials.values() if trial.status == Status.TERMINATED or is_held(trial)
    ]
    pairs = [(trials[name].elapsed_s, current.left_s) for name, current in running.items()]
    left_s = left_in_all(ended, pairs, waiting, max(experiment.spec.max_concurrent, len(pairs)))
    if left_s is not None:
        time = "a few seconds" if waiting and left_s < 1 else f"about {duration(max(math.ceil(left_s), 1))}"
        yield f"{time} left for {count(len(running) + waiting, 'trial')}"
