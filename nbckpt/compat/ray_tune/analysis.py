"""ExperimentAnalysis of Ray 1.0, over an experiment of nbckpt or a folder that Ray wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbckpt.compat.ray_tune.ray_results import read_ray_results
from nbckpt.compat.ray_tune.results import OfTrials, TrialResult, Trials, _frame
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model import spec_file


def trials_of(experiment: Experiment, *, trust: bool = False) -> Trials:
    """Return the trials of an experiment of nbckpt."""
    spec = experiment.spec
    listed = [TrialResult.of(trial, trust=trust) for trial in experiment.trials]
    return Trials(listed, experiment.folder, spec.metric, spec.mode, experiment.notes, experiment)


def read_trials(path: str | os.PathLike[str], *, trust: bool = False) -> Trials:
    """Return the trials in a folder that nbckpt or Ray wrote.

    Raises:
        NotFoundError: There is no experiment in the folder.
        CorruptError: The experiment's file is damaged.
    """
    folder = Path(path).expanduser().absolute()
    if (folder / spec_file.FILE).is_file():
        return trials_of(Experiment.read(folder), trust=trust)
    return read_ray_results(folder, trust=trust)


class ExperimentAnalysis(OfTrials):
    """The results of an experiment.

    Args:
        experiment_checkpoint_path: The experiment's folder, which nbckpt or Ray wrote, or a file in it.
        default_metric: The metric that compares trials.
        default_mode: Whether `min` or `max` of the metric is best.
        trust: Whether the pickles in checkpoints of somebody else or of Ray may be loaded.

    Attributes:
        notes: What could not be read, one sentence each.

    Raises:
        NotFoundError: There is no experiment in the folder.
        CorruptError: The experiment's file is damaged.
    """

    def __init__(
        self,
        experiment_checkpoint_path: str | os.PathLike[str] | Trials,
        default_metric: str = "",
        default_mode: str = "",
        *,
        trust: bool = False,
    ) -> None:
        trials = experiment_checkpoint_path
        if not isinstance(trials, Trials):
            path = Path(trials).expanduser()
            trials = read_trials(path.parent if path.is_file() else path, trust=trust)
        self._trials = replace(
            trials, metric=default_metric or trials.metric, mode=default_mode or trials.mode
        )
        self.notes = list(trials.notes)

    @property
    def trials(self) -> list[TrialResult]:
        """The trials."""
        return list(self._trials.listed)

    def get_best_trial(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> TrialResult:
        """Return the trial with the best value of a metric: its `last`, of `all`, or an average.

        Values that are not finite are left out.

        Raises:
            UsageError: No trial reported the metric, or an argument is missing or unknown.
        """
        return self._trials.best(metric, mode, scope)

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> dict[str, Any]:
        """Return the configuration of the best trial."""
        return dict(self.get_best_trial(metric, mode, scope).config)

    def get_best_logdir(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> str:
        """Return the folder of the best trial."""
        return self.get_best_trial(metric, mode, scope).logdir

    def get_best_checkpoint(
        self, trial: TrialResult | str, metric: str | None = None, mode: str | None = None
    ) -> str | None:
        """Return the path of a trial's checkpoint with the best value of a metric; None if there is none."""
        saved = self._trials.find(trial).best_checkpoint(*self._trials.asked(metric, mode))
        return None if saved is None else saved.value

    def get_last_checkpoint(
        self, trial: TrialResult | str | None = None, metric: str = "training_iteration", mode: str = "max"
    ) -> str | None:
        """Return the path of the newest checkpoint of a trial, by default of the trial that ran longest."""
        chosen = self._trials.best(metric, mode) if trial is None else self._trials.find(trial)
        saved = chosen.checkpoint
        return None if saved is None else saved.value

    def get_trial_checkpoints_paths(
        self, trial: TrialResult | str, metric: str = "training_iteration"
    ) -> list[tuple[str, Any]]:
        """Return the path of each checkpoint of a trial, with a value of its result."""
        saved = self._trials.find(trial).list_checkpoints()
        return [(each.value, each.metrics.get(metric)) for each in saved]

    def get_all_configs(self) -> dict[str, dict[str, Any]]:
        """Return the configuration of each trial, by its folder."""
        return {trial.logdir: dict(trial.config) for trial in self._trials.listed}

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> Any:
        """Return a frame with a row for each trial: its last result, or the best one by *metric*."""
        return self._trials.frame(metric, mode)

    def fetch_trial_dataframes(self) -> dict[str, Any]:
        """Return a frame of each trial's results, by its folder."""
        return {trial.logdir: _frame(trial) for trial in self._trials.listed}

    @property
    def trial_dataframes(self) -> dict[str, Any]:
        """A frame of each trial's results, by its folder."""
        return self.fetch_trial_dataframes()

    @property
    def results(self) -> dict[str, Mapping[str, Any]]:
        """The last result of each trial, by its short name."""
        return {trial.trial_id: trial.last_result for trial in self._trials.listed}

    @property
    def results_df(self) -> Any:
        """A frame with a row for each trial, by its short name."""
        return self.dataframe().set_index("trial_id")

    @property
    def best_trial(self) -> TrialResult:
        """The best trial by the experiment's metric."""
        return self.get_best_trial()

    @property
    def best_config(self) -> dict[str, Any]:
        """The configuration of the best trial."""
        return self.get_best_config()

    @property
    def best_logdir(self) -> str:
        """The folder of the best trial."""
        return self.get_best_logdir()

    @property
    def best_checkpoint(self) -> str | None:
        """The path of the best checkpoint of the best trial."""
        return self.get_best_checkpoint(self.best_trial)

    @property
    def best_result(self) -> dict[str, Any]:
        """The last result of the best trial."""
        return self.best_trial.last_result

    @property
    def best_dataframe(self) -> Any:
        """A frame of the results of the best trial."""
        return _frame(self.best_trial)

    @property
    def best_result_df(self) -> Any:
        """A frame with the last result of the best trial."""
        return self.results_df.loc[[self.best_trial.trial_id]]

    def __repr__(self) -> str:
        return f"ExperimentAnalysis({self.experiment_path!r}, {len(self._trials.listed)} trials)"
