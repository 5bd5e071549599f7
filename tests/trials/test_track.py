"""track: a plain loop reports, saves and ends like any other trial."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.errors import CodecError, Interrupted, StoreError, UsageError
from nbckpt.trials import Catalog, Status, Trainable
from nbckpt.trials.engine import open_trial
from nbckpt.trials.engine.open_attempt import OpenAttempt
from nbckpt.trials.engine.open_trial import OpenTrial, end_all
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.view import internals
from nbckpt.trials.training import session


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store of its own; no trial stays open after the test."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path))
    yield tmp_path
    for trial in open_trial.open_trials():
        trial.finish()
        trial.experiment.wait()
    session.tracked.set(None)


def read(store: Path, name: str = "e") -> Any:
    """Return the experiment, read from the disk."""
    return Catalog(store / "experiments").open(name)


def test_a_tracked_loop_is_a_trial_like_any_other(store: Path) -> None:
    run = nbckpt.track("e", {"layers": [1, 2]}, lr=0.1)
    for loss in (3.0, 2.0):
        run.report(loss=loss)
    nbckpt.report({"loss": 1.0}, checkpoint={"w": 7})
    assert (run.iteration, run.is_open, run.trial_id) == (3, True, "t0")
    assert run.checkpoint.to_dict() == {"w": 7}
    run.finish()
    run.experiment.wait(60)
    (trial,) = read(store).trials
    assert trial.status == Status.TERMINATED
    assert trial.config == {"layers": [1, 2], "lr": 0.1}
    assert trial.metric("loss") == [3.0, 2.0, 1.0]
    assert "done, 3 results, loss 1" in repr(run)


def test_the_functions_of_a_trial_work_in_a_tracked_loop() -> None:
    run = nbckpt.track("e", lr=0.1)
    context = nbckpt.get_context()
    assert (context.id, context.name, context.config) == ("t0", "e/t0", {"lr": 0.1})
    assert not nbckpt.should_checkpoint()
    with session.checkpoint_dir(4) as folder:
        (folder / "model.txt").write_text("weights")
    run.report(loss=1)
    checkpoint = nbckpt.get_checkpoint()
    assert (Path(checkpoint.to_directory()) / "model.txt").read_text() == "weights"


def test_a_stop_reaches_a_trial_that_opens_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run = nbckpt.track("e", lr=0.1)
    run.report(loss=1, checkpoint={"w": 7})
    run.close(pause=True)
    experiment, opens = run.experiment, OpenAttempt.open
    assert experiment.wait(60)
    stopping = threading.Thread(target=experiment.stop, args=("t0",))

    def slowly(attempt: OpenAttempt) -> None:
        stopping.start()
        stopping.join(0.1)  # long enough to come in, while the trial shows as paused
        opens(attempt)

    monkeypatch.setattr(OpenAttempt, "open", slowly)
    nbckpt.track("e", resume="t0")
    stopping.join(60)
    assert not stopping.is_alive()
    assert internals(experiment).asked("t0") == "stop"


def test_a_with_block_ends_its_trial(store: Path, subtests: pytest.Subtests) -> None:
    with nbckpt.track("e") as run:
        run.report(loss=1)
    with pytest.raises(ZeroDivisionError), nbckpt.track("e") as run:
        run.report(loss=1 / 0)
    for stop in (KeyboardInterrupt, asyncio.CancelledError):
        with pytest.raises(stop), nbckpt.track("e") as run:
            raise stop
    done, failed, *paused = read(store).trials
    assert (done.status, failed.status) == (Status.TERMINATED, Status.ERROR)
    assert [trial.status for trial in paused] == [Status.PAUSED, Status.PAUSED]
    assert failed.error == "ZeroDivisionError: division by zero"
    assert "loss=1 / 0" in failed.traceback
    ends = {None: "", 0: "", 1: "SystemExit: 1", "diverged": "SystemExit: diverged"}
    for code, error in ends.items():
        with pytest.raises(SystemExit), nbckpt.track("exits"):
            sys.exit(code)
        trial = read(store, "exits").trials[-1]
        with subtests.test(code=code):
            assert (trial.status, trial.error) == (Status.ERROR if error else Status.TERMINATED, error)


def test_the_same_code_ends_the_trial_that_it_opened_before(store: Path) -> None:
    for lr in (1, 2, 3):
        nbckpt.track("e", lr=lr).report(loss=lr)
    other = nbckpt.track("other")
    assert [trial.status for trial in read(store).trials] == [Status.TERMINATED] * 2 + [Status.RUNNING]
    assert other.is_open


def test_finishing_twice_is_finishing_once(store: Path) -> None:
    run = nbckpt.track("e")
    run.finish()
    run.finish()
    with pytest.raises(UsageError, match=r"e/t0 has ended.*nbckpt.track\('e', resume='t0'\)"):
        run.report(loss=1)
    with pytest.raises(UsageError, match="e/t0 has ended"):
        run.save({"x": 1})
    assert read(store).trials[0].iteration == 0
    run = nbckpt.track("e")
    run.report(loss=1, done=True)
    assert not run.is_open
    assert read(store).trials[1].status == Status.TERMINATED


def test_a_count_that_is_not_a_number_is_refused(subtests: pytest.Subtests) -> None:
    for name, value in [
        ("time_this_iter_s", None),
        ("time_this_iter_s", "x"),
        ("timesteps_this_iter", "abc"),
        ("timesteps_this_iter", math.nan),
        ("episodes_this_iter", math.inf),
        ("episodes_this_iter", []),
    ]:
        with subtests.test(name=name, value=value), nbckpt.track("e") as run:
            with pytest.raises(UsageError, match=f"{name}=.* must be a number"):
                run.report({name: value}, checkpoint={"at": 0})
            run.report(timesteps_this_iter=None, time_this_iter_s="2")
            assert (run.trial.iteration, run.trial.checkpoint_name) == (1, None)


def test_a_report_without_a_trial_says_once_how_to_open_one(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    context = Context()
    context.run(nbckpt.report, loss=1)
    context.run(nbckpt.report, loss=2)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert 'run = nbckpt.track("NAME")' in said
    assert not caplog.records


def test_a_trial_goes_on_where_its_checkpoint_was(store: Path) -> None:
    run = nbckpt.track("e", lr=0.1)
    run.report(loss=3, checkpoint={"step": 1})
    run.report(loss=2)
    run.close(pause=True)
    again = nbckpt.track("e", lr=0.1, resume=True)
    assert (again.trial_id, again.iteration) == ("t0", 1)
    assert again.checkpoint.to_dict() == {"step": 1}
    again.report(loss=1)
    again.finish()
    (trial,) = read(store).trials
    assert (trial.metric("loss"), trial.status) == ([3, 1], Status.TERMINATED)


def test_resume_takes_the_newest_trial_with_these_parameters() -> None:
    for lr in (1, 2, 1):
        nbckpt.track("e", lr=lr).close(pause=True)
    assert nbckpt.track("e", lr=2, resume=True).trial_id == "t1"
    assert nbckpt.track("e", resume=True).trial_id == "t2"
    assert nbckpt.track("e", lr=9, resume=True).trial_id == "t3"
    with pytest.raises(UsageError, match="'e' has no trial 't7': there are t0, t1, t2, t3"):
        nbckpt.track("e", resume="t7")
    assert nbckpt.track("e", resume="t1").trial_id == "t1"


def test_a_trial_that_is_resumed_by_name_has_its_parameters() -> None:
    nbckpt.track("e", {"layers": [1]}, lr=0.1).close(pause=True)
    for given, has in [({"lr": 0.9}, '{"lr": 0.1}, not {"lr": 0.9}'), ({"k": 1}, 'no k, not {"k": 1}')]:
        with pytest.raises(UsageError, match=f"e/t0 has {has}: continue it without"):
            nbckpt.track("e", given, resume="t0")
    run = nbckpt.track("e", {"layers": [1]}, lr=0.1, resume="t0")
    assert (run.trial_id, run.config) == ("t0", {"layers": [1], "lr": 0.1})


def test_save_keeps_what_of_a_namespace_can_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    run = nbckpt.track("e")
    run.report(loss=1)
    shared = [1]
    namespace = {"run": run, "os": os, "a": shared, "b": shared, "_": 1, "In": [], "made": (x for x in ())}
    saved = run.save(namespace).to_dict()
    assert saved == {"a": [1], "b": [1]}
    assert saved["a"] is saved["b"]
    assert "made is not saved" in caplog.text
    assert run.trial.unsaved_results == 0
    run = nbckpt.track("e")
    with pytest.raises(CodecError):
        run.report(loss=1, checkpoint={"made": (x for x in ())})
    run.report(loss=2)
    assert run.trial.metric("loss") == [2]


def test_a_pause_and_a_stop_interrupt_the_loop(store: Path) -> None:
    run = nbckpt.track("e")
    run.report(loss=1)
    run.experiment.pause("t0")
    assert nbckpt.should_checkpoint()
    with pytest.raises(Interrupted, match=r"e/t0 was paused.*nbckpt.track\('e', resume=True\)"):
        run.report(loss=2, checkpoint={"step": 2})
    run = nbckpt.track("e", resume=True)
    assert run.iteration == 2
    run.experiment.stop()
    with pytest.raises(Interrupted, match=r"e/t0 was stopped.*resume='t0'"):
        nbckpt.report(loss=3)
    (trial,) = read(store).trials
    assert (trial.status, trial.stopped_early, trial.metric("loss")) == (Status.TERMINATED, True, [1, 2, 3])


def test_an_open_trial_is_shown_and_pickled() -> None:
    with nbckpt.track("baseline") as run:
        run.report(loss=10**400)
        assert "loss inf" in repr(run)
    run = nbckpt.track("e")
    assert isinstance(run, OpenTrial)
    assert nbckpt.Checkpoint.from_dict({"run": run}).to_dict()["run"] is run.trial


def test_threads_and_tasks_report_each_to_its_own_trial(store: Path) -> None:
    meet = threading.Barrier(2, timeout=60)

    def work(lr: int) -> None:
        run = nbckpt.track("e", lr=lr)
        for _ in range(50):
            meet.wait()
            nbckpt.report(loss=lr)
        run.finish()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (1, 2)))
    trials = read(store).trials
    assert [set(trial.metric("loss")) for trial in trials] == [{trial.config["lr"]} for trial in trials]
    assert [trial.iteration for trial in trials] == [50, 50]

    async def task(lr: int) -> None:
        with nbckpt.track("f", lr=lr):
            for _ in range(5):
                nbckpt.report(loss=lr)
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(task(1), task(2))

    asyncio.run(both())
    assert [trial.metric("loss") for trial in read(store, "f").trials] == [[1] * 5, [2] * 5]


def test_code_without_a_context_reports_to_the_only_open_trial() -> None:
    first = nbckpt.track("e")
    Context().run(nbckpt.report, loss=1)
    second = Context().run(nbckpt.track, "other")
    with pytest.raises(UsageError, match="several trials are open: e/t0, other/t0"):
        Context().run(nbckpt.report, loss=2)
    second.finish()
    Context().run(nbckpt.report, loss=3)
    assert first.trial.metric("loss") == [1, 3]


def test_a_trial_cannot_track(store: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.track("inner")

    experiment = nbckpt.run(train, name="outer", executor="inline")
    assert "this code runs in a trial already" in experiment.trials[0].error
    assert not (store / "experiments" / "inner").exists()


def test_track_and_run_do_not_share_an_experiment() -> None:
    nbckpt.track("e").finish()
    with pytest.raises(UsageError, match="'e' was tracked from a plain loop"):
        nbckpt.run(lambda config: None, name="e", executor="inline")
    nbckpt.run(lambda config: None, name="f", executor="inline")
    with pytest.raises(UsageError, match=r"'f' is an experiment of nbckpt\.run"):
        nbckpt.track("f")


def test_only_its_own_code_resumes_a_loop() -> None:
    run = nbckpt.track("e")
    run.report(loss=1)
    run.close(pause=True)
    run.experiment.wait(60)
    with pytest.raises(UsageError, match=r"nbckpt.track\('e', resume=True\)"):
        run.experiment.resume()
    assert "nbckpt.track('e', resume=True)" in str(run.experiment)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="needs the name of its experiment"):
        nbckpt.track("")
    with pytest.raises(UsageError, match="cannot name an experiment"):
        nbckpt.track("../up")
    with nbckpt.track("e", a=1) as run:
        with pytest.raises(UsageError, match=r"update_config\(\[1\]\) takes a dict"):
            run.update_config([1])  # type: ignore[arg-type]
        assert run.config == {"a": 1}


def test_what_the_loop_prints_is_in_the_log() -> None:
    run = nbckpt.track("e")
    print("epoch 1")
    run.report(loss=1)
    run.finish()
    print("after the end")
    assert run.trial.log() == ["epoch 1"]


def test_a_full_disk_fails_the_trial_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    run = nbckpt.track("e")
    run.report(loss=1)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nbckpt.trials.model.journal.os.write", full)
    with pytest.raises(StoreError, match="No space left on device"):
        run.report(loss=2)
    assert not run.is_open
    assert run.trial.status == Status.ERROR


def test_ctrl_c_while_a_result_is_written_keeps_the_trial_open(monkeypatch: pytest.MonkeyPatch) -> None:
    run = nbckpt.track("e")
    append, presses = Journal.append, iter([True])

    def interrupted(*arguments: Any, **options: Any) -> None:
        append(*arguments, **options)
        if next(presses, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.report(loss=1)
    run.report(loss=2)
    assert run.trial.metric("loss") == [1, 2]


def test_the_end_of_a_process_ends_its_trials_as_done(store: Path) -> None:
    runs = [Context().run(nbckpt.track, name) for name in ("a", "b")]
    end_all()
    assert not any(run.is_open for run in runs)
    assert read(store, "a").trials[0].status == Status.TERMINATED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_does_not_report() -> None:
    run = nbckpt.track("e")
    child = os.fork()
    if not child:
        nbckpt.report(loss=1)
        os._exit(run.is_open + len(open_trial.open_trials()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run.report(loss=2)
    assert run.trial.metric("loss") == [2]


class Tracking(Trainable):
    def step(self) -> dict[str, Any]:
        nbckpt.track("inner")
        return {"x": 1, "done": True}


@pytest.mark.parametrize("executor", ["inline", "thread", "process"])
def test_the_step_of_a_trainable_cannot_open_a_trial(store: Path, executor: str) -> None:
    experiment = ran(Tracking, name="outer", executor=executor)
    assert "this code runs in a trial already" in experiment.trials[0].error
    assert not (store / "experiments" / "inner").exists()
