"""Mirrors: a store and its experiments at another place, once or in the background."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt import Tracker
from nbckpt.core import schema
from nbckpt.core.trust import open_signer
from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.mirror import AutoMirror, Mirror
from nbckpt.store import (
    Cancel,
    CancelledError,
    LocalStore,
    MemoryStore,
    Store,
    TimedOutError,
    open_store,
)
from nbckpt.store.locks import Timeout, file_lock
from nbckpt.sync import engine
from nbckpt.sync.exclusive import alone
from nbckpt.sync.files import FileStat
from nbckpt.sync.progress import Progress
from nbckpt.sync.transfer import TransferOptions
from nbckpt.testing import FaultyStore, RecordingStore
from nbckpt.testing.faults import Call
from nbckpt.trials import Catalog, Trial, trash
from nbckpt.trials.model import params
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.recorder import TrialRecorder
from waiting import until

Parted = tuple[Path, Path, MemoryStore]

SECONDS = 60
AT_ONCE = TransferOptions(timeout=0)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "here"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "here"


def save(value: Any, folder: Path | None = None) -> None:
    with Tracker(folder) as tracker:
        tracker.save({"x": value}, "one")


def count(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, config["n"]):
        nbckpt.report(i=i + 1, checkpoint={"i": i + 1})


def entries(folder: Path) -> int:
    """Return the number of checkpoints in a store."""
    with Tracker(folder) as tracker:
        return len(tracker.entries())


def ran(n: Any, name: str = "e", folder: Path | None = None) -> nbckpt.Experiment:
    """Run an experiment whose trials make *n* checkpoints each."""
    experiment = nbckpt.run(count, {"n": n}, name=name, executor="inline", folder=folder)
    assert experiment.wait(SECONDS)
    return experiment


def mirror(folder: Path, target: Any) -> Mirror:
    return Mirror(LocalStore(folder), folder / "experiments", target)


def test_a_new_machine_pulls_checkpoints_and_experiments_by_url(here: Path) -> None:
    save(1)
    ran(3)
    target = MemoryStore()
    pushed = mirror(here, target).push()
    assert (pushed.checkpoints.files, list(pushed.experiments)) == (3, ["e"])
    again = mirror(here, target).push()
    assert again.files == 0
    there = here.parent / "there"
    pulled = mirror(there, target).pull()
    assert pulled.files == pushed.files
    with Tracker(there) as tracker:
        namespace: dict[str, Any] = {}
        tracker.restore("one", namespace)
        assert namespace == {"x": 1}
    (trial,) = Catalog(there / "experiments").open("e").trials
    assert [result["i"] for result in trial.results] == [1, 2, 3]
    assert [record.step for record in trial.checkpoints.records()] == [1, 2, 3]


def test_progress_counts_checkpoints_and_experiments_together(here: Path) -> None:
    save(1)
    ran(2, "d")
    ran(2)
    target, steps = MemoryStore(), list[Progress]()
    pushed = mirror(here, target).push(TransferOptions(on_progress=steps.append))
    last = steps[-1]
    assert (last.files_done, last.files, last.done) == (pushed.files, pushed.files, pushed.size)
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    steps.clear()
    pulled = mirror(here.parent / "there", target).pull(TransferOptions(on_progress=steps.append))
    assert (steps[-1].files_done, steps[-1].size) == (pulled.files, pulled.size)


def test_a_pulled_experiment_can_be_resumed(here: Path) -> None:
    def stops(config: dict[str, Any]) -> None:
        checkpoint = nbckpt.get_checkpoint()
        start = checkpoint.to_dict()["i"] if checkpoint else 0
        nbckpt.report(i=start + 1, checkpoint={"i": start + 1})
        if start == 0:
            raise ValueError("the machine is lost")

    assert nbckpt.run(stops, name="e").wait(SECONDS)
    target = MemoryStore()
    mirror(here, target).push()
    mirror(here.parent / "there", target).pull()
    experiment = Catalog(here.parent / "there" / "experiments").open("e")
    experiment.resume(errored=True)
    assert experiment.wait(SECONDS)
    assert [result["i"] for result in experiment.trials[0].results] == [1, 2]


def trials_of(folder: Path) -> dict[str, list[int]]:
    return {
        trial.id: [row["i"] for row in trial.results]
        for trial in Catalog(folder / "experiments").open("e").trials
    }


def test_a_pull_keeps_local_files_and_fetches_nothing_twice(here: Path) -> None:
    ran(1)
    target = MemoryStore()
    mirror(here, target).push()
    mine = here / "experiments" / "e" / "mine.txt"
    mine.write_text("mine")
    pulled = mirror(here, target).pull()
    assert (pulled.kept, pulled.files, mine.read_text()) == ((), 0, "mine")


@pytest.fixture
def parted(here: Path) -> Parted:
    """Return one experiment with two trials at two places, and a third that both sync to."""
    ran(nbckpt.grid_search([1, 2]))
    target, there = MemoryStore(), here.parent / "other"
    mirror(here, target).push()
    mirror(there, target).pull()
    return here, there, target


def go_on(folder: Path, trial: str, *numbers: int) -> None:
    """Have a trial go on, as its journal tells it."""
    journal = Journal(folder / "experiments" / "e" / trial / "events.jsonl")
    for number in numbers:
        journal.append({"event": "result", "result": {"i": number, "training_iteration": number}})
    journal.close()


def test_a_pull_updates_trials_that_continued_at_the_target(parted: Parted) -> None:
    here, there, target = parted
    go_on(there, "t0", 2, 3)
    (new := there / "experiments" / "e" / "t2").mkdir()
    params.write({new: {"n": 2}})
    go_on(there, "t2", 1, 2)
    mirror(there, target).push()
    pulled = mirror(here, target).pull()
    assert trials_of(here) == {"t0": [1, 2, 3], "t1": [1, 2], "t2": [1, 2]}
    assert pulled.experiments["e"].left_out == {}


def test_a_pull_keeps_trials_that_continued_locally(parted: Parted) -> None:
    here, there, target = parted
    go_on(there, "t0", 2)
    mirror(there, target).push()
    go_on(here, "t1", 3)
    shutil.rmtree(here / "experiments" / "e" / "t1" / "checkpoint_000001")
    pulled = mirror(here, target).pull()
    assert trials_of(here) == {"t0": [1, 2], "t1": [1, 2, 3]}
    assert not (here / "experiments" / "e" / "t1" / "checkpoint_000001").exists()
    assert pulled.experiments["e"].left_out == {}


def test_a_pull_does_not_bring_back_a_removed_checkpoint(parted: Parted) -> None:
    here, _, target = parted
    library = Catalog(here / "experiments")
    removal = library.remove("e/t1@1")
    assert mirror(here, target).pull().files == 0
    assert [record.step for record in library.open("e").trial("t1").checkpoints.records()] == [2]
    removal.bring_back()
    assert [record.step for record in library.open("e").trial("t1").checkpoints.records()] == [1, 2]


def test_a_pull_completes_a_trial_that_lost_a_file(parted: Parted) -> None:
    here, _, target = parted
    (here / "experiments" / "e" / "t0" / "params.json").unlink()
    shutil.rmtree(here / "experiments" / "e" / "t1" / "checkpoint_000001")
    mirror(here, target).pull()
    assert trials_of(here) == {"t0": [1], "t1": [1, 2]}
    (first, _) = Catalog(here / "experiments").open("e").trial("t1").checkpoints.records()
    assert first.step == 1


def test_a_pull_skips_a_trial_that_continued_on_both_sides(parted: Parted) -> None:
    here, there, target = parted
    go_on(here, "t0", 7)
    go_on(there, "t0", 8)
    go_on(there, "t1", 3)
    mirror(there, target).push()
    pulled = mirror(here, target).pull()
    assert trials_of(here) == {"t0": [1, 7], "t1": [1, 2, 3]}
    assert pulled.experiments["e"].left_out == {"t0": "it continued on both sides: neither was changed"}


def test_a_pull_never_replaces_a_file_of_the_user(parted: Parted) -> None:
    here, there, target = parted
    for folder, text in ((here, "mine"), (there, "theirs")):
        for path in ("notes[1].txt", "t0/plot.txt"):
            (folder / "experiments" / "e" / path).write_text(text)
    go_on(there, "t0", 2)
    mirror(there, target).push()
    pulled = mirror(here, target).pull()
    assert trials_of(here)["t0"] == [1, 2]
    for path in ("notes[1].txt", "t0/plot.txt"):
        assert (here / "experiments" / "e" / path).read_text() == "mine"
        assert pulled.experiments["e"].left_out[path] == "the local file has other contents"


def test_a_pull_skips_an_experiment_that_runs_locally(parted: Parted) -> None:
    here, there, target = parted
    go_on(there, "t0", 2)
    mirror(there, target).push()
    with file_lock(here / "experiments" / ".e.lock"):
        assert mirror(here, target).pull().kept == ("e",)
    assert trials_of(here)["t0"] == [1]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_a_linked_experiment_is_not_pushed_or_changed(
    parted: Parted,
) -> None:
    (here, there, target), name = parted, "experiments/e"
    go_on(there, "t0", 2)
    mirror(there, target).push()
    (here / name).rename(here.parent / "away")
    (here / name).symlink_to(here.parent / "away")
    left_out = {name: "it is a link that leads outside"}
    before = {file: file.read_bytes() for file in (here.parent / "away").rglob("*") if file.is_file()}
    assert mirror(here, target).pull().experiments["e"].left_out == left_out
    assert {file: file.read_bytes() for file in (here.parent / "away").rglob("*") if file.is_file()} == before
    fresh = MemoryStore()
    assert mirror(here, fresh).push().experiments["e"].left_out == left_out
    assert list(fresh.keys("experiments/")) == []


@pytest.mark.slow
def test_a_killed_push_does_not_prevent_a_pull(here: Path) -> None:
    save(1)
    ran(2, "d")
    ran(2)
    recorded = RecordingStore(MemoryStore())
    mirror(here, recorded).push()
    for number, crashed in enumerate(recorded.crashes()):
        if not any(crashed.keys("checkpoints/")):
            continue
        there = here.parent / f"there{number}"
        pulled = mirror(there, crashed).pull()
        assert pulled.checkpoints.files == 3
        for name in pulled.experiments:
            (trial,) = Catalog(there / "experiments").open(name).trials
            assert trial.iteration == 2
    assert sorted(pulled.experiments) == ["d", "e"]


def test_a_pull_needs_another_location_that_is_not_empty(here: Path) -> None:
    with pytest.raises(NotFoundError, match="push some there first"):
        mirror(here, MemoryStore()).pull()
    with pytest.raises(UsageError, match="is the store itself"):
        mirror(here, here)


def test_a_pull_skips_names_that_are_invalid_for_folders(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(1)
    target = MemoryStore()
    mirror(here, target).push()
    target.put("experiments/c:evil/experiment.json", b"{}")
    monkeypatch.setattr("nbckpt.store.scan.WINDOWS", True)
    pulled = mirror(here.parent / "there", target).pull()
    assert pulled.experiments["c:evil"].left_out == {"c:evil": "no folder here can have this name"}
    assert not (here.parent / "there" / "experiments").exists()


def test_a_pull_skips_another_experiment_of_the_same_name(here: Path) -> None:
    target = MemoryStore()
    ran(1)
    mirror(here, target).push()
    there = here.parent / "there"
    ran(2, folder=there / "experiments")
    pulled = mirror(there, target).pull()
    assert "'e' in" in pulled.experiments["e"].left_out["e"]
    assert "is another experiment than at" in pulled.experiments["e"].left_out["e"]
    (trial,) = Catalog(there / "experiments").open("e").trials
    assert trial.config == {"n": 2}


def at(target: Store, folder: Path) -> dict[str, list[int]]:
    """Return the trials that a new machine finds at a place."""
    mirror(folder, target).pull()
    return trials_of(folder)


def test_a_push_keeps_a_trial_that_has_more_results_there(parted: Parted) -> None:
    here, there, target = parted
    go_on(there, "t0", 2, 3)
    mirror(there, target).push()
    go_on(here, "t1", 3)
    pushed = mirror(here, target).push()
    why = "it has more results at memory. To get them: %ckpt pull memory"
    assert pushed.experiments["e"].left_out == {"t0": why}
    assert at(target, here.parent / "new") == {"t0": [1, 2, 3], "t1": [1, 2, 3]}
    mirror(here, target).pull()
    assert mirror(here, target).push().experiments["e"].left_out == {}


@pytest.mark.parametrize("has_index", [True, False])
def test_a_push_keeps_a_trial_that_went_another_way_there(parted: Parted, has_index: bool) -> None:
    here, there, target = parted
    go_on(there, "t0", 8)
    mirror(there, target).push()
    go_on(here, "t0", 7, 9)
    go_on(here, "t1", 3)
    if not has_index:
        target.delete("experiments/e/.nbckpt-sync/index.json")
    pushed = mirror(here, target).push()
    why = "it continued here and at memory. To keep both, push to another location"
    assert pushed.experiments["e"].left_out == {"t0": why}
    assert at(target, here.parent / "new") == {"t0": [1, 8], "t1": [1, 2, 3]}


def test_a_push_keeps_a_trial_that_has_not_begun_here(parted: Parted) -> None:
    here, there, target = parted
    for folder, number in ((there, 2), (here, 3)):
        (new := folder / "experiments" / "e" / "t2").mkdir()
        params.write({new: {"n": number}})
    go_on(there, "t2", 1, 2)
    mirror(there, target).push()
    assert [*mirror(here, target).push().experiments["e"].left_out] == ["t2"]
    assert at(target, here.parent / "new")["t2"] == [1, 2]
    assert Catalog(here.parent / "new" / "experiments").open("e").trial("t2").config == {"n": 2}


def test_a_push_leaves_out_another_experiment_of_the_name(here: Path) -> None:
    target, there = MemoryStore(), here.parent / "there"
    ran(1)
    mirror(here, target).push()
    ran(nbckpt.grid_search([2, 3]), folder=there / "experiments")
    ran(4, "f", there / "experiments")
    before = {key: target.get(key) for key in target.keys("experiments/e/")}
    pushed = mirror(there, target).push()
    why = "memory has another experiment of this name. Push to another location"
    assert pushed.experiments["e"].left_out == {"e": f"{why}, or run it again under another name"}
    assert {key: target.get(key) for key in target.keys("experiments/e/")} == before
    assert (pushed.experiments["e"].files, pushed.experiments["f"].left_out) == (0, {})


def test_a_trial_resumed_from_an_older_checkpoint_is_pushed(here: Path) -> None:
    fails = [True]

    def train(config: dict[str, Any]) -> None:
        checkpoint = nbckpt.get_checkpoint()
        for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, 3):
            nbckpt.report(i=i + 1, checkpoint={"i": 1} if i == 0 else None)
        if fails[0]:
            raise ValueError("broken")

    experiment = nbckpt.run(train, name="e", executor="inline", max_failures=0)
    assert experiment.wait(SECONDS)
    target = RecordingStore(MemoryStore())
    mirror(here, target).push()
    fails[0] = False
    assert experiment.resume(errored=True).wait(SECONDS)
    assert (experiment.trials[0].attempts, experiment.trials[0].iteration) == (2, 3)
    target.calls.clear()
    assert mirror(here, target).push().experiments["e"].left_out == {}
    # The index has what tells that the journal only became longer.
    gets = [call.key for call in target.calls if call.op == "get" and call.key.startswith("experiments/e/t")]
    assert gets == []
    assert at(target, here.parent / "new") == {"t0": [1, 2, 3]}
    assert Catalog(here.parent / "new" / "experiments").open("e").trials[0].attempts == 2


def test_two_kernels_push_an_experiment_one_after_the_other(parted: Parted) -> None:
    here, _, target = parted
    pushed, waits = list[Any](), list[bool]()
    kernel = threading.Thread(target=lambda: pushed.append(mirror(here, target).push()))

    def other() -> None:
        go_on(here, "t0", 3)
        kernel.start()
        kernel.join(0.5)  # it ends only if nothing holds it up
        waits.append(kernel.is_alive())

    go_on(here, "t0", 2)
    with ExitStack() as stack:
        stack.callback(kernel.join)
        mirror(here, meanwhile(target, "index.json", other, "put")).push()
    assert ([moved.files for moved in pushed], waits) == ([1], [True])
    assert at(target, here.parent / "new")["t0"] == [1, 2, 3]


def test_a_push_that_waits_for_another_kernel_can_be_ended(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(1)
    pushing, cancel = mirror(here, MemoryStore()), Cancel()

    def held(file: Path, **options: Any) -> Any:
        cancel.cancel()
        raise Timeout(str(file))

    with monkeypatch.context() as patched:
        patched.setattr("nbckpt.sync.exclusive.file_lock", held)
        with pytest.raises(CancelledError):
            pushing.push(TransferOptions(cancel=cancel))
    assert list(pushing.target.keys("experiments/")) == []
    assert pushing.push().experiments["e"].files > 0


def test_a_push_that_waits_for_another_kernel_has_a_limit(tmp_path: Path) -> None:
    late = pytest.raises(TimedOutError, match="another transfer there did not end")
    with file_lock(tmp_path / "push.lock"), late, alone(tmp_path / "push.lock", AT_ONCE):
        pass


@pytest.mark.parametrize(
    "error", [OSError(errno.EROFS, "read-only"), NotImplementedError("no locks"), Timeout("it stays")]
)
def test_a_push_works_where_no_file_can_be_locked(
    here: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ran(1)
    asked: list[Path] = []

    def lock(file: Path, **options: Any) -> Any:
        asked.append(file)
        raise error

    monkeypatch.setattr("nbckpt.sync.exclusive.file_lock", lock)
    monkeypatch.setattr("nbckpt.sync.exclusive.PATIENCE_S", 0.01)
    assert mirror(here, MemoryStore()).push().experiments["e"].files > 0
    assert asked


def test_a_push_beside_a_report_takes_no_line_without_its_media(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = nbckpt.track("e")
    run.report(note=nbckpt.media.Text("first"))
    stat, numbers = FileStat.of, itertools.count()

    def reporting(seen: Any) -> FileStat:
        run.report(note=nbckpt.media.Text(f"note {next(numbers)}"))
        return stat(seen)

    monkeypatch.setattr(FileStat, "of", reporting)
    target = MemoryStore()
    mirror(here, target).push()
    run.finish()
    pushed = {key.rsplit("/", 1)[1] for key in target.keys("experiments/e/media/")}
    journal = target.get("experiments/e/t0/events.jsonl").decode()
    named = set(re.findall(r"[0-9a-f]{64}", journal))
    assert named
    assert named <= {name.split(".")[0] for name in pushed}


# In the background.


def kernel() -> AutoMirror:
    """Return the mirror of one more kernel with the same store."""
    return AutoMirror(open_store(os.environ["NBCKPT_STORE"]))


@pytest.fixture
def auto(here: Path) -> Iterator[AutoMirror]:
    save(1)
    made = kernel()
    yield made
    made.stop()


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Return the folder that the store is synced to."""
    return tmp_path / "there"


def is_pushed(auto: AutoMirror) -> bool:
    return auto.status is not None and auto.status.pushed_at is not None


def test_an_auto_mirror_pushes_at_once_and_after_each_save(auto: AutoMirror, there: Path) -> None:
    auto.start(str(there), 1000)
    until(lambda: is_pushed(auto))
    save(2)
    auto.wake()
    until(lambda: entries(there) == 2)


def test_an_auto_mirror_pushes_every_period(auto: AutoMirror, there: Path) -> None:
    auto.start(str(there), 0.01)
    until(lambda: is_pushed(auto))
    save(2)
    until(lambda: entries(there) == 2)


def test_a_hanging_push_does_not_affect_a_later_target(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: Path
) -> None:
    hangs, go_on, push = threading.Event(), threading.Event(), Mirror.push

    def slow(self: Mirror, options: TransferOptions | None = None) -> Any:
        if self.target.url.endswith("slow"):
            hangs.set()
            go_on.wait()
        return push(self, options)

    def threads() -> int:
        return [thread.name for thread in threading.enumerate()].count("nbckpt-mirror")

    monkeypatch.setattr(Mirror, "push", slow)
    save(1)
    auto = AutoMirror(LocalStore(here), stop_timeout=0.01)
    auto.start(str(tmp_path / "slow"))
    hangs.wait()
    auto.start(str(there))
    assert threads() == 2
    until(lambda: is_pushed(auto))
    go_on.set()
    assert (there / "store.json").exists()
    until(lambda: threads() == 1)
    go_on.clear()
    hangs.clear()
    auto.start(str(tmp_path / "slow"))
    hangs.wait()
    auto.stop()
    go_on.set()
    until(lambda: threads() == 0)
    assert auto.status is None
    assert not auto.is_busy


def test_closing_makes_a_last_push(auto: AutoMirror, there: Path) -> None:
    auto.start(str(there), 1000)
    until(lambda: is_pushed(auto))
    save(2)
    auto.close()
    assert entries(there) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_of_a_process_that_syncs_pushes_nothing(auto: AutoMirror, there: Path) -> None:
    auto.start(str(there), 1000)
    until(lambda: is_pushed(auto))
    save(2)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            engine.flush()
            auto.wake()
            auto.close()
            code = 0 if auto.status is not None and not auto.status.is_running else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert entries(there) == 1


def test_another_kernel_continues_the_sync_until_it_is_off(auto: AutoMirror, there: Path) -> None:
    auto.start(str(there), 1000)
    auto.close()
    save(2)
    other = kernel()
    until(lambda: entries(there) == 2)
    other.stop()
    assert kernel().status is None


def sync_to_no_bucket(auto: AutoMirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync to a bucket that is missing, until the first push has failed."""
    refuses = UsageError("no such bucket")
    bucket = FaultyStore(MemoryStore(), when=lambda call: call.op == "put", error=refuses)
    bucket.url = "s3://bucket/x"
    monkeypatch.setattr("nbckpt.mirror.mirror.open_store", lambda where: bucket)
    auto.start(bucket.url, 1000)
    until(lambda: auto.status is not None and bool(auto.status.failure))


def test_a_failure_is_reported_once_and_raised_at_close(
    auto: AutoMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_to_no_bucket(auto, monkeypatch)
    assert auto.trouble() == "s3://bucket/x is not up to date: no such bucket"
    assert auto.trouble() == ""
    with pytest.raises(StoreError, match=r"s3://bucket/x is not up to date"):
        auto.close()


def saved_by(mirror: AutoMirror, number: int) -> None:
    save(number)
    mirror.saved()


def test_a_sync_that_one_kernel_turns_off_ends_in_the_others(auto: AutoMirror, there: Path) -> None:
    auto.start(str(there), 1000)
    other = kernel()
    until(lambda: is_pushed(auto) and is_pushed(other))
    auto.stop()
    saved_by(other, 2)
    assert (other.status, other.is_busy) == (None, False)
    other.close()
    assert entries(there) == 1


def test_progress_turns_no_sync_on_that_is_being_turned_off(
    here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(1)
    auto = AutoMirror(LocalStore(here), stop_timeout=0.01)
    stops = threading.Thread(target=auto.stop)

    def replace(status: Any, **news: Any) -> Any:
        if isinstance(news.get("progress"), Progress) and stops.ident is None:
            stops.start()
            stops.join(0.2)  # it ends only if nothing holds it up
        return dataclasses.replace(status, **news)

    monkeypatch.setattr("nbckpt.mirror.auto.replace", replace)
    auto.start(str(there), 0, after_saves=False)
    auto.wake()
    until(lambda: stops.ident is not None)
    stops.join()
    assert auto.status is None


def test_a_push_that_waits_ends_with_a_sync_that_is_turned_off(
    auto: AutoMirror, there: Path, here: Path
) -> None:
    auto.start(str(there), 1000)
    other = kernel()
    until(lambda: is_pushed(auto) and is_pushed(other))
    (here / "sync.json").unlink()
    save(2)
    other.close()
    assert other.status is None
    assert entries(there) == 1


def test_all_kernels_push_to_the_place_that_one_of_them_chose(auto: AutoMirror, tmp_path: Path) -> None:
    other = kernel()
    auto.start(str(tmp_path / "first"), 1000)
    other.follow()
    assert other.url == str(tmp_path / "first")
    until(lambda: is_pushed(auto) and is_pushed(other))
    auto.start(str(tmp_path / "second"), 0, after_saves=False)
    saved_by(other, 2)
    assert (other.url, other.is_busy) == (str(tmp_path / "second"), False)
    other.wake()
    until(lambda: is_pushed(other))
    other.stop()
    auto.follow()
    assert auto.status is None


def test_a_note_that_cannot_be_read_changes_no_sync_that_runs(
    auto: AutoMirror, there: Path, here: Path
) -> None:
    auto.start(str(there), 1000)
    for damaged in b'{"url": ', b"":
        (here / "sync.json").write_bytes(damaged)
        auto.follow()
        assert auto.url == str(there)


@pytest.mark.parametrize("verb", ["start", "stop"])
def test_a_change_that_cannot_be_kept_leaves_the_sync_as_it_was(
    auto: AutoMirror, there: Path, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto.start(str(there), 1000)

    def refuse(*given: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("nbckpt.mirror.note.write_file", refuse)
        patched.setattr(Path, "unlink", refuse)
        with pytest.raises(StoreError, match=r"cannot (write|remove) .*sync.json.*No space left"):
            auto.start(str(tmp_path / "elsewhere")) if verb == "start" else auto.stop()
    saved_by(auto, 2)
    assert auto.url == str(there)
    until(lambda: entries(there) == 2)


def test_a_failure_is_not_reported_of_a_sync_that_was_set_anew(
    auto: AutoMirror, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        sync_to_no_bucket(auto, patched)
    auto.start(str(there), 0, after_saves=False)
    assert auto.trouble() == ""


def test_a_damaged_sync_file_is_logged_and_syncs_nothing(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here.mkdir()
    (here / "sync.json").write_text('{"url": ')
    assert kernel().status is None
    assert "nothing is synced" in caplog.text


def test_a_sync_by_hand_pushes_only_when_asked(auto: AutoMirror, there: Path) -> None:
    auto.start(str(there), 0, after_saves=False)
    auto.saved()
    assert not auto.is_busy
    auto.close()
    assert not (there / "checkpoints").exists()
    other = kernel()
    assert other.status is not None
    assert (other.status.period, other.status.after_saves, other.is_busy) == (0.0, False, False)
    other.wake()
    until(lambda: is_pushed(other))
    assert entries(there) == 1
    other.stop()


def test_a_push_counts_what_waits_and_what_only_the_target_has(auto: AutoMirror, there: Path) -> None:
    save(1)
    save(2, there)
    auto.start(str(there), 0, after_saves=False)
    assert auto.push().checkpoints.only_there == 1
    assert auto.waiting() == (0, 0, 0)
    save(bytes(range(256)) * 4000)
    waiting = auto.waiting()
    assert waiting[:2] == (1, 0)
    assert waiting.size > 500
    assert abs(auto.push().size - waiting.size) < 2000  # names and signatures are not counted


def test_the_period_is_none_or_at_most_a_year(auto: AutoMirror, there: Path) -> None:
    for period in (-1, float("nan"), float("inf"), 1e300):
        with pytest.raises(UsageError, match="or 0 for none"):
            auto.start(str(there), period)
    assert auto.status is None


def test_the_sync_file_is_readable_and_holds_the_url(auto: AutoMirror, there: Path, here: Path) -> None:
    auto.start("there", 7)
    note = json.loads((here / "sync.json").read_text())
    assert (note["url"], note["period"]) == (str(there), 7)


def test_a_sync_file_that_someone_else_changed_syncs_nothing(
    auto: AutoMirror,
    there: Path,
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    auto.start(str(there), 1000)
    auto.close()
    note = (here / "sync.json").read_text()
    (here / "sync.json").write_text(note.replace("there", "elsewhere"))
    assert kernel().status is None
    assert "do not match its checksum" in caplog.text
    changed = {name: value for name, value in json.loads(note).items() if name != schema.CHECKSUM}
    (here / "sync.json").write_bytes(schema.seal(changed | {"url": str(tmp_path / "elsewhere")}))
    assert kernel().status is None
    assert "written by someone else" in caplog.text
    (here / "sync.json").write_text(note)
    assert AutoMirror(LocalStore(here), in_background=False).status is not None
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    assert kernel().status is None


@pytest.mark.slow
def test_a_program_makes_a_last_push_at_exit(here: Path, tmp_path: Path, there: Path) -> None:
    script = (
        "from nbckpt import Tracker\n"
        "from nbckpt.mirror import AutoMirror\n"
        "tracker = Tracker()\n"
        "auto = AutoMirror(tracker.store)\n"
        f"auto.start({str(tmp_path / 'there')!r}, 1000)\n"
        "tracker.save({'x': 1}, 'one')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert entries(there) == 1


@pytest.mark.slow
def test_the_last_push_of_a_program_can_still_resolve_host_names(
    here: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Host names are resolved in thread pools, which are closed before plain atexit handlers run."""
    script = (
        "import nbckpt\n"
        "from nbckpt import Tracker\n"
        "from nbckpt.mirror import AutoMirror\n"
        "def train(config):\n"
        "    i = 0\n"
        "    while True:\n"
        "        i += 1\n"
        "        nbckpt.report(i=i, checkpoint={'i': i})\n"
        "tracker = Tracker()\n"
        "experiment = nbckpt.run(train, name='e')\n"
        "auto = AutoMirror(tracker.store)\n"
        f"auto.start('{s3_bucket}/there', 1000)\n"
        "tracker.save({'x': 1}, 'one')\n"
        "experiment.pause()\n"
    )
    by_name = os.environ["AWS_ENDPOINT_URL"].replace("127.0.0.1", "localhost")
    monkeypatch.setenv("AWS_ENDPOINT_URL", by_name)
    program = [sys.executable, "-c", script]
    done = subprocess.run(program, check=True, timeout=100, capture_output=True, text=True)
    assert "not up to date" not in done.stderr
    pulled = mirror(here.parent / "fresh", open_store(f"{s3_bucket}/there")).pull()
    assert (pulled.checkpoints.files, list(pulled.experiments)) == (3, ["e"])
    journal = (here.parent / "fresh/experiments/e/t0/events.jsonl").read_text()
    assert journal == (here / "experiments/e/t0/events.jsonl").read_text()
    assert '"event":"pause"' in journal.splitlines()[-1]


SECRET = "p4ss/w0rd".replace("/", "")


def test_a_password_in_a_sync_url_is_refused_and_never_stored(auto: AutoMirror, here: Path) -> None:
    for url in (f"sftp://me:{SECRET}@host/x", f"https://host/x?token={SECRET}"):
        with pytest.raises(UsageError, match=r"\*\*\*.*would be stored in sync\.json.*SSH key") as caught:
            auto.start(url)
        assert SECRET not in str(caught.value)
    assert auto.status is None
    assert not (here / "sync.json").exists()


def test_a_sync_file_with_a_password_is_ignored_and_not_shown(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here.mkdir()
    url = f"sftp://me:{SECRET}@host/x"
    signature = open_signer().sign_bytes("sync", f"{url}\n7.0".encode())
    (here / "sync.json").write_text(json.dumps({"url": url, "period": 7, "signature": signature}))
    assert kernel().status is None
    assert "me:***@host" in caplog.text
    assert SECRET not in caplog.text


def meanwhile(store: Store, end: str, work: Callable[[], object], op: str = "get") -> Store:
    """Return a store that does *work*, once, just before the first key that ends so is read or put."""
    left = [work]

    def before(call: Call) -> bool:
        if left and call.op == op and call.key.endswith(end):
            left.pop()()
        return False

    return FaultyStore(store, when=before)


@pytest.mark.slow
def test_a_run_started_during_a_pull_of_its_name_loses_nothing(here: Path, there: Path) -> None:
    target = MemoryStore()
    ran(2, folder=there / "experiments")
    mirror(there, target).push()
    started: list[Any] = []

    def run() -> None:
        with suppress(UsageError):  # it waits, or is refused
            started.append(ran(5))

    mirror(here, meanwhile(target, "events.jsonl", run)).pull()
    expected = 5 if started else 2
    assert [trial.iteration for trial in Catalog(here / "experiments").open("e").trials] == [expected]
    assert Catalog(here / "experiments").open("e").trials[0].config == {"n": expected}


@pytest.mark.parametrize("action", ["rm", "undo"])
def test_a_push_during_rm_or_undo_sends_no_record_alone(
    here: Path, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(2)
    target, experiments = MemoryStore(), here / "experiments"
    paths = ["e/t0/checkpoint_000001", "e/t0/checkpoint_000001.json"]
    removal = trash.take_away(experiments, paths) if action == "undo" else None
    move, sent = trash.move, list[tuple[bool, bool]]()
    there = "experiments/e/t0/checkpoint_000001"

    def moves(folder: Path, source: Path, to: Path) -> None:
        move(folder, source, to)
        mirror(here, target).push()
        sent.append((target.exists(f"{there}.json"), any(target.keys(f"{there}/"))))

    with monkeypatch.context() as patched:
        patched.setattr(trash, "move", moves)
        trash.take_away(experiments, paths) if removal is None else removal.bring_back()
    assert sent == [(False, False), (action == "undo", action == "undo")]


def test_rm_during_a_push_deletes_nothing_at_the_target(here: Path) -> None:
    target = MemoryStore()
    experiment = ran(2)
    mirror(here, target).push()
    before = {key: target.get(key) for key in target.keys("experiments/e/t0/")}
    experiment.resume("t0").wait(SECONDS)
    library = Catalog(here / "experiments")
    with suppress(StoreError):
        mirror(here, meanwhile(target, "index.json", lambda: library.remove("e"))).push()
    assert before.keys() <= {*target.keys("experiments/e/t0/")}
    fresh = here.parent / "fresh"
    mirror(fresh, target).pull()
    (trial,) = Catalog(fresh / "experiments").open("e").trials
    assert (trial.iteration, trial.damage) == (2, "")


def paint(config: dict[str, Any]) -> None:
    for step in range(2):
        nbckpt.report(
            loss=1.0, note=nbckpt.media.Text(f"{config['n']} {step}"), same=nbckpt.media.Svg("<svg/>")
        )


def hold_that_media_go_there_and_back(here: Path, target: str) -> None:
    """Push an experiment with media, pull it elsewhere, let it grow there, and pull that back."""
    space = {"n": nbckpt.grid_search([1, 2])}
    experiment = nbckpt.run(paint, space, name="e", executor="inline")
    assert experiment.wait(SECONDS)
    kept = {file.name: file.read_bytes() for file in (experiment.folder / "media").iterdir()}
    assert len(kept) == 5
    mirror(here, target).push()
    there = here.parent / "there"
    mirror(there, target).pull()
    copied = Catalog(there / "experiments").open("e")
    notes = [media.load() for trial in copied.trials for media in trial.media if media.name == "note"]
    assert notes == ["1 0", "1 1", "2 0", "2 1"]
    recorder = TrialRecorder(copied.trial("t0"))
    with recorder:
        recorder.result({"training_iteration": 3, "loss": 1.0}, {"note": nbckpt.media.Text("new").encode()})
    mirror(there, target).push()
    mirror(here, target).pull()
    assert Trial.read(experiment.folder / "t0").media[-1].load() == "new"


def test_media_go_there_and_back(here: Path) -> None:
    hold_that_media_go_there_and_back(here, str(here.parent / "target"))


@pytest.mark.slow
def test_media_go_to_s3_and_back(here: Path, s3_bucket: str) -> None:
    hold_that_media_go_there_and_back(here, f"{s3_bucket}/media")
