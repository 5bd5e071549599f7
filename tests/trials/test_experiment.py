"""Experiments on threads: run, resume, fail, pause, stop; what is on disk, what is refused."""

from __future__ import annotations

import gc
import json
import math
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import cloudpickle
import numpy as np
import pytest
from trials.conftest import SECONDS, forget, ran

import nbckpt
from nbckpt.errors import StoreError
from nbckpt.store import scan
from nbckpt.trials import Catalog, Experiment, Status, Trainable, Trial
from nbckpt.trials.arguments import dict_of
from nbckpt.trials.engine import shutdown
from nbckpt.trials.engine.pool import WorkerPool
from nbckpt.trials.home import experiments_folder
from nbckpt.trials.model import journal, params, spec_file, summary_file
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.view import internals
from waiting import until


def begun() -> int:
    """Return how far the checkpoint of the trial is."""
    checkpoint = nbckpt.get_checkpoint()
    return checkpoint.to_dict()["i"] if checkpoint else 0


def count(config: dict[str, Any]) -> None:
    for i in range(begun(), config.get("n", 4)):
        nbckpt.report(loss=config.get("lr", 1) / (i + 1), checkpoint={"i": i + 1})


class Gate:
    """A function that counts for ever, a report each time the test lets it, and saves every second one."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.ended = threading.Event()

    def until_it_runs(self, name: str = "e", **options: Any) -> Experiment:
        """Run the function. Return when the trial runs."""
        experiment = nbckpt.run(self.train, name=name, **options)
        until(lambda: statuses(experiment) == ["RUNNING"])
        return experiment

    def paused(self) -> Experiment:
        """Return an experiment that was paused after the first report of its trial."""
        experiment = self.until_it_runs()
        experiment.pause()
        self.go.release()
        until(lambda: experiment.trials[0].status == Status.PAUSED)
        return experiment

    def stops(self, experiment: Experiment) -> None:
        """Stop the trials, and let them do the report with which they stop."""
        experiment.stop()
        self.go.release()
        assert experiment.wait(SECONDS)

    def close(self) -> None:
        """Take back what was not used: a pause may come before or after the report that was let go for it."""
        while self.go.acquire(blocking=False):
            pass

    def train(self, config: dict[str, Any]) -> None:
        i = begun()
        try:
            while True:
                self.go.acquire()
                i += 1
                nbckpt.report(i=i, checkpoint={"i": i} if i % 2 == 0 else None)
        finally:
            self.ended.set()


def iterations(experiment: Experiment) -> list[list[int]]:
    return [[result["training_iteration"] for result in trial.results] for trial in experiment.trials]


def statuses(experiment: Experiment) -> list[str]:
    return [str(trial.status) for trial in experiment.trials]


def test_a_grid_runs_to_its_end_and_is_read_back_unchanged() -> None:
    first = ran(count, {"lr": nbckpt.grid_search([0.1, 0.2])}, metric="loss", mode="min")
    again = Experiment.read(forget(first))
    assert again is not first
    assert [trial.results for trial in again.trials] == [trial.results for trial in first.trials]
    for experiment in (first, again):
        assert statuses(experiment) == ["TERMINATED"] * 2
        assert iterations(experiment) == [[1, 2, 3, 4]] * 2
        assert experiment.best().config == {"lr": 0.1}


def test_run_returns_at_once_and_wait_accepts_a_timeout() -> None:
    gate = Gate()
    experiment = nbckpt.run(gate.train)
    gate.go.release()
    until(lambda: experiment.trials[0].iteration == 1)
    assert not experiment.wait(0)
    gate.stops(experiment)
    assert gate.ended.is_set()


def test_an_experiment_writes_exactly_the_documented_files(store: Path) -> None:
    ran(count, name="e", keep_checkpoints=1)
    folder = store / "experiments" / "e"
    assert {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()} == {
        *("experiment.json", "t0/.nbckpt-cache.json", "t0/events.jsonl", "t0/params.json"),
        *("t0/checkpoint_000004.json", "t0/checkpoint_000004/.nbckpt/checkpoint.json"),
    }
    record = json.loads((folder / "t0/checkpoint_000004.json").read_text())
    assert (record["iteration"], record["metrics"]["loss"]) == (4, 0.25)


def test_a_checkpoint_folder_contains_only_the_users_files(store: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        with nbckpt.trials.checkpoint_dir(step=7) as folder:
            (folder / "model.txt").write_text("weights")
        nbckpt.report(loss=1)

    ran(train, name="e")
    place = store / "experiments/e/t0/checkpoint_000007"
    assert [file.name for file in place.iterdir()] == ["model.txt"]
    assert json.loads(place.with_suffix(".json").read_text())["iteration"] == 1


def test_max_concurrent_limits_the_running_trials() -> None:
    running, most, lock = [0], [0], threading.Lock()
    both = threading.Barrier(2)

    def train(config: dict[str, Any]) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        both.wait(SECONDS)  # passes only where two run at once
        with lock:
            running[0] -= 1

    experiment = ran(train, {"n": nbckpt.grid_search(range(6))}, max_concurrent=2)
    assert (most[0], statuses(experiment)) == (2, ["TERMINATED"] * 6)


def test_a_failed_trial_retries_from_its_checkpoint() -> None:
    seen = []

    def train(config: dict[str, Any]) -> None:
        for i in range(begun(), 10):
            seen.append(i)
            if len(seen) == 6:
                raise ValueError("once")
            nbckpt.report(i=i, checkpoint={"i": i + 1} if i % 2 else None)

    assert iterations(ran(train, max_failures=1)) == [list(range(1, 11))]
    assert seen == [0, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8, 9]


def test_a_failed_trial_keeps_its_traceback_and_others_continue() -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(share=1 / config["n"])

    experiment = ran(train, {"n": nbckpt.grid_search([0, 1])})
    failed, fine = experiment.trials
    assert (failed.status, fine.status) == (Status.ERROR, Status.TERMINATED)
    assert failed.error == "ZeroDivisionError: division by zero"
    assert 'nbckpt.report(share=1 / config["n"])' in failed.traceback
    assert failed.traceback.count("  File ") == 1  # no frame of nbckpt


def test_failures_are_counted_over_all_attempts() -> None:
    attempts = []

    def train(config: dict[str, Any]) -> None:
        attempts.append(1)
        raise ValueError("always")

    experiment = ran(train, max_failures=2)
    assert (len(attempts), experiment.trials[0].failures, statuses(experiment)) == (3, 3, ["ERROR"])


def test_failed_trials_are_retried_only_on_request() -> None:
    broken = [True]

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(i=1, checkpoint={})
        if broken[0]:
            raise ValueError("broken")

    experiment = ran(train)
    with pytest.raises(nbckpt.UsageError, match="--errored"):
        experiment.resume()
    broken[0] = False
    experiment.resume(errored=True)
    assert experiment.wait(SECONDS)
    assert statuses(experiment) == ["TERMINATED"]


def test_a_resume_skips_a_damaged_checkpoint_for_an_older_one() -> None:
    experiment = nbckpt.run(count, {"n": 4}, name="e", stop={"training_iteration": 3})
    folder = forget(experiment)
    file = next(file for file in (folder / "t0/checkpoint_000003").rglob("*") if file.is_file())
    file.write_bytes(file.read_bytes()[:-1])
    again = nbckpt.run(count, {"n": 4}, name="e")
    again.resume("t0")
    assert again.wait(SECONDS)
    assert iterations(again) == [[1, 2, 3, 4]]
    events = [json.loads(line) for line in (folder / "t0/events.jsonl").read_text().splitlines()]
    assert [event["from"] for event in events if event["event"] == "start"] == [None, "checkpoint_000002"]


def test_a_paused_trial_holds_no_thread_and_resumes() -> None:
    gate = Gate()
    experiment = nbckpt.run(gate.train)
    gate.go.release(4)
    until(lambda: experiment.trials[0].iteration == 4)
    experiment.pause()
    gate.go.release()
    assert experiment.wait(SECONDS)
    assert (statuses(experiment), gate.ended.is_set()) == (["PAUSED"], True)
    until(lambda: not any(thread.name.startswith("nbckpt") for thread in threading.enumerate()))
    gate.close()
    gate.ended.clear()
    experiment.resume("t0")
    gate.go.release(2)
    until(lambda: experiment.trials[0].iteration == 6)
    experiment.stop("t0")
    gate.go.release()
    assert experiment.wait(SECONDS)
    # The stop may come while the sixth result is still being looked at.
    assert iterations(experiment)[0] in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7])
    assert statuses(experiment) == ["TERMINATED"]


def test_a_pending_trial_is_paused_at_once() -> None:
    gate = Gate()
    experiment = nbckpt.run(gate.train, {"n": nbckpt.grid_search([0, 1])}, max_concurrent=1)
    until(lambda: statuses(experiment)[0] == "RUNNING")
    experiment.pause("t1")
    assert statuses(experiment) == ["RUNNING", "PAUSED"]
    gate.stops(experiment)
    assert statuses(experiment) == ["TERMINATED", "TERMINATED"]


def test_a_trainable_is_saved_when_it_is_paused() -> None:
    go = threading.Semaphore(0)

    class Steps(Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.done = 0

        def step(self) -> dict[str, Any]:
            go.acquire()
            self.done += 1
            return {"steps": self.done}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {"done": self.done}

        def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            self.done = checkpoint["done"]

    experiment = nbckpt.run(Steps, stop={"steps": 4})
    go.release()
    until(lambda: experiment.trials[0].iteration == 1)
    experiment.pause()
    go.release()
    assert experiment.wait(SECONDS)
    go.release(2)
    experiment.resume()
    assert experiment.wait(SECONDS)
    assert [result["steps"] for result in experiment.trials[0].results] == [1, 2, 3, 4]


class Saved(Trainable):
    """Steps for ever, and saves nothing when it is saved."""

    def step(self) -> dict[str, Any]:
        return {}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {}


def test_a_pause_by_a_callback_saves_the_current_result() -> None:
    class Pause(nbckpt.trials.Callback):
        def on_trial_result(self, trial: Any, result: Any) -> None:
            if trial.iteration == 3:
                asked.wait(SECONDS)
                experiment.pause()

    asked = threading.Event()
    experiment = nbckpt.run(Saved, callbacks=[Pause()])
    asked.set()
    assert experiment.wait(SECONDS)
    trial = experiment.trials[0]
    assert (trial.status, trial.iteration, trial.checkpoint_iteration) == (Status.PAUSED, 3, 3)


def test_checkpoint_every_saves_a_trainable_that_often() -> None:
    experiment = ran(Saved, stop={"training_iteration": 5}, checkpoint_every=2)
    assert [record.iteration for record in experiment.trials[0].checkpoints.records()] == [2, 4, 5]


def test_a_rerun_of_a_name_ends_the_former_run_and_continues() -> None:
    former, latter = Gate(), Gate()
    first = nbckpt.run(former.train, name="e")
    former.go.release(3)
    until(lambda: first.trials[0].iteration == 3)
    threading.Thread(target=lambda: until(lambda: former.go.release() or former.ended.is_set())).start()
    second = nbckpt.run(latter.train, name="e")
    assert former.ended.is_set()
    trial = second.trials[0]
    newest = trial.checkpoints.records()[-1].iteration  # how far the former run came differs from run to run
    latter.go.release()
    until(lambda: trial.metrics.get("i") == newest + 1)
    second.stop()
    latter.go.release()
    assert second.wait(SECONDS)
    assert [result["training_iteration"] for result in trial.results] == list(range(1, trial.iteration + 1))


def events(trial: Trial) -> list[str]:
    """Return what the journal of a trial says about its attempts, in order."""
    lines = (trial.folder / journal.FILE).read_text().splitlines()
    names = [json.loads(line).get("event") for line in lines]
    return [name for name in names if name in {"queue", "start", "pause", "end", "error"}]


def beside_the_first_launch(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> threading.Thread:
    """Return a thread that does *call* when the next launch has chosen its trials and not begun them."""
    work = WorkerPool.work
    thread = threading.Thread(target=call)

    def slow(*given: Any) -> None:
        monkeypatch.undo()
        thread.start()
        thread.join(0.1)  # long enough to get in, if that could be
        work(*given)

    monkeypatch.setattr(WorkerPool, "work", slow)
    return thread


def test_a_resume_that_could_not_begin_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    experiment = gate.paused()
    assert experiment.wait(SECONDS)
    gate.close()
    with monkeypatch.context() as patch:
        fails = Mock(side_effect=[None, OSError(5, "no disk")])  # when the trial waits in the line
        patch.setattr("nbckpt.trials.engine.claim.make_folder", fails)
        with pytest.raises(StoreError, match="cannot lock"):
            experiment.resume()
    experiment.resume()
    gate.stops(experiment)
    assert statuses(experiment) == ["TERMINATED"]


@pytest.mark.parametrize("others_run", [False, True])
def test_of_two_threads_that_resume_a_trial_one_is_refused(
    others_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = [threading.Semaphore(0), threading.Semaphore(0)]

    def train(config: dict[str, Any]) -> None:
        for i in range(begun(), 4):
            gates[config["at"]].acquire()
            nbckpt.report(i=i + 1, checkpoint={"i": i + 1})

    experiment = nbckpt.run(train, {"at": nbckpt.grid_search([0, 1])}, max_concurrent=3)
    trials = experiment.trials
    until(lambda: statuses(experiment) == ["RUNNING"] * 2)
    for at in range(1 if others_run else 2):
        experiment.pause(f"t{at}")
        gates[at].release()
    until(lambda: trials[0].status == Status.PAUSED and experiment.running is others_run)
    refused: list[str] = []

    def resume() -> None:
        try:
            experiment.resume("t0")
        except nbckpt.errors.UsageError as error:
            refused.append(str(error))

    with monkeypatch.context() as patch:
        other = beside_the_first_launch(patch, resume)
        resume()
        other.join(SECONDS)
    for gate in gates:
        gate.release(20)
    assert experiment.wait(SECONDS)
    assert len(refused) == 1
    assert events(trials[0]) == ["start", "pause", "queue", "start", "end"]
    assert iterations(experiment)[0] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("act", "then"), [("resume", ["queue", "start", "end"]), ("stop", ["end"]), ("pause", [])]
)
@pytest.mark.parametrize("name", ["t0", None])
def test_a_trial_that_shows_as_paused_obeys_at_once(
    act: str, then: list[str], name: str | None, before_it_leaves: Callable[[Callable[[], object]], None]
) -> None:
    gate = Gate()
    experiment = gate.paused()
    before_it_leaves(lambda: getattr(experiment, act)(name))
    if act == "resume":
        until(lambda: statuses(experiment) == ["RUNNING"])
        gate.stops(experiment)
    assert experiment.wait(SECONDS)
    assert events(experiment.trials[0]) == ["start", "pause", *then]


@pytest.mark.parametrize(("name", "label"), [(None, "'e'"), ("t0", "'e/t0'")])
def test_a_trial_that_runs_says_why_it_cannot_be_resumed(name: str | None, label: str) -> None:
    gate = Gate()
    experiment = gate.until_it_runs()
    with pytest.raises(nbckpt.UsageError, match=rf"^{label} has nothing to resume: 1 trial, 1 running$"):
        experiment.resume(name)
    experiment.pause()
    pausing = r"1 trial, 1 pausing\. t0 pauses after its next result: resume it then$"
    with pytest.raises(nbckpt.UsageError, match=pausing):
        experiment.resume(name)
    gate.go.release()
    assert experiment.wait(SECONDS)
    assert events(experiment.trials[0]) == ["start", "pause"]


@pytest.mark.parametrize("asks", ["function", "callback"])
def test_a_trial_does_not_wait_for_the_pause_of_another(
    asks: str, before_it_leaves: Callable[[Callable[[], object]], None]
) -> None:
    gates, asked = [threading.Semaphore(0), threading.Semaphore(0)], threading.Event()

    def ask(by: str, at: int) -> None:
        if by == asks and at == 1:
            experiment.pause("t1")
            asked.set()

    def train(config: dict[str, Any]) -> None:
        while True:
            gates[config["at"]].acquire()
            ask("function", config["at"])
            nbckpt.report(i=1)

    class Asking(nbckpt.trials.Callback):
        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            ask("callback", trial.config["at"])

    experiment = nbckpt.run(train, {"at": nbckpt.grid_search([0, 1])}, callbacks=[Asking()], max_concurrent=2)
    until(lambda: statuses(experiment) == ["RUNNING"] * 2)
    experiment.pause("t0")
    gates[0].release()
    until(lambda: experiment.trials[0].status == Status.PAUSED)
    gates[1].release()
    assert asked.wait(SECONDS / 2)  # the worker of t0 is kept for longer
    before_it_leaves(lambda: gates[1].release())
    assert experiment.wait(SECONDS)
    assert statuses(experiment) == ["PAUSED"] * 2


def test_of_two_threads_that_run_a_name_one_ends_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def train(config: dict[str, Any]) -> None:
        assert go.wait(SECONDS)
        count(config)

    def run() -> Experiment:
        return nbckpt.run(train, name="e", max_concurrent=2)

    with monkeypatch.context() as patch:
        other = beside_the_first_launch(patch, run)
        experiment = run()
        # The other thread ends this run first.
        until(lambda: not other.is_alive() or internals(experiment).asked("t0") == "pause")
        go.set()
        other.join(SECONDS)
    assert experiment.wait(SECONDS)
    assert [events(trial) for trial in experiment.trials] == [["start", "pause", "queue", "start", "end"]]
    assert iterations(experiment) == [[1, 2, 3, 4]]


def test_a_look_while_a_run_begins_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    space = {"n": nbckpt.grid_search([1, 2])}
    experiment = nbckpt.run(count, space, name="e")
    trials = experiment.trials
    assert experiment.wait(SECONDS)
    write, looks = spec_file.write, []

    def looked_at(*given: Any) -> None:
        write(*given)
        looks.append(threading.Thread(target=experiment.refresh))
        looks[-1].start()
        looks[-1].join(0.1)  # long enough to read the file, if that could be

    monkeypatch.setattr(spec_file, "write", looked_at)
    space["n"] = nbckpt.grid_search([1, 2, 3])
    assert nbckpt.run(count, space, name="e").wait(SECONDS)
    looks[0].join(SECONDS)
    assert experiment.spec.trainable is not None
    assert experiment.trials[:2] == trials
    assert [trial.config for trial in experiment.trials] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [trial.iteration for trial in experiment.trials] == [1, 2, 3]


def test_a_rerun_in_a_new_kernel_keeps_finished_trials() -> None:
    trained: list[float] = []

    def train(config: dict[str, Any]) -> None:
        trained.append(config["lr"])
        nbckpt.report(loss=config["lr"])

    forget(nbckpt.run(train, {"lr": nbckpt.grid_search([1, 2])}, name="e"))
    again = ran(train, {"lr": nbckpt.grid_search([2, 3])}, name="e")
    assert sorted(trained) == [1, 2, 3]
    assert [trial.config["lr"] for trial in again.trials] == [1, 2, 3]


def test_a_rerun_with_more_samples_keeps_the_drawn_ones() -> None:
    space = {"lr": nbckpt.uniform(0, 1), "layers": nbckpt.choice([1, 2, 3])}
    first = nbckpt.run(count, space, name="e", num_samples=3)
    before = [trial.config for trial in first.trials]
    forget(first)
    again = ran(count, space, name="e", num_samples=5)
    assert [trial.config for trial in again.trials[:3]] == before
    assert len(again.trials) == 5


def test_a_resumed_trial_gets_values_that_json_cannot_hold() -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(total=int(config["data"].sum()), checkpoint={})

    folder = forget(nbckpt.run(train, {"data": np.arange(4)}, name="e"))
    again = Experiment.read(folder)
    again.resume("t0")
    assert again.wait(SECONDS)
    assert again.trials[0].metrics["total"] == 6


def test_an_open_experiment_shows_changes_by_another_process(store: Path) -> None:
    gate = Gate()
    first = nbckpt.run(gate.train, {"lr": nbckpt.grid_search([1, 2])}, name="e")
    first.pause()
    gate.go.release(2)
    folder = forget(first)
    mine = Experiment.read(folder)
    trial = mine.trials[0]
    other = f"import nbckpt.trials as t, pathlib; t.Experiment.read(pathlib.Path({str(folder)!r})).stop('t0')"
    subprocess.run([sys.executable, "-c", other], check=True)
    assert trial.status == "PAUSED"
    again = Catalog(store / "experiments").open("e")
    assert again is mine
    assert (again.trials[0], trial.status) == (trial, "TERMINATED")
    gate.close()
    nbckpt.run(gate.train, {"lr": nbckpt.grid_search([1, 2])}, name="e")
    assert mine.running
    gate.stops(mine)


def test_a_pickled_experiment_loads_as_the_live_or_stored_one() -> None:
    gate = Gate()
    experiment = gate.until_it_runs()
    kept = cloudpickle.dumps((experiment, experiment.trials[0], experiment.table()))
    live, trial, table = pickle.loads(kept)
    assert (live, trial, table.experiment) == (experiment, experiment.trials[0], experiment)
    gate.stops(experiment)
    forget(experiment)
    again, trial, _ = pickle.loads(kept)
    assert again is not experiment
    assert again.wait(0)
    assert (statuses(again), trial.status) == (["TERMINATED"], "TERMINATED")


def test_an_untrusted_stored_function_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = forget(nbckpt.run(lambda config: nbckpt.report(checkpoint={}), name="e"))
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    again = Experiment.read(folder)
    assert statuses(again) == ["TERMINATED"]
    with pytest.raises(nbckpt.errors.UntrustedError, match="--trust"):
        again.resume("t0")


def test_a_function_with_large_data_is_not_stored() -> None:
    data = np.zeros(40 << 20, np.uint8)
    experiment = nbckpt.run(lambda config: nbckpt.report(size=len(data)), name="e")
    folder = forget(experiment)
    assert statuses(experiment) == ["TERMINATED"]
    assert (folder / "experiment.json").stat().st_size < 10_000
    with pytest.raises(nbckpt.NotFoundError, match=r"more than 16 MiB.*run it again"):
        Experiment.read(folder).resume("t0")


def test_resume_must_and_never_are_enforced() -> None:
    with pytest.raises(nbckpt.NotFoundError, match="no experiment 'e'"):
        nbckpt.run(count, name="e", resume="must")
    assert nbckpt.run(count, name="e", resume="never").wait(SECONDS)
    with pytest.raises(nbckpt.UsageError, match="already"):
        nbckpt.run(count, name="e", resume="never")
    assert nbckpt.run(count, name="e", resume="must").wait(SECONDS)


@pytest.mark.slow
def test_two_processes_do_not_run_one_experiment() -> None:
    gate = Gate()
    experiment = gate.until_it_runs()
    script = (
        "import nbckpt\n"
        "it = nbckpt.open_experiment('e')\n"
        "print(it.runs_elsewhere(), it.interrupted(it.trials[0]))\n"
        "try: nbckpt.run(print, name='e')\n"
        "except nbckpt.UsageError as error: print('another kernel' in str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True"]
    gate.stops(experiment)


STOPS: list[tuple[Any, int, str]] = [
    ({"loss": 3}, 3, "loss reached 3"),
    ({"training_iteration": 5}, 5, "training_iteration reached 5"),
    ({"nested/score": 20}, 2, "nested/score reached 20"),
    (lambda trial, result: result["loss"] >= 4 and trial == "t0", 4, "stop() said so"),
    (1e-9, 1, "trained for 1e-09 s"),
]


def test_every_stop_condition_ends_a_trial(subtests: pytest.Subtests) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(1, 100):
            nbckpt.report(loss=i, nested={"score": 10 * i})

    for stop, last, note in STOPS:
        with subtests.test(note):
            (trial,) = ran(train, stop=stop).trials
            assert (trial.iteration, trial.note) == (last, note)


def test_a_threshold_may_be_too_large_for_a_float() -> None:
    experiment = ran(lambda config: nbckpt.report(x=10**401), stop={"x": 10**400})
    assert experiment.trials[0].note == "x reached inf"
    assert "x >= inf" in str(experiment.spec.stopper)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.array])
def test_a_scalar_of_numpy_reaches_a_threshold(kind: Any) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(4):
            nbckpt.report(loss=10**400, acc=kind(i / 4))

    experiment = ran(train, stop={"loss": math.inf, "acc": np.float32(0.5)})
    assert (experiment.trials[0].iteration, experiment.trials[0].note) == (3, "acc reached 0.5")


@pytest.mark.parametrize(
    ("stop", "mode", "last", "said"),
    [
        ({"loss": 0.25}, "min", 2, "loss <= 0.25"),
        ({"loss": 0.25}, "max", 1, "loss >= 0.25"),
        ({"step": 3, "loss": 0.01}, "min", 3, "step >= 3 or loss <= 0.01"),
    ],
)
def test_a_threshold_of_a_minimized_metric_counts_from_above(
    stop: dict[str, float], mode: str, last: int, said: str
) -> None:
    go = threading.Event()

    def train(config: dict[str, Any]) -> None:
        assert go.wait(SECONDS)
        for i in range(1, 6):
            nbckpt.report(loss=0.5**i, step=i)

    experiment = nbckpt.run(train, stop=stop, metric="loss", mode=mode)
    assert f"each trial stops when {said}" in str(experiment)
    go.set()
    assert experiment.wait(SECONDS)
    assert experiment.trials[0].iteration == last


def test_a_condition_on_an_unreported_metric_is_noted() -> None:
    experiment = ran(count, stop={"acuracy": 0.9})
    assert any("'acuracy'" in note and "loss" in note for note in experiment.notes)


def test_a_stop_that_raises_fails_the_trial_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    (trial,) = ran(count, stop=lambda trial, result: result["missing"]).trials
    assert (trial.status, trial.error) == (Status.ERROR, "stop() failed: KeyError: 'missing'")
    assert 'result["missing"]' in trial.traceback
    assert "nbckpt itself failed" not in caplog.text


def test_the_best_and_the_newest_checkpoints_are_kept() -> None:
    def train(config: dict[str, Any]) -> None:
        for loss in (5, 1, 4, 2, 3):
            nbckpt.report(loss=loss, checkpoint={"loss": loss})

    experiment = ran(train, keep_checkpoints=nbckpt.trials.RetentionPolicy(2, "loss", "min"))
    assert [record.metrics["loss"] for record in experiment.trials[0].checkpoints.records()] == [1, 2, 3]


def test_the_checkpoint_of_a_retry_is_kept_while_the_trial_runs() -> None:
    there = []

    def train(config: dict[str, Any]) -> None:
        checkpoint, i = nbckpt.get_checkpoint(), begun()
        for at in range(i + 1, i + 4):
            nbckpt.report(i=at, checkpoint={"i": at})
            if checkpoint:
                there.append(checkpoint.to_dict()["i"])
        if not checkpoint:
            raise ValueError("once")

    ran(train, max_failures=1, keep_checkpoints=1)
    assert there == [3, 3, 3]


ITSELF: dict[str, Any] = {}
ITSELF["itself"] = [ITSELF]


def deep_dict(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels - 1):
        made = {"a": made}
    return made


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"num_samples": 0}, "num_samples=0 is too few"),
    ({"max_concurrent": -1}, "max_concurrent=-1 is too few"),
    ({"max_concurrent": 0}, "max_concurrent=0 is too few: give 1 or more"),
    ({"max_failures": -1}, "max_failures=-1 is too few"),
    ({"keep_checkpoints": 0}, "keep_checkpoints=0 would keep none"),
    ({"num_samples": None}, "num_samples=None is not a whole number"),
    ({"num_samples": True}, "num_samples=True is not a whole number"),
    ({"max_concurrent": 2.5}, "max_concurrent=2.5 is not a whole number"),
    ({"keep_checkpoints": "2"}, "keep_checkpoints='2' is not a whole number"),
    ({"seed": "abc"}, "seed='abc' is not a number"),
    ({"config": 5}, "config=5 is not a dict"),
    ({"points": {"lr": 1}}, "points={'lr': 1} is not a list of dicts"),
    ({"points": [5]}, "a point=5 is not a dict"),
    ({"executor": 5}, "executor=5 is not an executor"),
    ({"resources_per_trial": 3}, "resources_per_trial=3 is not a dict"),
    ({"sync_config": "s3://bucket"}, r"is not a SyncConfig: give nbckpt.sync.SyncConfig\("),
    ({"mode": "lowest"}, "mode='lowest' is unknown"),
    ({"resume": "maybe"}, "resume='maybe' is unknown"),
    ({"executor": "cloud"}, "no executor 'cloud'"),
    ({"stop": "soon"}, "stop='soon' is not a condition"),
    ({"stop": {"loss": "low"}}, r"stop\['loss'\]"),
    ({"name": "../evil"}, "cannot name an experiment"),
    ({"resources_per_trial": {"CPU": 1}}, "go with executor='process', 'ray' or 'slurm', not 'thread'"),
    ({"resume": "must"}, "needs the name"),
    ({"name": 5}, "name=5 is not a text"),
    ({"name": Path("e")}, "is not a text"),
    ({"name": "t0"}, "'t0' cannot name an experiment, because trials have such names"),
    ({"name": "t12"}, "because trials have such names. Choose another one, for example 'exp-t12'"),
    ({"folder": 5}, "folder=5 is not a path"),
    ({"config": {"p": ITSELF}}, "config has a dict or a list that contains itself"),
    ({"config": {"p": [1, {"q": ITSELF}]}}, "contains itself"),
    ({"config": {"p": nbckpt.grid_search([1, ITSELF])}}, "contains itself"),
    ({"points": [ITSELF]}, "a point has a dict or a list that contains itself"),
    ({"config": {"p": [10**5000]}}, "config has an integer of more than 4,200 digits"),
    ({"config": deep_dict(201)}, "config has more than 200 dicts in each other"),
    ({"callbacks": ["mlflow"]}, "'mlflow' is not a callback: give a list of objects"),
    ({"callbacks": "mlflow"}, "'mlflow' is not a callback"),
    ({"callbacks": [nbckpt.trials.Callback]}, "is not a callback"),
]


def test_an_invalid_request_is_refused_and_creates_nothing(store: Path, subtests: pytest.Subtests) -> None:
    for arguments, message in REFUSED:
        with subtests.test(message):
            with pytest.raises(nbckpt.UsageError, match=message):
                nbckpt.run(count, **arguments)
            assert not (store / "experiments").exists()


@pytest.mark.parametrize("two", [np.int64(2), np.array(2), 4 / 2])
def test_every_kind_of_whole_number_is_an_amount(two: Any) -> None:
    names = ("num_samples", "max_concurrent", "max_failures", "checkpoint_every", "keep_checkpoints", "seed")
    experiment = ran(count, **dict.fromkeys(names, two))
    spec = Experiment.read(forget(experiment)).spec
    amounts = (spec.num_samples, spec.max_concurrent, spec.max_failures, spec.checkpoint_every, spec.seed)
    assert (*amounts, spec.keep and spec.keep.count) == (2,) * 6


def test_an_invalid_argument_of_track_or_a_policy_is_refused(store: Path) -> None:
    with pytest.raises(nbckpt.UsageError, match="config=5 is not a dict"):
        nbckpt.track("e", 5)  # type: ignore[arg-type]
    with pytest.raises(nbckpt.UsageError, match="name=5 is not a text"):
        nbckpt.track(5)  # type: ignore[arg-type]
    with pytest.raises(nbckpt.UsageError, match="folder=5 is not a path"):
        nbckpt.track("e", folder=5)  # type: ignore[arg-type]
    with pytest.raises(nbckpt.UsageError, match="config has a dict or a list that contains itself"):
        nbckpt.track("e", p=ITSELF)
    with pytest.raises(nbckpt.UsageError, match="metric=5 is not the name of a metric"):
        nbckpt.trials.RetentionPolicy(2, 5)  # type: ignore[arg-type]
    assert not (store / "experiments").exists()


def test_an_experiment_with_the_name_of_a_trial_still_resumes(store: Path) -> None:
    experiment = ran(count, {"n": 1}, name="x")
    forget(experiment).rename(store / "experiments" / "t0")
    experiment = ran(count, {"n": nbckpt.grid_search([1, 2])}, name="t0")
    assert len(experiment.trials) == 2
    with pytest.raises(nbckpt.UsageError, match="because trials have such names"):
        nbckpt.track("t1")
    assert nbckpt.run(count, {"n": 1}, name="t1x").wait(SECONDS)


def test_a_configuration_of_200_dicts_in_each_other_is_kept() -> None:
    assert [trial.status for trial in ran(count, deep_dict(200), name="e").trials] == [Status.TERMINATED]
    assert nbckpt.run(count, deep_dict(200), name="e").wait(SECONDS)


def test_parts_of_a_configuration_may_be_shared_and_deep() -> None:
    shared: list[Any] = [1]
    for _ in range(2000):
        shared = [shared, shared]
    given = {"p": shared, "q": nbckpt.grid_search([shared, shared])}
    assert dict_of("config", given)["p"] is shared


def test_a_value_whose_repr_fails_is_kept_as_a_text() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=Silent(), ok=1)

    experiment = nbckpt.run(train, {"p": Silent()}, executor="inline")
    (trial,) = experiment.trials
    assert (trial.status, trial.error) == (Status.TERMINATED, "")
    assert trial.metrics["loss"] == "<Silent object, whose repr() raises ValueError>"
    (trial,) = Experiment.read(forget(experiment)).trials
    assert trial.config["p"] == "<Silent object, whose repr() raises ValueError>"


def test_a_function_with_other_parameters_is_refused() -> None:
    with pytest.raises(nbckpt.UsageError, match=r"takes \(config, data, epochs\)"):
        nbckpt.run(lambda config, data, epochs: None)


def test_best_names_the_known_metrics_in_its_error() -> None:
    experiment = ran(count)
    with pytest.raises(nbckpt.UsageError, match=r"reported 'los': there are .*loss"):
        experiment.best("los", "min")
    with pytest.raises(nbckpt.UsageError, match="which metric"):
        experiment.best("loss")


def test_best_accepts_zero_and_ignores_nan() -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=config["loss"])

    experiment = ran(train, {"loss": nbckpt.grid_search([float("nan"), 1, 0])}, metric="loss", mode="min")
    assert experiment.best().config == {"loss": 0}


def test_a_metric_with_the_name_of_a_column_hides_nothing() -> None:
    experiment = ran(lambda config: {"trial": 7, "error": 0.5, "note": 3})
    frame = experiment.dataframe()
    assert (frame["trial"][0], frame["metrics/trial"][0], frame["error"][0]) == ("t0", 7, 0.5)
    trials = nbckpt.find_trials(where="metrics.error == 0.5")
    assert list(trials[["trial", "error", "metrics/error", "metrics/note"]].iloc[0]) == ["t0", "", 0.5, 3]


def test_a_dataframe_has_a_row_for_each_result() -> None:
    experiment = ran(count, {"lr": nbckpt.grid_search([0.1, 0.2]), "n": 3})
    frame = experiment.dataframe()
    assert list(frame.trial) == ["t0"] * 3 + ["t1"] * 3
    assert list(frame["config/lr"]) == [0.1] * 3 + [0.2] * 3
    assert list(frame.training_iteration) == [1, 2, 3] * 2


def test_only_trials_that_were_written_to_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = forget(nbckpt.run(count, {"lr": nbckpt.grid_search([1, 2, 3])}, name="e"))
    experiment = Experiment.read(folder)
    read: list[str] = []
    one = Trial.read

    def reads(place: Path) -> Trial:
        read.append(place.name)
        return one(place)

    monkeypatch.setattr(Trial, "read", reads)
    before = experiment.trials
    assert Experiment.read(folder) is experiment
    assert read == []
    with TrialRecorder(one(folder / "t1")) as recorder:
        recorder.queue()
    (folder / "t1" / summary_file.FILE).unlink()
    (folder / "t3").mkdir()
    (folder / "t3" / "params.json").write_text("{}")
    assert statuses(Experiment.read(folder)) == ["TERMINATED", "PENDING"] * 2
    assert read == ["t1", "t3"]
    assert all(one is other for one, other in zip(before, experiment.trials, strict=False))


def test_a_library_knows_experiments_trials_and_checkpoints() -> None:
    for name in ("one", "two"):
        assert nbckpt.run(count, name=name).wait(SECONDS)
    library = Catalog(experiments_folder())
    assert sorted(library.names()) == ["one", "two"]
    assert library.trial("one/t0")[0].name == "one"
    trial, record = library.checkpoint("two/t0@2")
    assert (trial.id, record.iteration) == ("t0", 2)
    assert library.checkpoint("one/t0")[1].iteration == 4
    for wrong in ("three", "one/t9", "one/t0@9", "one/t0@x"):
        with pytest.raises((nbckpt.NotFoundError, nbckpt.UsageError)):
            library.checkpoint(wrong)


def test_removing_an_experiment_returns_the_freed_size(store: Path) -> None:
    assert nbckpt.run(count, name="e").wait(SECONDS)
    library = Catalog(store / "experiments")
    size = library.size_of("e")
    assert size == sum(file.stat().st_size for file in (store / "experiments/e").rglob("*") if file.is_file())
    assert library.remove("e").size == size
    assert library.names() == []


def test_an_experiment_killed_before_its_trials_runs_again(
    monkeypatch: pytest.MonkeyPatch, store: Path
) -> None:
    write = params.write
    monkeypatch.setattr(params, "write", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        nbckpt.run(count, {"lr": nbckpt.grid_search([1, 2])}, name="e")
    experiment = Experiment.read(store / "experiments/e")
    warning = "'e' has no trials: its process ended before they were made"
    with pytest.raises(nbckpt.UsageError, match=warning):
        experiment.resume()
    assert experiment.page().notes[0].startswith(warning)
    monkeypatch.setattr(params, "write", write)
    again = ran(count, {"lr": nbckpt.grid_search([1, 2])}, name="e")
    assert (statuses(again), again.notes) == (["TERMINATED"] * 2, [])


@pytest.mark.slow
def test_a_finished_experiment_is_not_kept_in_memory() -> None:
    experiment = ran(count)
    folder = experiment.folder
    del experiment
    gc.collect()
    assert folder not in shutdown.live


def test_names_that_windows_reserves_are_refused_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WINDOWS", True)
    for name in ("con", "aux.1", "net."):
        with pytest.raises(nbckpt.UsageError, match="cannot name an experiment"):
            nbckpt.run(count, name=name)


FOR_USERS = {
    *("name", "folder", "spec", "notes", "trials", "trial", "running", "runs_elsewhere", "interrupted"),
    *("best", "pareto", "dataframe", "plot", "table", "page", "for_json", "exit_status", "warns"),
    *("wait", "pause", "stop", "checkpoint", "kill", "resume", "refresh", "read"),
}


def test_an_experiment_shows_what_a_user_needs_and_no_more() -> None:
    assert {name for name in dir(Experiment) if not name.startswith("_")} == FOR_USERS


def test_what_an_experiment_shows_cannot_be_assigned(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path / "e", Spec(print))
    for name in ("name", "folder", "spec", "notes", "trials", "running"):
        with pytest.raises(AttributeError, match=name):
            setattr(experiment, name, None)
