"""Running: `tune.run` of Ray 1.0, and `Tuner` of 2.x."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbckpt.compat import arguments as table
from nbckpt.compat.ray_tune.analysis import ExperimentAnalysis, read_trials, trials_of
from nbckpt.compat.ray_tune.control import FailFast
from nbckpt.compat.ray_tune.results import ResultGrid
from nbckpt.compat.ray_tune.trainable import Durable, DurableTrainable
from nbckpt.compat.ray_tune.translation import translated
from nbckpt.compat.settings import RunConfig, TuneConfig
from nbckpt.core.trust import open_signer
from nbckpt.errors import Interrupted, TrialError, UsageError
from nbckpt.sync import SyncConfig, Syncer
from nbckpt.trials import run as own
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.trial import Status
from nbckpt.trials.training.durable import durable

_REGISTERED: dict[str, Any] = {}
_RESUMES = {True: "must", "LOCAL": "must", "REMOTE": "must", "AUTO": "auto", "ERRORED_ONLY": "must"}


def register_trainable(name: str, trainable: Any) -> None:
    """Let `tune.run` know a trainable by a name."""
    _REGISTERED[name] = trainable


def run(run_or_experiment: Any, **arguments: Any) -> ExperimentAnalysis:
    """Run trials, wait until all have ended, and return their results; see `nbckpt.run`.

    Args:
        run_or_experiment: A function, a Trainable class, or a registered name.
        arguments: As for Ray's `tune.run`; docs/compat.md lists them.

    Raises:
        UsageError: An argument does not exist or is refused. The message says what to use instead.
        TrialError: A trial failed.
        Interrupted: Ctrl-C paused the trials.
    """
    given = table.checked("tune.run()", table.RUN, arguments)
    experiment = _run(run_or_experiment, given)
    failed = [trial for trial in experiment.trials if trial.status == Status.ERROR]
    if failed and given.get("raise_on_failed_trial", True):
        names = ", ".join(trial.id for trial in failed)
        raise TrialError(
            f"{names} of {experiment.name!r} failed: {failed[0].error}. Retry: "
            f"tune.run(…, name={experiment.name!r}, resume='ERRORED_ONLY')"
        )
    return ExperimentAnalysis(trials_of(experiment))


class Tuner:
    """Runs trials with Ray's settings objects.

    Args:
        trainable: A function, a Trainable class, or the result of `with_resources`.
        param_space: The configuration.
        tune_config: How configurations are drawn and compared.
        run_config: The name, the place and the end of the experiment.

    Raises:
        UsageError: An argument does not exist.
    """

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Mapping[str, Any] | None = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
        **unknown: Any,
    ) -> None:
        table.checked("Tuner()", {"param_space", "tune_config", "run_config"}, unknown)
        self._trainable = trainable
        self._given: dict[str, Any] = {"config": dict(param_space or {})}
        self._restored = ""
        for settings in (tune_config, run_config):
            self._given |= {} if settings is None else settings.arguments
        self._experiment: Experiment | None = None

    def fit(self) -> ResultGrid:
        """Run the trials, wait until all have ended, and return their results.

        Raises:
            UsageError: A setting cannot be translated. The message says what to use instead.
            Interrupted: Ctrl-C paused the trials.
        """
        if self._restored:
            folder = self._given["local_dir"] / self._given["name"]
            errored = self._restored == "ERRORED_ONLY"
            self._experiment = _continued(self._trainable, folder, self._given["config"], errored=errored)
        else:
            self._experiment = _run(self._trainable, self._given)
        return self.get_results()

    def get_results(self) -> ResultGrid:
        """Return the results so far.

        Raises:
            UsageError: `fit` was not called.
        """
        if self._experiment is not None:
            return ResultGrid(trials_of(self._experiment))
        if not self._restored:
            raise UsageError("there are no results yet: call fit()")
        return ResultGrid(read_trials(self._given["local_dir"] / self._given["name"]))

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        trainable: Any = None,
        *,
        resume_errored: bool = False,
        param_space: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> Tuner:
        """Return the tuner of an experiment, to read its results or to continue it with `fit`.

        Args:
            path: The experiment's folder. Of a folder that Ray wrote, only the results are read.
            trainable: The function or the class; by default the one that was saved.
            resume_errored: Whether failed trials are retried from their last checkpoint.
            param_space: The configuration, if it is to change.
            unknown: Refused.

        Raises:
            UsageError: An argument is refused.
        """
        table.checked("Tuner.restore()", {"resume_errored", "param_space"}, unknown)
        folder = Path(path).expanduser().absolute()
        tuner = cls(trainable, param_space=param_space)
        tuner._given |= {"name": folder.name, "local_dir": folder.parent}
        tuner._restored = "ERRORED_ONLY" if resume_errored else "LOCAL"
        return tuner

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str]) -> bool:
        """Tell whether nbckpt has an experiment in the folder."""
        return (Path(path).expanduser() / spec_file.FILE).is_file()


class WithResources:
    """A trainable and the resources of each of its trials; `with_resources` makes it."""

    def __init__(self, trainable: Any, resources: Mapping[str, float]) -> None:
        if not isinstance(resources, Mapping):
            raise UsageError(f"with_resources takes a dict such as {{'cpu': 2}}, not {resources!r}")
        self.trainable = trainable
        self.resources = resources


def with_resources(trainable: Any, resources: Mapping[str, float]) -> WithResources:
    """Return a trainable for `Tuner` or `tune.run`, with what each trial needs.

    Raises:
        UsageError: *resources* is not a dict.
    """
    return WithResources(trainable, resources)


def _run(trainable: Any, given: Mapping[str, Any]) -> Experiment:
    """Run the trials, and wait until none runs."""
    if isinstance(trainable, WithResources):
        given = {**given, "resources_per_trial": trainable.resources}
    arguments = translated(given)
    trainable, arguments["sync_config"] = _placed(_plain(trainable), arguments["sync_config"])
    resume = "ERRORED_ONLY" if given.get("run_errored_only") else given.get("resume", False)
    if resume not in {False, *_RESUMES}:
        raise UsageError(f"resume={resume!r} is unknown: use {', '.join(map(repr, _RESUMES))} or False")
    name, number = str(given.get("name", "")), _last_number(arguments["folder"], str(given.get("name", "")))
    if resume is False:
        number += 1 if name else 0
    arguments["name"] = f"{name}-{number}" if number > 1 else name
    arguments["resume"] = _RESUMES.get(resume, "auto")
    experiment = _waited(own.run(trainable, **arguments), errored=resume == "ERRORED_ONLY")
    for callback in arguments["callbacks"]:
        if isinstance(callback, FailFast) and callback.raises and callback.error:
            raise callback.error.__cause__ or callback.error
    return experiment


def _continued(trainable: Any, folder: Path, space: Mapping[str, Any], *, errored: bool) -> Experiment:
    """Continue an experiment with what it was to do."""
    spec, trainable = spec_file.read(folder).load(open_signer()), _plain(trainable)
    if trainable is None or _is_durable(trainable):
        trainable = spec.trainable  # a durable one knows its place
    same = (
        "num_samples",
        "stop",
        "max_concurrent",
        "max_failures",
        "checkpoint_every",
        "callbacks",
        "executor",
        "scheduler",
        "search",
        "points",
        "provenance",
        "system_metrics",
    )
    experiment = own.run(
        trainable,
        space or spec.config,
        name=folder.name,
        folder=folder.parent,
        keep_checkpoints=spec.keep,
        resources_per_trial=spec.resources,
        **spec.comparison(),
        resume="must",
        sync_config=spec.sync,
        **{name: getattr(spec, name) for name in same},
    )
    return _waited(experiment, errored=errored)


def _waited(experiment: Experiment, *, errored: bool) -> Experiment:
    """Wait until no trial runs; then retry the failed ones if *errored*."""
    try:
        experiment.wait()
        if errored and any(trial.status == Status.ERROR for trial in experiment.trials):
            experiment.resume(errored=True).wait()
    except KeyboardInterrupt:
        experiment.pause()
        experiment.wait()
        raise Interrupted(
            f"interrupted: the trials are paused. Continue: Tuner.restore({str(experiment.folder)!r}).fit()"
        ) from None
    return experiment


def _plain(given: Any) -> Any:
    """Return the trainable without its resources, found by its name."""
    trainable = given.trainable if isinstance(given, WithResources) else given
    if isinstance(trainable, str) and trainable not in _REGISTERED:
        raise UsageError(f"no trainable is registered as {trainable!r}: give the function itself")
    return _REGISTERED[trainable] if isinstance(trainable, str) else trainable


def _is_durable(trainable: Any) -> bool:
    is_class = isinstance(trainable, type) and issubclass(trainable, DurableTrainable)
    return is_class or isinstance(trainable, Durable)


def _placed(trainable: Any, sync: SyncConfig | None) -> tuple[Any, SyncConfig | None]:
    """Return the trainable for `nbckpt.run`, and where the experiment is synced beside it."""
    if not _is_durable(trainable):
        return trainable, sync
    if sync is None:
        raise UsageError("a durable trainable needs sync_config=SyncConfig(upload_dir=URL)")
    inner = trainable.trainable if isinstance(trainable, Durable) else trainable
    syncer = sync.syncer if isinstance(sync.syncer, Syncer) else None
    return durable(inner, str(sync.upload_dir), timeout=sync.sync_timeout, syncer=syncer), None


def _last_number(folder: Path, name: str) -> int:
    """Return the number of the last experiment of this name: NAME is 1, NAME-2 is 2; 0 if there is none."""
    numbers = [0]
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in folder.iterdir() if name else ():
            number = re.fullmatch(rf"{re.escape(name)}(?:-([2-9]|[1-9]\d{{1,8}}))?", entry.name)
            numbers += [int(number[1] or 1)] if number else []
    return max(numbers)
