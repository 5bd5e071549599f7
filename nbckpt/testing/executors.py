"""The conformance suite for executors: tests for everything that nbckpt expects of an executor.

Your executor is correct if this class passes:

    class TestMyExecutor(ExecutorTests):
        runs_apart = True

        @pytest.fixture
        def executor(self) -> Executor:
            return MyExecutor(...)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pytest

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import TrialError, UsageError
from nbckpt.media import Text
from nbckpt.testing.trainables import counting, offering, steps
from nbckpt.trials import ASHA, Callback, Executor, Experiment, Status, Trial, WorkerLostError
from nbckpt.trials.executors import open_executor
from nbckpt.trials.model.space import grid_search
from nbckpt.trials.run import run as run_trials
from nbckpt.trials.training.session import (
    checkpoint_dir,
    report,
)

SECONDS = 120
"""How long a test waits for its trials."""


class Run(Protocol):
    """Runs trials on the executor, and waits for them."""

    def __call__(self, trainable: Any, config: Any = None, **options: Any) -> Experiment:
        """Do what `nbckpt.run` does. Return the experiment when nothing runs any longer."""


class Follows(Callback):
    """Does something after a result, and keeps the errors.

    Args:
        n: The `n` of the result after which it is done, with the first trial that reports it.
        action: Takes the experiment.
    """

    def __init__(self, n: int = 0, action: Callable[[Experiment], object] = lambda _: None) -> None:
        self.errors: list[BaseException] = []
        self._n, self._action = n, action

    def setup(self, experiment: Any) -> None:
        self._experiment = experiment

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        if result["n"] == self._n:
            self._n = 0
            self._action(self._experiment)

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        self.errors.append(error)


def told(trial: Trial, name: str = "n") -> list[Any]:
    """Return the values of a metric that a trial reported."""
    return [result[name] for result in trial.results]


class ExecutorTests:
    """Tests for every executor.

    A subclass defines the fixture `executor`: an executor, or the text that names one. The trained functions
    travel by value, so a worker needs nbckpt and not pytest.

    Attributes:
        runs_apart: Whether a trial has a process of its own, which may die while the kernel lives.
    """

    runs_apart: ClassVar[bool] = False

    @pytest.fixture
    def executor(self) -> str | Executor:
        # A fixture cannot be abstract: pytest collects the class. The suite of an executor overrides it.
        raise NotImplementedError("give an executor")

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """An empty folder for experiments. Override it if workers need a disk that machines share."""
        return tmp_path

    @pytest.fixture
    def gpus(self) -> None:
        """Provide two GPUs to trials. Override it if the executor reserves GPUs; they may be mere names."""
        pytest.skip("no GPUs are provided")

    @pytest.fixture
    def run(self, executor: str | Executor, folder: Path) -> Run:
        def run(trainable: Any, config: Any = None, **options: Any) -> Experiment:
            given: dict[str, Any] = {"name": "e", "folder": folder, "executor": executor, "max_concurrent": 2}
            experiment = run_trials(trainable, config, **given | options)
            assert experiment.wait(SECONDS)
            return experiment

        return run

    def test_results_of_all_trials_arrive_in_order(self, run: Run) -> None:
        experiment = run(counting(), {"x": grid_search([1, 2])})
        assert [(trial.status, trial.error) for trial in experiment.trials] == [(Status.TERMINATED, "")] * 2
        assert [told(trial) for trial in experiment.trials] == [[1, 2, 3, 4, 5, 6]] * 2
        assert [told(trial, "who") for trial in experiment.trials] == [
            [f"t{n} e/t{n} {n + 1}"] * 6 for n in (0, 1)
        ]
        apart = {result["pid"] for trial in experiment.trials for result in trial.results} - {os.getpid()}
        assert len(apart) == (2 if self.runs_apart else 0)

    def test_threads_of_a_function_report_one_at_a_time(self, run: Run) -> None:
        inside: list[int] = []

        class Watch(Callback):
            def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

        reports = 10 if self.runs_apart else 50

        def train(config: dict[str, Any]) -> None:
            def some() -> None:
                for n in range(reports):
                    report(n=n)

            threads = [threading.Thread(target=copy_context().run, args=(some,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        experiment = run(train, callbacks=[Watch()])
        assert told(experiment.trials[0], "training_iteration") == [*range(1, 3 * reports + 1)]
        assert not experiment.notes

    def test_checkpoints_are_whole_in_the_trials_folder(self, run: Run) -> None:
        def train(config: dict[str, Any]) -> None:
            for n in (1, 2):
                with checkpoint_dir(n) as folder:
                    (folder / "deep" / "none").mkdir(parents=True)
                    (folder / "deep" / "weights").write_bytes(bytes(range(250)) * 20)
                report(n=n)

        for trainable, iterations in ((counting(), [2, 4, 6]), (train, [1, 2])):
            (trial,) = run(trainable, name=f"e{len(iterations)}").trials
            records = trial.checkpoints.records()
            assert [record.iteration for record in records] == iterations, trial.error
            for record in records:
                trial.checkpoints.check(record)
        newest = trial.checkpoints.path(records[-1])
        assert (newest / "deep" / "weights").read_bytes() == bytes(range(250)) * 20
        assert (newest / "deep" / "none").is_dir()

    def test_a_paused_trial_resumes_from_its_checkpoint(self, run: Run) -> None:
        experiment = run(counting(), callbacks=[Follows(4, Experiment.pause)])
        (trial,) = experiment.trials
        assert (trial.status, trial.iteration, trial.checkpoint_iteration) == (Status.PAUSED, 4, 4)
        experiment.resume()
        assert experiment.wait(SECONDS)
        assert (trial.status, told(trial)) == (Status.TERMINATED, [1, 2, 3, 4, 5, 6])
        assert told(trial, "first") == [1] * 4 + [5] * 2
        assert len(set(told(trial, "pid"))) == (2 if self.runs_apart else 1)

    def test_trials_start_from_a_given_checkpoint(self, run: Run) -> None:
        experiment = run(counting(), {"x": grid_search([1, 2])}, restore=Checkpoint.from_dict({"n": 4}))
        assert [told(trial) for trial in experiment.trials] == [[5, 6]] * 2

    def test_a_request_for_a_checkpoint_is_answered(self, run: Run) -> None:
        (trial,) = run(offering(), callbacks=[Follows(2, Experiment.checkpoint)]).trials
        assert [record.iteration for record in trial.checkpoints.records()] == [3]

    def test_a_scheduler_pauses_and_promotes_trials(self, run: Run) -> None:
        asha = ASHA(max_t=4, reduction_factor=2, metric="loss", mode="min")
        experiment = run(offering(), {"x": grid_search([1, 0])}, scheduler=asha, max_concurrent=1)
        paused, best = experiment.trials
        assert (paused.status, told(paused)) == (Status.PAUSED, [1])
        assert (best.status, told(best)) == (Status.TERMINATED, [1, 2, 3, 4])

    def test_a_scheduler_pauses_and_promotes_a_class(self, run: Run) -> None:
        asha = ASHA(max_t=4, reduction_factor=2, metric="n", mode="max")
        experiment = run(steps(), {"x": grid_search([1, 0])}, scheduler=asha, max_concurrent=1)
        best, paused = experiment.trials  # of equal ones the older is the better
        assert (paused.status, told(paused)) == (Status.PAUSED, [1])
        assert (best.status, told(best)) == (Status.TERMINATED, [1, 2, 3, 4])

    def test_a_stopped_function_runs_its_finally_block(self, run: Run, folder: Path) -> None:
        def train(config: dict[str, Any]) -> None:
            try:
                while True:
                    report(n=2)
            finally:
                config["file"].touch()

        (trial,) = run(train, {"file": folder / "ended"}, callbacks=[Follows(2, Experiment.stop)]).trials
        assert (trial.status, trial.stopped_early) == (Status.TERMINATED, True)
        assert (folder / "ended").exists()

    def test_an_exception_is_the_cause_with_its_traceback(self, run: Run) -> None:
        def train(config: dict[str, Any]) -> None:
            raise KeyError("too bad")

        follows = Follows()
        (trial,) = run(train, callbacks=[follows]).trials
        assert (trial.status, trial.error) == (Status.ERROR, "KeyError: 'too bad'")
        (error,) = follows.errors
        assert type(error) is TrialError
        assert isinstance(error.__cause__, KeyError)
        assert error.__cause__.args == ("too bad",)
        assert ", in train\n" in trial.traceback

    def test_a_failed_trial_starts_again_from_its_checkpoint(self, run: Run) -> None:
        (trial,) = run(counting(), {"fails_at": 3}, max_failures=1).trials
        assert (trial.status, trial.failures) == (Status.TERMINATED, 1)
        assert (told(trial), told(trial, "first")) == ([1, 2, 3, 4, 5, 6], [1] * 2 + [3] * 4)

    def test_a_setup_that_fails_is_the_trials_error(self, run: Run) -> None:
        (trial,) = run(steps(), {"fails_at": 0}).trials
        assert (trial.status, trial.error) == (Status.ERROR, "ValueError: in setup")

    def test_a_class_is_trained_saved_and_restored(self, run: Run) -> None:
        pause = Follows(3, Experiment.pause)
        experiment = run(steps(), {"fails_at": 2}, checkpoint_every=1, max_failures=1, callbacks=[pause])
        (trial,) = experiment.trials
        assert (trial.status, trial.checkpoint_iteration, trial.failures) == (Status.PAUSED, 3, 1)
        experiment.resume()
        assert experiment.wait(SECONDS)
        assert (trial.status, told(trial)) == (Status.TERMINATED, [1, 2, 3, 4, 5])
        assert trial.checkpoint is not None
        assert trial.checkpoint.to_dict() == {"n": 5}

    def test_the_log_has_the_output_of_its_trial_only(self, run: Run) -> None:
        experiment = run(steps(), {"x": grid_search([1, 2])})
        for x, trial in enumerate(experiment.trials, 1):
            assert trial.log() == [f"set up {x}", *[f"step {x}"] * 5, f"clean {x}"]

    def test_media_are_kept_in_the_experiment(self, run: Run) -> None:
        def train(config: dict[str, Any]) -> None:
            report(note=Text("seen"))

        assert run(train).trials[0].media[0].load() == "seen"

    def test_resources_are_reserved_or_refused(self, run: Run, executor: str | Executor) -> None:
        if not open_executor(executor, {}).reserves:
            with pytest.raises(UsageError, match="leave them out"):
                run(counting(), cpus=1)
            return
        assert told(run(counting(), cpus=1).trials[0]) == [1, 2, 3, 4, 5, 6]

    @pytest.mark.usefixtures("gpus")
    def test_each_trial_sees_one_gpu_of_its_own(self, run: Run) -> None:
        def train(config: dict[str, Any]) -> None:
            report(seen=os.environ["CUDA_VISIBLE_DEVICES"])

        for trial in run(train, num_samples=2, gpus=1).trials:
            assert trial.status == Status.TERMINATED, trial.error
            assert trial.metrics["seen"] and "," not in str(trial.metrics["seen"])

    def test_a_lost_worker_is_an_error_and_is_replaced(self, run: Run) -> None:
        self._needs_processes()
        follows = Follows()
        (trial,) = run(counting(), {"dies_at": 5}, max_failures=1, callbacks=[follows]).trials
        assert [type(error) for error in follows.errors] == [WorkerLostError]
        assert (trial.status, trial.failures) == (Status.TERMINATED, 1)
        assert (told(trial), told(trial, "first")) == ([1, 2, 3, 4, 5, 6], [1] * 4 + [5] * 2)

    def test_a_hanging_trial_can_be_killed(self, run: Run, folder: Path) -> None:
        self._needs_processes()

        def kill(experiment: Experiment) -> None:
            while not (folder / "hangs").exists():
                threading.Event().wait(0.01)
            experiment.kill()

        kills = Follows(4, lambda experiment: threading.Thread(target=kill, args=(experiment,)).start())
        (trial,) = run(counting(), {"hangs_at": 4, "file": folder / "hangs"}, callbacks=[kills]).trials
        assert (trial.status, trial.iteration) == (Status.TERMINATED, 4)
        assert trial.note.startswith("stopped; ")

    def _needs_processes(self) -> None:
        if not self.runs_apart:
            pytest.skip("trials run in the kernel's process")
