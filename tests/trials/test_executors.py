"""Executors: trials in threads and inline, and executors of other packages, by an entry point."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from contextvars import ContextVar
from importlib.metadata import EntryPoint
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from trials.conftest import SECONDS, ran

import nbckpt
from nbckpt.errors import StoreError, UsageError
from nbckpt.testing import ExecutorTests
from nbckpt.trials import Callback, Experiment, Status, Trial, Worker
from nbckpt.trials.engine.runner import Runner
from nbckpt.trials.executors import NAMES, Job, ThreadExecutor, open_executor, others
from nbckpt.trials.model.journal import Journal


class TestThread(ExecutorTests):
    @pytest.fixture
    def executor(self) -> str:
        return "thread"


class TestInline(ExecutorTests):
    @pytest.fixture
    def executor(self) -> str:
        return "inline"


executors = pytest.mark.parametrize("executor", ["thread", "inline"])


@executors
def test_time_between_reports_excludes_the_drivers_time(
    executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    class Slow(Callback):
        def on_trial_result(self, trial: Trial, result: Any) -> None:
            clock[0] += 100

    def train(config: dict[str, Any]) -> None:
        for seconds in (5, 7, 0):
            clock[0] += seconds
            nbckpt.report(loss=1)

    (trial,) = ran(train, executor=executor, callbacks=[Slow()]).trials
    assert [result["time_this_iter_s"] for result in trial.results] == [5, 7, 0]
    assert trial.elapsed_s == 12


@executors
def test_a_time_reported_by_the_function_is_kept(executor: str) -> None:
    (trial,) = ran(lambda config: nbckpt.report(time_this_iter_s=7), executor=executor).trials
    assert trial.elapsed_s == 7


@executors
def test_a_full_disk_ends_the_trial_outside_the_function(
    executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[BaseException] = []
    whole = Journal.append

    def append(journal: Journal, event: dict[str, Any], **options: Any) -> None:
        if event["event"] == "result" and event["result"]["i"] == 2:
            raise StoreError("the disk is full")
        whole(journal, event, **options)

    def train(config: dict[str, Any]) -> None:
        for i in range(4):
            try:
                nbckpt.report(i=i)
            except Exception as error:
                met.append(error)

    monkeypatch.setattr(Journal, "append", append)
    (trial,) = ran(train, executor=executor, max_failures=3).trials
    assert (trial.status, trial.error, len(trial.results)) == (Status.ERROR, "the disk is full", 2)
    assert not met


@executors
def test_callbacks_and_other_trials_do_not_see_a_trials_context(executor: str) -> None:
    setting: ContextVar[int] = ContextVar("setting", default=0)
    seen = []

    class Look(Callback):
        def on_trial_result(self, trial: Trial, result: Any) -> None:
            seen.append((setting.get(), nbckpt.get_checkpoint()))

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(found=setting.get())
        setting.set(1)
        nbckpt.report(found=setting.get(), checkpoint={})

    experiment = ran(train, executor=executor, num_samples=2, max_concurrent=1, callbacks=[Look()])
    assert [trial.metric("found") for trial in experiment.trials] == [[0, 1]] * 2
    assert seen == [(0, None)] * 4


def test_each_trial_has_its_own_thread_that_handles_its_results() -> None:
    trained: list[int] = []
    handled: list[int] = []

    class Look(Callback):
        def on_trial_result(self, trial: Trial, result: Any) -> None:
            handled.append(threading.get_ident())

    def train(config: dict[str, Any]) -> None:
        trained.append(threading.get_ident())
        nbckpt.report(i=1)

    ran(train, executor="thread", callbacks=[Look()])
    assert trained == handled
    assert threading.get_ident() not in trained


def test_a_function_that_ends_slowly_is_waited_for() -> None:
    ended = threading.Event()

    def train(config: dict[str, Any]) -> None:
        try:
            while True:
                nbckpt.report(i=1)
        finally:
            threading.Event().wait(0.1)
            ended.set()

    ran(train, stop={"training_iteration": 3})
    assert ended.is_set()


def crossed(call: Callable[[], object]) -> tuple[set[str], int]:
    """Return the modules of ours that run during a call, and the most frames of ours at a time."""
    ours = Path(nbckpt.__file__).parent
    modules: set[str] = set()
    depth = deepest = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth, deepest
        place = Path(frame.f_code.co_filename)
        if event in {"call", "return"} and place.is_relative_to(ours):
            depth += 1 if event == "call" else -1
            deepest = max(deepest, depth)
            modules.add(place.stem)

    former = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(former)
    return modules, deepest


@executors
def test_a_report_crosses_few_modules_and_frames(executor: str) -> None:
    ways: list[tuple[set[str], int]] = []
    report = nbckpt.report

    def train(config: dict[str, Any]) -> None:
        report(loss=1)
        ways.append(crossed(lambda: report(loss=1)))

    ran(train, executor=executor)
    ((modules, frames),) = ways
    assert modules == {"session", "reporter", "metrics", "attempt", "recorder", "journal", "state"}
    assert frames <= 8


@executors
def test_no_name_of_a_metric_controls_the_trial(executor: str) -> None:
    names = {"should_checkpoint": True, "__duplicate__": True}
    (trial,) = ran(lambda config: nbckpt.report(names), executor=executor).trials
    assert names.items() <= trial.results[0].items()
    own = {"done", "training_iteration", "time_this_iter_s", "time_total_s", "timestamp"}
    assert set(trial.results[0]) - set(names) == own
    assert trial.checkpoints.records() == []


class Counting(ThreadExecutor):
    name = "counting"

    def __init__(self) -> None:
        self.started: list[str] = []

    def start(self, job: Job) -> Worker:
        self.started.append(job.trial)
        return super().start(job)


def fails(config: dict[str, Any]) -> None:
    raise ValueError("no")


def test_a_resume_continues_on_the_executor_that_was_passed() -> None:
    executor = Counting()
    experiment = ran(fails, executor=executor, name="mine")
    assert experiment.resume(errored=True).wait(SECONDS)
    assert (experiment.spec.executor, executor.started) == ("counting", ["t0", "t0"])


def test_a_new_kernel_asks_for_an_executor_of_the_users() -> None:
    ended = ran(fails, executor=Counting(), name="mine")
    in_a_new_kernel = Experiment(ended.folder, ended.spec)
    with pytest.raises(UsageError, match="Pass an executor of your own as an object"):
        in_a_new_kernel.resume(errored=True)


async def in_a_kernel(train: Any) -> Experiment:
    """Run a function inline where an event loop runs, as the cells of a kernel do."""
    return ran(train, executor="inline", name="e")


def test_a_coroutine_runs_inline_in_a_kernel() -> None:
    async def train(config: dict[str, Any]) -> float:
        await asyncio.sleep(0)
        nbckpt.report(_metric=1)
        return 2

    (trial,) = asyncio.run(in_a_kernel(train)).trials
    assert [result["_metric"] for result in trial.results] == [1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
def test_ctrl_c_pauses_a_coroutine_that_runs_inline(experiments: Path) -> None:
    ended = []

    async def train(config: dict[str, Any]) -> None:
        try:
            nbckpt.report(loss=1)
            await asyncio.sleep(0.2)  # the thread of the cell waits now
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(SECONDS)
        finally:
            ended.append(True)

    with closing(asyncio.new_event_loop()) as loop, pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(in_a_kernel(train))
    (trial,) = Experiment.read(experiments / "e").trials
    assert (trial.status, trial.iteration, ended) == (Status.PAUSED, 1, [True])


def test_ctrl_c_at_the_end_of_trials_leaves_none_running(
    monkeypatch: pytest.MonkeyPatch, experiments: Path
) -> None:
    """It comes after the worker is counted as ended."""
    end, came = Runner.on_end, list[Runner]()

    def interrupted(runner: Runner) -> None:
        came.append(runner)
        if len(came) == 1:
            raise KeyboardInterrupt
        end(runner)

    monkeypatch.setattr(Runner, "on_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nbckpt.run(lambda config: nbckpt.report(loss=1), name="e", folder=experiments, executor="inline")
    again = ran(lambda config: nbckpt.report(loss=2), name="e", folder=experiments, executor="inline")
    assert [trial.status for trial in again.trials] == [Status.TERMINATED]


class Cloud(ThreadExecutor):
    """An executor of another package."""

    name = "cloud"

    def __init__(self, region: str = "here") -> None:
        self.region = region


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two packages: one with a good executor, and one with bad ones."""
    monkeypatch.setitem(sys.modules, "cloud_package", sys.modules[__name__])
    points = {"cloud": "cloud_package:Cloud", "broken": "no_such_package:Executor", "odd": "builtins:dict"}
    made = [EntryPoint(name, value, others.GROUP) for name, value in points.items()]
    monkeypatch.setattr(others, "entry_points", lambda group: made if group == others.GROUP else [])


def train(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1)


@pytest.mark.usefixtures("registered")
def test_a_registered_executor_is_found_by_its_name() -> None:
    experiment = ran(train, executor="cloud region=north", name="e")
    assert experiment.trials[0].status == Status.TERMINATED
    assert experiment.spec.executor == "cloud region=north"
    opened = open_executor("cloud region=2", {})
    assert isinstance(opened, Cloud)
    assert opened.region == 2


@pytest.mark.usefixtures("registered")
def test_a_bad_entry_point_gives_one_clear_error(store: Path, subtests: pytest.Subtests) -> None:
    for executor, message in [
        ("broken", "the executor 'broken' of an unknown package cannot be made: ModuleNotFoundError"),
        ("cloud size=3", "the executor 'cloud' of an unknown package cannot be made: TypeError"),
        ("odd", "the entry point 'odd' of an unknown package makes a dict, not an Executor"),
        ("cluod", f"there are {', '.join(NAMES)}, broken, cloud, odd. Did you mean 'cloud'?"),
        ("", "there is no executor ''"),
    ]:
        with subtests.test(executor):
            with pytest.raises(UsageError, match=re.escape(message)):
                nbckpt.run(train, executor=executor, name="e")
            assert not (store / "experiments" / "e").exists()


@pytest.mark.usefixtures("registered")
def test_a_bad_entry_point_does_not_break_the_others() -> None:
    for executor in ("thread", "inline", "process", "cloud"):
        assert open_executor(executor, {}).name == executor
