"""Results by Ray's names: `ExperimentAnalysis` of 1.0, `ResultGrid` and `Result` of 2.x."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from nbckpt.compat.ray_air.checkpoint import Checkpoint
from nbckpt.errors import TrialError, UsageError
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model.metrics import flat, is_number, lookup, numbers
from nbckpt.trials.model.trial import Status, Trial

_SCOPES: dict[str, Callable[[str, list[float]], float]] = {
    "last": lambda _, values: values[-1],
    "avg": lambda _, values: fmean(values),
    "last-5-avg": lambda _, values: fmean(values[-5:]),
    "last-10-avg": lambda _, values: fmean(values[-10:]),
    "all": lambda mode, values: min(values) if mode == "min" else max(values),
}


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint of a trial.

    Attributes:
        value: The path that the user's code gave: its folder, or a path in it.
        folder: Its folder.
        metrics: The result with which it was saved.
    """

    value: str
    folder: str
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dir_or_data(self) -> str:
        """The same path, by its later name."""
        return self.value


@dataclass(frozen=True)
class TrialResult:
    """One trial by Ray's names.

    Attributes:
        trial_id: Its short name.
        config: Its configuration.
        results: Its results, in order.
        folder: Its folder.
        status: `PENDING`, `RUNNING`, `PAUSED`, `TERMINATED` or `ERROR`.
        error_text: The message of its failure.
        list_checkpoints: Returns its checkpoints, the oldest first.
        trust: Whether the pickles in its checkpoints may be loaded.
    """

    trial_id: str
    config: Mapping[str, Any]
    results: Sequence[Mapping[str, Any]]
    folder: Path
    status: str
    error_text: str = ""
    list_checkpoints: Callable[[], list[SavedCheckpoint]] = list
    trust: bool = False

    @classmethod
    def of(cls, trial: Trial, *, trust: bool = False) -> TrialResult:
        """Return the view of a trial of nbckpt."""

        def listed() -> list[SavedCheckpoint]:
            folder = trial.checkpoints
            return [
                SavedCheckpoint(str(folder.path(record)), str(folder.folder / record.name), record.metrics)
                for record in folder.records()
            ]

        status = Status.ERROR if trial.status == Status.DAMAGED else trial.status
        error = trial.damage or trial.error
        return cls(trial.id, trial.config, trial.results, trial.folder, str(status), error, listed, trust)

    @property
    def last_result(self) -> dict[str, Any]:
        """The last result, with the configuration under `config`; empty before the first result."""
        if not self.results:
            return {}
        return {"trial_id": self.trial_id, **self.results[-1], "config": dict(self.config)}

    @property
    def logdir(self) -> str:
        """The trial's folder; also `local_path`."""
        return str(self.folder)

    local_path = logdir

    @property
    def checkpoint(self) -> SavedCheckpoint | None:
        """The newest checkpoint."""
        return next(reversed(self.list_checkpoints()), None)

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """The `last`, `min`, `max` and `avg` of each metric that is a number."""
        names = dict.fromkeys(name for result in self.results for name in numbers(result))
        values = {name: self.values(name) for name in names}
        return {
            name: {"last": listed[-1], "min": min(listed), "max": max(listed), "avg": fmean(listed)}
            for name, listed in values.items()
            if listed
        }

    def values(self, metric: str) -> list[float]:
        """Return the finite numbers that were reported under *metric*."""
        values = (_finite(lookup(result, metric)) for result in self.results)
        return [value for value in values if value is not None]

    def checkpoint_of(self, name: str) -> SavedCheckpoint | None:
        """Return the checkpoint whose folder is called *name*."""
        return next((saved for saved in self.list_checkpoints() if Path(saved.folder).name == name), None)

    def best_checkpoint(self, metric: str, mode: str) -> SavedCheckpoint | None:
        """Return the checkpoint that was saved with the best value of *metric*."""
        ranked = [
            (value, saved)
            for saved in self.list_checkpoints()
            if (value := _finite(lookup(saved.metrics, metric))) is not None
        ]
        best = min if mode == "min" else max
        return best(ranked, key=lambda pair: pair[0])[1] if ranked else None

    def __repr__(self) -> str:
        return f"TrialResult({self.trial_id}, {self.status}, {len(self.results)} results)"


@dataclass(frozen=True)
class Trials:
    """The trials of an experiment, and the metric that compares them.

    Attributes:
        listed: The trials.
        folder: The experiment's folder.
        metric: The default metric.
        mode: The default mode.
        notes: What could not be read, one sentence each.
        experiment: The experiment, if it is one of nbckpt.
    """

    listed: Sequence[TrialResult]
    folder: Path
    metric: str = ""
    mode: str = ""
    notes: Sequence[str] = ()
    experiment: Experiment | None = None

    def asked(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        """Return the metric and the mode, by default those of the experiment."""
        metric, mode = metric or self.metric, mode or self.mode
        if not metric or mode not in {"min", "max"}:
            raise UsageError("which metric? Give metric='loss' and mode='min', or mode='max'")
        return metric, mode

    def best(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> TrialResult:
        """Return the trial with the best value of a metric.

        Raises:
            UsageError: No trial reported the metric, or an argument is missing or unknown.
        """
        metric, mode = self.asked(metric, mode)
        if scope not in _SCOPES:
            raise UsageError(f"scope={scope!r} is unknown: use one of {', '.join(map(repr, _SCOPES))}")
        scored = [
            (_SCOPES[scope](mode, values), trial) for trial in self.listed if (values := trial.values(metric))
        ]
        if not scored:
            known = dict.fromkeys(name for trial in self.listed for name in trial.metric_analysis)
            raise UsageError(f"no trial reported {metric!r}: there are {', '.join(known) or 'none yet'}")
        best = min if mode == "min" else max
        return best(scored, key=lambda pair: pair[0])[1]

    def frame(self, metric: str | None = None, mode: str | None = None) -> Any:
        """Return a frame with a row for each trial: its last result, or the best one by *metric*."""
        rows = []
        for trial in self.listed:
            result: Mapping[str, Any] = trial.results[-1] if trial.results else {}
            if metric and (values := trial.values(metric)):
                wanted = min(values) if self.asked(metric, mode)[1] == "min" else max(values)
                result = next(each for each in trial.results if lookup(each, metric) == wanted)
            config = {f"config/{name}": value for name, value in flat(trial.config)}
            rows.append({"trial_id": trial.trial_id, **dict(flat(result)), **config, "logdir": trial.logdir})
        return _pandas().DataFrame(rows)

    def find(self, trial: TrialResult | str) -> TrialResult:
        """Return a trial by itself, its short name or its folder."""
        if isinstance(trial, TrialResult):
            return trial
        for each in self.listed:
            if trial in {each.trial_id, each.logdir}:
                return each
        raise UsageError(f"there is no trial {trial!r}")


class Result:
    """One trial, as `ResultGrid` gives it."""

    def __init__(self, trial: TrialResult, trials: Trials) -> None:
        self._trial, self._trials = trial, trials

    @property
    def metrics(self) -> dict[str, Any]:
        """The last result, with the configuration under `config`."""
        return self._trial.last_result

    @property
    def config(self) -> dict[str, Any]:
        """The configuration."""
        return dict(self._trial.config)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint."""
        return self._opened(self._trial.checkpoint)

    @property
    def error(self) -> TrialError | None:
        """The failure of the trial, if it failed."""
        return TrialError(self._trial.error_text) if self._trial.status == Status.ERROR else None

    @property
    def path(self) -> str:
        """The trial's folder."""
        return self._trial.logdir

    @property
    def log_dir(self) -> Path:
        """The trial's folder."""
        return self._trial.folder

    @cached_property
    def metrics_dataframe(self) -> Any:
        """A frame with a row for each result."""
        return _frame(self._trial)

    @property
    def best_checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """The checkpoints that were kept, each with the result with which it was saved."""
        saved = self._trial.list_checkpoints()
        return [(self._open(each), dict(each.metrics)) for each in saved]

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """Return the checkpoint that was saved with the best value of *metric*."""
        return self._opened(self._trial.best_checkpoint(*self._trials.asked(metric, mode)))

    def _open(self, saved: SavedCheckpoint) -> Checkpoint:
        return Checkpoint.from_directory(saved.folder, trust=self._trial.trust)

    def _opened(self, saved: SavedCheckpoint | None) -> Checkpoint | None:
        return None if saved is None else self._open(saved)

    def __repr__(self) -> str:
        return f"Result({self._trial.trial_id}, {self._trial.status}, {len(self._trial.results)} results)"


class OfTrials:
    """Results of the trials of one experiment."""

    _trials: Trials

    @property
    def experiment(self) -> Experiment | None:
        """The experiment of nbckpt, whose repr is its table; None for a folder that Ray wrote."""
        return self._trials.experiment

    @property
    def experiment_path(self) -> str:
        """The experiment's folder."""
        return str(self._trials.folder)


class ResultGrid(OfTrials):
    """The results of `Tuner.fit`, one for each trial."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._results = [Result(trial, trials) for trial in trials.listed]

    def get_best_result(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> Result:
        """Return the result of the best trial. Values that are not finite are left out.

        Raises:
            UsageError: No trial reported the metric, or an argument is missing or unknown.
        """
        return Result(self._trials.best(metric, mode, scope), self._trials)

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> Any:
        """Return a frame with a row for each trial."""
        return self._trials.frame(filter_metric, filter_mode)

    @property
    def errors(self) -> list[TrialError]:
        """The failures of trials."""
        return [error for result in self._results if (error := result.error) is not None]

    @property
    def num_errors(self) -> int:
        """The number of failed trials."""
        return len(self.errors)

    @property
    def num_terminated(self) -> int:
        """The number of trials that ended without a failure."""
        return sum(trial.status == Status.TERMINATED for trial in self._trials.listed)

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, index: int) -> Result:
        return self._results[index]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __repr__(self) -> str:
        return f"ResultGrid({', '.join(map(repr, self._results[:3]))}{', …' if len(self) > 3 else ''})"


def _finite(value: Any) -> float | None:
    """Return a number as a float; None for anything else."""
    try:
        return float(value) if is_number(value) and math.isfinite(value) else None
    except OverflowError:
        return None


def _frame(trial: TrialResult) -> Any:
    return _pandas().DataFrame([dict(flat(result)) for result in trial.results])


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise UsageError("a frame needs pandas: pip install pandas") from None
    return pandas
