"""A user's program: it uses every name of `nbckpt`, and mypy checks the types that come back."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any, assert_type

import optuna
import pandas
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure

import nbckpt
from nbckpt import Experiment, Trial
from nbckpt.store import Store
from nbckpt.tracker import Restored, Saved
from nbckpt.trials import DurableTrainable, FunctionRunner, Record, Status


class Counter(nbckpt.trials.Trainable):
    """Count to ten."""

    def setup(self, config: dict[str, Any]) -> None:
        """Begin at 0."""
        self.count = 0
        assert_type(self.logdir, str)

    def step(self) -> dict[str, Any]:
        """Count up."""
        self.count += 1
        return {"count": self.count, "done": self.count == 10}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, int]:
        """Save the count."""
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, int]) -> None:
        """Load the count."""
        self.count = checkpoint["count"]


def load(file: Path) -> pandas.DataFrame:
    """Load a file that trials and checkpoints note."""
    assert_type(nbckpt.data(file), str)
    return pandas.read_csv(nbckpt.data("train.csv"))


class DurableCounter(nbckpt.trials.DurableTrainable):
    """Keep checkpoints at a URL."""

    def step(self) -> Mapping[str, Any]:
        """Report nothing new."""
        return {"count": self.iteration}


class Best(nbckpt.trials.Callback):
    """Follow the loss."""

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """Print it."""
        print(trial.id, result["loss"])

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        """Print where it is."""
        print(assert_type(trial.checkpoints.path(checkpoint), Path))

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """Print how many trials are done."""
        print(sum(trial.status is Status.TERMINATED for trial in trials))


class Copy(nbckpt.sync.Syncer):
    """Copy folders."""

    def sync_up(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        """Say that it works."""
        return True

    def sync_down(self, remote_dir: str, local_dir: str, exclude: list[str] | None = None) -> bool:
        """Say that it works."""
        return True

    def delete(self, remote_dir: str) -> bool:
        """Say that it works."""
        return True


class Epoch(nbckpt.State):
    """The number of the epoch."""

    number = 0

    def save(self, fileobj: IO[bytes]) -> None:
        """Write it."""
        fileobj.write(str(self.number).encode())

    def load(self, fileobj: IO[bytes]) -> None:
        """Read it."""
        self.number = int(fileobj.read())


def train(config: dict[str, Any]) -> None:
    """Report a loss, with a checkpoint if one is due."""
    checkpoint = assert_type(nbckpt.get_checkpoint(), nbckpt.Checkpoint | None)
    start = checkpoint.to_dict()["step"] + 1 if checkpoint else 0
    assert_type(nbckpt.get_context().config["lr"], Any)
    for step in range(start, 3):
        due = assert_type(nbckpt.should_checkpoint(), bool)
        nbckpt.report(
            loss=config["lr"] * step, checkpoint=nbckpt.Checkpoint.from_dict({"step": step}) if due else None
        )


def train_with_files(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
    """Write the checkpoint as files."""
    with nbckpt.trials.checkpoint_dir(step=1) as folder:
        assert_type(folder, Path)
    nbckpt.report({"loss": 0.1})


def track_a_loop() -> dict[Any, Any]:
    """Track a plain loop, save its variables, and return them."""
    with nbckpt.track("baseline", {"layers": [1]}, lr=0.1, resume=True) as loop:
        for step in range(loop.iteration, 3):
            loop.report(loss=1 / (step + 1))
        assert_type(loop, nbckpt.trials.OpenTrial)
        assert_type(loop.is_open, bool)
        saved = assert_type(loop.save(globals()), nbckpt.Checkpoint)
    assert_type(loop.experiment, Experiment)
    assert_type(loop.checkpoint, nbckpt.Checkpoint | None)
    return saved.to_dict()


def start_experiments(folder: Path, study: optuna.Study) -> float:
    """Run trials, wait for them, and return the best loss."""
    callback = nbckpt.trials.SyncerCallback(sync_period=60)
    sync_config = nbckpt.SyncConfig(upload_dir="s3://bucket/grid", syncer=Copy(), sync_period=60)
    assert_type(sync_config.validate_upload_dir(), bool)
    experiment = nbckpt.run(
        train,
        {"lr": nbckpt.loguniform(1e-4, 1e-1), "depth": nbckpt.grid_search([1, 2])},
        name="grid",
        callbacks=[Best(), callback],
        keep_checkpoints=nbckpt.trials.RetentionPolicy(2, metric="loss"),
        sync_config=sync_config,
        folder=folder,
    )
    assert_type(experiment, Experiment)
    domains: dict[str, Any] = {"momentum": nbckpt.uniform(0, 1), "optimizer": nbckpt.choice(["adam", "sgd"])}
    domains |= {
        "layers": nbckpt.randint(1, 4),
        "batch": nbckpt.lograndint(8, 512),
        "dropout": nbckpt.quniform(0, 0.5, 0.1),
        "width": nbckpt.sample_from(lambda spec: 2 * spec.config.layers),
    }
    nbckpt.run(train_with_files, domains, search=study, metric="loss", mode="min")
    nbckpt.run(train_with_files, domains, search="tpe", points=[{"layers": 2}], metric="loss", mode="min")
    nbckpt.run(Counter, max_concurrent=1, stop={"count": 5})
    nbckpt.run(assert_type(nbckpt.trials.wrap_function(train), type[FunctionRunner]))
    nbckpt.run(assert_type(nbckpt.trials.durable(Counter, "s3://bucket/t"), type[DurableTrainable]))
    nbckpt.run(DurableCounter)
    assert_type(nbckpt.open_experiment("grid", "s3://bucket/grid"), Experiment)
    nbckpt.find_trials("s3://bucket/grid", "lr < 0.1 and tag == 'good'")
    assert_type(experiment.wait(), bool)
    assert_type(experiment.name, str)
    assert_type(experiment.plot("loss"), Figure)
    compared = nbckpt.trials.compare("grid/t1", experiment.trials[0], experiment, folder=folder)
    assert_type(compared.metrics_frame(), pandas.DataFrame)
    best = assert_type(experiment.best("loss", "min"), Trial)
    assert_type(best.metric("loss"), list[float])
    return float(best.metrics["loss"])


def save_and_restore(folder: Path, store: Store) -> dict[Any, Any]:
    """Save variables and restore them."""
    tracker = nbckpt.Tracker(folder, settings=nbckpt.settings.Settings.load())
    namespace: dict[str, Any] = {"a": 1}
    assert_type(tracker.save(namespace, "first"), Saved)
    assert_type(tracker.restore("first", namespace), Restored)
    assert_type(tracker.undo(namespace), tuple[str, list[str]])
    checkpoint = assert_type(nbckpt.Checkpoint.from_directory(folder), nbckpt.Checkpoint)
    with checkpoint.as_directory() as path:
        assert_type(path, str)
    assert_type(checkpoint.to_uri("memory://checkpoint"), str)
    assert_type(nbckpt.Checkpoint.from_store(store, checkpoint.to_store(store)), nbckpt.Checkpoint)
    assert_type(nbckpt.Checkpoint.from_bytes(checkpoint.to_bytes()).digest(), str)
    return assert_type(checkpoint.to_dict(), dict[Any, Any])


def files_of(checkpoint: nbckpt.Checkpoint) -> Any:
    """Return the files of a checkpoint that has fields too."""
    return checkpoint.to_dict()[nbckpt.Checkpoint.FILES]


def continue_states(folder: Path) -> None:
    """Load states, train, and save them."""
    epoch, generators = Epoch("epoch"), nbckpt.states.RandomState()
    weights = nbckpt.State.of("weights", [0.1])
    assert_type(weights.value, list[float])
    assert_type(nbckpt.states.replica, ModuleType)
    with nbckpt.states.use_folder(folder) as registry:
        assert_type(registry.path, Path | None)
    for state in (epoch, generators, weights):
        assert_type(nbckpt.load_state(state), bool)
    with nbckpt.states.save_on_signal(signal.SIGTERM):
        while not assert_type(nbckpt.states.should_stop(), bool):
            epoch.number += 1
            assert_type(nbckpt.save_all_states(), str | None)
            nbckpt.report(loss=0.1, checkpoint=nbckpt.states.states_checkpoint(epoch=epoch.number))
    nbckpt.states.save_state(epoch, folder)
    nbckpt.states.save_and_exit()


def advice(error: Exception) -> str:
    """Say what to do after an error."""
    match error:
        case nbckpt.UsageError() | nbckpt.NotFoundError():
            return "change the request"
        case nbckpt.errors.RefusedError():
            return "ask for access"
        case nbckpt.errors.StoreError():
            return "try again"
        case nbckpt.errors.CodecError() | nbckpt.errors.TrialError():
            return "change the code"
        case nbckpt.errors.CorruptError() | nbckpt.errors.FormatError():
            return "take another checkpoint"
        case nbckpt.errors.UntrustedError():
            return "look first"
        case nbckpt.NbckptError():
            return str(error)
    raise error


def in_a_notebook(shell: InteractiveShell) -> None:
    """Do what %load_ext, %ckpt panel and %unload_ext do."""
    nbckpt.load_ipython_extension(shell)
    nbckpt.notebook.panel("trials")
    nbckpt.unload_ipython_extension(shell)


def misspelt() -> None:
    """Name things that do not exist: a type checker must say so."""
    nbckpt.CheckPoint  # type: ignore[attr-defined]  # noqa: B018
