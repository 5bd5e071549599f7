"""Callbacks: what they hear, in which order, and that a failing one harms nobody."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.trials import Callback, Experiment, Record, Trial
from nbckpt.trials.engine import shutdown
from nbckpt.trials.engine.callbacks import Callbacks

METHODS = [name for name in vars(Callback) if not name.startswith("_")]
heard: list[str] = []


@pytest.fixture(autouse=True)
def nothing_heard() -> None:
    heard.clear()


class Listener(Callback):
    """Notes what it hears, and fails in one method if it should."""

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in

    def note(self, method: str, text: str) -> None:
        heard.append(f"{method} {text}".strip())
        if method == self.fails_in:
            raise RuntimeError("no")

    def setup(self, experiment: Experiment) -> None:
        self.note("setup", experiment.name)

    def on_trial_start(self, trial: Trial) -> None:
        self.note("on_trial_start", f"{trial.id} {trial.status}")

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        assert trial.metrics["loss"] == result["loss"]
        self.note("on_trial_result", f"{trial.id} {result['loss']}")

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        assert (trial.folder / checkpoint.name).is_dir()
        self.note("on_trial_checkpoint", f"{trial.id} {checkpoint.name}")

    def on_trial_complete(self, trial: Trial) -> None:
        self.note("on_trial_complete", f"{trial.id} {trial.status} {trial.note}")

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        self.note("on_trial_error", f"{trial.id} {trial.status} {error}")

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        self.note("on_experiment_end", " ".join(trial.id for trial in trials))


def train(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, 2):
        nbckpt.report(loss=i, checkpoint={"i": i + 1} if i == 0 else None)
        if config.get("fails") and checkpoint is None:
            raise ValueError("once")


def run(*callbacks: Callback, config: dict[str, Any] | None = None, **kwargs: Any) -> Experiment:
    return ran(train, config, name="e", callbacks=callbacks, max_concurrent=1, **kwargs)


def test_callbacks_are_called_in_order() -> None:
    run(Listener(), config={"n": nbckpt.grid_search([1, 2])})
    one = [
        *("on_trial_start t0 RUNNING", "on_trial_checkpoint t0 checkpoint_000001", "on_trial_result t0 0"),
        *("on_trial_result t0 1", "on_trial_complete t0 TERMINATED done"),
    ]
    other = [call.replace("t0", "t1") for call in one]
    assert heard == ["setup e", *one, *other, "on_experiment_end t0 t1"]


def test_on_trial_error_gets_the_new_status_of_the_trial() -> None:
    run(Listener(), config={"fails": True}, max_failures=1)
    errors = [call for call in heard if "result" not in call and "checkpoint" not in call]
    assert errors == [
        *("setup e", "on_trial_start t0 RUNNING", "on_trial_error t0 PENDING ValueError: once"),
        *("on_trial_start t0 RUNNING", "on_trial_complete t0 TERMINATED done", "on_experiment_end t0"),
    ]
    heard.clear()
    run(Listener(), config={"fails": 1})
    assert "on_trial_error t1 ERROR ValueError: once" in heard


def test_a_resume_calls_setup_again_and_a_pause_is_no_completion() -> None:
    reported, go = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        if nbckpt.get_checkpoint() is None:
            nbckpt.report(loss=0, checkpoint={})
            reported.set()
            assert go.wait(60)
        nbckpt.report(loss=1)

    experiment = nbckpt.run(train, callbacks=[Listener()], name="e")
    assert reported.wait(60)
    experiment.pause()
    go.set()
    assert experiment.wait(60)
    assert [call.split()[0] for call in heard if "complete" in call or "end" in call] == ["on_experiment_end"]
    experiment.resume()
    assert experiment.wait(60)
    assert heard.count("setup e") == heard.count("on_experiment_end t0") == 2
    assert heard[-2] == "on_trial_complete t0 TERMINATED done"


def test_stored_callbacks_are_called_when_a_new_kernel_resumes(store: Path) -> None:
    run(Listener(), config={"fails": True})
    heard.clear()
    shutdown.live.clear()
    experiment = Experiment.read(store / "experiments" / "e").resume(errored=True)
    assert experiment.wait(60)
    assert experiment.notes == []
    assert [heard[0], heard[-1]] == ["setup e", "on_experiment_end t0"]


def test_a_failing_callback_is_turned_off_and_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for method in METHODS:
        heard.clear()
        caplog.clear()
        options = {"config": {"fails": True}, "max_failures": 1, "folder": tmp_path / method}
        with subtests.test(method), caplog.at_level(logging.WARNING, "nbckpt"):
            experiment = run(Listener(fails_in=method), Listener(), **options)
            assert experiment.notes == [f"Listener is off since {method} failed: RuntimeError: no"]
            assert "RuntimeError: no" in caplog.text
            assert experiment.trials[0].note == "done"
            often = {"on_trial_start": 2, "on_trial_result": 2}.get(method, 1)
            assert sum(call.startswith(method) for call in heard) == 1 + often


def test_a_failed_callback_is_called_again_in_the_next_run() -> None:
    run(Listener(fails_in="on_experiment_end"))
    heard.clear()
    assert run(Listener(fails_in="on_experiment_end"), config={"n": 2}).notes != []
    assert heard[0] == "setup e"


class Slow(Callback):
    """Stays in a call until it is let go."""

    def __init__(self) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        self.order: list[str] = []

    def on_trial_start(self, trial: Any) -> None:
        self.inside.set()
        assert self.go.wait(60)
        self.order.append("start")

    def on_trial_complete(self, trial: Any) -> None:
        self.order.append("complete")


def test_callbacks_are_called_by_one_thread_at_a_time() -> None:
    slow = Slow()
    callbacks = Callbacks([slow])
    first = threading.Thread(target=callbacks.call, args=("on_trial_start", None))
    second = threading.Thread(target=callbacks.call, args=("on_trial_complete", None))
    first.start()
    assert slow.inside.wait(60)
    second.start()
    second.join(0.1)  # long enough to get in, if that could be
    slow.go.set()
    first.join()
    second.join()
    assert slow.order == ["start", "complete"]


def test_a_callback_may_stop_the_trials() -> None:
    class StopsAll(Callback):
        def setup(self, experiment: Experiment) -> None:
            self.experiment = experiment

        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            self.experiment.stop()

    experiment = run(StopsAll(), config={"n": nbckpt.grid_search([1, 2, 3])})
    assert experiment.notes == []
    assert [trial.note for trial in experiment.trials] == ["stopped"] * 3
    assert [trial.iteration for trial in experiment.trials] == [1, 0, 0]
