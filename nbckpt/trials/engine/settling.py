"""Settling: what a kernel that died left open between a result of a trial and its scheduler.

A decision that it recorded takes effect when the experiment is claimed, without the scheduler: `settle`. A
result without a decision is decided when its trial starts again: `missed`. See docs/decisions/0105.
"""

from __future__ import annotations

from collections.abc import Iterable

from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.engine.guarded import SafeScheduler
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.reading import last_decision
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.trial import Status, Trial, state_of


def settle(trials: Iterable[Trial]) -> None:
    """Let decisions take effect that are the last word of an interrupted trial. Nobody runs the trials.

    So a trial that was to pause at a rung does not go on beyond it.

    Raises:
        StoreError: The disk failed.
    """
    for trial in trials:
        if trial.status != Status.RUNNING or (decided := last_decision(trial.folder)) is None:
            continue
        do, reason = decided["do"], decided["reason"]
        with TrialRecorder(trial) as recorder:
            if do == "pause" and trial.checkpoint_name and not trial.unsaved_results:
                recorder.pause(
                    reason, by=Decision("pause", reason, decided.get("rung"), decided.get("value"))
                )
            elif do in {"stop", "end"}:
                recorder.end(reason, stopped_early=do == "stop")


def missed(scheduler: SafeScheduler, trial: Trial, saved: Record | None) -> Decision | None:
    """Return what the scheduler decides on the last result of a trial that starts again after a crash.

    None if no crash interrupted the trial, or if the trial restarts before that result: then the result
    comes again.

    Args:
        scheduler: The scheduler.
        trial: The trial.
        saved: The checkpoint that it starts from.
    """
    state = state_of(trial)
    is_next = saved is not None and saved.iteration == state.iteration > state.scheduling.at
    was_interrupted = trial.id in scheduler.interrupted
    scheduler.interrupted.discard(trial.id)
    return scheduler.reported(trial) if was_interrupted and scheduler.open and is_next else None
