"""Syncing of experiments: when files are sent, what a failure does, and going on from another machine."""

from __future__ import annotations

import logging
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from trials.conftest import SECONDS, ran

import nbckpt
from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.store import MemoryStore, PrefixStore, Store, open_store
from nbckpt.sync import DefaultSyncer, SyncConfig, Syncer
from nbckpt.sync.download import download
from nbckpt.sync.files import FileStat
from nbckpt.testing import FaultyStore, RecordingStore
from nbckpt.trials import Callback, Experiment, Record, Status, Trial
from nbckpt.trials.checkpoints.transfer import read_piece
from nbckpt.trials.engine import shutdown
from nbckpt.trials.engine.runner import runner_of
from nbckpt.trials.engine.upload import SyncerCallback
from nbckpt.trials.executors.artifacts import Sender, changed_files, take_in
from nbckpt.trials.model import summary_file
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.view import internals
from waiting import until

URL = "test://up"


class Remote(DefaultSyncer):
    """The usual syncer, over a store in memory; it counts."""

    store: ClassVar[Store]
    ups: ClassVar[list[str]]

    def __init__(self, **options: Any) -> None:
        super().__init__(backoff_s=0, **options)

    @classmethod
    def open_storage(cls, url: str) -> Store:
        return PrefixStore(cls.store, url.removeprefix("test://"))

    @classmethod
    def validate_upload_dir(cls, upload_dir: str) -> bool:
        return True

    def carry_out(self, request: Any, options: Any) -> object:
        if request.action == "sync_up":
            self.ups.append(request.remote.rpartition("/")[2])
        return super().carry_out(request, options)


@pytest.fixture(autouse=True)
def remote(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(Remote, "store", MemoryStore(), raising=False)
    monkeypatch.setattr(Remote, "ups", [], raising=False)
    return Remote.store


def config(**options: Any) -> SyncConfig:
    return SyncConfig(URL, Remote(), **options)


class Tool(Syncer):
    """A user's syncer, written for the interface alone.

    Args:
        fails: Raised by the next calls, one each.
        gate: Each call waits for it.
    """

    def __init__(self, fails: Iterable[Exception] = (), gate: threading.Event | None = None) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.excluded: list[list[str]] = []
        self.fails = list(fails)
        self.gate = gate
        self.begun = threading.Semaphore(0)

    def sync_up(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        name = remote_dir.rpartition("/")[2]
        if name != "e":
            self.calls.append(name)
            self.excluded.append(exclude or [])
            self.begun.release()
            if self.gate is not None:
                assert self.gate.wait(SECONDS)
            if self.fails:
                raise self.fails.pop(0)
        return True

    def sync_down(self, remote_dir: str, local_dir: str, exclude: list[str] | None = None) -> bool:
        raise FileNotFoundError(remote_dir)

    delete = sync_up  # type: ignore[assignment]

    @classmethod
    def validate_upload_dir(cls, upload_dir: str) -> bool:
        return True


class Counting(Remote):
    """Counts on itself what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.lock, self.count = threading.Lock(), 0

    def carry_out(self, request: Any, options: Any) -> object:
        with self.lock:
            self.count += 1
        return super().carry_out(request, options)


class Asking(Remote):
    """Counts on itself what it is asked for, where that is asked."""

    count = 0

    def sync_up(self, local_dir: str, remote_dir: str, exclude: Any = None) -> bool:
        self.count += 1
        return super().sync_up(local_dir, remote_dir, exclude)


class Plain(Tool):
    """Knows one transfer at a time, and counts them."""

    count = 0

    def sync_up(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        assert not self.__dict__.get("busy"), "called by two threads at once"
        self.busy = True
        done = super().sync_up(local_dir, remote_dir, exclude)
        self.count += 1
        self.busy = False
        return done


@pytest.mark.parametrize("kind", [Counting, Asking, Plain])
def test_a_users_syncer_keeps_its_own_attributes(kind: Any) -> None:
    syncer = kind()
    space = {"x": nbckpt.grid_search([1, 2, 3])}
    experiment = run(space, sync_config=nbckpt.SyncConfig(URL, syncer), max_concurrent=3)
    assert experiment.notes == []
    assert syncer.count >= 3 + 2  # each trial, and the experiment's file at its begin and end


def test_a_users_syncer_is_told_to_exclude_unfinished_files() -> None:
    tool = Tool()
    run(sync_config=nbckpt.SyncConfig(URL, tool))
    assert tool.excluded
    assert all(fnmatch(".nbckpt-tmp-1234/weights", excluded[1]) for excluded in tool.excluded)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Idle:
    """An experiment that nobody runs, and an uploading callback that the test calls."""

    def __init__(self, folder: Path, *given: Any, **options: Any) -> None:
        self.clock, self.tool = Clock(), Tool(*given)
        self.callback = SyncerCallback(config=SyncConfig(URL, self.tool, **options), clock=self.clock)
        self.experiment = Experiment(folder / "e", Spec(count))
        (folder / "e").mkdir(parents=True)
        (folder / "e" / "experiment.json").write_text("{}")
        self.callback.setup(self.experiment)
        self.ended()

    def trial(self) -> Trial:
        return runner_of(self.experiment).add({})[0]

    def begins(self, trial: Trial, **result: Any) -> None:
        """Report a result, and do not wait."""
        self.callback.on_trial_result(trial, {"training_iteration": 2, "time_total_s": 0.0} | result)

    def result(self, trial: Trial, **result: Any) -> None:
        self.begins(trial, **result)
        self.ended()

    def complete(self, trial: Trial) -> None:
        self.callback.on_trial_complete(trial)
        self.ended()

    def ended(self) -> None:
        """Wait until nothing is under way, without hearing of failures."""
        until(lambda: all(task.idle for task in list(self.callback.tasks.values())))


@pytest.fixture
def stage(experiments: Path) -> Idle:
    return Idle(experiments)


RECORD = Record("checkpoint_000001", "files", 1)


def count(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    start = checkpoint.to_dict()["i"] if checkpoint else 0
    for i in range(start, config.get("n", 3)):
        nbckpt.report(i=i, start=start, checkpoint={"i": i + 1} if config.get("saves", True) else None)
        if config.get("fails"):
            raise ValueError("no")


def run(config: Mapping[str, Any] | None = None, **options: Any) -> Experiment:
    return ran(options.pop("function", count), config, **({"name": "e"} | options))


def fetched(url: str, folder: Path) -> Path:
    download(Remote.open_storage(url), folder)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, except summaries of trials, which stay where they are."""
    every = (file for file in folder.rglob("*") if file.is_file() and file.name != summary_file.FILE)
    return {str(file.relative_to(folder)): file.read_bytes() for file in every}


def test_a_long_period_has_two_syncs_and_the_last_is_awaited(experiments: Path, tmp_path: Path) -> None:
    run({"n": 30, "saves": False}, sync_config=config(sync_period=10_000))
    assert Remote.ups.count("t0") == 2
    assert Trial.read(fetched(f"{URL}/e/t0", tmp_path / "there")).iteration == 30
    assert files(tmp_path / "there") == files(experiments / "e" / "t0")


def test_results_cause_one_sync_per_period_after_a_short_while(stage: Idle) -> None:
    trial = stage.trial()
    for seconds in (0, 299, 1):
        stage.clock.now += seconds
        stage.result(trial)
    assert stage.tool.calls == ["t0"] * 2
    trial = stage.trial()
    stage.result(trial, training_iteration=1, time_total_s=9.9)
    assert stage.tool.calls == ["t0"] * 2
    stage.complete(trial)
    assert stage.tool.calls == ["t0", "t0", "t1"]


def test_a_checkpoint_and_the_end_cause_a_sync_in_any_period(stage: Idle) -> None:
    trial = stage.trial()
    stage.result(trial)
    stage.callback.on_trial_checkpoint(trial, RECORD)
    assert stage.tool.calls == ["t0"] * 2
    stage.complete(trial)
    assert stage.tool.calls == ["t0"] * 3


def test_a_users_syncer_is_told_to_leave_out_half_a_checkpoint(stage: Idle, experiments: Path) -> None:
    trial = run({"n": 2}, name="f").trials[0]
    one, two = (record.name for record in trial.checkpoints.records())
    (trial.folder / one).rename(experiments / "moved")  # as `rm` and `undo` do for a moment
    stage.complete(trial)
    assert f"{one}.json" in stage.tool.excluded[-1]
    assert f"{two}.json" not in stage.tool.excluded[-1]
    (experiments / "moved").rename(trial.folder / one)
    stage.complete(trial)
    assert f"{one}.json" not in stage.tool.excluded[-1]


def test_a_checkpoint_restarts_the_period_unless_that_is_off(stage: Idle, tmp_path: Path) -> None:
    """With sync_on_checkpoint=False a checkpoint causes no sync."""
    trial = stage.trial()
    stage.callback.on_trial_checkpoint(trial, RECORD)
    stage.result(trial)
    assert stage.tool.calls == ["t0"]
    quiet = Idle(tmp_path / "other", sync_on_checkpoint=False)
    quiet.callback.on_trial_checkpoint(quiet.trial(), RECORD)
    assert quiet.tool.calls == []


def test_disabled_and_durable_experiments_are_not_synced(tmp_path: Path) -> None:
    tool = Tool()
    sync = SyncConfig(URL, tool)
    run(callbacks=[SyncerCallback(enabled=False, config=sync)], sync_config=sync)
    run(name="f", function=nbckpt.trials.durable(count, tmp_path / "durable"), sync_config=config())
    run(name="g", callbacks=[SyncerCallback(config=SyncConfig(syncer=None))])
    run(name="h", callbacks=[SyncerCallback()])
    assert (tool.calls, list(Remote.store.keys())) == ([], [])
    assert (tmp_path / "durable" / "f" / "t0" / "checkpoint_000003.json").is_file()


def test_one_reached_threshold_causes_a_sync(stage: Idle, subtests: pytest.Subtests) -> None:
    """A result without counts is past both."""
    few, counts = {"training_iteration": 1, "time_total_s": 0.0}, (2, float("inf"))
    reached = [few | {"training_iteration": count} for count in counts]
    for result in (*reached, few | {"time_total_s": 10.0}, {}):
        trial = stage.trial()
        stage.callback.on_trial_result(trial, result)
        stage.ended()
        with subtests.test(result=result):
            assert stage.tool.calls[-1:] == [trial.id]


@pytest.mark.parametrize(
    ("iterations", "seconds"),
    [
        ("NBCKPT_SYNC_MIN_ITERATIONS", "NBCKPT_SYNC_MIN_SECONDS"),
        ("TUNE_NODE_SYNCING_MIN_ITER_THRESHOLD", "TUNE_NODE_SYNCING_MIN_TIME_S_THRESHOLD"),
    ],
)
def test_the_environment_sets_the_thresholds(
    experiments: Path, monkeypatch: pytest.MonkeyPatch, iterations: str, seconds: str
) -> None:
    monkeypatch.setenv(iterations, "5")
    monkeypatch.setenv(seconds, "100.5")
    stage = Idle(experiments)
    stage.result(stage.trial(), training_iteration=4, time_total_s=100.4)
    assert stage.tool.calls == []
    stage.result(stage.trial(), training_iteration=4, time_total_s=100.5)
    assert stage.tool.calls == ["t1"]
    monkeypatch.setenv(seconds, "soon")
    with pytest.raises(UsageError, match=f"{seconds}='soon' is not a number"):
        nbckpt.run(count, sync_config=config())


def test_no_sync_is_running_after_the_experiment(remote: Store) -> None:
    gate = threading.Event()
    Remote.store = FaultyStore(remote, when=lambda call: call.op == "put" and not gate.wait(SECONDS))
    experiment = nbckpt.run(count, {"n": nbckpt.grid_search([1, 2, 3])}, name="e", sync_config=config())
    assert not experiment.wait(0.1)  # long enough to end, if it did not wait
    gate.set()
    assert experiment.wait(SECONDS)
    tops = {"/".join(key.split("/")[:3]) for key in list(remote.keys())}
    assert tops == {"up/e/experiment.json", "up/e/t0", "up/e/t1", "up/e/t2"}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("nbckpt-sync")]


def test_every_hook_is_called_with_its_trial_in_order() -> None:
    heard: list[str] = []

    class Heard(SyncerCallback):
        def setup(self, experiment: Experiment) -> None:
            super().setup(experiment)
            heard.append("setup")

        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            super().on_trial_result(trial, result)
            heard.append(f"{trial.id} result {result['training_iteration']}")

        def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
            super().on_trial_checkpoint(trial, checkpoint)
            heard.append(f"{trial.id} {checkpoint.name}")

        def on_trial_complete(self, trial: Trial) -> None:
            super().on_trial_complete(trial)
            heard.append(f"{trial.id} complete {trial.iteration}")

        def on_experiment_end(self, trials: Sequence[Trial]) -> None:
            super().on_experiment_end(trials)
            heard.append("end")

    grid = {"n": nbckpt.grid_search([1, 2])}
    run(grid, callbacks=[Heard(config=config())], max_concurrent=1)
    one = ["t0 checkpoint_000001", "t0 result 1", "t0 complete 1"]
    two = ["t1 checkpoint_000001", "t1 result 1", "t1 checkpoint_000002", "t1 result 2", "t1 complete 2"]
    assert heard == ["setup", *one, *two, "end"]


def test_the_sync_includes_files_that_other_callbacks_write(tmp_path: Path) -> None:
    """The syncer's callback runs after the others."""

    class Writes(Callback):
        def on_trial_complete(self, trial: Trial) -> None:
            (trial.folder / "last").write_text("words")

    run(callbacks=[Writes()], sync_config=config())
    assert (fetched(f"{URL}/e/t0", tmp_path / "there") / "last").read_text() == "words"


def test_one_error_names_every_failed_trial_and_is_raised_once(experiments: Path) -> None:
    gate = threading.Event()
    stage = Idle(experiments, [RuntimeError("net down")], gate)
    for trial in (stage.trial(), stage.trial()):
        stage.callback.on_trial_complete(trial)
    assert stage.tool.begun.acquire(timeout=SECONDS)  # the other one waits for its turn
    gate.set()
    with pytest.raises(StoreError, match=r"\A1 sync failed: t[01]: .*net down \(after 1 attempt\)\Z"):
        stage.callback.wait_for_all()
    stage.callback.wait_for_all()
    assert sorted(stage.tool.calls) == ["t0", "t1"]


def test_a_failure_is_logged_once_and_the_next_one_starts(
    experiments: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Idle(experiments, [RuntimeError("net down")])
    trial = stage.trial()
    with caplog.at_level(logging.WARNING, "nbckpt"):
        stage.result(trial)
        assert len(stage.callback.trouble()) == 1
        stage.clock.now += 11  # far less than a period
        stage.result(trial)
    assert stage.tool.calls == ["t0"] * 2
    assert stage.callback.trouble() == []
    assert caplog.text.count("net down") == 1


@pytest.mark.parametrize("error", [RuntimeError("net down"), OSError("no route"), KeyError("odd")])
def test_a_failed_sync_never_fails_the_trial_but_is_noted(error: Exception) -> None:
    callback = SyncerCallback(config=SyncConfig(URL, Tool([error] * 100)))
    experiment = run({"n": 3}, callbacks=[callback])
    trial = experiment.trials[0]
    assert (trial.status, trial.iteration, trial.note) == (Status.TERMINATED, 3, "done")
    (note,) = experiment.notes
    assert note.startswith(f"t0 is not up to date at {URL}/e/t0: sync_up of ")
    assert str(error) in note
    assert "success" not in note
    assert note in experiment.page().notes
    with pytest.raises(StoreError, match="t0: "):
        callback.wait_for_all()


def test_storage_that_recovers_is_up_to_date_at_the_end(remote: Store, tmp_path: Path) -> None:
    lost = threading.Event()
    Remote.store = FaultyStore(remote, when=lambda call: lost.is_set())

    class Back(Callback):
        def setup(self, experiment: Experiment) -> None:
            lost.set()

        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            if result["training_iteration"] == 3:
                lost.clear()

    experiment = run({"n": 4}, callbacks=[Back()], sync_config=config())
    assert experiment.notes == []
    assert Trial.read(fetched(f"{URL}/e/t0", tmp_path / "there")).iteration == 4


@pytest.mark.slow
def test_a_hanging_sync_is_given_up_after_its_timeout() -> None:
    gate = threading.Event()
    experiment = run({"n": 2}, sync_config=SyncConfig(URL, Tool(gate=gate), sync_timeout=0.1))
    assert experiment.trials[0].status == Status.TERMINATED
    assert "t0 is not up to date" in experiment.notes[0]
    assert "did not end within 0.1 s" in experiment.notes[0]
    gate.set()
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith("nbckpt")]:
        thread.join(SECONDS)


def test_completion_does_not_wait_for_a_running_sync(experiments: Path) -> None:
    gate = threading.Event()
    stage = Idle(experiments, (), gate)
    trial = stage.trial()
    stage.begins(trial)
    assert stage.tool.begun.acquire(timeout=SECONDS)
    stage.callback.on_trial_complete(trial)
    assert stage.tool.calls == ["t0"]
    gate.set()
    stage.callback.on_experiment_end(stage.experiment.trials)
    assert stage.tool.calls == ["t0"] * 2


def test_a_failed_trial_still_reports_its_running_sync(experiments: Path) -> None:
    gate = threading.Event()
    stage = Idle(experiments, [RuntimeError("net down")] * 3, gate)
    trial = stage.trial()
    stage.begins(trial)
    assert stage.tool.begun.acquire(timeout=SECONDS)
    stage.callback.on_trial_error(trial, ValueError())
    gate.set()
    with pytest.raises(StoreError, match=r"t0: .*net down"):
        stage.callback.wait_for_all()


def test_a_trial_is_synced_as_failed_or_paused(tmp_path: Path) -> None:
    run({"fails": True}, name="f", sync_config=config())
    there = Trial.read(fetched(f"{URL}/f/t0", tmp_path / "failed"))
    assert (there.status, there.error) == (Status.ERROR, "ValueError: no")

    class Pauses(Callback):
        def setup(self, experiment: Experiment) -> None:
            self.experiment = experiment

        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            self.experiment.pause()

    run({"saves": False}, callbacks=[Pauses()], sync_config=config())
    assert Trial.read(fetched(f"{URL}/e/t0", tmp_path / "there")).status == Status.PAUSED


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_trials() -> None:
    callback = SyncerCallback(config=config())
    run({"n": nbckpt.grid_search([1] * 40)}, callbacks=[callback])
    kinds = (dict, set, list)
    sizes = {name: len(value) for name, value in vars(callback).items() if isinstance(value, kinds)}
    assert sizes == dict.fromkeys(sizes, 0)
    assert len(sizes) >= 2


def test_a_callback_that_was_pickled_works() -> None:
    run(callbacks=[pickle.loads(pickle.dumps(SyncerCallback(sync_period=7, config=config())))])
    assert "t0" in Remote.ups
    assert pickle.loads(pickle.dumps(SyncerCallback(sync_period=7))).config.sync_period == 7


ENDS = """
import sys, threading, nbckpt
from nbckpt.trials.model.callback import Callback

def count(config):
    for i in range(10**9):
        nbckpt.report(i=i, checkpoint={"i": i} if i < 3 else None)

class Watch(Callback):
    def on_trial_result(self, trial, result):
        if result["i"] == 3:
            reached.set()

reached = threading.Event()
sync = nbckpt.SyncConfig(sys.argv[1], sync_period=10**6)
experiment = nbckpt.run(count, name="e", callbacks=[Watch()], sync_config=sync)
reached.wait()
experiment.pause()
"""


@pytest.mark.slow
def test_the_interpreter_waits_for_the_last_sync_at_exit(experiments: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    command = [sys.executable, "-c", ENDS, target.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    here = Trial.read(experiments / "e" / "t0")
    download(open_store(target / "e" / "t0"), tmp_path / "there")
    there = Trial.read(tmp_path / "there")
    assert (there.status, there.iteration) == (Status.PAUSED, here.iteration)


def test_temporary_files_are_not_synced(experiments: Path, tmp_path: Path) -> None:
    def leaves(config: dict[str, Any]) -> None:
        count(config)
        folder = experiments / "e" / "t0"
        for name in ("checkpoint_tmpabc", "checkpoint_tmpabc/inner", "kept"):
            (folder / name).mkdir()
            (folder / name / "file").write_text("words")

    run(function=leaves, sync_config=config())
    there = files(fetched(f"{URL}/e/t0", tmp_path / "there"))
    assert "kept/file" in there
    assert not [path for path in there if "tmp" in path]
    for file in (experiments / "e" / "t0").glob("checkpoint_tmp*/**/file"):
        file.unlink()
    for file in sorted((experiments / "e" / "t0").glob("checkpoint_tmp*/**"), reverse=True):
        file.rmdir()


def test_a_record_whose_files_are_missing_is_not_sent(experiments: Path, tmp_path: Path) -> None:
    def loses(config: dict[str, Any]) -> None:
        nbckpt.report(i=1, checkpoint={"i": 1})
        shutil.rmtree(experiments / "e" / "t0" / "checkpoint_000001")
        nbckpt.report(i=2, checkpoint={"i": 2})

    run(function=loses, sync_config=config(sync_on_checkpoint=False))
    there = files(fetched(f"{URL}/e/t0", tmp_path / "there"))
    records = {path for path in there if path.endswith(".json") and "/" not in path}
    assert records == {"params.json", "checkpoint_000002.json"}


def test_artifacts_are_sent_with_checkpoints_and_at_the_end(
    experiments: Path, remote: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unchanged artifact is sent once."""
    recorded = RecordingStore(remote)
    monkeypatch.setattr(Remote, "store", recorded)
    seen: list[bool] = []

    def draws(config: dict[str, Any]) -> None:
        folder = experiments / "e" / "t0"
        (folder / "plot.txt").write_text("words")
        nbckpt.report(i=1, checkpoint={"i": 1})
        seen.append(recorded.exists("up/e/t0/plot.txt"))
        nbckpt.report(i=2, checkpoint={"i": 2})
        (folder / "last.txt").write_text("words")

    run(function=draws, sync_config=config())
    put = [call.key for call in recorded.changes if call.op == "put"]
    assert (seen, put.count("up/e/t0/plot.txt"), put.count("up/e/t0/last.txt")) == ([True], 1, 1)


def test_sync_artifacts_false_leaves_artifacts_out(experiments: Path, tmp_path: Path) -> None:
    def draws(config: dict[str, Any]) -> None:
        (experiments / "e" / "t0" / "plot[1].txt").write_text("words")
        (experiments / "e" / "t0" / "logs").mkdir()
        (experiments / "e" / "t0" / "logs" / "1").write_text("words")
        print("its log is not an artifact")
        count(config)

    run(function=draws, sync_config=config(sync_artifacts=False))
    there = files(fetched(f"{URL}/e/t0", tmp_path / "there"))
    assert there.pop("log.txt") == b"its log is not an artifact\n"
    assert {path.split("/")[0][:10] for path in there} == {"params.jso", "events.jso", "checkpoint"}


Elsewhere = Callable[[str], Path]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    """Go to another machine: another disk, and a kernel that has run nothing."""

    def goes(name: str) -> Path:
        monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / name))
        return tmp_path / name / "experiments"

    return goes


def test_a_downloaded_experiment_is_complete_and_verified(
    experiments: Path, remote: Store, tmp_path: Path
) -> None:
    run({"n": nbckpt.grid_search([1, 2])}, sync_config=config())
    assert files(fetched(f"{URL}/e", tmp_path / "there")) == files(experiments / "e")
    key = "up/e/t1/params.json"
    remote.delete(key)
    remote.put(key, b"x" * len((experiments / "e" / "t1" / "params.json").read_bytes()))
    with pytest.raises(nbckpt.errors.CorruptError, match="t1/params"):
        fetched(f"{URL}/e", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_half_replaced_trial_is_read_by_its_index(experiments: Path, remote: Store, tmp_path: Path) -> None:
    experiment = run({"n": 2}, sync_config=config())
    was = files(experiments / "e" / "t0")
    (experiments / "e" / "t0" / "params.json").write_text('{"n": 5}')
    syncer = Remote(attempts=1)
    settles = ("put", "up/e/t0/params.json")
    Remote.store = FaultyStore(remote, when=lambda call: (call.op, call.key) == settles)
    syncer.sync_up(str(experiments / "e" / "t0"), f"{URL}/e/t0")
    with pytest.raises(StoreError):
        syncer.wait()
    assert remote.get("up/e/t0/params.json") == was["params.json"]
    there = files(fetched(f"{URL}/e", tmp_path / "there"))
    assert there["t0/params.json"] == b'{"n": 5}'
    assert experiment.notes == []


def test_another_machine_resumes_a_synced_experiment(elsewhere: Elsewhere, tmp_path: Path) -> None:
    experiment = run({"n": nbckpt.grid_search([2, 5])}, stop={"i": 2}, sync_config=config(), max_concurrent=1)
    assert [trial.iteration for trial in experiment.trials] == [2, 3]
    (cut,) = (trial for trial in experiment.trials if trial.iteration == 3)
    there = elsewhere("other")
    again = run({"n": nbckpt.grid_search([2, 5])}, sync_config=config(), max_concurrent=1)
    assert [trial.iteration for trial in again.trials] == [2, 3]  # both had ended
    again.resume(cut.id)
    assert again.wait(SECONDS)
    assert [result["start"] for result in again.trial(cut.id).results] == [0, 0, 0, 3, 3]
    assert (there / "e" / "experiment.json").is_file()
    assert Trial.read(fetched(f"{URL}/e/{cut.id}", tmp_path / "there")).iteration == 5


def test_an_interrupted_trial_resumes_from_its_remote_checkpoint(remote: Store, elsewhere: Elsewhere) -> None:
    copies = MemoryStore()

    class Lost(Callback):
        """Keeps what the storage has at this moment, as a machine that is lost leaves it."""

        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            if result["training_iteration"] == 3:
                for key in list(remote.keys()):
                    copies.put(key, remote.get(key))

    run({"n": 6}, callbacks=[Lost()], sync_config=config())
    Remote.store = copies
    elsewhere("other")
    trial = run({"n": 6}, sync_config=config(), resume="must").trials[0]
    assert [result["start"] for result in trial.results] == [0, 0, 0, 3, 3, 3]


def test_a_resume_in_a_new_kernel_syncs_again(experiments: Path, tmp_path: Path) -> None:
    run({"n": 3}, stop={"i": 1}, sync_config=config())
    Remote.ups.clear()
    shutdown.live.clear()
    experiment = Experiment.read(experiments / "e").resume("t0")
    assert experiment.wait(SECONDS)
    assert "t0" in Remote.ups
    assert files(fetched(f"{URL}/e", tmp_path / "there")) == files(experiments / "e")


def test_a_name_taken_in_the_storage_is_not_used_again(elsewhere: Elsewhere) -> None:
    first = run({"n": 1}, name="", sync_config=config())
    elsewhere("other")
    second = run({"n": 1}, name="", sync_config=config())
    assert (first.name[:-1], first.name[-1], second.name[-1]) == (second.name[:-1], "a", "b")
    elsewhere("third")
    with pytest.raises(UsageError, match="already"):
        nbckpt.run(count, name=first.name, sync_config=config(), resume="never")
    with pytest.raises(NotFoundError, match="no experiment 'x'"):
        nbckpt.run(count, name="x", sync_config=config(), resume="must")


def test_unreachable_storage_does_not_start_trials_over(remote: Store, elsewhere: Elsewhere) -> None:
    run({"n": 1}, sync_config=config())
    folder = elsewhere("other")
    Remote.store = FaultyStore(remote, when=lambda call: call.op == "get" and "t0" in call.key)
    with pytest.raises(StoreError):
        nbckpt.run(count, {"n": 1}, name="e", sync_config=config())
    assert not (folder / "e").exists()


def test_new_trials_are_numbered_after_the_stored_ones(remote: Store, elsewhere: Elsewhere) -> None:
    run({"n": nbckpt.grid_search([1, 2])}, sync_config=config())
    for key in list(remote.keys("up/e/t0/")):
        remote.delete(key)
    elsewhere("other")
    experiment = run({"n": nbckpt.grid_search([1, 2])}, sync_config=config())
    numbered = [(trial.id, trial.config["n"], trial.iteration) for trial in experiment.trials]
    assert numbered == [("t1", 2, 2), ("t2", 1, 1)]


def test_the_last_sync_can_be_cancelled(remote: Store) -> None:
    gate, inside = threading.Event(), threading.Event()

    def hangs(call: Any) -> bool:
        if call.op == "put":
            inside.set()
            assert gate.wait(SECONDS)
        return False

    Remote.store = FaultyStore(remote, when=hangs)
    experiment = nbckpt.run(count, {"n": 1, "saves": False}, name="e", sync_config=config())
    while not internals(experiment).ending:
        assert inside.wait(SECONDS)
    experiment.kill()
    gate.set()
    assert experiment.wait(SECONDS)
    assert any("cancelled" in note or "given up" in note for note in experiment.notes)


# From another node; tests/cluster/test_sync_ray.py has it on a real cluster.


def test_an_artifact_with_a_reserved_path_is_refused(tmp_path: Path) -> None:
    for path in ("params.json", "events.jsonl", "checkpoint_000001/x", "../x", "/x"):
        with pytest.raises(UsageError):
            take_in(tmp_path / "t0", {path: FileStat(1, 1, 1)}, lambda *_: b"x")
    assert list(tmp_path.rglob("*")) == []


def test_artifacts_that_change_during_a_copy_arrive_as_they_are(tmp_path: Path) -> None:
    """Artifacts that vanish meanwhile are left out."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    for name in ("grows", "shrinks", "vanishes"):
        (tmp_path / "there" / name).write_text("four")
    changed = changed_files(tmp_path / "there", {})
    (tmp_path / "there" / "grows").write_text("longer")
    (tmp_path / "there" / "shrinks").write_text("x")
    (tmp_path / "there" / "vanishes").unlink()
    take_in(tmp_path / "here", changed, partial(read_piece, tmp_path / "there"))
    assert files(tmp_path / "here") == {"grows": b"longer", "shrinks": b"x"}
    assert set(changed_files(tmp_path / "there", changed)) == {"grows", "shrinks"}


def test_a_failed_artifact_sync_is_reported_once(experiments: Path) -> None:
    tool = Tool([RuntimeError("net down")])
    sender = Sender(SyncConfig(URL, tool), "e/t0", experiments)
    assert "RuntimeError: net down" in sender.send(last=True)
    assert sender.send(last=True) == ""
    assert tool.calls == ["t0"] * 2


def reports_a_note(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1.0, note=nbckpt.media.Text("long"))


def test_media_are_uploaded_beside_the_trials(experiments: Path, tmp_path: Path) -> None:
    experiment = run({"n": nbckpt.grid_search([1, 2])}, function=reports_a_note, sync_config=config())
    assert Remote.ups.count("media") >= 1
    there = fetched(f"{URL}/e", tmp_path / "there")
    assert [(there / "media").is_dir(), files(there / "media")] == [True, files(experiments / "e" / "media")]
    for trial in experiment.trials:
        (media,) = Trial.read(there / trial.id).media
        assert media.load() == "long"
        assert media.path.is_relative_to(there)
