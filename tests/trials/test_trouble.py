"""Trouble outside an attempt: a full disk, a slow upload, Ctrl-C; whoever waits always hears of the end."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lines import at_line
from trials.conftest import SECONDS, ran

import nbckpt
from nbckpt.errors import Interrupted, StoreError
from nbckpt.trials import Callback, Experiment, Record, Search, Status, Trial
from nbckpt.trials.engine import claim, pool, trial_source
from nbckpt.trials.engine.callbacks import Callbacks
from nbckpt.trials.model.callback import BackgroundCallback
from nbckpt.trials.model.journal import Journal


def report_once(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1.0)


def refuse(monkeypatch: pytest.MonkeyPatch, *events: str) -> None:
    """Have the journal refuse these events, as a full disk does."""
    append = Journal.append

    def refusing(journal: Journal, event: dict[str, Any], *, durable: bool = False) -> None:
        if event["event"] in events:
            raise StoreError("no space left on device")
        append(journal, event, durable=durable)

    monkeypatch.setattr(Journal, "append", refusing)


class Same(Search):
    """Suggests the same configuration for ever."""

    def __init__(self) -> None:
        self.statuses: list[str] = []

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        return {"x": 1}

    def ended(self, trial: Trial) -> None:
        self.statuses.append(f"{trial.id} {trial.status}")


@pytest.mark.parametrize("events", [("end",), ("end", "error")])
def test_a_trial_fails_if_its_last_event_is_not_written(
    monkeypatch: pytest.MonkeyPatch, events: tuple[str, ...]
) -> None:
    refuse(monkeypatch, *events)
    experiment = ran(report_once, {"x": nbckpt.grid_search([1, 2])}, max_concurrent=1)
    assert [trial.status for trial in experiment.trials] == [Status.ERROR] * 2
    assert all("no space left" in trial.error for trial in experiment.trials)
    assert not experiment.running


def test_a_pause_that_cannot_be_written_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "pause")
    trials: list[Experiment] = []
    started = threading.Event()

    def fail(config: dict[str, Any]) -> None:
        assert started.wait(SECONDS)
        trials[0].pause()
        raise ValueError("boom")

    trials.append(nbckpt.run(fail, max_failures=3))
    started.set()
    assert trials[0].wait(SECONDS)
    assert trials[0].trials[0].status == Status.ERROR


def test_a_folder_that_cannot_be_made_fails_its_trial_only(store: Path) -> None:
    def block(config: dict[str, Any]) -> None:
        in_the_way = store / "experiments/e/t1"
        if not in_the_way.exists():
            in_the_way.write_text("a file")
        nbckpt.report(loss=1.0)

    search = Same()
    experiment = ran(block, name="e", num_samples=3, max_concurrent=1, search=search)
    assert [trial.status for trial in experiment.trials] == ["TERMINATED", "ERROR", "TERMINATED"]
    assert "cannot make the trial" in experiment.trials[1].error
    assert search.statuses == ["t0 TERMINATED", "t1 ERROR", "t2 TERMINATED"]


def test_a_worker_thread_that_breaks_down_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect of nbckpt itself")

    monkeypatch.setattr("nbckpt.trials.engine.pool.Attempt", broken)
    experiment = ran(report_once)
    assert "a defect of nbckpt itself" in experiment.notes[0]
    monkeypatch.undo()
    assert experiment.resume().wait(SECONDS)
    assert experiment.trials[0].status == Status.TERMINATED


class Silent(Exception):  # noqa: N818  an error of a library's
    """Its message cannot be made."""

    def __str__(self) -> str:
        return self.missing  # type: ignore[attr-defined, no-any-return]


def raise_silent(*_: object) -> Any:
    raise Silent


@pytest.mark.parametrize("executor", ["thread", "inline", pytest.param("process", marks=pytest.mark.slow)])
def test_an_error_without_a_message_fails_its_trial(executor: str) -> None:
    experiment = ran(raise_silent, executor=executor)
    trial = experiment.trials[0]
    assert (trial.status, trial.error, experiment.notes) == (Status.ERROR, "Silent", [])
    assert "raise Silent" in trial.traceback


@pytest.mark.parametrize("method", ["setup", "suggest", "reported", "ended"])
def test_an_error_of_a_search_needs_no_message(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Same, method, raise_silent, raising=False)
    experiment = ran(report_once, search=Same(), num_samples=1)
    assert experiment.notes == [f"the search is over since {method} failed: Silent"]


def test_an_error_of_a_callback_or_of_stop_needs_no_message() -> None:
    class Fails(Callback):
        on_trial_start = raise_silent

    experiment = ran(report_once, callbacks=[Fails()], stop=raise_silent)
    assert experiment.notes == ["Fails is off since on_trial_start failed: Silent"]
    assert experiment.trials[0].error == "stop() failed: Silent"


class Slow(BackgroundCallback):
    """Holds up the trial that saved a checkpoint until the test lets it go."""

    def __init__(self) -> None:
        self.inside, self.go = threading.Event(), threading.Event()

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        self.inside.set()
        assert self.go.wait(SECONDS)


def test_an_upload_does_not_delay_other_trials() -> None:
    slow, finished = Slow(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        if config["saves"]:
            nbckpt.report(loss=1.0, checkpoint={"i": 1})
        else:
            assert slow.inside.wait(SECONDS)
            nbckpt.report(loss=1.0)
            finished.set()

    space = {"saves": nbckpt.grid_search([True, False])}
    experiment = nbckpt.run(train, space, callbacks=[slow], max_concurrent=2)
    assert finished.wait(SECONDS)
    slow.go.set()
    assert experiment.wait(SECONDS)
    assert [trial.status for trial in experiment.trials] == ["TERMINATED"] * 2


def test_a_slow_callback_does_not_delay_other_callbacks() -> None:
    inside, go, heard = threading.Event(), threading.Event(), threading.Event()

    class Holds(Callback):
        def on_trial_start(self, trial: Trial) -> None:
            if trial.id == "t0":
                inside.set()
                assert go.wait(SECONDS)

    class Hears(Callback):
        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            if trial.id == "t1":
                heard.set()

    callbacks = Callbacks([Hears(), Holds()])
    with ThreadPoolExecutor(2) as pool:
        start = pool.submit(callbacks.call, "on_trial_start", Trial(Path("t0"), {}))
        assert inside.wait(SECONDS)
        result = pool.submit(callbacks.call, "on_trial_result", Trial(Path("t1"), {}), {})
        assert heard.wait(SECONDS)
        go.set()
        start.result()
        result.result()


@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_a_trial_that_runs_or_awaits_its_own_experiment_fails(executor: str) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.run(report_once, name="other", executor=executor).wait()
        nbckpt.run(train, name="e")

    def waits(config: dict[str, Any]) -> None:
        assert not nbckpt.open_experiment("w").wait(0.01)
        nbckpt.open_experiment("w").wait()

    (trial,) = ran(waits, name="w", executor=executor).trials
    assert "a trial or a callback of 'w' cannot wait for 'w'" in trial.error
    experiment = ran(train, name="e", executor=executor)
    assert "a trial or a callback of 'e' cannot run 'e'" in experiment.trials[0].error
    assert nbckpt.run(report_once, name="e", executor=executor).wait(SECONDS)  # not in a trial any more
    assert nbckpt.open_experiment("other").trials[0].status == Status.TERMINATED


def test_a_metric_of_thousands_of_digits_is_refused() -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1)
        nbckpt.report(loss=10**5000)

    ran(train, name="e", executor="inline")
    (trial,) = nbckpt.open_experiment("e").trials
    assert "a number has more than 4,300 digits: report it as a text, hex(…)" in trial.error
    assert [result["loss"] for result in trial.results] == [1]


def test_a_callback_that_runs_its_own_experiment_is_off() -> None:
    class RunsAgain(Callback):
        def on_experiment_end(self, trials: Any) -> None:
            nbckpt.run(report_once, name="e")

    experiment = ran(report_once, name="e", callbacks=[RunsAgain()])
    assert "cannot run 'e': it would wait for its own end" in experiment.notes[0]


interrupts = pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")


def interrupted_run(train: Any, **options: Any) -> Experiment:
    """Run trials inline, which an interrupt ends, and return what came of them."""
    space = {"x": nbckpt.grid_search([1, 2, 3])}
    with pytest.raises(KeyboardInterrupt):
        nbckpt.run(train, space, name="e", executor="inline", **options)
    return nbckpt.trials.Catalog(Path(os.environ["NBCKPT_STORE"], "experiments")).open("e")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A run of `e` whose trial reports when the event is set; the next run does not wait long in silence."""
    monkeypatch.setattr(sys.modules["nbckpt.trials.run"], "PATIENCE_S", 0.01)
    go, started = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        started.set()
        assert go.wait(SECONDS)
        nbckpt.report(loss=1)

    experiment = nbckpt.run(train, name="e")
    assert started.wait(SECONDS)
    yield go
    go.set()
    assert experiment.wait(SECONDS)


def test_a_run_says_that_it_waits_for_the_former(
    held: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    threading.Timer(0.3, held.set).start()
    ran(lambda config: {"loss": 2}, name="e")
    assert "e: the new run begins after the next result of t0" in caplog.text


@interrupts
def test_an_interrupt_of_that_waiting_is_one_sentence(held: threading.Event) -> None:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Interrupted, match="interrupted: the new run of e has not begun"):
        nbckpt.run(lambda config: {"loss": 2}, name="e")


@interrupts
def test_one_interrupt_of_inline_trials_pauses_all_of_them() -> None:
    started: list[int] = []

    def train(config: dict[str, Any]) -> None:
        started.append(config["x"])
        is_first = nbckpt.get_checkpoint() is None
        nbckpt.report(loss=1.0, checkpoint={"i": 1})
        if is_first and config["x"] == 1:
            signal.raise_signal(signal.SIGINT)
        nbckpt.report(loss=0.5)

    experiment = interrupted_run(train)
    assert started == [1]
    assert [trial.status for trial in experiment.trials] == [Status.PAUSED] * 3
    assert not experiment.running
    experiment.resume()
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED] * 3
    assert [trial.attempts for trial in experiment.trials] == [2, 1, 1]


@interrupts
@pytest.mark.parametrize(
    ("hook", "first"), [("on_trial_result", Status.PAUSED), ("on_trial_complete", Status.TERMINATED)]
)
def test_an_interrupt_in_a_callback_pauses_inline_trials_too(hook: str, first: Status) -> None:
    """A trial that has ended stays so."""
    interrupt = type("Interrupt", (Callback,), {hook: lambda *_: signal.raise_signal(signal.SIGINT)})
    experiment = interrupted_run(report_once, callbacks=[interrupt()])
    assert [trial.status for trial in experiment.trials] == [first, Status.PAUSED, Status.PAUSED]


@pytest.mark.parametrize("value", [0.5, 1, "no", None])
def test_a_metric_called_done_is_refused_by_name(value: Any) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(done=value)

    class Step(nbckpt.trials.Trainable):
        def step(self) -> dict[str, Any]:
            return {"done": value}

    for trainable in (train, Step):
        experiment = ran(trainable)
        trial = experiment.trials[0]
        assert (trial.status, trial.results) == (Status.ERROR, [])
        assert f"done={value!r}: 'done' says whether the trial has ended, True or False" in trial.error


def test_done_may_be_a_numpy_bool() -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(done=np.bool_(False))
        nbckpt.report(done=np.bool_(True))
        raise AssertionError("it was done")

    experiment = ran(train)
    assert (experiment.trials[0].status, experiment.trials[0].iteration) == (Status.TERMINATED, 2)


def test_a_retry_keeps_a_pending_checkpoint_request() -> None:
    reported, go = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        nbckpt.should_checkpoint()
        if not go.is_set():
            reported.set()
            assert go.wait(SECONDS)
            raise RuntimeError("once")
        nbckpt.report(i=1, checkpoint={"i": 1} if nbckpt.should_checkpoint() else None)

    experiment = nbckpt.run(train, max_failures=1)
    assert reported.wait(SECONDS)
    experiment.checkpoint()
    go.set()
    assert experiment.wait(SECONDS)
    assert [record.iteration for record in experiment.trials[0].checkpoints.records()] == [1]


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def train(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_stop_at_any_line_leaves_no_worker_behind(executor: str, experiments: Path) -> None:
    for at in itertools.count(1, 2):
        given: dict[str, Any] = {"name": f"e{at}", "folder": experiments, "executor": executor}
        with at_line(at, interrupt, pool, claim, trial_source) as line, suppress(KeyboardInterrupt):
            nbckpt.run(train, num_samples=2, **given)
        again = nbckpt.run(train, num_samples=2, **given)
        assert again.wait(SECONDS), line.where
        assert [trial.status for trial in again.trials] == [Status.TERMINATED] * 2, line.where
        if not line.where:
            break
    assert at > 80
