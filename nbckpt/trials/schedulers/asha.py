"""ASHA: asynchronous successive halving. It pauses trials at rungs, and lets the best of each rung go on."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Literal

from nbckpt.errors import UsageError
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.model.trial import Status, Trial, rungs_of, state_of
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.schedulers.base import Scheduler
from nbckpt.trials.schedulers.rungs import Rung

Rule = Literal["promote", "stop"]

_MOST_RUNGS = 64


class ASHA(Scheduler):
    """Asynchronous successive halving (Li et al. 2020, https://arxiv.org/abs/1810.05934, algorithm 2).

    Rung k is at `grace_period * reduction_factor ** k`. A trial that reaches a rung is paused with a
    checkpoint. With a *reduction_factor* of 3, it goes on to the next rung when it is among the best third of
    the trials that have reached the rung. A free worker prefers the highest rung, and starts a new trial only
    if no paused trial can go on. A paused trial takes no thread and no memory.

    A trial without a checkpoint cannot be paused. It goes on if it is among the best now, and stops if not.

    Args:
        max_t: The trial ends here; no rung is there. By default it ends by itself.
        grace_period: Where the first rung is.
        reduction_factor: With 3, a third of the trials at each rung is promoted. 2 or more.
        rule: `promote` as above; `stop` never pauses: a trial that is not among the best at a rung stops.
        time_attr: The metric that says how long a trial has trained, which must grow.
        metric: The metric that is compared; by default that of the experiment.
        mode: Whether `min` or `max` of it is best; by default that of the experiment.

    Raises:
        UsageError: An argument is impossible.

    Examples:
        >>> def train(config):
        ...     for step in range(9):
        ...         nbckpt.report(loss=config["lr"] / (step + 1), checkpoint={"step": step})
        >>> asha = nbckpt.trials.ASHA(max_t=9, metric="loss", mode="min")
        >>> trials = nbckpt.run(train, {"lr": nbckpt.grid_search([0.1, 0.2, 0.3])}, scheduler=asha)
        >>> trials.wait(), trials.best("loss", "min").config
        (True, {'lr': 0.1})
    """

    def __init__(
        self,
        max_t: float | None = None,
        grace_period: float = 1,
        reduction_factor: float = 3,
        *,
        rule: Rule = "promote",
        time_attr: str = ITERATION,
        metric: str = "",
        mode: str = "",
    ) -> None:
        super().__init__(metric, mode, time_attr)
        if grace_period <= 0:
            raise UsageError(f"grace_period={grace_period} is impossible: give a number above 0")
        if max_t is not None and max_t < grace_period:
            raise UsageError(f"max_t={max_t} is below grace_period={grace_period}: no trial reaches a rung")
        if not 2 <= reduction_factor < math.inf:
            raise UsageError(f"reduction_factor={reduction_factor} is impossible: give 2 or more")
        if rule not in {"promote", "stop"}:
            raise UsageError(f"rule={rule!r} is unknown: use 'promote' or 'stop'")
        self.max_t, self.grace_period, self.reduction_factor = max_t, grace_period, reduction_factor
        self.rule = rule
        self._rungs: list[Rung] = []
        self._left: dict[str, int] = {}
        self._step: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._is_done = False

    def setup(self, experiment: ExperimentView) -> None:
        """See `Scheduler.setup`."""
        self._rungs, self._left, self._step, self._seen, self._is_done = [], {}, {}, {}, False
        for trial in experiment.trials:
            scheduling = state_of(trial).scheduling
            for rung, value in scheduling.rungs.items():
                if rung < _MOST_RUNGS:
                    self._rung(rung).add(trial.id, self.badness(value))
            self._leave(trial.id, min(scheduling.promoted, _MOST_RUNGS))
            if trial.finished:
                self.ended(trial)

    def reported(self, trial: Trial) -> Decision | None:
        """See `Scheduler.reported`."""
        done = self.trained(trial.metrics)
        self._step[trial.id] = done - self._seen.get(trial.id, 0.0) or 1.0
        self._seen[trial.id] = done
        if self.max_t is not None and done >= self.max_t:
            return Decision("end", f"{self.time_attr} reached {self.max_t:g}")
        rung, left = self._reached(done), self._left.get(trial.id, 0)
        if rung < left:
            return None
        for passed in range(left, rung + 1):
            self._rung(passed).add(trial.id, self.badness(self.value(trial.metrics)))
        self._leave(trial.id, rung)
        if self.rule == "stop":
            return self._good_enough(trial, rung)
        if self._promotable() == (trial.id, rung):
            return self._go_on(trial, rung)
        return Decision("pause", self._place(trial.id, rung), rung, self.value(trial.metrics))

    def resumed(self, trial: Trial) -> None:
        """See `Scheduler.resumed`."""
        self._leave(trial.id, min(rungs_of(trial), _MOST_RUNGS))

    def unsaved(self, trial: Trial, decision: Decision) -> Decision:
        """See `Scheduler.unsaved`."""
        return decision if decision.rung is None else self._good_enough(trial, decision.rung)

    def ended(self, trial: Trial) -> None:
        """See `Scheduler.ended`."""
        for rung in self._rungs:
            rung.leave(trial.id)
        self._is_done = self._is_done or (trial.status == Status.TERMINATED and not trial.stopped_early)

    def wants_checkpoint(self, trial: Trial) -> bool:
        """See `Scheduler.wants_checkpoint`."""
        upcoming = self.trained(trial.metrics) + self._step.get(trial.id, 1.0)
        is_last = self.max_t is not None and upcoming >= self.max_t
        return (
            self.rule == "promote" and not is_last and self._reached(upcoming) >= self._left.get(trial.id, 0)
        )

    def next_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        """See `Scheduler.next_trial`."""
        if (pick := self._promotable(held)) is None:
            return None
        name, rung = pick
        self._leave(name, rung + 1)
        return held[name], Decision("promote", self._place(name, rung), rung)

    def last_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        """See `Scheduler.last_trial`. One trial is trained to its end, even if no other comes so far."""
        if self._is_done:
            return None
        for at in reversed(range(len(self._rungs))):
            if name := self._rungs[at].best(held):
                self._leave(name, at + 1)
                return held[name], Decision("promote", f"the best of rung {at}, and nothing else is left", at)
        return None

    def _promotable(self, there: Container[str] | None = None) -> tuple[str, int] | None:
        """Return the trial to promote, with its rung: the best of the highest rung that has one."""
        for at in reversed(range(len(self._rungs))):
            if name := self._rungs[at].promotable(there):
                return name, at
        return None

    def _good_enough(self, trial: Trial, rung: int) -> Decision:
        """Decide for good, without a pause. The best of a rung goes on, however few are there."""
        if self._rungs[rung].rank(trial.id) <= max(self._rungs[rung].places, 1):
            return self._go_on(trial, rung)
        self.ended(trial)
        return Decision("stop", self._place(trial.id, rung, least=1), rung, self.value(trial.metrics))

    def _go_on(self, trial: Trial, rung: int) -> Decision:
        self._leave(trial.id, rung + 1)
        return Decision("continue", self._place(trial.id, rung, least=1), rung, self.value(trial.metrics))

    def _leave(self, name: str, rungs: int) -> None:
        """Take in that a trial has left the first *rungs* rungs."""
        for at in range(self._left.get(name, 0), rungs):
            self._rung(at).leave(name)
            self._left[name] = at + 1

    def _rung(self, at: int) -> Rung:
        while len(self._rungs) <= at:
            self._rungs.append(Rung(self.reduction_factor))
        return self._rungs[at]

    def _reached(self, done: float) -> int:
        """Return the highest rung that a trial has reached after that much training; -1 for none."""
        reached, milestone = -1, self.grace_period
        end = math.inf if self.max_t is None else self.max_t
        while milestone <= done and milestone < end and reached + 1 < _MOST_RUNGS:
            reached, milestone = reached + 1, milestone * self.reduction_factor
        return reached

    def _place(self, name: str, at: int, least: int = 0) -> str:
        rung, milestone = self._rungs[at], self.grace_period * self.reduction_factor**at
        places = max(rung.places, least)
        best = f"the best {places} go on" if places > 1 else ("none goes on yet", "the best goes on")[places]
        return f"rung {at} ({self.time_attr} {milestone:g}): number {rung.rank(name)} of {len(rung)}, {best}"
