"""Optuna: a study as a search. It suggests configurations and learns how their trials end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nbckpt._private_apis import optuna_trial_id
from nbckpt.errors import UsageError
from nbckpt.render import count
from nbckpt.trials.model.drawing import domains, with_values
from nbckpt.trials.model.metrics import ITERATION, PLAIN, as_float, lookup
from nbckpt.trials.model.objectives import listed
from nbckpt.trials.model.optuna import check_packages
from nbckpt.trials.model.space import Choice, Grid, Integer, Rounded, Uniform, index_of, round_to
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.search.base import Search

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, TrialState


class OptunaSearch(Search):
    """Asks a study for configurations, and tells it the results.

    The value of a trial is the last value that it reported of the metric. Each earlier value is reported to
    the study too, whose pruner may end the trial. A trial that failed, or never reported the metric, is
    told as FAIL. A trial that was stopped or pruned is told as PRUNED. With several objectives, a trial has
    a value for each, and the study prunes nothing: Optuna has no pruner for that.

    The study's trials carry the names of the experiment's trials in their attributes. So the two find each
    other again, also in another process if the study has a storage. When the experiment resumes, the study
    learns of the trials that it does not know.

    Args:
        study: The study, with a direction for each objective of the experiment.
        spec: What the experiment is to do. The study treats a grid of its space as a choice.
        prunes: Whether the study has a pruner, which compares what completed trials reported too. Without
            one, it learns their last values only, and their journals are not read.

    Raises:
        UsageError: Study, metric and space do not fit together, or Optuna or a package that the study's
            sampler needs is missing.
    """

    def __init__(self, study: Study, spec: Spec, *, prunes: bool = True) -> None:
        try:
            import optuna
        except ImportError:
            raise UsageError("search=study needs Optuna: pip install 'nbckpt[optuna]'") from None
        _check(study, spec)
        self._states = optuna.trial.TrialState
        self._study = study
        self._prunes = prunes
        self._metrics = [known.metric for known in spec.objectives]
        self._space = spec.config
        ranges = domains(spec.config).items()
        self._params = {"/".join(map(str, path)): _param(path, domain) for path, domain in ranges}
        self._distributions = {name: param.distribution for name, param in self._params.items()}
        self._mark: dict[str, str] = {}
        self._asked: dict[str, optuna.Trial] = {}
        self._step: dict[str, int] = {}
        self._told: dict[str, TrialState] = {}
        self.notes: list[str] = []

    def setup(self, experiment: ExperimentView) -> None:
        """See `Search.setup`."""
        from optuna.trial import Trial as Asked

        self._mark = {"nbckpt.experiment": experiment.name, "nbckpt.created_at": experiment.spec.created_at}
        trials = {trial.id: trial for trial in experiment.trials}
        met = self._known()
        for trial in trials.values():
            if not trial.finished and trial.id not in met:  # as if the study had suggested it
                self._add(trial, self._states.RUNNING, None)
        for trial_id, known in self._known().items():
            if known.state.is_finished():
                self._told[trial_id] = known.state
            elif trial_id in trials and (asked_id := optuna_trial_id(known)) is not None:
                self._asked[trial_id] = Asked(self._study, asked_id)
                self._step[trial_id] = max(known.intermediate_values, default=0)
            else:  # a crash came after the study was asked and before the trial was made
                self._study.tell(known.number, state=self._states.FAIL)
        for trial in trials.values():
            if trial.finished:
                self.ended(trial)

    def _known(self) -> dict[str, FrozenTrial]:
        """Return the study's trials of this experiment, by the names of ours."""
        listed = self._study.get_trials(deepcopy=False)
        return {
            known.user_attrs.get("nbckpt.trial", ""): known
            for known in listed
            if self._mark.items() <= known.user_attrs.items()
        }

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """See `Search.suggest`."""
        asked = self._asked[trial_id] = self._study.ask(self._distributions)
        for name, text in self._marks(trial_id).items():
            asked.set_user_attr(name, text)
        values = {param.path: param.value(asked.params[name]) for name, param in self._params.items()}
        return with_values(self._space, values)

    def reported(self, trial: Trial) -> str:
        """See `Search.reported`."""
        asked = self._asked.get(trial.id)
        value = lookup(trial.metrics, self._metrics[0])
        # A step that is repeated after a restore was reported already, and was not pruned.
        if (
            asked is None
            or len(self._metrics) > 1
            or not isinstance(value, (int, float))
            or trial.iteration <= self._step.get(trial.id, 0)
        ):
            return ""
        self._step[trial.id] = trial.iteration
        asked.report(as_float(value), trial.iteration)
        return "pruned by Optuna" if asked.should_prune() else ""

    def ended(self, trial: Trial) -> None:
        """See `Search.ended`."""
        state, values = self._outcome(trial)
        asked = self._asked.pop(trial.id, None)
        if asked is not None:
            self._study.tell(asked, values, state, skip_if_finished=True)
        elif self._told.get(trial.id) != state:
            self._add(trial, state, values)
        self._told[trial.id] = state

    def _outcome(self, trial: Trial) -> tuple[TrialState, list[float] | None]:
        """Return the state and the values with which the study learns of a trial's end."""
        values = [as_float(trial.newest(metric)) for metric in self._metrics]
        known = [value for value in values if not math.isnan(value)]
        if trial.stopped_early:
            return self._states.PRUNED, None
        if trial.status in {Status.ERROR, Status.DAMAGED} or len(known) < len(values):
            return self._states.FAIL, None
        return self._states.COMPLETE, known

    def _add(self, trial: Trial, state: TrialState, values: list[float] | None) -> None:
        """Tell the study of a trial that it did not suggest, unless the trial is outside the space."""
        from optuna.trial import create_trial

        try:
            made = create_trial(
                state=state,
                values=values,
                params={name: param.drawn(trial.config) for name, param in self._params.items()},
                distributions=self._distributions,
                user_attrs=self._marks(trial.id),
                intermediate_values=self._intermediate(trial, state),
            )
            self._study.add_trial(made)
        except (LookupError, TypeError, ValueError) as error:
            if not self.notes:  # one sentence, however many there are
                self.notes.append(
                    f"Optuna does not learn of trials outside the space, such as {trial.id}: {error}"
                )

    def _intermediate(self, trial: Trial, state: TrialState) -> dict[int, float]:
        """Return what a trial reported of the metric, by its iteration. Only one objective has these."""
        if len(self._metrics) > 1 or (state == self._states.COMPLETE and not self._prunes):
            return {}
        values = {result[ITERATION]: lookup(result, self._metrics[0]) for result in trial.results}
        return {at: as_float(value) for at, value in values.items() if isinstance(value, (int, float))}

    def _marks(self, trial_id: str) -> dict[str, str]:
        return {**self._mark, "nbckpt.trial": trial_id}


@dataclass(frozen=True)
class _Param:
    """A parameter of a study: a value that varies.

    Attributes:
        path: The keys that lead to the value in a configuration.
        distribution: The distribution of Optuna that the study draws from.
        choices: The values that a study cannot keep; it draws an index into them instead.
        step: What the drawn number is rounded to a multiple of; 0 for nothing.
    """

    path: tuple[Any, ...]
    distribution: Any
    choices: tuple[Any, ...] = ()
    step: float = 0

    def value(self, drawn: Any) -> Any:
        """Return the value in a configuration for the value that the study drew."""
        if self.step:
            return round_to(drawn, self.step)
        return self.choices[drawn] if self.choices else drawn

    def drawn(self, config: Mapping[str, Any]) -> Any:
        """Return the value that the study would have drawn for a configuration."""
        value: Any = config
        for key in self.path:
            value = value[key]
        if self.step:  # rounding may have led out of the range
            return min(max(value, self.distribution.low), self.distribution.high)
        return index_of(self.choices, value) if self.choices else value


def _param(path: tuple[Any, ...], domain: Any) -> _Param:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(domain, Rounded):
        return replace(_param(path, domain.domain), step=domain.step)
    if isinstance(domain, Uniform):
        return _Param(path, FloatDistribution(domain.low, domain.high, log=domain.log))
    if isinstance(domain, Integer):
        return _Param(path, IntDistribution(domain.low, domain.high - 1, log=domain.log))
    if not isinstance(domain, (Choice, Grid)):
        raise UsageError(f"Optuna cannot draw from {domain!r}: use uniform, loguniform, randint or choice")
    if all(type(value) in PLAIN for value in domain.values):
        return _Param(path, CategoricalDistribution(domain.values))
    return _Param(path, CategoricalDistribution(range(len(domain.values))), domain.values)


def _check(study: Study, spec: Spec) -> None:
    """Refuse a study that does not fit the experiment's spec, or lacks a package."""
    check_spec(spec)
    for part in (study.sampler, study.pruner):
        check_packages(part)
    asked, objectives = [direction.name.lower() for direction in study.directions], spec.objectives
    if len(asked) != len(objectives):
        raise UsageError(
            f"the study has {count(len(asked), 'objective')}, and the experiment has {listed(objectives)}: "
            "make them agree, with a direction of the study for each metric"
        )
    wanted = [f"{known.mode}imize" for known in objectives]
    if asked != wanted:
        mode = spec.comparison()["mode"]
        directions = f"direction={wanted[0]!r}" if len(wanted) == 1 else f"directions={wanted!r}"
        raise UsageError(
            f"the study is to {' and '.join(asked)} and mode={mode!r}: make them agree, with "
            f"optuna.create_study({directions}) or another mode"
        )


def check_spec(spec: Spec) -> None:
    """Refuse an experiment in which Optuna has nothing to search.

    Raises:
        UsageError: The message says what is missing.
    """
    if not spec.metric or not spec.mode:
        raise UsageError("which metric? a search needs metric='loss' and mode='min', or mode='max'")
    for domain in (listed := domains(spec.config)).values():
        _param((), domain)
    if not listed:
        raise UsageError(
            "there is nothing to search: give some value as nbckpt.uniform(0, 1), or another range"
        )
