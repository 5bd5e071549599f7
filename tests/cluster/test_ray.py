"""Trials on a real Ray cluster of two nodes, each with a disk and a secret of its own."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import threading
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from cluster.conftest import Hook, Nodes, living_actors, until

import nbckpt
from nbckpt.errors import TrialError, UsageError
from nbckpt.provenance import background
from nbckpt.provenance.seeds import write_seeds
from nbckpt.provenance.trial import read_attempts
from nbckpt.store import base
from nbckpt.testing import ExecutorTests
from nbckpt.trials import Experiment, Status, Trial
from nbckpt.trials.executors import WorkerLostError, transport
from nbckpt.trials.executors.base import Job
from nbckpt.trials.executors.ray import RayExecutor, RayWorker
from nbckpt.trials.training.function import wrap_function

pytestmark = pytest.mark.slow  # the start of a cluster

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the functions of a notebook

A_WHILE = 120


def run(
    function: Any, config: Mapping[str, Any] | None = None, executor: Any = "ray", **options: Any
) -> Experiment:
    return nbckpt.run(function, config, executor=executor, max_concurrent=2, **options)


def finished(function: Any, config: Mapping[str, Any] | None = None, **options: Any) -> Experiment:
    experiment = run(function, config, **options)
    assert experiment.wait(A_WHILE)
    return experiment


def told(trial: Trial, name: str = "training_iteration") -> list[Any]:
    return [result[name] for result in trial.results]


def this_node() -> str:
    return Path(os.environ["TMPDIR"]).name


def meet(folder: str, name: Any) -> None:
    """Wait until two trials are here, so that neither ends before the other begins."""
    Path(folder, str(name)).touch()
    while len(list(Path(folder).iterdir())) < 2:
        time.sleep(0.01)


def count(config: dict[str, Any]) -> None:
    if "meets" in config:
        meet(config["meets"], config["x"])
    checkpoint = nbckpt.get_checkpoint()
    start = checkpoint.to_dict()["i"] if checkpoint else 0
    for i in range(start, 6):
        nbckpt.report(i=i, node=this_node(), start=start, checkpoint={"i": i + 1} if i % 2 else None)
        if config.get("hangs_on") == this_node() and i == 4:
            threading.Event().wait()


class TestRay(ExecutorTests):
    runs_apart = True

    @pytest.fixture
    def executor(self) -> str:
        return "ray"

    @pytest.fixture
    def gpus(self) -> None:
        """Each node has a GPU by name."""


@pytest.fixture
def together(tmp_path: Path) -> dict[str, Any]:
    """What makes two trials run side by side."""
    (tmp_path / "meeting").mkdir()
    return {"x": nbckpt.grid_search([1, 2]), "meets": str(tmp_path / "meeting")}


def test_a_grid_runs_on_all_nodes_at_once(nodes: Nodes, together: dict[str, Any]) -> None:
    experiment = finished(count, together)
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED] * 2
    assert [told(trial) for trial in experiment.trials] == [[1, 2, 3, 4, 5, 6]] * 2
    assert {trial.results[0]["node"] for trial in experiment.trials} == {"first", "second"}
    assert nodes.left() == []


def test_trials_on_all_nodes_start_from_a_given_checkpoint(nodes: Nodes, together: dict[str, Any]) -> None:
    experiment = finished(count, together, restore=nbckpt.Checkpoint.from_dict({"i": 4}))
    assert [told(trial, "i") for trial in experiment.trials] == [[4, 5]] * 2
    assert [told(trial) for trial in experiment.trials] == [[1, 2]] * 2
    assert nodes.left() == []


def paint(config: dict[str, Any]) -> None:
    meet(config["meets"], config["x"])
    nbckpt.report(
        node=this_node(), note=nbckpt.media.Text(f"from {this_node()}"), same=nbckpt.media.Svg("<svg/>")
    )


def test_media_of_trials_on_other_nodes_are_kept_here(nodes: Nodes, together: dict[str, Any]) -> None:
    experiment = finished(paint, together)
    notes = {trial.media[0].load() for trial in experiment.trials}
    assert notes == {f"from {trial.results[0]['node']}" for trial in experiment.trials}
    assert len(list((experiment.folder / "media").iterdir())) == 3
    assert nodes.left() == []


def adds(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    total = checkpoint.to_dict()["total"] if checkpoint else 0.0
    while True:
        total += config["x"]
        saved = {"total": total} if nbckpt.should_checkpoint() else None
        nbckpt.report(total=total, checkpoint=saved)


def test_a_population_on_all_nodes_takes_over_checkpoints(nodes: Nodes) -> None:
    pbt = nbckpt.trials.PBT(2, max_t=6, metric="total", mode="max")
    experiment = finished(adds, {"x": nbckpt.grid_search([1.0, 2.0, 8.0])}, scheduler=pbt, seed=1)
    assert [told(trial) for trial in experiment.trials] == [[*range(1, 7)]] * 3
    donors = [(trial.folder / "events.jsonl").read_text().count('"donor"') for trial in experiment.trials]
    assert sum(donors) > 1
    assert nodes.left() == []


def test_a_trial_of_a_lost_node_continues_on_another_node(nodes: Nodes, together: dict[str, Any]) -> None:
    """The trial continues from its last checkpoint."""
    doomed = nodes.nodes["second"].node_id

    def pull_the_plug(trial: Trial, result: Mapping[str, Any]) -> None:
        if result["node"] == "second" and result["i"] == 4:
            nodes.remove("second")

    hook = Hook(pull_the_plug)
    experiment = finished(count, {**together, "hangs_on": "second"}, callbacks=[hook], max_failures=1)
    assert [told(trial) for trial in experiment.trials] == [[1, 2, 3, 4, 5, 6]] * 2
    (lost,) = [trial for trial in experiment.trials if trial.failures]
    assert lost.status == Status.TERMINATED
    assert told(lost, "node") == ["second"] * 4 + ["first"] * 2
    assert told(lost, "start") == [0] * 4 + [4] * 2
    (error,) = hook.errors
    assert isinstance(error, WorkerLostError)
    assert f"lost its Ray actor on node {doomed}: " in str(error)


def test_a_paused_trial_holds_no_actor_and_resumes(nodes: Nodes) -> None:
    experiment = run(count, {}, callbacks=[Hook(lambda t, r: experiment.pause() if r["i"] == 3 else None)])
    assert experiment.wait(A_WHILE)
    trial = experiment.trials[0]
    assert (trial.status, trial.iteration, trial.checkpoint_name) == (Status.PAUSED, 4, "checkpoint_000004")
    until(lambda: not living_actors())
    assert nodes.left() == []
    experiment.resume()
    assert experiment.wait(A_WHILE)
    assert told(trial) == [1, 2, 3, 4, 5, 6]
    assert told(trial, "start") == [0] * 4 + [4] * 2


class BadError(Exception):
    def __init__(self, signal: str, code: int) -> None:
        super().__init__(signal)
        self.code = code
        self.lock: Any = None

    def __reduce__(self) -> Any:
        return BadError, (*self.args, self.code), vars(self)


def test_the_functions_exception_is_the_cause_with_its_traceback() -> None:
    def fails(config: dict[str, Any]) -> None:
        error = BadError("too bad", 7)
        if config["holds_a_lock"]:
            error.lock = threading.Lock()
        raise error

    hook = Hook()
    experiment = finished(fails, {"holds_a_lock": nbckpt.grid_search([False, True])}, callbacks=[hook])
    for trial in experiment.trials:
        assert (trial.status, trial.error) == (Status.ERROR, "BadError: too bad")
        assert "in fails\n    raise error" in trial.traceback
        assert trial.traceback.rstrip().endswith("BadError: too bad")
    assert [type(error) for error in hook.errors] == [TrialError] * 2
    causes = {type(error.__cause__): error.__cause__ for error in hook.errors}
    assert causes.keys() == {BadError, transport.RemoteTraceback}
    assert causes[BadError].code == 7


def test_a_resource_of_one_node_keeps_trials_there() -> None:
    experiment = finished(
        count, {"x": nbckpt.grid_search([1, 2])}, resources_per_trial={"second": 0.5, "CPU": 0.5}
    )
    assert {node for trial in experiment.trials for node in told(trial, "node")} == {"second"}


def test_a_trial_that_met_a_lost_node_is_placed_again(nodes: Nodes) -> None:
    """Ray places actors on a node that is gone, until it notices. Such a trial has not failed."""
    nodes.remove("second")
    nodes.add("second")
    experiment = finished(count, {"x": nbckpt.grid_search([1, 2])}, resources_per_trial={"second": 0.5})
    assert [(trial.status, trial.error) for trial in experiment.trials] == [(Status.TERMINATED, "")] * 2


class Unplaced(RayWorker):
    """The worker of a trial whose actors never run, since Ray places each on a node that is gone."""

    def _get(self, reference: Any, timeout: float | None = None) -> Any:
        import ray

        raise WorkerLostError("the node is gone") from ray.exceptions.ActorDiedError()


class Actors:
    """Stands for Ray's class of actors, and counts those that were asked for."""

    asked = 0

    def remote(self, *_: Any) -> Any:
        import ray

        self.asked += 1
        return types.SimpleNamespace(node=types.SimpleNamespace(remote=lambda: ray.put(None)))


def test_a_trial_is_placed_three_times_at_most(nodes: Nodes, tmp_path: Path) -> None:
    actors, job = Actors(), Job(wrap_function(count), {}, tmp_path, "t0", "e/t0")
    with pytest.raises(WorkerLostError, match="the node is gone"):
        Unplaced(actors, job).has_room({"CPU": 1}, grows=True, patience_s=0.0)
    assert actors.asked == 3


class Listener:
    """A file that notes each time when these words are written to it."""

    def __init__(self, words: str) -> None:
        self.words = words
        self.heard = threading.Semaphore(0)
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text
        if self.words in text:
            self.heard.release()

    def flush(self) -> None:
        pass


def test_a_trial_waits_for_resources_and_logs_it(nodes: Nodes) -> None:
    impatient = RayExecutor({"third": 1}, patience_s=0.0)
    listener = Listener("waits: it asked for 1 CPU, 1 third; the cluster has 2 CPU")
    handler = logging.StreamHandler(listener)
    logging.getLogger("nbckpt").addHandler(handler)
    try:
        experiment = run(count, {"x": nbckpt.grid_search([1, 2])}, executor=impatient)
        assert all(listener.heard.acquire(timeout=A_WHILE) for _ in experiment.trials)
    finally:
        logging.getLogger("nbckpt").removeHandler(handler)
    stays, goes = experiment.trials
    until(lambda: "and no node that could hold it" in stays.note)
    experiment.stop(goes)
    until(lambda: goes.status == Status.TERMINATED)
    nodes.add("third")
    assert experiment.wait(A_WHILE)
    assert told(stays, "node") == ["third"] * 6
    assert stays.note == "done"
    assert told(goes) == []
    nodes.remove("third")


def files_of(folder: str | os.PathLike[str]) -> dict[str, bytes]:
    top = Path(folder)
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def folders(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
    start = 0
    if checkpoint_dir is not None:
        top = Path(checkpoint_dir)
        assert (top / "large").read_bytes() == bytes(range(250)) * 20
        assert (top / "a" / "empty").read_bytes() == b""
        assert (top / "a" / "none").is_dir()
        start = nbckpt.Checkpoint.from_directory(top / "a" / "inner").to_dict()["i"]
    for i in range(start, 4):
        with nbckpt.trials.checkpoint_dir(i + 1) as top:
            (top / "a" / "none").mkdir(parents=True)
            (top / "a" / "empty").touch()
            (top / "large").write_bytes(bytes(range(250)) * 20)
            nbckpt.Checkpoint.from_dict({"i": i + 1}).to_directory(top / "a" / "inner")
        nbckpt.report(i=i, start=start)


def test_a_folder_travels_both_ways_in_pieces_with_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PIECE", 1000)
    experiment = run(folders, callbacks=[Hook(lambda t, r: experiment.pause() if r["i"] == 1 else None)])
    assert experiment.wait(A_WHILE)
    trial = experiment.trials[0]
    (_, newest) = trial.checkpoints.records()
    trial.checkpoints.check(newest)
    place = trial.checkpoints.path(newest)
    assert (newest.name, newest.folders) == ("checkpoint_000002", ("a/none",))
    assert (place / "large").read_bytes() == bytes(range(250)) * 20
    assert nbckpt.Checkpoint.from_directory(place / "a" / "inner").to_dict() == {"i": 2}
    experiment.resume()
    assert experiment.wait(A_WHILE)
    assert (trial.status, trial.error) == (Status.TERMINATED, "")
    assert told(trial, "start") == [0, 0, 2, 2]


def test_a_foreign_signature_stays_foreign_on_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "strangers"))
        strange = nbckpt.Checkpoint.from_dict({"x": 1}).to_directory(tmp_path / "strange")

    def passes_on(config: dict[str, Any]) -> None:
        nbckpt.report(checkpoint=config["strange"])

    trial = finished(passes_on, {"strange": strange}).trials[0]
    (record,) = trial.checkpoints.records()
    with pytest.raises(nbckpt.errors.UntrustedError):
        nbckpt.Checkpoint.from_directory(trial.checkpoints.path(record)).to_dict()


class Steps(nbckpt.trials.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        if config.get("fails"):
            raise ValueError("in setup")
        self.i = 0

    def step(self) -> dict[str, Any]:
        self.i += 1
        return {"i": self.i, "done": self.i == 5}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"i": self.i}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.i = checkpoint["i"]

    def cleanup(self) -> None:
        Path(self.config["marker"]).touch()


def test_a_setup_that_fails_leaves_nothing(nodes: Nodes) -> None:
    trial = finished(Steps, {"fails": True}).trials[0]
    assert (trial.status, trial.error) == (Status.ERROR, "ValueError: in setup")
    assert nodes.left() == []


def test_a_hanging_trial_can_be_killed(nodes: Nodes) -> None:
    reported = threading.Event()
    watch = Hook(lambda _, result: reported.set() if result["i"] == 4 else None)
    experiment = run(count, {"hangs_on": "second"}, callbacks=[watch], resources_per_trial={"second": 1})
    assert reported.wait(A_WHILE)
    experiment.kill()
    assert experiment.wait(A_WHILE)
    trial = experiment.trials[0]
    assert trial.status == Status.TERMINATED
    assert "killed" in trial.note
    assert nodes.left() != []
    finished(count, resources_per_trial={"second": 1})  # whoever comes there next cleans up
    assert nodes.left() == []


def test_output_of_a_trial_is_printed_on_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def talks(config: dict[str, Any]) -> None:
        print("words of a trial")

    listener = Listener("words of a trial")
    monkeypatch.setattr(sys, "stdout", listener)
    experiment = finished(talks, name="talks")
    assert listener.heard.acquire(timeout=A_WHILE)
    assert experiment.trials[0].status == Status.TERMINATED
    assert "talks/t0" in listener.text


def test_an_unpicklable_or_unloadable_function_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()

    def holds_a_lock(config: dict[str, Any]) -> None:
        with lock:
            pass

    ghost = types.ModuleType("ghost")
    exec("def train(config): pass", vars(ghost))
    monkeypatch.setitem(sys.modules, "ghost", ghost)
    errors = [finished(function, max_failures=3).trials[0].error for function in (holds_a_lock, ghost.train)]
    assert "cannot send holds_a_lock" in errors[0]
    assert "cannot pickle '_thread.lock' object" in errors[0]
    assert "cannot be loaded on its node: ModuleNotFoundError: No module named 'ghost'" in errors[1]


def test_bad_requests_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="resources_per_trial"):
        run(count, resources_per_trial={"CPU": -1})
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"needs Ray: pip install 'nbckpt\[ray\]'"):
        run(count)


ALONE = """
import threading, nbckpt
from nbckpt.trials.model.callback import Callback

reached = threading.Event()

class Watch(Callback):
    def on_trial_result(self, trial, result):
        if result["i"] == 2:
            reached.set()

def count(config):
    for i in range(config["n"]):
        nbckpt.report(i=i, checkpoint={"i": i + 1})

too_much = nbckpt.run(count, {"n": 1}, executor="ray", resources_per_trial={"GPU": 1})
too_much.wait()
print(too_much.trials[0].error)
endless = nbckpt.run(count, {"n": 10**9}, name="e", executor="ray", callbacks=[Watch()])
reached.wait()
endless.pause()
"""


def test_a_script_starts_a_cluster_itself_and_ends_after_a_pause(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=A_WHILE)
    assert done.returncode == 0, done.stderr
    assert "/t0 will never run: it asked for 1 CPU, 1 GPU; the cluster has" in done.stdout
    trial = Trial.read(tmp_path / "store" / "experiments" / "e" / "t0")
    assert (trial.status, trial.error) == (Status.PAUSED, "")
    assert trial.checkpoint_iteration == trial.iteration >= 3


def test_a_trial_keeps_the_seeds_of_its_actor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(config: dict[str, Any]) -> None:
        nbckpt.report(drawn=random.random())

    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    (trial,) = finished(draw, folder=tmp_path).trials
    background.settle()
    (kept,) = read_attempts(trial.folder)
    before = random.getstate()
    try:
        assert "random" in write_seeds(kept.seeds)
        assert [random.random()] == trial.metric("drawn")
    finally:
        random.setstate(before)
