"""A program that extends trials and states: it uses every name of `nbckpt.trials` and `nbckpt.states`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import pandas

from nbckpt import Checkpoint
from nbckpt.errors import Interrupted
from nbckpt.states import (
    RandomState,
    Registry,
    State,
    load_state,
    replica,
    save_all_states,
    save_and_exit,
    save_on_signal,
    save_state,
    should_stop,
    states_checkpoint,
    use_folder,
)
from nbckpt.trials import (
    ASHA,
    PBT,
    Annotation,
    Callback,
    Catalog,
    CheckpointFolder,
    Decision,
    DurableTrainable,
    Executor,
    Experiment,
    ExperimentView,
    FunctionRunner,
    MedianStopping,
    NotDurableError,
    OnResult,
    OptunaPruner,
    OptunaSampler,
    Record,
    RetentionPolicy,
    Scheduler,
    Search,
    Status,
    StatusReporter,
    StopTrial,
    Trainable,
    Trial,
    Worker,
    WorkerLostError,
    executors,
    with_parameters,
    wrap_function,
)


class OneWorker(Worker):
    """Run a trainable here."""

    def __init__(self, trainable: Trainable, folder: Path) -> None:
        self.trainable = trainable
        self.checkpoints = CheckpointFolder(folder)

    def restore(self, checkpoint: Record) -> None:
        """Restore a checkpoint."""
        self.trainable.restore(assert_type(self.checkpoints.path(checkpoint), Path))

    def run(self, on_result: OnResult) -> None:
        """Train until somebody ends it."""
        self.trainable.push_results(on_result)

    def save(self) -> Record | None:
        """Save a checkpoint."""
        return self.checkpoints.read(Path(self.trainable.save()).name)

    def stop(self) -> None:
        """End it."""
        self.trainable.stop()

    def kill(self) -> None:
        """Lose it."""
        raise WorkerLostError("it is gone")


class OneExecutor(Executor):
    """Run trials here."""

    name = "one"

    def start(self, job: executors.Job) -> Worker:
        """Make the trainable."""
        trainable = job.trainable(job.config, job.folder, trial_name=job.name, trial_id=job.trial)
        return OneWorker(trainable, job.folder)


class Halves(Search):
    """Try half of the last rate."""

    rate = 1.0

    def setup(self, experiment: ExperimentView) -> None:
        """Continue where the trials are."""
        self.rate /= 2 ** len(assert_type(experiment.trials, tuple[Trial, ...]))

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Suggest a rate."""
        self.rate /= 2
        return {"lr": self.rate} if self.rate > 1e-6 else None


class Patience(Scheduler):
    """Stop a trial after ten results, however good it is."""

    def setup(self, experiment: ExperimentView) -> None:
        """Start anew."""

    def reported(self, trial: Trial) -> Decision | None:
        """Decide about a trial."""
        return Decision("stop", "ten results are enough") if trial.iteration == 10 else None


SCHEDULERS: list[Scheduler] = [
    ASHA(max_t=27, grace_period=1, reduction_factor=3),
    MedianStopping(5, min_samples=3),
    PBT(5, mutations={"lr": lambda: 0.1, "width": [8, 16]}, quantile=0.2),
    OptunaPruner("hyperband", min_resource=1),
    Patience(),
]
SEARCH: Search = OptunaSampler("tpe", n_startup_trials=5)


class Errors(Callback):
    """Print errors."""

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """Print one."""
        lost = isinstance(error, executors.WorkerEndedError | WorkerLostError)
        print(trial.id, "the worker is lost" if lost else error)


def train(config: dict[str, Any], reporter: StatusReporter) -> None:
    """Report with Ray's old reporter, and clean up if the trial is stopped."""
    try:
        reporter(loss=config["lr"])
        assert_type(reporter.logdir, str)
    except StopTrial:
        print("stopped")


def look_at_experiments(folder: Path) -> list[str]:
    """Read what trials left."""
    catalog = Catalog(folder)
    experiment = assert_type(catalog.open("grid"), Experiment)
    assert_type(experiment.dataframe(), pandas.DataFrame)
    assert_type(experiment.pareto(), tuple[Trial, ...])
    assert_type(experiment.resume(errored=True), Experiment)
    trial, record = catalog.checkpoint("grid/t0@3")
    assert_type(trial.config, dict[str, Any])
    assert_type(trial.results, list[dict[str, Any]])
    assert_type(trial.metrics, dict[str, Any])
    assert_type(trial.status, Status)
    assert_type(trial.annotation, Annotation)
    assert_type(trial.error, str)
    assert_type(trial.checkpoint, Checkpoint | None)
    assert_type(trial.checkpoint_name, str | None)
    assert_type(trial.history, pandas.DataFrame)
    assert_type(trial.checkpoints.records(), list[Record])
    assert_type(record.metrics, Mapping[str, Any])
    assert_type(RetentionPolicy(1).superfluous([record], []), list[Record])
    return trial.log()


def function_as_a_class(folder: Path) -> Mapping[str, Any]:
    """Use a function, and a class with remote checkpoints, without an experiment."""
    runner = assert_type(wrap_function(with_parameters(train))({"lr": 0.1}), FunctionRunner)
    try:
        assert_type(DurableTrainable("s3://bucket/t0", {}, folder).save(), str)
    except NotDurableError:
        runner.stop()
    return runner.train()


def open_executors() -> list[Executor]:
    """Open the executors by their names."""
    known = [executors.open_executor(name, {}) for name in executors.NAMES]
    mine: list[executors.Executor] = [executors.ThreadExecutor(), executors.InlineExecutor(), OneExecutor()]
    worker: type[executors.Worker] = OneWorker
    lost: list[type[executors.WorkerLostError]] = [executors.WorkerEndedError, executors.WorkerTimeUpError]
    print(worker, lost)
    return [*known, *mine]


def elastic(folder: Path) -> None:
    """Save states on every replica."""
    assert_type(replica.rank() + replica.count() + replica.restarts(), int)
    assert_type(replica.checkpoint_path(), Path | None)
    with use_folder(folder, keep=1) as registry:
        assert_type(registry, Registry)
        generators: State = RandomState()
        assert_type(load_state(generators), bool)
        watch = save_on_signal()
        try:
            while not should_stop():
                assert_type(save_all_states(), str | None)
        except Interrupted:
            watch.restore()
        save_state(generators, folder)
        states_checkpoint(step=1).to_directory(folder)
        save_and_exit()
