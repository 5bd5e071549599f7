"""MLflowCallback: log the trials of an experiment as MLflow runs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbckpt.errors import UsageError
from nbckpt.integrations.flat import flat, numbers
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.callback import Callback
from nbckpt.trials.model.trial import Status, Trial

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    from nbckpt.trials.model.view import ExperimentView

_SEND_EVERY_S = 1.0
_MOST_METRICS, _MOST_PARAMS = 1000, 100  # MLflow's limits for one request
_LONGEST_NAME, _LONGEST_PARAM = 240, 6000  # and for one name, which may become longer, and one value


@dataclass
class _Run:
    """The MLflow run of a trial.

    Attributes:
        id: The id of the run in MLflow.
        sent: The last iteration whose metrics were sent.
        waiting: The results since then.
        sent_at: When metrics were sent, by the monotonic clock.
    """

    id: str
    sent: int
    waiting: list[dict[str, Any]]
    sent_at: float = 0.0


class MLflowCallback(Callback):
    """Log each trial as an MLflow run: its configuration as params, each reported number as a metric.

    The step of a metric is the trial's iteration. Each iteration is sent once, about a second after the
    report. A resumed trial continues its run, also in another kernel; the run is found by its tags. A run
    ends as FINISHED or FAILED, or as KILLED if the trial was stopped or paused.

    Args:
        tracking_uri: MLflow's server or database; by default MLflow's own default.
        experiment_name: The MLflow experiment, which is created if it does not exist; by default it has the
            name of the nbckpt experiment.
        log_checkpoints: Whether checkpoints are uploaded as artifacts.

    Raises:
        UsageError: MLflow is not installed.
    """

    def __init__(
        self,
        tracking_uri: str | os.PathLike[str] | None = None,
        experiment_name: str | None = None,
        *,
        log_checkpoints: bool = False,
    ) -> None:
        try:
            import mlflow  # noqa: F401  fail now rather than when trials run
        except ImportError:
            raise UsageError("MLflowCallback needs MLflow: pip install 'nbckpt[mlflow]'") from None
        self.tracking_uri = None if tracking_uri is None else str(tracking_uri)
        self.experiment_name = experiment_name
        self.log_checkpoints = log_checkpoints
        self._experiments: dict[Path, tuple[str, str]] = {}
        self._runs: dict[Path, _Run] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open runs."""
        return {**vars(self), "_experiments": {}, "_runs": {}}

    def setup(self, experiment: ExperimentView) -> None:
        """See `Callback.setup`."""
        client, name = self._client(), self.experiment_name or experiment.name
        existing = client.get_experiment_by_name(name)
        number = existing.experiment_id if existing else client.create_experiment(name)
        self._experiments[experiment.folder] = number, experiment.spec.created_at

    def on_trial_start(self, trial: Trial) -> None:
        """See `Callback.on_trial_start`."""
        from mlflow.entities import Param

        client = self._client()
        experiment, created_at = self._experiments[trial.folder.parent]
        tags = {"nbckpt.trial": f"{trial.folder.parent.name}/{trial.id}", "nbckpt.created_at": created_at}
        query = " and ".join(f"tags.`{key}` = '{text}'" for key, text in tags.items())
        runs = client.search_runs([experiment], query, max_results=1)
        run = runs[0] if runs else client.create_run(experiment, tags=tags, run_name=tags["nbckpt.trial"])
        sent = int(run.data.metrics.get("training_iteration", 0))
        self._runs[trial.folder] = _Run(run.info.run_id, sent, trial.results)
        client.update_run(run.info.run_id, status="RUNNING")
        config = _renamed(flat(trial.config))
        params = [Param(key, str(value)[:_LONGEST_PARAM]) for key, value in config.items()]
        new = [param for param in params if param.key not in run.data.params]
        for at in range(0, len(new), _MOST_PARAMS):
            client.log_batch(run.info.run_id, params=new[at : at + _MOST_PARAMS])

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """See `Callback.on_trial_result`."""
        run = self._runs[trial.folder]
        run.waiting.append(trial.metrics)
        if time.monotonic() - run.sent_at >= _SEND_EVERY_S:
            self._send(trial)

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        """See `Callback.on_trial_checkpoint`."""
        if self.log_checkpoints:
            folder = trial.folder / checkpoint.name
            self._client().log_artifacts(self._runs[trial.folder].id, str(folder), checkpoint.name)

    def on_trial_complete(self, trial: Trial) -> None:
        """See `Callback.on_trial_complete`."""
        self._end(trial)

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """See `Callback.on_trial_error`."""
        if trial.status in {Status.ERROR, Status.TERMINATED}:
            self._end(trial)

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """See `Callback.on_experiment_end`."""
        for trial in trials:
            self._end(trial)

    def _send(self, trial: Trial) -> None:
        """Send the results that were reported since the last call."""
        run = self._runs[trial.folder]
        metrics = [metric for result in run.waiting for metric in _metrics(result, run.sent)]
        for at in range(0, len(metrics), _MOST_METRICS):
            self._client().log_batch(run.id, metrics=metrics[at : at + _MOST_METRICS])
        run.sent, run.sent_at = max(run.sent, trial.iteration), time.monotonic()
        run.waiting.clear()

    def _end(self, trial: Trial) -> None:
        if trial.folder in self._runs:
            self._send(trial)
            done = "FAILED" if trial.status == Status.ERROR else "FINISHED"
            killed = trial.stopped_early or not trial.finished
            self._client().set_terminated(self._runs.pop(trial.folder).id, "KILLED" if killed else done)

    def _client(self) -> MlflowClient:
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.tracking_uri)


def _metrics(result: Mapping[str, Any], sent: int) -> Iterator[Metric]:
    """Yield the metrics of a result, if its iteration is after *sent*."""
    from mlflow.entities import Metric

    step = result["training_iteration"]
    if step > sent:
        milliseconds = int(result["timestamp"] * 1000)
        metrics = _renamed(numbers(result)).items()
        yield from (Metric(name, value, milliseconds, step) for name, value in metrics)


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by names that MLflow allows. Names that would become the same get `_` at their ends."""
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        allowed = _name(name)
        while allowed in renamed:
            allowed += "_"
        renamed[allowed] = value
    return renamed


def _name(name: str) -> str:
    """Return a name that MLflow allows: it may be a relative path, without `.` and `..`."""
    parts = re.sub(r"[^\w.\- /]", "_", name)[:_LONGEST_NAME].split("/")
    return "/".join(part for part in parts if part not in {"", ".", ".."}) or "_"
