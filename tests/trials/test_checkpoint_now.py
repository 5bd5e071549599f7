"""Checkpoint now: what runs saves a checkpoint with its next result and goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from trials.conftest import SECONDS, ran

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.trials import CheckpointFolder, StatusReporter, Trainable, Trial
from nbckpt.trials.engine.attempt import NOT_SAVED
from nbckpt.trials.executors import Job
from nbckpt.trials.executors.process import ProcessExecutor
from nbckpt.trials.model.metrics import Result
from nbckpt.trials.model.view import internals
from nbckpt.trials.training.function import wrap_function
from nbckpt.trials.training.reporter import ResultChannel
from nbckpt.trials.training.stager import CheckpointStager, Request
from nbckpt.trials.views.statuses import states_of
from waiting import until

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the functions of a notebook


class Steps:
    """A trial that does a step each time the test lets it."""

    def __init__(self, train: Callable[[int], None], **options: Any) -> None:
        self._go = threading.Semaphore(0)
        self._over = False
        began = threading.Event()  # comes after the status, and after the version that belongs to it

        def steps(config: dict[str, Any]) -> None:
            began.set()
            for i in range(1, 100):
                self._go.acquire()
                if self._over:
                    return
                train(i)

        self.experiment = nbckpt.run(steps, name="e", **options)
        self.trial = self.experiment.trials[0]
        assert began.wait(SECONDS)

    def step(self) -> None:
        """Let it do one step, and wait until the driver has done all that comes of that."""
        version, iteration = internals(self.experiment).version, self.trial.iteration
        self._go.release()
        until(lambda: self.trial.iteration == iteration + 1 and internals(self.experiment).version > version)

    def end(self) -> None:
        self._over = True
        self._go.release()
        assert self.experiment.wait(SECONDS)

    def saved(self) -> list[int]:
        return iterations(self.trial)

    def state(self) -> str:
        return states_of(self.experiment)["t0"]


Start = Callable[..., Steps]


def iterations(trial: Trial) -> list[int]:
    return [record.iteration for record in trial.checkpoints.records()]


@pytest.fixture
def steps() -> Iterator[Start]:
    """Starts trials that end with the test."""
    started: list[Steps] = []

    def start(train: Callable[[int], None], **options: Any) -> Steps:
        started.append(Steps(train, **options))
        return started[-1]

    yield start
    for steps in started:
        steps.end()


def offers(i: int) -> None:
    nbckpt.report(i=i, checkpoint={"i": i} if nbckpt.should_checkpoint() else None)


def test_a_polling_function_saves_once_per_request(steps: Start) -> None:
    here = steps(offers)
    here.step()
    assert (here.saved(), here.state()) == ([], "running")
    here.experiment.checkpoint()
    assert here.state() == "saving"
    here.step()
    assert (here.saved(), here.state()) == ([2], "running")
    here.step()
    here.experiment.checkpoint("t0")
    here.experiment.checkpoint("t0")
    here.step()
    here.step()
    assert (here.saved(), here.trial.note) == ([2, 4], "")


def test_should_checkpoint_is_true_from_request_to_next_report(steps: Start) -> None:
    seen: list[list[bool]] = []

    def train(i: int) -> None:
        before = nbckpt.should_checkpoint()
        if i == 2:
            here.experiment.checkpoint()
        seen.append([before, nbckpt.should_checkpoint(), nbckpt.should_checkpoint()])
        nbckpt.report(i=i, checkpoint={"i": i})

    here = steps(train)
    for _ in range(3):
        here.step()
    assert seen == [[False, False, False], [False, True, True], [False, False, False]]
    assert not nbckpt.should_checkpoint()


def test_a_function_that_never_polls_gets_a_note_with_advice(steps: Start) -> None:
    here = steps(lambda i: nbckpt.report(i=i, checkpoint={"i": i} if i == 3 else None))
    here.experiment.checkpoint()
    here.step()
    assert (here.saved(), here.state(), here.trial.note) == ([], "running", NOT_SAVED)
    assert "report(…, checkpoint=…) when nbckpt.should_checkpoint()" in NOT_SAVED
    here.step()
    assert here.trial.note == NOT_SAVED
    here.step()
    assert (here.saved(), here.trial.note) == ([3], "")


def test_a_request_after_the_poll_waits_for_the_next_report(steps: Start) -> None:
    def train(i: int) -> None:
        wanted = nbckpt.should_checkpoint()
        if i == 1:
            here.experiment.checkpoint()  # after it looked
        nbckpt.report(i=i, checkpoint={"i": i} if wanted else None)

    here = steps(train)
    here.step()
    assert (here.saved(), here.state(), here.trial.note) == ([], "saving", "")
    here.step()
    assert (here.saved(), here.state()) == ([2], "running")


def test_states_are_saved_if_the_next_report_has_no_checkpoint(steps: Start) -> None:
    kept: dict[str, nbckpt.State] = {}

    def train(i: int) -> None:
        if not kept:
            kept["numbers"] = nbckpt.State.of("numbers", [i])
        nbckpt.report(i=i)

    here = steps(train)
    here.step()
    here.experiment.checkpoint()
    here.step()
    here.step()
    assert (here.saved(), here.trial.note) == ([2], "")
    folder = here.trial.folder / (here.trial.checkpoint_name or "")
    assert "state:numbers" in nbckpt.Checkpoint.from_directory(folder).to_dict()


@pytest.mark.parametrize(("wish", "status"), [("pause", "PAUSED"), ("stop", "TERMINATED")])
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_pause_or_stop_still_saves_the_requested_checkpoint(
    steps: Start, wish: str, status: str, first: bool
) -> None:
    here = steps(offers)
    asks = [here.experiment.checkpoint, getattr(here.experiment, wish)]
    for ask in asks if first else asks[::-1]:
        ask()
    assert here.state() == {"pause": "pausing", "stop": "stopping"}[wish]
    here.step()
    assert here.experiment.wait(SECONDS)
    assert (here.saved(), str(here.trial.status)) == ([1], status)


@pytest.mark.parametrize(("train", "saved"), [(offers, [1]), (lambda i: nbckpt.report(i=i), [])])
def test_a_pause_saves_a_checkpoint_if_the_function_polls(
    steps: Start, train: Callable[[int], None], saved: list[int]
) -> None:
    here = steps(train)
    here.experiment.pause()
    here.step()
    assert here.experiment.wait(SECONDS)
    assert (here.saved(), here.trial.unsaved_results, here.trial.note) == (saved, 1 - len(saved), "paused")


class Counter(Trainable):
    """Counts to four; the test asks for a checkpoint in its second step."""

    asks: Callable[[], None]

    def setup(self, config: dict[str, Any]) -> None:
        self.i = 0

    def step(self) -> dict[str, Any]:
        self.i += 1
        if self.i == 2:
            type(self).asks()
        return {"i": self.i, "done": self.i == 4}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, int]:
        return {"i": self.i}


@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_a_request_saves_a_trainable_without_checkpoint_every(executor: str) -> None:
    Counter.asks = lambda: nbckpt.open_experiment("e").checkpoint()  # type: ignore[method-assign]
    assert iterations(ran(Counter, name="e", executor=executor).trials[0]) == [2]


class Asks(nbckpt.trials.Callback):
    """Asks for a checkpoint when a result of an index came; with index 0, before the function runs."""

    def __init__(self, at: int) -> None:
        self._at = at

    def setup(self, experiment: Any) -> None:
        self.experiment = experiment

    def on_trial_start(self, trial: Any) -> None:
        if self._at == 0:
            self.experiment.checkpoint()

    def on_trial_result(self, trial: Any, result: Any) -> None:
        if result["training_iteration"] == self._at:
            self.experiment.checkpoint(trial)


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_an_early_request_is_answered_with_the_first_result(executor: str) -> None:
    assert iterations(ran(looks, executor=executor, callbacks=[Asks(0)]).trials[0]) == [1]


def with_states(config: dict[str, Any]) -> None:
    numbers = nbckpt.State.of("numbers", [1])
    for i in range(1, 5):
        nbckpt.report(i=i)
    del numbers


def looks(config: dict[str, Any]) -> None:
    for i in range(1, 5):
        offers(i)


def never(config: dict[str, Any]) -> None:
    for i in range(1, 5):
        nbckpt.report(i=i)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["thread", "inline", "process"])
@pytest.mark.parametrize(("train", "saved"), [(looks, [3]), (with_states, [3]), (never, [])])
def test_a_request_between_results_is_answered_by_the_second(
    executor: str, train: Any, saved: list[int]
) -> None:
    (trial,) = ran(train, executor=executor, callbacks=[Asks(2)]).trials
    assert iterations(trial) == saved
    assert (trial.iteration, trial.note) == (4, "done")


def test_a_function_in_a_process_sees_the_request_during_a_step(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        from waiting import until

        config["began"].touch()
        until(nbckpt.should_checkpoint)
        nbckpt.report(i=1, checkpoint={"i": 1})

    folder, began = tmp_path / "t0", tmp_path / "began"
    folder.mkdir()
    worker = ProcessExecutor().start(Job(wrap_function(train), {"began": began}, folder, "t0", "e/t0"))
    results: list[Result] = []
    driver = threading.Thread(target=worker.run, args=(lambda result: results.append(result) is None,))
    driver.start()
    try:
        until(began.exists)
        worker.ask_for_checkpoint()
        driver.join(SECONDS)
    finally:
        worker.stop()
    assert results[0].checkpoint == "given"


def test_a_trial_that_does_not_run_gets_no_request() -> None:
    experiment = ran(never, name="e")
    experiment.checkpoint()
    with pytest.raises(UsageError, match="has no trial 't9'"):
        experiment.checkpoint("t9")
    assert states_of(experiment) == {"t0": "done"}


def test_an_answered_request_is_cleared() -> None:
    request = Request()
    assert [request.answer(given=given) for given in (True, False)] == [False, False]
    request.ask()
    assert [request.answer(given=False) for _ in range(2)] == [True, False]
    request.ask()
    assert (request.answer(given=True), request.is_open) == (False, False)


def test_a_request_during_a_report_waits_for_the_next(tmp_path: Path) -> None:
    """The report may have looked at its states already."""
    results: list[Result] = []
    stager = CheckpointStager(CheckpointFolder(tmp_path))
    channel = ResultChannel(lambda result: results.append(result) is None)
    report = StatusReporter(stager, channel, states=stager.request.ask)  # it is asked, and has no states
    for _ in range(2):
        report(i=1)
    assert [result.checkpoint for result in results] == ["", "missing"]
