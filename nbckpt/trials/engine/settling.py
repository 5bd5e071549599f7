"""Settling: decisions of a scheduler that a dead kernel had recorded, and that had not taken effect."""

from __future__ import annotations

from collections.abc import Iterable

from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.reading import last_decision
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.trial import Status, Trial


def settle(trials: Iterable[Trial]) -> None:
    """Let decisions take effect that are the last word of an interrupted trial. Nobody runs the trials.

    So a trial that was to pause at a rung does not go on beyond it: see docs/decisions/0105.

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
