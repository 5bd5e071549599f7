"""Functions as trainables: how they are called, what arrives of them, how they end, and their checkpoints.

How results are handed over is held by test_handoff, checkpoints on disk by test_checkpoints, what a function
asks inside a trial by test_session, tables by test_table.
"""

from __future__ import annotations

import functools
import logging
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trials.conftest import SECONDS, Start, ran

import nbckpt
from nbckpt.errors import CodecError, NotFoundError, TrialError, UsageError
from nbckpt.trials import (
    Callback,
    CheckpointFolder,
    FunctionRunner,
    Status,
    StatusReporter,
    StopTrial,
    Trial,
    wrap_function,
)
from nbckpt.trials.training.handoff import Handoff
from waiting import until


def trained(runner: FunctionRunner, steps: int) -> dict[str, Any]:
    return [runner.train() for _ in range(steps)][-1]


def saved(runner: FunctionRunner, by_object: bool) -> Callable[[FunctionRunner], None]:
    """Save a runner. Return what restores it in a runner, by a path or by an object."""
    if by_object:
        content = runner.save_to_object()
        return lambda other: other.restore_from_object(content)
    path = runner.save()
    return lambda other: other.restore(path)


def to_the_end(runner: FunctionRunner) -> list[dict[str, Any]]:
    """Return all results, the last once more included."""
    results = [runner.train()]
    while not results[-1]["done"]:
        results.append(runner.train())
    return results


def names_in(runner: FunctionRunner) -> list[str]:
    folder = Path(runner.logdir)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def no_thread() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("nbckpt")]


class Model:
    """Things that can be called, and have no name."""

    def __call__(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"got": config}

    def method(self, config: dict[str, Any], checkpoint_dir: str | None = None) -> dict[str, Any]:
        return {"got": config, "extra": checkpoint_dir}


def plain(config: dict[str, Any]) -> dict[str, Any]:
    return {"got": config}


def with_place(config: dict[str, Any], checkpoint_dir: str | None = None) -> dict[str, Any]:
    return {"got": config, "extra": checkpoint_dir}


def with_place_alone(config: dict[str, Any], *, checkpoint_dir: str | None) -> dict[str, Any]:
    return {"got": config, "extra": checkpoint_dir}


def with_more(config: dict[str, Any], data: Any, **more: Any) -> dict[str, Any]:
    return {"got": config, "extra": more or None}


FORMS: list[Any] = [
    *(plain, with_place, with_place_alone, Model(), Model().method),
    *(lambda config: {"got": config}, functools.partial(with_more, data=[1])),
]


def test_a_function_gets_its_config_unchanged_in_each_form(start: Start, subtests: pytest.Subtests) -> None:
    config = {"lr": 0.1, "nested": {"depth": [1, 2]}, "none": None}
    for function in FORMS:
        with subtests.test(function=function):
            result = start(function, config).train()
            assert (result["got"], result.get("extra")) == (config, None)


@pytest.mark.parametrize("form", ["required", "optional"])
def test_a_function_that_takes_a_reporter_gets_one(start: Start, form: str) -> None:
    def required(config: dict[str, Any], reporter: StatusReporter) -> None:
        reporter(id=reporter.trial_id, name=reporter.trial_name, logdir=reporter.logdir)

    def optional(config: dict[str, Any], reporter: StatusReporter | None = None) -> None:
        assert reporter is not None
        required(config, reporter)

    runner = start(locals()[form])
    result = runner.train()
    assert (result["id"], result["name"], result["logdir"]) == ("t0", "e/t0", runner.logdir)


def no_argument() -> None: ...
def two(config: Any, data: Any) -> None: ...
def both(config: Any, reporter: Any, data: Any) -> None: ...
def place_and_reporter(config: Any, checkpoint_dir: Any, reporter: Any) -> None: ...


UNKNOWN = [
    (no_argument, "no_argument takes (nothing)"),
    (two, "two takes (config, data)"),
    (both, "both takes (config, reporter, data)"),
    (place_and_reporter, "place_and_reporter takes (config, checkpoint_dir, reporter)"),
    (functools.partial(two), "takes (config, data)"),
]


def test_an_unknown_signature_error_lists_the_possible_ones(subtests: pytest.Subtests) -> None:
    for function, message in UNKNOWN:
        with subtests.test(message):
            with pytest.raises(ValueError) as caught:
                wrap_function(function)
            (line,) = str(caught.value).splitlines()
            assert message in line
            assert line.endswith("takes (config), (config, checkpoint_dir=None) or (config, reporter)")


@pytest.mark.parametrize(
    ("given", "message"), [(5, "5 is not a function"), (dict, "has no signature that can be read")]
)
def test_a_value_that_is_not_a_function_is_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        wrap_function(given)


def test_the_class_has_the_functions_name_and_its_mixins() -> None:
    class Mixin:
        pass

    def train(config: dict[str, Any]) -> None: ...

    train.__mixins__ = (Mixin,)  # type: ignore[attr-defined]
    assert wrap_function(train).__name__ == "train"
    assert issubclass(wrap_function(train), Mixin)
    assert wrap_function(Model()).__name__ == "Model"


def test_a_restarted_function_gets_the_unchanged_config(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(lr=config.pop("lr"), layers=len(config["model"]["layers"]), checkpoint={})
        config["model"]["layers"].append(1)
        nbckpt.report()

    given = {"lr": 0.1, "model": {"layers": [1]}}
    runner = start(train, given)
    trained(runner, 2)
    runner.restore(runner.save())
    assert (trained(runner, 1)["layers"], given) == (1, {"lr": 0.1, "model": {"layers": [1]}})


names = st.text(min_size=1, max_size=8).map(lambda name: f"m{name}")
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
values = st.recursive(
    scalars | st.text(max_size=5) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.dictionaries(names, values, max_size=4), max_size=6))
def test_all_results_arrive_unchanged_and_in_order(reported: list[dict[str, Any]]) -> None:
    def train(config: dict[str, Any]) -> None:
        for result in reported:
            nbckpt.report(result)

    with wrap_function(train)() as runner:
        results = to_the_end(runner)
    own = [{name: value for name, value in result.items() if name.startswith("m")} for result in results]
    assert own[:-1] == reported
    assert own[-1] == (reported[-1] if reported else {})
    assert [result["training_iteration"] for result in results[:-1]] == list(range(1, len(reported) + 1))


def test_totals_grow_only_by_increments_that_are_given(start: Start) -> None:
    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        reporter(loss=1)
        reporter(timesteps_this_iter=0)
        reporter(timesteps_this_iter=5, episodes_this_iter=2)
        reporter(loss=1)

    runner = start(train)
    results = [runner.train() for _ in range(4)]
    totals = [(result.get("timesteps_total"), result.get("episodes_total")) for result in results]
    assert totals == [(None, None), (0, None), (5, 2), (5, 2)]


def test_time_between_reports_excludes_the_drivers_time(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    def train(config: dict[str, Any]) -> None:
        for seconds in (5, 7):
            clock[0] += seconds
            nbckpt.report()
        nbckpt.report(time_this_iter_s=30)

    runner = start(train)
    results = []
    for _ in range(3):
        results.append(runner.train())
        clock[0] += 100
    assert [result["time_this_iter_s"] for result in results] == [5, 7, 30]
    assert results[-1]["time_total_s"] == 42


def numbers(config: Any) -> Iterator[float]:
    yield 1
    yield 2


def mixed(config: Any) -> Iterator[Any]:
    nbckpt.report(loss=1)
    yield {"loss": 2}


async def coroutine(config: Any) -> float:
    nbckpt.report(_metric=1)
    return 2


async def async_numbers(config: Any) -> AsyncIterator[float | None]:
    yield 1
    yield None
    yield 2


def returns_too(config: Any) -> Generator[float | None, None, float]:
    yield 1
    yield None
    return 2


VALUES: list[tuple[Any, str, list[float]]] = [
    (lambda config: 2.5, "_metric", [2.5]),
    (lambda config: {"loss": 1}, "loss", [1]),
    (numbers, "_metric", [1, 2]),
    (mixed, "loss", [1, 2]),
    (coroutine, "_metric", [1, 2]),
    (async_numbers, "_metric", [1, 2]),
    (returns_too, "_metric", [1, 2]),
]


def test_returned_and_yielded_values_are_results(start: Start, subtests: pytest.Subtests) -> None:
    for function, metric, expected in VALUES:
        with subtests.test(function=function):
            assert [result[metric] for result in to_the_end(start(function))[:-1]] == expected


def test_a_returned_value_that_is_not_a_metric_is_an_error(start: Start) -> None:
    with pytest.raises(TrialError, match="a number, a dict of metrics or nothing, not str"):
        start(lambda config: "done").train()


def test_later_changes_to_a_reported_dict_are_ignored(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        losses = [1]
        result = {"losses": losses, "uncopied": threading.Lock()}
        nbckpt.report(result)
        losses.append(2)
        result.clear()
        nbckpt.report(losses=losses)

    runner = start(train)
    first = runner.train()
    runner.train()
    assert first["losses"] == [1]
    assert "lock" in first["uncopied"]


def test_the_last_result_is_repeated_with_done_and_not_counted(start: Start) -> None:
    runner = start(lambda config: nbckpt.report(loss=1))
    first, last, after = (runner.train() for _ in range(3))
    assert "__duplicate__" not in first
    assert last == first | {"done": True, "__duplicate__": True}
    assert after == last
    assert runner.iteration == 1


def test_a_function_without_a_report_ends_normally(start: Start) -> None:
    runner = start(lambda config: None)
    assert runner.train() == {"done": True, "__duplicate__": True}
    assert runner.iteration == 0


def test_stop_iteration_is_a_normal_end(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1)
        raise StopIteration

    assert [result["done"] for result in to_the_end(start(train))] == [False, True]


class Heard(Callback):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        self.calls.append(f"result {result['training_iteration']}")

    def on_trial_complete(self, trial: Trial) -> None:
        self.calls.append("complete")


@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_an_end_without_done_is_reported_once(executor: str) -> None:
    heard = Heard()

    def train(config: dict[str, Any]) -> None:
        for _ in range(config["n"]):
            nbckpt.report(loss=1)

    space = {"n": nbckpt.grid_search([2, 0])}
    experiment = ran(train, space, executor=executor, max_concurrent=1, callbacks=[heard])
    assert heard.calls == ["result 1", "result 2", "complete", "complete"]
    assert [len(trial.results) for trial in experiment.trials] == [2, 0]
    assert {trial.status for trial in experiment.trials} == {Status.TERMINATED}


@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_done_in_a_report_ends_an_endless_trial(executor: str) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(done=True)
        threading.Event().wait()

    (trial,) = ran(train, executor=executor).trials
    assert (trial.status, trial.iteration, trial.note) == (Status.TERMINATED, 1, "done")


def test_every_function_runs_finally_when_many_stop_at_once() -> None:
    count = 8
    ended: list[int] = []
    all_run, none_more = threading.Barrier(count + 1), threading.Event()

    def train(config: dict[str, Any]) -> None:
        try:
            all_run.wait(SECONDS)
            none_more.wait(SECONDS)
            while True:
                nbckpt.report(i=config["i"])
        finally:
            ended.append(config["i"])

    space = {"i": nbckpt.grid_search(range(count))}
    experiment = nbckpt.run(train, space, max_concurrent=count)
    all_run.wait(SECONDS)
    experiment.stop()
    none_more.set()
    assert experiment.wait(SECONDS)
    assert sorted(ended) == list(range(count))
    until(no_thread)


def test_a_restore_after_a_failure_repeats_no_step(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        checkpoint = nbckpt.get_checkpoint()
        for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, 10):
            if i == 5 and checkpoint is None:
                raise ValueError("once")
            nbckpt.report(i=i, checkpoint={"i": i + 1})

    first, again = start(train), start(train)
    seen = [first.train() for _ in range(5)]
    with pytest.raises(TrialError, match="once"):
        first.train()
    again.restore(first.save())
    seen += to_the_end(again)[:-1]
    assert [(result["i"], result["training_iteration"]) for result in seen] == [(i, i + 1) for i in range(10)]


def test_a_resume_removes_remains_of_a_crash() -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1, checkpoint={})

    experiment = ran(train, name="e")
    folder = experiment.trials[0].checkpoints
    with wrap_function(train)(None, folder.folder) as runner:
        packed = runner.save_to_object()
    folder.unpack(packed, temporary=True)
    folder.stage()
    experiment.resume("t0")
    assert experiment.wait(SECONDS)
    assert [path.name for path in folder.folder.iterdir() if "tmp" in path.name] == []


class Odd(BaseException):
    """Neither an Exception nor one of Python's own."""


@pytest.mark.parametrize("reports", [0, 2])
def test_a_functions_exception_is_the_cause_after_all_results(
    start: Start, reports: int, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    printed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)

    def train(config: dict[str, Any]) -> None:
        for i in range(reports):
            nbckpt.report(i=i)
        raise error

    for kind in (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, Odd):
        with subtests.test(kind=kind):
            error = kind("why")
            runner = start(train)
            assert [runner.train()["i"] for _ in range(reports)] == list(range(reports))
            for _ in range(2):
                with pytest.raises(TrialError, match=f"{kind.__name__}: why") as caught:
                    runner.train()
                assert caught.value.__cause__ is error
            assert "in train" in "".join(traceback.format_tb(error.__traceback__))
            runner.stop()
            assert (printed, no_thread()) == ([], True)


def test_an_error_after_the_last_result_is_not_raised_by_stop(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def train(config: dict[str, Any]) -> None:
        try:
            nbckpt.report(i=1)
        finally:
            raise ValueError("in finally")

    runner = start(train)
    runner.train()
    runner.stop()
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line == "e/t0: ValueError('in finally') was raised while the trial was stopped"


def test_ctrl_c_while_a_function_trains_loses_no_result(start: Start) -> None:
    main = threading.main_thread().ident or 0

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(i=1)
        signal.pthread_kill(main, signal.SIGINT)
        nbckpt.report(i=2)
        nbckpt.report(i=3)

    runner = start(train)
    results = [runner.train()]
    with pytest.raises(KeyboardInterrupt):
        results.append(runner.train())  # on a busy machine the signal may come after the result
    while len(results) < 3:
        results.append(runner.train())
    assert [(result["i"], result["training_iteration"]) for result in results] == [(1, 1), (2, 2), (3, 3)]


def test_train_interrupted_after_any_call_loses_no_result(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(40):
            nbckpt.report(i=i, should_checkpoint=True)

    runner, results = start(train), list[int]()
    for call in range(1, 12):
        with suppress(KeyboardInterrupt), interrupted_after(call):
            results.append(runner.train()["i"])
    results += [result["i"] for result in to_the_end(runner)]
    assert results == [*range(40), 39]


@contextmanager
def interrupted_after(call: int) -> Iterator[None]:
    """Raise KeyboardInterrupt after the call number *call* in `train`, where Python looks for signals."""
    codes = {
        function.__code__ for function in (FunctionRunner.train, FunctionRunner.next_result, Handoff.ask)
    }
    count = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        if frame.f_code in codes and event in ("call", "c_return"):
            count += 1
            if count == call:
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


ended: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ended() -> None:
    ended.clear()


def reports_for_ever(config: Any) -> None:
    try:
        while True:
            nbckpt.report(loss=1, checkpoint={"i": 1})
    finally:
        ended.append("finally")


def holds_up_exceptions(config: Any) -> None:
    try:
        while True:
            try:
                nbckpt.report(loss=1)
            except Exception:
                ended.append("held up")
    finally:
        ended.append("finally")


def yields_for_ever(config: Any) -> Iterator[int]:
    try:
        while True:
            yield 1
    finally:
        ended.append("finally")


class Kept:
    """A function whose generator somebody else still refers to."""

    def __call__(self, config: Any) -> Iterator[int]:
        self.generator = yields_for_ever(config)
        return self.generator


async def waits_for_ever(config: Any) -> None:
    reports_for_ever(config)


async def async_for_ever(config: Any) -> AsyncIterator[int]:
    try:
        while True:
            yield 1
    finally:
        ended.append("finally")


def in_a_lent_folder(config: Any) -> None:
    try:
        with nbckpt.trials.checkpoint_dir(step=1) as folder:
            (folder / "half").write_text("written")
            nbckpt.report(loss=1)
    finally:
        ended.append("finally")


ENDLESS: list[Any] = [
    *(reports_for_ever, holds_up_exceptions, yields_for_ever, Kept()),
    *(waits_for_ever, async_for_ever, in_a_lent_folder),
]


def test_stopping_runs_finally_and_leaves_no_thread_and_no_file(
    start: Start, subtests: pytest.Subtests
) -> None:
    for function in ENDLESS:
        with subtests.test(function=function):
            ended.clear()
            runner = start(function)
            runner.train()
            runner.stop()
            assert ended == ["finally"]
            assert no_thread()
            assert names_in(runner) == []
            runner.stop()


def test_a_function_that_never_began_is_stopped_without_running(start: Start) -> None:
    runner = start(reports_for_ever)
    runner.stop()
    assert runner.train() == {"done": True, "__duplicate__": True}
    assert ended == []


def test_a_function_that_does_not_stop_is_named_after_a_timeout(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    go, gone = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        try:
            nbckpt.report(loss=1)
        finally:
            go.wait(SECONDS)
            gone.set()

    runner = start(train, stop_timeout=0.01)
    runner.train()
    thread = next(thread for thread in threading.enumerate() if thread.name == "nbckpt-function")
    runner.stop()
    assert "e/t0 was asked to stop and still runs" in caplog.text
    assert not gone.is_set()
    go.set()
    thread.join()
    assert gone.is_set()


def test_threads_that_report_during_a_stop_leave_no_checkpoint(start: Start) -> None:
    """Threads of the function can outlive it."""
    threads: list[threading.Thread] = []

    def train(config: dict[str, Any]) -> None:
        def some() -> None:
            with suppress(StopTrial):
                while True:
                    nbckpt.report(checkpoint={"i": 1})

        threads[:] = [threading.Thread(target=copy_context().run, args=(some,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        nbckpt.report()

    for steps in range(1, 12):
        runner = start(train)
        trained(runner, steps)
        runner.stop()
        for thread in threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads)
        assert names_in(runner) == []


def files(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
    """Keep the count in a file."""
    i = int((Path(checkpoint_dir) / "i").read_text()) if checkpoint_dir else 0
    while True:
        i += 1
        with nbckpt.trials.checkpoint_dir(step=i) as folder:
            (folder / "i").write_text(str(i))
        nbckpt.report(i=i, began=checkpoint_dir)


def counts(runner: FunctionRunner) -> tuple[int, int]:
    result = runner.train()
    return result["i"], result["training_iteration"]


def test_a_save_restores_to_the_same_and_to_a_new_object(start: Start) -> None:
    runner = start(files)
    for at in range(1, 10):
        trained(runner, 1)
        if at % 3 == 0:
            path = runner.save()
            trained(runner, 2)
            runner.restore(path)
            fresh = start(files)
            fresh.restore(path)
            assert counts(fresh) == (at + 1, at + 1)
    assert counts(runner) == (10, 10)


def test_a_restored_runner_can_be_saved_before_it_trains(start: Start) -> None:
    first, second, third = (start(files) for _ in range(3))
    trained(first, 3)
    second.restore(first.save())
    third.restore(second.save())
    assert counts(third) == (4, 4)


def test_repeated_round_trips_through_objects_keep_the_counts(start: Start) -> None:
    runner = start(files)
    trained(runner, 2)
    runner.restore_from_object(runner.save_to_object())
    runner.restore_from_object(runner.save_to_object())
    assert trained(runner, 2)["training_iteration"] == 4
    kept = [name for name in names_in(runner) if name.startswith("checkpoint_tmp") and ".json" not in name]
    assert len(kept) == 1
    runner.stop()
    assert names_in(runner) == []


@pytest.mark.parametrize("by_object", [False, True])
@pytest.mark.parametrize("steps", [0, 2])
def test_a_null_checkpoint_always_starts_from_nothing(start: Start, by_object: bool, steps: int) -> None:
    def train(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
        while True:
            restored = bool(checkpoint_dir) or nbckpt.get_checkpoint() is not None
            nbckpt.report(found=restored, timesteps_this_iter=1, time_this_iter_s=2)

    runner = start(train)
    for _ in range(steps):
        runner.train()
    restore = saved(runner, by_object)
    assert runner.iteration == steps
    for one in (runner, runner, start(train)):
        restore(one)
        assert one.iteration == 0
        result = one.train()
        counted = [result[key] for key in ("found", "training_iteration", "timesteps_total", "time_total_s")]
        assert counted == [False, 1, 1, 2]


def test_each_null_checkpoint_is_a_separate_one(start: Start) -> None:
    runner = start(files)
    one, other = runner.save(), runner.save()
    assert one != other
    assert not Path(one).exists()
    runner.delete_checkpoint(other)
    runner.restore(one)


def test_a_save_makes_a_temporary_checkpoint_permanent(start: Start) -> None:
    first, runner = start(files), start(files)
    trained(first, 2)
    packed = first.save_to_object()
    runner.restore_from_object(packed)
    (before,) = [name for name in names_in(runner) if not name.endswith(".json")]
    path = Path(runner.save())
    assert (path.name, [file.name for file in path.iterdir()]) == ("checkpoint_000002", ["i"])
    runner.restore_from_object(packed)
    assert [name for name in names_in(runner) if "tmp" in name and name.startswith(before)] == []
    runner.restore(path)
    assert names_in(runner) == ["checkpoint_000002", "checkpoint_000002.json"]
    assert counts(runner) == (3, 3)


def test_a_checkpoint_after_the_last_report_is_the_final_one(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(5):
            with nbckpt.trials.checkpoint_dir(step=i) as folder:
                (folder / "i").write_text(str(i))
            if i < 4:
                nbckpt.report(i=i)

    results = to_the_end(start(train))
    assert [result.get("should_checkpoint") for result in results] == [True] * 5
    experiment = ran(train, keep_checkpoints=3)
    records = experiment.trials[0].checkpoints.records()
    assert [record.step for record in records] == [2, 3, 4]
    assert (experiment.trials[0].folder / "checkpoint_000004/i").read_text() == "4"


def test_the_repeated_last_result_asks_for_no_second_save(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(3):
            nbckpt.report(i=i, checkpoint={"i": i} if i else None)

    runner = start(train)
    stopped = []
    for _ in range(4):
        result = runner.train()
        stopped.append(result.get("should_checkpoint"))
        if stopped[-1]:
            runner.save()
    assert stopped == [None, True, True, None]


def test_a_metric_called_should_checkpoint_saves_nothing(start: Start) -> None:
    runner = start(lambda config: nbckpt.report(should_checkpoint=True))
    assert ["should_checkpoint" in runner.train() for _ in range(2)] == [False, False]


def test_a_save_has_the_counts_of_its_report(start: Start) -> None:
    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        for i in range(1, 6):
            if i == 2:
                reporter.set_checkpoint({"i": i})
            reporter(i=i, timesteps_this_iter=10)

    runner = start(train)
    trained(runner, 4)
    packed = [runner.save_to_object() for _ in range(2)]
    path = Path(runner.save())
    record = CheckpointFolder(runner.logdir).read(path.name)
    assert (record.iteration, record.timesteps_total, record.metrics["i"]) == (2, 20, 2)
    before = path.with_name(path.name + ".json").stat().st_mtime_ns
    assert Path(runner.save()) == path
    assert path.with_name(path.name + ".json").stat().st_mtime_ns == before
    assert runner.iteration == 4
    for content in packed:
        fresh = start(train)
        fresh.restore_from_object(content)
        assert fresh.iteration == 2


@pytest.mark.parametrize("by_object", [False, True])
def test_any_dict_is_a_checkpoint_and_is_not_changed(
    start: Start, by_object: bool, subtests: pytest.Subtests
) -> None:
    def train(config: dict[str, Any]) -> None:
        checkpoint = nbckpt.get_checkpoint()
        offered.append(checkpoint and checkpoint.to_dict())
        nbckpt.report(checkpoint=given)
        nbckpt.report()

    odd: dict[Any, Any] = {1: "no text", ("a",): None}
    for before in ({}, {"i": 0}, {"tune_checkpoint_path": "/x", "done": 1}, odd):
        with subtests.test(saved=before):
            given, offered = dict(before), list[Any]()
            runner = start(train)
            assert trained(runner, 1)["should_checkpoint"]
            saved(runner, by_object)(runner)
            assert trained(runner, 1)["training_iteration"] == 2
            assert (offered, given) == ([None, before], before)


@pytest.mark.parametrize("step", [1.5, "a", None])
def test_the_step_of_a_checkpoint_is_a_whole_number(start: Start, step: Any) -> None:
    def train(config: dict[str, Any]) -> None:
        with nbckpt.trials.checkpoint_dir(step=step):
            raise AssertionError

    with pytest.raises(TrialError, match=f"step={step!r} is not a whole number"):
        start(train).train()


def test_an_object_is_no_checkpoint(start: Start) -> None:
    runner = start(lambda config: nbckpt.report(loss=1, checkpoint=threading.Lock()))  # type: ignore[arg-type]
    with pytest.raises(TrialError, match=r"a dict, a Checkpoint or a path, and not lock: give a dict"):
        runner.train()


def test_a_repeated_step_replaces_its_checkpoint(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        for name in ("old", "new"):
            with nbckpt.trials.checkpoint_dir(step=7) as folder:
                (folder / name).touch()
            nbckpt.report()

    runner = start(train)
    for _ in range(2):
        runner.train()
        path = Path(runner.save())
    assert path.name == "checkpoint_000007"
    assert [file.name for file in path.iterdir()] == ["new"]


def test_files_that_look_like_internal_markers_are_kept(start: Start, tmp_path: Path) -> None:
    names = {".temp_marker", ".null_marker", ".is_checkpoint", ".tune_metadata", "checkpoint"}
    source = tmp_path / "checkpoint_tmp_of_the_users"
    source.mkdir()
    for name in names:
        (source / name).touch()

    def train(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
        names = {path.name for path in Path(checkpoint_dir).iterdir()} if checkpoint_dir else set()
        nbckpt.report(found=names, checkpoint=source)
        nbckpt.report()

    runner = start(train)
    runner.train()
    path = Path(runner.save())
    assert path.name == "checkpoint_000001"
    runner.restore(path)
    assert runner.train()["found"] == names
    for name in names:
        (source / name).unlink()
    source.rmdir()


def test_save_with_a_folder_is_refused(start: Start, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="call save\\(\\) without one"):
        start(files).save(tmp_path / "mine")


def test_reporting_an_invalid_checkpoint_raises_in_the_function(start: Start, tmp_path: Path) -> None:
    met: list[str] = []

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(i=1, checkpoint={"i": 1})
        for wrong in (tmp_path / "missing", {"generator": (value for value in ())}):
            try:
                nbckpt.report(i=2, checkpoint=wrong)
            except (NotFoundError, CodecError) as error:
                met.append(type(error).__name__)
        nbckpt.report(i=3)

    runner = start(train)
    assert [result["i"] for result in to_the_end(runner)] == [1, 3, 3]
    assert met == ["NotFoundError", "CodecError"]
    assert nbckpt.Checkpoint.from_directory(runner.save()).to_dict() == {"i": 1}
    assert len(names_in(runner)) == 2


def test_a_folder_that_holds_the_trial_is_not_copied(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each checkpoint would hold all earlier ones, and the copy of a folder above would copy itself."""
    monkeypatch.chdir(tmp_path)
    if sys.platform != "win32":
        (tmp_path / "link").symlink_to(tmp_path)

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(i=1, checkpoint={"i": 1})
        for place in ("trial0", ".", *(["link"] if Path("link").is_symlink() else [])):
            with pytest.raises(UsageError, match=r"would hold the trial's folder .* and report that folder"):
                nbckpt.report(i=2, checkpoint=place)
        nbckpt.report(i=3)

    runner = start(train)
    assert [result["i"] for result in to_the_end(runner)] == [1, 3, 3]
    assert nbckpt.Checkpoint.from_directory(runner.save()).to_dict() == {"i": 1}
    assert len(names_in(runner)) == 2


kinds = st.sampled_from(["train", "save", "pack", "restore", "unpack", "anew"])


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(kinds, st.integers(0, 5)), max_size=12))
def test_any_order_of_steps_saves_and_restores_matches_a_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder, files_class = tmp_path_factory.mktemp("model"), wrap_function(files)
    with ExitStack() as runners:
        runner = runners.enter_context(files_class(None, folder))
        i, paths, packed = 0, [(0, runner.save())], [(0, runner.save_to_object())]
        for action, which in steps:
            match action:
                case "train":
                    i += 1
                    assert counts(runner) == (i, i)
                case "save":
                    paths.append((i, runner.save()))
                case "pack":
                    packed.append((i, runner.save_to_object()))
                case "restore":
                    i, path = paths[which % len(paths)]
                    runner.restore(path)
                case "unpack":
                    i, content = packed[which % len(packed)]
                    runner.restore_from_object(content)
                case "anew":
                    runner.stop()
                    i, runner = 0, runners.enter_context(files_class(None, folder))
    assert [path.name for path in folder.iterdir() if "tmp" in path.name] == []


@pytest.mark.parametrize("trains", [True, False])
def test_ctrl_c_before_the_thread_starts_does_not_hang(
    start: Start, trains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = start(lambda config: nbckpt.report(x=1))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            runner.train()
    if trains:
        assert runner.train()["x"] == 1
    runner.stop()
