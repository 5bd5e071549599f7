"""Verdict: what follows a result. The stop condition, the search and the scheduler decide it together."""

from __future__ import annotations

from dataclasses import dataclass

from nbckpt.trials.engine.run_settings import RunSettings
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.metrics import Result
from nbckpt.trials.model.recorder import TrialRecorder


@dataclass(frozen=True)
class Verdict:
    """What a trial does after a result: it goes on, ends, or is held by the scheduler.

    Attributes:
        ends: Whether it ends.
        reason: Why it ends, for people.
        early: Whether the search or the scheduler gave it up.
        hold: The scheduler's decision to pause it. It takes effect if the result has a checkpoint.
    """

    ends: bool = False
    reason: str = ""
    early: bool = False
    hold: Decision | None = None


GOES_ON = Verdict()
DONE = Verdict(ends=True, reason="done")


def verdict_on(result: Result, settings: RunSettings, recorder: TrialRecorder) -> Verdict:
    """Return what follows a result that has been recorded.

    The scheduler is asked only if the trial would go on. Its decision is recorded, except a pause: that
    waits for the checkpoint.

    Raises:
        TrialError: The user's stop condition failed.
        StoreError: The disk failed.
    """
    trial = recorder.trial
    given_up = settings.search.reported(trial)
    if reason := settings.stopper.reason(trial, result.metrics):
        return Verdict(ends=True, reason=reason)
    if given_up:
        return Verdict(ends=True, reason=given_up, early=True)
    if result.done:
        return DONE
    decision = settings.scheduler.reported(trial)
    if decision is None:
        return GOES_ON
    return Verdict(hold=decision) if decision.do == "pause" else settled(decision, recorder)


def settled(decision: Decision, recorder: TrialRecorder) -> Verdict:
    """Record a decision that does not wait for a checkpoint, and return what follows.

    Raises:
        StoreError: The disk failed.
    """
    recorder.decided(decision)
    return following(decision)


def following(decision: Decision) -> Verdict:
    """Return what follows a decision that is not to pause."""
    if decision.do not in {"stop", "end"}:
        return GOES_ON
    return Verdict(ends=True, reason=decision.reason, early=decision.do == "stop")
