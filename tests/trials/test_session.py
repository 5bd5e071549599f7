"""The session: what a function reports and asks, and that it is only ever its own trial's.

The handing over itself is held by test_handoff.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trials.conftest import SECONDS, Start, ran

import nbckpt
from nbckpt import Checkpoint
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.trials import (
    CheckpointFolder,
    FunctionRunner,
    Status,
    StatusReporter,
    StopTrial,
    Trial,
    wrap_function,
)
from nbckpt.trials.training.session import TrialContext, current
from nbckpt.trials.training.stager import CheckpointStager


def staged(runner: FunctionRunner) -> list[Path]:
    return list(Path(runner.logdir).glob(".*"))


def content(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def asks_everything() -> None:
    for _ in range(3):
        nbckpt.report(loss=1, checkpoint={"i": 1})
        assert nbckpt.get_checkpoint() is None
        with nbckpt.trials.checkpoint_dir(step=1) as folder:
            (folder / "model").write_text("weights")
        assert not folder.exists()
        assert nbckpt.get_context() == TrialContext("", "", Path.cwd(), {})


NAMES = ["get_checkpoint", "checkpoint_dir", "get_context"]


def lost_reports(capsys: pytest.CaptureFixture[str]) -> int:
    return capsys.readouterr().err.count("this report is not kept, because no trial is open")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_calls_outside_a_trial_do_nothing_and_say_it_once(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    Context().run(asks_everything)
    assert lost_reports(capsys) == 1
    lines = told(caplog)
    assert [line.split("(")[0] for line in lines] == [f"nbckpt.{name}" for name in NAMES]
    assert all(line.endswith("no trial is running (start one with nbckpt.run)") for line in lines)
    with pytest.raises(ValueError), nbckpt.trials.checkpoint_dir(step=1) as folder:
        raise ValueError
    assert not folder.exists()


@pytest.mark.parametrize("executor", ["inline", "thread", "process"])
def test_a_function_learns_which_trial_it_is(executor: str, tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        context = nbckpt.get_context()
        config["lr"] = 0
        (context.folder / "mine").write_text(f"{context.id} {context.name} {context.config}")
        nbckpt.report(lr=context.config["lr"])

    space = {"lr": nbckpt.grid_search([1, 2])}
    experiment = ran(train, space, name="e", folder=tmp_path, executor=executor)
    mine = [(trial.folder / "mine").read_text() for trial in experiment.trials]
    assert mine == ["t0 e/t0 {'lr': 1}", "t1 e/t1 {'lr': 2}"]


def test_each_thread_without_the_trials_context_says_so(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reports of such a thread are lost, which must not be silent."""

    def train(config: dict[str, Any]) -> None:
        for _ in range(2):
            thread = threading.Thread(target=nbckpt.report, kwargs={"lost": 1})
            thread.start()
            thread.join()
        nbckpt.report(kept=1)

    assert "lost" not in start(train).train()
    assert lost_reports(capsys) == 2


def test_the_caller_is_outside_the_trial_after_its_end(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(i=1)

    for in_thread in (False, True):
        start(train).push_results(lambda result: current.get() is None, in_thread=in_thread)
        assert current.get() is None
    Context().run(asks_everything)
    assert len(told(caplog)) == len(NAMES)


def test_a_dict_and_names_are_reported_together(start: Start, subtests: pytest.Subtests) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report({"loss": 1, "both": 1}, both=2)
        nbckpt.report()

    runner = start(train)
    result = runner.train()
    assert (result["loss"], result["both"]) == (1, 2)
    assert "loss" not in runner.train()
    for value in (0, 0.5, "good", [1]):
        with subtests.test(value=value), pytest.raises(UsageError, match=r"write report\(loss="):
            nbckpt.report(value)


class Unheard:
    def __repr__(self) -> str:
        return "<Unheard>"


@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_metrics_that_json_cannot_hold_are_stored_as_text(executor: str) -> None:
    seen: list[Any] = []

    def train(config: dict[str, Any]) -> None:
        itself: list[Any] = [1]
        itself.append(itself)
        of_itself: dict[Any, Any] = {}
        of_itself[2] = of_itself
        metrics = {"set": {1}, "object": Unheard(), "bytes": b"1", "array": np.arange(2), 5: "number"}
        nbckpt.report(
            metrics | {"itself": itself, "of_itself": of_itself, "nan": float("nan")},
            scalar=np.float32(0.5),
            nested={"deep": [Unheard(), (1,)]},
            checkpoint={},
        )

    def look(trial: str, result: Mapping[str, Any]) -> bool:
        seen.append(result["object"])
        return False

    experiment = ran(train, executor=executor, stop=look)
    (trial,) = experiment.trials
    assert (trial.status, trial.error) == (Status.TERMINATED, "")
    events = [json.loads(line) for line in (trial.folder / "events.jsonl").read_text().splitlines()]
    (result,) = [event["result"] for event in events if event["event"] == "result"]
    expected = {
        "set": "{1}",
        "object": "<Unheard>",
        "bytes": "b'1'",
        "array": "array([0, 1])",
        "5": "number",
        "itself": [1, "[1, [...]]"],
        "of_itself": {"2": "{2: {...}}"},
        "scalar": 0.5,
        "nested": {"deep": ["<Unheard>", [1]]},
    }
    assert result | expected == result
    assert isinstance(seen[0], Unheard)


def in_a_folder(place: Path) -> Path:
    place.mkdir()
    (place / "i").write_text("1")
    return place


forms: dict[str, Callable[[Path], Any]] = {
    "dict": lambda place: {"i": "1"},
    "path": in_a_folder,
    "text": lambda place: str(in_a_folder(place)),
    "file": lambda place: in_a_folder(place) / "i",
    "checkpoint of a dict": lambda place: Checkpoint.from_dict({"i": "1"}),
    "checkpoint of a folder": lambda place: Checkpoint.from_directory(in_a_folder(place)),
}


@pytest.mark.parametrize("how", ["report", "set_checkpoint"])
def test_each_form_of_a_checkpoint_is_restored(
    start: Start, tmp_path: Path, how: str, subtests: pytest.Subtests
) -> None:
    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        checkpoint, place = nbckpt.get_checkpoint(), reporter.get_checkpoint()
        content: Any = None
        if checkpoint is not None and place is not None:
            if place.is_file():
                content = place.read_text()
            elif (place / "i").exists():
                content = (place / "i").read_text()
            else:
                content = checkpoint.to_dict()["i"]
        if how == "report":
            nbckpt.report(found=content, checkpoint=config["offered"])
        else:
            reporter.set_checkpoint(config["offered"])
            reporter(found=content)
        nbckpt.report()

    for form, make in forms.items():
        with subtests.test(form):
            config = {"offered": make(tmp_path / form)}
            runner, fresh = start(train, config), start(train, config)
            assert runner.train()["should_checkpoint"]
            path = runner.save()
            for one in (runner, fresh):
                one.restore(path)
                assert one.train()["found"] == "1"


def test_later_changes_to_a_folder_do_not_reach_the_checkpoint(start: Start, tmp_path: Path) -> None:
    place = in_a_folder(tmp_path / "mine")

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(checkpoint=place)

    runner = start(train)
    runner.train()
    (place / "i").write_text("changed")
    (place / "more").touch()
    assert content(Path(runner.save())) == {"i": "1"}
    assert content(place) == {"i": "changed", "more": ""}


def test_only_the_last_checkpoint_before_a_report_is_kept(start: Start, tmp_path: Path) -> None:
    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        nbckpt.report(checkpoint=in_a_folder(tmp_path / "mine"))
        reporter.set_checkpoint({"i": "dict"})
        for name in ("one", "two"):
            with nbckpt.trials.checkpoint_dir(step=5) as folder:
                (folder / name).write_text(name)
        reporter(last="lent")
        with nbckpt.trials.checkpoint_dir(step=6) as folder:
            (folder / "three").write_text("three")
        nbckpt.report(last="reported", checkpoint={"i": 4})

    runner = start(train)
    runner.train()
    assert runner.train()["last"] == "lent"
    assert len(staged(runner)) == 1
    assert content(Path(runner.save())) == {"two": "two"}
    assert runner.train()["last"] == "reported"
    assert len(staged(runner)) == 1
    assert Checkpoint.from_directory(runner.save()).to_dict() == {"i": 4}
    assert staged(runner) == []


def test_a_checkpoint_dir_can_be_reported_inside_its_block(start: Start) -> None:
    """The report takes the folder itself or a path in it."""

    def train(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
        restored = content(Path(checkpoint_dir)) if checkpoint_dir else {}
        for step, inner in ((3, ""), (4, "deep")):
            with nbckpt.trials.checkpoint_dir(step) as folder:
                (folder / "deep").mkdir()
                (folder / "deep" / "i").write_text(str(step))
                nbckpt.report(found=restored, checkpoint=folder / inner)

    runner = start(train)
    expected = [("checkpoint_000003", {"deep/i": "3"}), ("checkpoint_000004", {"i": "4"})]
    saved = []
    for _ in range(2):
        assert runner.train()["should_checkpoint"]
        saved.append(runner.save())
    for path, (name, restored) in zip(saved, expected, strict=True):
        assert Path(path).name == name
        runner.restore(path)
        assert runner.train()["found"] == restored
    assert content(Path(saved[1])) == {"deep/i": "4"}


def test_a_failed_block_leaves_the_former_checkpoint(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        with nbckpt.trials.checkpoint_dir(step=1) as folder:
            (folder / "whole").write_text("1")
        with suppress(ValueError), nbckpt.trials.checkpoint_dir(step=2) as folder:
            (folder / "half").write_text("2")
            raise ValueError
        nbckpt.report()

    runner = start(train)
    runner.train()
    assert len(staged(runner)) == 1
    path = Path(runner.save())
    assert (path.name, content(path)) == ("checkpoint_000001", {"whole": "1"})


def test_a_folder_with_the_prefix_of_another_is_distinct(start: Start) -> None:
    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        lent = reporter.make_checkpoint_dir(step=7)
        other = in_a_folder(Path(f"{lent}0"))
        reporter.set_checkpoint(other)
        reporter(lent=lent, other=str(other))

    runner = start(train)
    result = runner.train()
    assert Path(result["lent"]).exists()
    assert Path(runner.save()).name == "checkpoint_000001"
    assert content(Path(result["other"])) == {"i": "1"}
    shutil.rmtree(result["other"])


def test_get_checkpoint_changes_nothing_and_follows_the_saves(start: Start) -> None:
    """It is a pure query, before and after the driver saves."""

    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        def found() -> list[Any]:
            checkpoints = [nbckpt.get_checkpoint() for _ in range(2)]
            return [checkpoint and checkpoint.to_dict()["i"] for checkpoint in checkpoints]

        reporter(found=found(), new=reporter.has_new_checkpoint())
        for i in range(2):
            reporter.set_checkpoint({"i": i})
            reporter(found=found(), new=reporter.has_new_checkpoint())
            reporter(found=found(), new=reporter.has_new_checkpoint())

    runner = start(train)
    seen = []
    for _ in range(5):
        result = runner.train()
        seen.append((result["found"], result["new"]))
        if result.get("should_checkpoint"):
            runner.save()
    fresh, kept = ([None, None], False), [[([i, i], True), ([i, i], False)] for i in range(2)]
    assert seen == [fresh, *kept[0], *kept[1]]


@pytest.fixture
def reporter(tmp_path: Path) -> Iterator[StatusReporter]:
    stager = CheckpointStager(CheckpointFolder(tmp_path / "trial"))
    yield StatusReporter(stager, trial_name="e/t0", trial_id="t0", logdir=str(tmp_path / "trial"))
    stager.drop()


def test_a_reporter_knows_its_trial_and_its_checkpoint(reporter: StatusReporter, tmp_path: Path) -> None:
    names = (reporter.trial_name, reporter.trial_id, reporter.logdir)
    assert names == ("e/t0", "t0", str(tmp_path / "trial"))
    with pytest.raises(UsageError, match=r"belongs to no trial\. Start the function with nbckpt\.run"):
        reporter(loss=1)
    assert (reporter.get_checkpoint(), reporter.has_new_checkpoint()) == (None, False)
    place = Path(reporter.make_checkpoint_dir(step=3))
    assert place.is_dir()
    assert reporter.get_checkpoint() is None
    (place / "i").write_text("3")
    reporter.set_checkpoint(str(place / "i"))
    assert (reporter.get_checkpoint(), reporter.has_new_checkpoint()) == (place / "i", True)
    reporter.set_checkpoint({"i": 4}, is_new=False)
    assert reporter.has_new_checkpoint() is False
    assert not place.exists()
    with pytest.raises(NotFoundError, match="write it before you report it"):
        reporter.set_checkpoint(place)


def test_two_alternating_runners_keep_their_own_checkpoints(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(3):
            nbckpt.report(who=config["who"], i=i, checkpoint={"who": config["who"]})

    runners = [start(train, {"who": who}) for who in range(2)]
    got = [(runner.train()["who"], who) for _ in range(3) for who, runner in enumerate(runners)]
    assert got == [(0, 0), (1, 1)] * 3
    kept = [Checkpoint.from_directory(runner.save()).to_dict()["who"] for runner in runners]
    assert kept == [0, 1]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["train", "save", "restore", "stop"]))))
def test_no_runner_sees_another_one_in_any_order_of_steps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]]
) -> None:
    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        while True:
            checkpoint = nbckpt.get_checkpoint()
            restored = checkpoint and checkpoint.to_dict()["who"]
            assert reporter is current.get()
            nbckpt.report(who=config["who"], found=restored, checkpoint={"who": config["who"]})

    folder = tmp_path_factory.mktemp("runners")
    paths: dict[int, str] = {}
    stopped: set[int] = set()
    with ExitStack() as stack:
        made = [wrap_function(train)({"who": who}, folder / str(who)) for who in range(3)]
        runners = [stack.enter_context(runner) for runner in made]
        for who, action in steps:
            runner = runners[who]
            if action == "stop":
                runner.stop()
                stopped.add(who)
            elif action == "train" and who not in stopped:
                result = runner.train()
                assert result["who"] == who
                assert result["found"] in {None, who}
            elif action == "save" and who not in stopped:
                paths[who] = runner.save()
            elif action == "restore" and who in paths.keys() - stopped:
                runner.restore(paths[who])


def test_runners_in_parallel_threads_never_mix(start: Start) -> None:
    count, steps = 4, 50
    together = threading.Barrier(count)

    def train(config: dict[str, Any]) -> None:
        together.wait(SECONDS)
        for i in range(steps):
            checkpoint = nbckpt.get_checkpoint()
            restored = checkpoint and checkpoint.to_dict()["who"]
            offered = {"who": config["who"]} if i % 10 == 0 else None
            nbckpt.report(who=config["who"], i=i, found=restored, checkpoint=offered)

    got: dict[int, list[tuple[int, int, Any]]] = {}

    def drive(who: int) -> None:
        results = [runners[who].train() for _ in range(steps)]
        got[who] = [(result["who"], result["i"], result["found"]) for result in results]

    runners = [start(train, {"who": who}) for who in range(count)]
    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(drive, range(count)))
    finally:
        sys.setswitchinterval(former)
    for who in range(count):
        assert got[who] == [(who, i, who if i else None) for i in range(steps)]


def test_a_nested_function_reports_to_its_own_driver(start: Start) -> None:
    def inner(config: dict[str, Any]) -> None:
        for i in range(2):
            nbckpt.report(inner=i, checkpoint={"whose": "inner"})

    def outer(config: dict[str, Any]) -> None:
        runner = start(inner)
        for _ in range(2):
            nbckpt.report(outer=runner.train()["inner"], found=nbckpt.get_checkpoint())

    runner = start(outer)
    results = [runner.train() for _ in range(2)]
    pairs = [(result["outer"], result["found"], "inner" in result) for result in results]
    assert pairs == [(0, None, False), (1, None, False)]


def test_a_thread_with_a_copied_context_belongs_to_the_trial(start: Start) -> None:
    def train(config: dict[str, Any]) -> None:
        def some() -> None:
            nbckpt.report(who=config["who"], checkpoint={"who": config["who"]})
            with nbckpt.trials.checkpoint_dir(step=9) as folder:
                (folder / "who").write_text(config["who"])

        thread = threading.Thread(target=copy_context().run, args=(some,))
        thread.start()
        thread.join()
        nbckpt.report(checkpoint=None)

    for who in ("a", "b"):
        runner = start(train, {"who": who})
        assert runner.train()["who"] == who
        assert Checkpoint.from_directory(runner.save()).to_dict() == {"who": who}
        runner.train()
        assert content(Path(runner.save())) == {"who": who}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks there")
@pytest.mark.parametrize("executor", ["thread", "inline", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["report", "set_checkpoint"])
def test_a_fork_of_a_function_cannot_report(executor: str, how: str, tmp_path: Path) -> None:
    said = tmp_path / "said"

    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        reporter(i=0)
        with nbckpt.trials.checkpoint_dir(1) as folder:
            (folder / "file").write_text("the parent's")
        child = os.fork()
        if not child:
            try:
                if config["how"] == "report":
                    nbckpt.report({"i": "the fork's"}, checkpoint={"i": 1})
                else:
                    reporter.set_checkpoint({"i": 1})
            except BaseException as error:
                config["said"].write_text(f"{type(error).__name__}: {error}")
            os._exit(0)
        os.waitpid(child, 0)
        reporter(i=1)

    experiment = ran(train, {"said": said, "how": how}, executor=executor)
    trial = experiment.trials[0]
    assert said.read_text().startswith("UsageError: a fork of a trial's process cannot report")
    read = Trial.read(trial.folder)
    assert ([result["i"] for result in read.results], read.status, read.damage) == ([0, 1], "TERMINATED", "")
    with read.checkpoint.as_directory() as folder:
        assert content(Path(folder)) == {"file": "the parent's"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks there")
def test_a_fork_that_leaves_a_function_pushes_no_result(start: Start, tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        child = os.fork()
        if child:
            os.waitpid(child, 0)

    def take(result: Any) -> bool:
        with (tmp_path / "by").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return True

    start(train).push_results(take, in_thread=True)
    assert (tmp_path / "by").read_text().split() == [str(os.getpid())]


def test_reports_and_checkpoints_after_the_stop_are_refused(start: Start) -> None:
    met: list[str] = []

    def train(config: dict[str, Any], reporter: StatusReporter) -> None:
        def offer_a_folder() -> None:
            with nbckpt.trials.checkpoint_dir(step=1):
                pass

        try:
            reporter(i=1)
        finally:
            for offer in (
                lambda: nbckpt.report(i=2),
                lambda: nbckpt.report(checkpoint={}),
                lambda: reporter.set_checkpoint({}),
                offer_a_folder,
            ):
                try:
                    offer()
                except StopTrial:
                    met.append("stopped")

    runner = start(train)
    runner.train()
    runner.stop()
    assert met == ["stopped"] * 4
    assert staged(runner) == []
