"""OptunaPruner: a pruner of Optuna decides which trials stop. It needs no study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbckpt.trials.model import optuna
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.schedulers.base import Scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna import Study
    from optuna import Trial as Asked
    from optuna.trial import TrialState


class OptunaPruner(Scheduler):
    """Stops trials as a pruner of Optuna says: `OptunaPruner("hyperband", min_resource=3)`.

    The pruner compares whole steps of *time_attr*. When the experiment resumes, in this kernel or in another,
    it learns of all earlier reports from the journals.

    Args:
        name: The name of a class of `optuna.pruners`, as `HyperbandPruner`, or `hyperband` for short.
        metric: The metric that is compared; by default that of the experiment.
        mode: Whether `min` or `max` of it is best; by default that of the experiment.
        time_attr: The metric that says how long a trial has trained, which must grow.
        options: The arguments of the pruner's class.

    Raises:
        UsageError: Optuna is not installed or has no such pruner, or the pruner refuses the options.
    """

    def __init__(
        self, name: str, /, *, metric: str = "", mode: str = "", time_attr: str = ITERATION, **options: Any
    ) -> None:
        super().__init__(metric, mode, time_attr)
        self.name, self.options = name, options
        self._label = type(optuna.make("Pruner", name, options)).__name__
        self._study: Study | None = None
        self._asked: dict[str, Asked] = {}
        self._step: dict[str, int] = {}

    def setup(self, experiment: ExperimentView) -> None:
        """See `Scheduler.setup`."""
        self._study = optuna.new_study([self.mode], pruner=optuna.make("Pruner", self.name, self.options))
        self._asked, self._step = {}, {}
        for trial in experiment.trials:
            if trial.finished:
                self._add(trial)
            else:
                for metrics in trial.results:
                    self._take_in(trial.id, metrics)

    def reported(self, trial: Trial) -> Decision | None:
        """See `Scheduler.reported`."""
        if not (self._take_in(trial.id, trial.metrics) and self._asked[trial.id].should_prune()):
            return None
        step = self._step[trial.id]
        return Decision("stop", f"pruned by Optuna's {self._label} at {self.time_attr} {step}")

    def ended(self, trial: Trial) -> None:
        """See `Scheduler.ended`."""
        asked = self._asked.pop(trial.id, None)
        if asked is not None and self._study is not None:
            state, value = self._outcome(trial)
            self._study.tell(asked, value, state)

    def _outcome(self, trial: Trial) -> tuple[TrialState, float | None]:
        """Return the state and the value with which the study learns of a trial's end."""
        from optuna.trial import TrialState

        value = self.value(trial.metrics)
        if trial.stopped_early:
            return TrialState.PRUNED, None
        if trial.status == Status.TERMINATED and value is not None:
            return TrialState.COMPLETE, value
        return TrialState.FAIL, None

    def _add(self, trial: Trial) -> None:
        """Tell the study of an ended trial in one step, which takes a fifth of the time of its reports."""
        from optuna.trial import create_trial

        assert self._study is not None  # `setup` made it
        last, values = -1, dict[int, float]()
        for metrics in trial.results:
            value, step = self.value(metrics), int(self.trained(metrics))
            if value is not None and step > last:
                last, values[step] = step, value
        if values:
            state, value = self._outcome(trial)
            self._study.add_trial(create_trial(state=state, value=value, intermediate_values=values))

    def _take_in(self, trial: str, metrics: Mapping[str, Any]) -> bool:
        """Report to the study. Return whether it is a new step with a number."""
        assert self._study is not None  # `setup` came first
        value, step = self.value(metrics), int(self.trained(metrics))
        if value is None or step <= self._step.get(trial, -1):
            return False
        if trial not in self._asked:
            self._asked[trial] = self._study.ask()
        self._asked[trial].report(value, step)
        self._step[trial] = step
        return True
