"""PBT: bad trials go on from good ones with other values, as in the paper, and after any crash."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials.conftest import SECONDS, forget
from trials.kills import Killed, kill_at

import nbckpt
from nbckpt.cli import main
from nbckpt.commands.values import find_scheduler
from nbckpt.errors import UsageError
from nbckpt.render.text import text
from nbckpt.trials import PBT, Callback, Experiment, Scheduler, Trainable, durable
from nbckpt.trials.checkpoints import copying
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.engine import shutdown, takeover
from nbckpt.trials.model import params, summary_file
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.drawing import recalled
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.space import Choice, Integer, Rounded
from nbckpt.trials.model.trial import Trial, is_held, rungs_of, state_of
from nbckpt.trials.schedulers.explore import explored, range_of
from nbckpt.trials.schedulers.population import Population, Turns
from nbckpt.trials.views.data import trial_data
from nbckpt.trials.views.takeovers import scheduled

XS = [1.0, 2.0, 4.0, 8.0]
SPACE = {"x": nbckpt.uniform(0.5, 16), "n": nbckpt.choice([1, 2, 4, 8])}


@dataclass
class Paper:
    """Algorithm 1 of Jaderberg et al. 2017 with truncation selection, for one arrival after the other."""

    seed: int
    quantile: float
    resample: float
    configs: dict[int, dict[str, Any]]
    values: dict[int, float] = field(default_factory=dict)
    generations: dict[int, int] = field(default_factory=dict)

    def ready(self, trial: int, value: float) -> tuple[int, dict[str, Any]] | None:
        """Evaluate, exploit, explore. Return the trial that was copied and the configuration, if one was."""
        self.values[trial] = value
        self.generations[trial] = self.generations.get(trial, 0) + 1
        ranked = sorted(self.values, key=lambda other: (self.values[other], other))
        share = min(math.ceil(len(ranked) * self.quantile), len(ranked) // 2)
        if trial not in ranked[len(ranked) - share :]:
            return None
        source = random.Random(f"{self.seed}, t{trial}, generation {self.generations[trial]}")
        donor = source.choice(ranked[:share])
        self.values[trial] = self.values[donor]
        self.configs[trial] = self._explore(self.configs[donor], source)
        return donor, self.configs[trial]

    def _explore(self, config: dict[str, Any], source: random.Random) -> dict[str, Any]:
        if source.random() < self.resample:
            x = source.uniform(0.5, 16)
        else:
            x = min(max(config["x"] * source.choice([1.2, 0.8]), 0.5), 16)
        choices = [1, 2, 4, 8]
        if source.random() < self.resample:
            n = source.choice(choices)
        else:
            at = choices.index(config["n"]) + source.choice((-1, 1))
            n = choices[min(max(at, 0), 3)]
        return {"x": x, "n": n}


class Ours:
    """The same from the scheduler."""

    def __init__(self, paper: Paper) -> None:
        self.trials = {number: Trial(Path(f"t{number}"), config) for number, config in paper.configs.items()}
        for trial in self.trials.values():
            state_of(trial).checkpoint = "checkpoint_000001"
        self.pbt = PBT(2, quantile=paper.quantile, resample=paper.resample, metric="loss", mode="min")
        spec = SimpleNamespace(seed=paper.seed, config=SPACE)
        every: Any = SimpleNamespace(trials=(), trial=lambda name: self.trials[int(name[1:])], spec=spec)
        self.pbt.setup(every)

    def ready(self, number: int, value: float) -> tuple[int, dict[str, Any]] | None:
        trial = self.trials[number]
        state = state_of(trial)
        for loss in (value + 1, value):
            state.iteration += 1
            state.last_result = {"training_iteration": state.iteration, "loss": loss}
            decision = self.pbt.reported(trial)
            assert (decision is None) is (loss != value)
        self._record(trial, decision)
        if decision.do == "yield":
            return None
        assert decision.do == "pause"
        held, going_on = next(iter([self.pbt.next_trial({trial.id: trial})]))
        assert held is trial
        assert going_on.do == "exploit"
        self._record(trial, going_on)
        state.fold({"event": "checkpoint", "name": "checkpoint_000001", "iteration": 1, "donor": "t@1"})
        return int(going_on.donor[1:]), trial.config

    def _record(self, trial: Trial, decision: Decision) -> None:
        fields = {name: getattr(decision, name) for name in ("do", "reason", "rung", "value")}
        more = {name: getattr(decision, name) for name in ("donor", "checkpoint", "config")}
        state_of(trial).fold({"event": "decision", **fields, **(more if decision.donor else {})})


@given(
    st.integers(0, 9),
    st.sampled_from([0.05, 0.2, 0.25, 0.5]),
    st.sampled_from([0.0, 0.25, 1.0]),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=40),
)
def test_exploits_are_those_of_the_paper(
    seed: int, quantile: float, resample: float, arrivals: list[tuple[int, int]]
) -> None:
    paper = Paper(seed, quantile, resample, {n: {"x": 1.0 + n, "n": [1, 2, 4, 8][n % 4]} for n in range(6)})
    ours = Ours(paper)
    for trial, value in arrivals:
        assert ours.ready(trial, value) == paper.ready(trial, value)


DOMAINS = [
    nbckpt.uniform(0, 1),
    nbckpt.loguniform(1e-3, 1),
    nbckpt.quniform(0, 1, 0.25),
    nbckpt.randint(1, 9),
    nbckpt.lograndint(1, 9),
    nbckpt.choice(["a", "b", True]),
    nbckpt.grid_search([1, 2, 3]),
]


@given(st.sampled_from(DOMAINS), st.floats(0, 1), st.integers(0, 99))
def test_other_values_stay_in_their_ranges(values: Any, resample: float, seed: int) -> None:
    source = random.Random(seed)
    value = source.choice(values.values) if hasattr(values, "values") else values.draw(source)
    for _ in range(9):
        value = explored(value, values, source, resample)
        if hasattr(values, "values"):
            assert value in values.values
            continue
        ends = getattr(values, "domain", values)
        is_whole = isinstance(values, Integer)
        assert ends.low <= value <= ends.high - is_whole
        assert isinstance(value, int) is is_whole or not is_whole


def test_a_value_moves_to_one_near_it(subtests: pytest.Subtests) -> None:
    for value, values, other in [
        (1.0, nbckpt.uniform(0, 9), {1.2, 0.8}),
        (1.0, nbckpt.uniform(0, 1), {1.0, 0.8}),
        (2, nbckpt.randint(1, 9), {1, 3}),
        (1, nbckpt.randint(1, 9), {1, 2}),
        (0.5, nbckpt.quniform(0, 1, 0.25), {0.25, 0.75}),
        (32, range_of("n", lambda: 16), {38, 26}),
        (1, range_of("n", lambda: 16), {1, 2}),
        (1.0, range_of("n", lambda: 16), {1.2, 0.8}),
        (1, nbckpt.uniform(0, 9), {1.2, 0.8}),
        ("b", nbckpt.choice(["a", "b", "c"]), {"a", "c"}),
        ("a", nbckpt.choice(["a", "b", "c"]), {"a", "b"}),
        ("z", nbckpt.choice(["a", "b"]), {"a", "b"}),
    ]:
        with subtests.test(value=value, values=values):
            moved = {explored(value, values, random.Random(seed), 0.0) for seed in range(50)}
            assert moved == other
            is_whole = all(isinstance(each, int) for each in (*other, value))
            assert {isinstance(each, int) for each in moved} == {True} or not is_whole
    first, second = np.arange(3), np.arange(3) + 1
    moved = {str(explored(first.copy(), Choice((first, second)), random.Random(n), 0.0)) for n in range(20)}
    assert moved == {"[0 1 2]", "[1 2 3]"}


def test_a_value_that_would_be_infinite_is_drawn_again(subtests: pytest.Subtests) -> None:
    for value in [1e308, -1e308, 10**400]:
        for step in [None, 2.0]:
            with subtests.test(value=value, step=step):
                drawn = range_of("lr", lambda: 4.0)
                values = Rounded(drawn, step) if step else drawn
                assert explored(value, values, random.Random(1), 0.0, (10.0,)) == 4.0


def sums(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Add x up, from the sum in the checkpoint."""
    checkpoint = nbckpt.get_checkpoint()
    saved = checkpoint.to_dict() if checkpoint else {"total": 0.0, "at": 0}
    total, at = saved["total"], saved["at"]
    while True:
        total, at = total + config["x"], at + 1
        made = {"total": total, "at": at} if nbckpt.should_checkpoint() else None
        yield {"total": total, "at": at, "x": config["x"], "checkpoint": made}


def train(config: dict[str, Any]) -> None:
    for result in sums(config):
        nbckpt.report(**result)


class Sum(Trainable):
    """The same as a class."""

    def setup(self, config: Mapping[str, Any]) -> None:
        self.x, self.total = config["x"], 0.0

    def step(self) -> dict[str, Any]:
        self.total += self.x
        return {"total": self.total, "x": self.x}

    def save_checkpoint(self, folder: str) -> None:
        Path(folder, "total").write_text(str(self.total))

    def load_checkpoint(self, folder: str) -> None:
        self.total = float(Path(folder, "total").read_text())


def pbt(interval: float = 4, max_t: float = 12, **options: Any) -> PBT:
    return PBT(interval, max_t=max_t, mutations={"x": nbckpt.uniform(0.5, 16)}, **options)


def begun(function: Any = train, *, scheduler: Any = None, xs: int = 4, **options: Any) -> Experiment:
    space = {"x": nbckpt.grid_search(XS[:xs]), "twice": nbckpt.sample_from(lambda spec: spec.config.x * 2)}
    options = {"executor": "inline", "name": "e", "metric": "total", "mode": "max", "seed": 1} | options
    return nbckpt.run(function, space, scheduler=scheduler or pbt(), provenance=False, **options)


def search(function: Any = train, **options: Any) -> Experiment:
    experiment = begun(function, **options)
    assert experiment.wait(SECONDS)
    return experiment


def decided(trial: Trial, *kinds: str) -> list[dict[str, Any]]:
    lines = (trial.folder / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines if not line.endswith("#torn")]
    return [event for event in events if event["event"] == "decision" and event["do"] in kinds]


def history(experiment: Experiment) -> dict[str, Any]:
    """What holds of each trial after whatever happened on the way."""
    return {
        trial.id: (
            [(result["training_iteration"], result["total"]) for result in trial.results],
            trial.config,
            trial.rungs,
            [(event["rung"], event["donor"], event["config"]) for event in decided(trial, "exploit")],
            str(trial.status),
        )
        for trial in experiment.trials
    }


def check_takeovers(experiment: Experiment) -> int:
    """Check what each takeover left. Return how many there were."""
    count = 0
    for trial in experiment.trials:
        results = trial.results
        assert [result["training_iteration"] for result in results] == [*range(1, trial.iteration + 1)]
        for event in decided(trial, "exploit"):
            count += 1
            donor, at = experiment.trial(event["donor"]), 4 * (event["rung"] + 1)
            before = results[at]["total"] - results[at]["x"]
            assert donor is not trial
            assert results[at]["x"] == pytest.approx(event["config"]["x"])
            assert any(before == pytest.approx(result["total"]) for result in donor.results)
            assert event["config"]["twice"] == pytest.approx(2 * event["config"]["x"])
    return count


@pytest.mark.parametrize("executor", ["inline", "thread", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize("function", [train, Sum])
def test_bad_trials_go_on_from_good_ones(function: Any, executor: str) -> None:
    experiment = search(function, executor=executor, max_concurrent=1)
    assert experiment.notes == []
    assert [trial.iteration for trial in experiment.trials] == [12] * 4
    assert check_takeovers(experiment) >= 2


@pytest.mark.parametrize("workers", [2, 4])
def test_side_by_side_no_step_is_trained_twice(workers: int) -> None:
    experiment = search(executor="thread", max_concurrent=workers, scheduler=pbt(2, 20))
    assert experiment.notes == []
    for trial in experiment.trials:
        assert [result["training_iteration"] for result in trial.results] == [*range(1, 21)]
        assert (trial.folder / "events.jsonl").read_text().count('"event":"result"') == 20
        assert trial.config["twice"] == pytest.approx(2 * trial.config["x"])
        assert trial.metrics["x"] == trial.config["x"]


def test_with_one_worker_trials_take_turns() -> None:
    experiment = search()
    starts = sorted(
        (event["at"], event["iteration"], trial.id)
        for trial in experiment.trials
        for event in map(json.loads, (trial.folder / "events.jsonl").read_text().splitlines())
        if event["event"] == "start"
    )
    turns = [(step, name) for _, step, name in starts]
    assert turns == [(step, f"t{number}") for step in (0, 4, 8) for number in range(4)]


def test_the_same_seed_gives_the_same_takeovers(tmp_path: Path) -> None:
    """A cell that runs twice repeats nothing."""
    one, other, again = (history(search(folder=tmp_path / name)) for name in ("one", "other", "one"))
    assert one == other == again
    assert history(search(folder=tmp_path / "third", seed=2)) != one


def test_a_later_run_knows_trials_by_their_first_values() -> None:
    experiment = search()
    configs = [trial.config for trial in experiment.trials]
    assert [params.read(trial.folder)["x"] for trial in experiment.trials] == XS
    assert configs != [params.read(trial.folder) for trial in experiment.trials]
    forget(experiment)
    again = search(scheduler=pbt(max_t=16))
    assert [trial.config for trial in again.trials] == configs
    forget(again)
    assert [Trial.read(trial.folder).config for trial in again.trials] == configs


def small(**options: Any) -> Experiment:
    return search(xs=3, scheduler=pbt(2, 6, quantile=0.5), **{"max_concurrent": 1} | options)


def killed_and_run_again(owner: Any, name: str, number: int) -> tuple[bool, dict[str, Any]]:
    """Return whether the kill came, and the history after a second run."""
    with pytest.MonkeyPatch.context() as patch:
        calls = kill_at(patch, owner, name, number)
        try:
            forget(small())
        except Killed:
            shutdown.live.clear()
    return calls[0] >= number, history(small())


@pytest.mark.slow
def test_a_kill_at_any_event_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "whole"))
    whole = history(small())
    assert any(trial[3] for trial in whole.values())
    number, came = 0, True
    while came:
        number += 1
        monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / str(number)))
        came, after = killed_and_run_again(Journal, "append", number)
        assert after == whole, number
        shutil.rmtree(tmp_path / str(number))
    assert number > 60


SCRIPT = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from trials import test_pbt
from nbckpt.trials.checkpoints import copying, folder
from nbckpt.trials.model.journal import Journal

def dies_at(owner, name, number):
    function = getattr(owner, name)
    def counted(*args, **kwargs):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    setattr(owner, name, counted)

left = {number}
dies_at({owner}, {name!r}, left)
test_pbt.small(executor={executor!r}, folder={folder!r})
"""


KILLS = [
    ("Journal", "append", 4),
    ("Journal", "append", 17),
    ("Journal", "append", 31),
    ("copying.shutil", "copy", 1),
    ("copying", "check_files", 2),
    ("folder", "rename", 2),
    ("folder", "commit", 4),
    ("folder", "write_file", 4),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "number", "executor"),
    [(*kill, "inline") for kill in KILLS]
    + [(*kill, executor) for kill in KILLS[1:4:2] for executor in ("thread", "process")],
)
def test_a_killed_process_changes_nothing(
    owner: str, name: str, number: int, executor: str, tmp_path: Path
) -> None:
    place = str(tmp_path / "killed")
    fields = {"owner": owner, "name": name, "number": number, "executor": executor, "folder": place}
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), **fields)
    ended = subprocess.run([sys.executable, "-c", script], timeout=SECONDS, check=False)
    assert ended.returncode == -signal.SIGKILL
    after = history(small(executor=executor, folder=place, max_concurrent=1))
    assert after == history(small(folder=tmp_path / "whole"))


def test_a_kill_within_a_copy_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    whole = history(small(folder=tmp_path / "whole"))
    for owner, name in [
        (copying.shutil, "copy"),
        (copying, "check_files"),
        (takeover, "copy_into"),
        (CheckpointFolder, "publish"),
        (CheckpointFolder, "_forget"),
    ]:
        monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / name))
        with subtests.test(name):
            assert killed_and_run_again(owner, name, 1) == (True, whole)


def forgetful(config: dict[str, Any]) -> None:
    for step in range(1, 100):
        nbckpt.report(total=config["x"] * step)


def test_trials_without_a_checkpoint_go_on_as_they_are() -> None:
    experiment = search(forgetful)
    assert [trial.iteration for trial in experiment.trials] == [12] * 4
    assert [trial.config["x"] for trial in experiment.trials] == XS
    assert [trial.attempts for trial in experiment.trials] == [1] * 4
    (note,) = experiment.notes
    assert note.startswith("trials without a checkpoint cannot take over others, nor be taken over")
    assert note in "".join(experiment.page().notes)


def no_takeover(experiment: Experiment) -> list[str]:
    """Check that every trial went on as it was. Return the reasons of those that were to take over."""
    assert [trial.iteration for trial in experiment.trials] == [12] * 4
    assert [trial.config["x"] for trial in experiment.trials] == XS
    assert [trial.metrics["total"] for trial in experiment.trials] == [12 * x for x in XS]
    every = [event for trial in experiment.trials for event in decided(trial, "promote")]
    return [event["reason"] for event in every if "cannot be copied" in event["reason"]]


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.with_suffix(".json").unlink()


def damaged(folder: Path) -> None:
    for file in filter(Path.is_file, folder.rglob("*")):
        file.write_bytes(b"no" + file.read_bytes()[2:])


def without_files(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def link_instead(folder: Path) -> None:
    outside = Path(tempfile.mkdtemp(dir=folder.parents[3])) / folder.name
    folder.rename(outside)
    folder.symlink_to(outside)


SPOILT = {
    deleted: "is gone",
    damaged: "is not what was saved",
    without_files: "is gone",
    link_instead: "leads outside",
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_donor_lets_the_trial_go_on_as_it_is(spoil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = takeover.copy_into

    def spoils(own: Any, target: Any, source: CheckpointFolder, record: Any) -> Any:
        hidden = source.folder.parents[1] / "kept"
        shutil.copytree(source.folder, hidden, symlinks=True)
        for kept in source.records():
            spoil(source.folder / kept.name)
        try:
            return copies(own, target, source, record)
        finally:
            shutil.rmtree(source.folder)
            hidden.rename(source.folder)

    monkeypatch.setattr(takeover, "copy_into", spoils)
    reasons = no_takeover(search())
    assert reasons
    assert all(SPOILT[spoil] in reason for reason in reasons)


def take_over(trial: Trial, donor: str, checkpoint: str = "checkpoint_000004") -> None:
    with TrialRecorder(trial) as recorder:
        recorder.decided(Decision("exploit", "", 0, 1.0, donor, checkpoint, {"x": 5.0}))
        takeover.take_over(recorder, trial.checkpoints)


def test_a_donor_is_a_trial_of_the_same_experiment(tmp_path: Path) -> None:
    """A donor that is a link is not read."""
    trial, donor = search(xs=2).trials
    donor.folder.rename(tmp_path / "t1")
    donor.folder.symlink_to(tmp_path / "t1")
    for name, says in (
        (os.path.relpath(tmp_path / "t1", trial.folder.parent), "has no trial"),
        (donor.id, "leads outside"),
    ):
        take_over(trial, name)
        assert says in decided(trial, "promote")[-1]["reason"]
        assert trial.config["x"] != 5.0


def test_a_removed_checkpoint_is_replaced_by_the_newest() -> None:
    trial, donor = search(xs=2, scheduler=pbt(4, 12, quantile=0.01), keep_checkpoints=1).trials
    take_over(trial, donor.id, "checkpoint_000001")
    assert state_of(trial).scheduling.donor == f"{donor.id}@12"
    assert trial.checkpoint.to_dict() == donor.checkpoint.to_dict()
    assert trial.checkpoints.read("checkpoint_000012").iteration == 12


def test_a_file_that_changes_during_the_copy_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copy

    def changes(file: Path, copied: Path) -> None:
        copy(file, copied)
        copied.write_bytes(b"no" + copied.read_bytes()[2:])

    monkeypatch.setattr(copying.shutil, "copy", changes)
    assert all("is not what was saved" in reason for reason in no_takeover(search()))


def test_a_full_disk_at_the_copy_fails_only_that_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, failed = shutil.copy, []

    def fills(file: Path, copied: Path) -> None:
        if not failed or f"/{failed[0]}/" in str(copied):
            failed[:] = failed or [copied.parents[1].name if copied.parent.name != "" else ""]
            raise OSError(errno.ENOSPC, "No space left on device")
        copy(file, copied)

    with monkeypatch.context() as patch:
        patch.setattr(copying.shutil, "copy", fills)
        experiment = search()
    broken = [trial for trial in experiment.trials if trial.status == "ERROR"]
    assert [trial.iteration for trial in experiment.trials if trial not in broken] == [12] * (4 - len(broken))
    assert len(broken) == 1
    assert "No space left on device. Free some space" in broken[0].error
    assert broken[0].checkpoint is not None  # its own is whole
    experiment.resume(errored=True)
    assert experiment.wait(SECONDS)
    assert broken[0].iteration == 12
    assert state_of(broken[0]).scheduling.donor


def test_a_page_and_a_summary_tell_what_was_decided() -> None:
    experiment = search()
    trial = next(trial for trial in experiment.trials if decided(trial, "exploit"))
    (first, *_) = decided(trial, "exploit")
    shown = text(trial.page())
    assert f"{first['donor']}@" in shown
    assert first["reason"] in shown
    assert "params.json has the first ones" in shown
    (table, *_) = experiment.page().tables
    at = [column.name for column in table.columns].index("generation")
    assert [getattr(row[at], "text", row[at]) for row in table.rows] == ["2"] * 4
    assert trial_data(trial, "done").donor == state_of(trial).scheduling.donor != ""
    for trial in experiment.trials:
        kept, whole = summary_file.read(trial.folder), Trial.read(trial.folder)
        assert state_of(kept).scheduling == state_of(whole).scheduling == state_of(trial).scheduling
        assert kept.config == whole.config == trial.config


def test_a_trial_that_waits_to_take_over_says_so() -> None:
    trial = search(xs=2).trials[0]
    fields = {"do": "exploit", "rung": 7, "reason": "generation 8: it goes on from t1", "value": 1.0}
    more = {"donor": "t1", "checkpoint": "checkpoint_000004", "config": {"x": 3.0}}
    state_of(trial).fold({"event": "decision", **fields, **more})
    notes = list(scheduled(trial))
    assert "The scheduler decided last: generation 8: it goes on from t1." in notes
    assert "It goes on from t1 with other values when it starts again." in notes


def test_a_user_may_pause_resume_and_stop_beside_it() -> None:
    def acts(config: dict[str, Any]) -> None:
        trial = nbckpt.get_context().id
        for result in sums(config):
            done = shutdown.live[folder].trial(trial).iteration
            if done == 5 and trial == "t1" and not actions:
                actions.append(trial)
                shutdown.live[folder].pause(trial)
            if done == 5 and trial == "t2":
                shutdown.live[folder].stop(trial)
            nbckpt.report(**result)

    actions: list[str] = []
    folder = Path(os.environ["NBCKPT_STORE"]).absolute() / "experiments" / "e"
    experiment = search(acts)
    by = {trial.id: trial for trial in experiment.trials}
    assert (by["t1"].status, by["t1"].note, is_held(by["t1"])) == ("PAUSED", "paused", False)
    assert (by["t2"].status, by["t2"].stopped_early, by["t2"].iteration) == ("TERMINATED", True, 6)
    experiment.resume("t1")
    assert experiment.wait(SECONDS)
    assert [by[name].iteration for name in ("t0", "t1", "t3")] == [12] * 3
    for trial in by.values():
        assert [result["training_iteration"] for result in trial.results] == [*range(1, trial.iteration + 1)]


def test_a_stop_of_all_ends_trials_that_are_paused() -> None:
    experiment = search(scheduler=pbt(4, 100), stop=lambda _, result: result["training_iteration"] >= 4)
    forget(experiment)
    assert all(trial.finished for trial in experiment.trials)


@pytest.mark.slow
def test_a_synced_experiment_has_what_was_taken_over(tmp_path: Path) -> None:
    config = nbckpt.SyncConfig(upload_dir=(tmp_path / "there").as_uri(), sync_period=0)
    before = history(search(sync_config=config))
    shutil.rmtree(tmp_path / "store" / "experiments" / "e")
    shutdown.live.clear()
    again = search(sync_config=config)
    assert history(again) == before
    for trial in again.trials:
        for record in trial.checkpoints.records():
            trial.checkpoints.check(record)


@pytest.mark.parametrize("function", [train, Sum])
def test_durable_trials_take_over_as_others_do(function: Any, tmp_path: Path) -> None:
    expected = history(search(function, folder=tmp_path / "plain"))
    remote = tmp_path / "remote"
    experiment = search(durable(function, remote.as_uri()), folder=tmp_path / "durable")
    assert history(experiment) == expected
    assert check_takeovers(experiment) > 1
    newest = [trial.checkpoint_name for trial in experiment.trials]
    for trial, name in zip(experiment.trials, newest, strict=True):
        assert [*remote.rglob(f"*{trial.id}/*{name}*")]


def test_a_cell_that_runs_again_meanwhile_goes_on(tmp_path: Path) -> None:
    reported = threading.Event()

    class Tells(Callback):
        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            if result["training_iteration"] == 5:
                reported.set()

    begun(executor="thread", folder=tmp_path, callbacks=[Tells()])
    assert reported.wait(SECONDS)
    again = search(executor="thread", folder=tmp_path)
    assert [trial.status for trial in again.trials] == ["TERMINATED"] * 4
    for trial in again.trials:
        assert [result["training_iteration"] for result in trial.results] == [*range(1, 13)]
        ends = {4 * (event["rung"] + 1) for event in decided(trial, "exploit")}
        for at, (former, result) in enumerate(itertools.pairwise(trial.results), 1):
            assert at in ends or result["total"] == pytest.approx(former["total"] + result["x"])


def test_gc_leaves_a_copy_that_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def collects(folder: Path, record: Any, where: object) -> None:
        ran.append(main(["gc"]))
        check_files(folder, record, where)

    check_files = copying.check_files
    monkeypatch.setattr(copying, "check_files", collects)
    assert check_takeovers(search()) >= 2
    assert ran
    assert not any(ran)


def test_rm_refuses_a_checkpoint_of_a_trial_that_goes_on() -> None:
    refused = []

    def tries(config: dict[str, Any]) -> None:
        for result in sums(config):
            if result["at"] == 6:
                refused.append(main(["rm", "e/t0@4"]))
            nbckpt.report(**result)

    search(tries)
    assert refused
    assert all(refused)


def test_values_that_are_no_json_come_back_in_a_new_kernel() -> None:
    space = {"x": nbckpt.uniform(0, 1), "model": Sum, "n": {"of": nbckpt.choice([len, sum])}}
    kept = {"x": 0.5, "model": repr(Sum), "n": {"of": repr(sum)}}
    assert recalled(space, kept) == {"x": 0.5, "model": Sum, "n": {"of": sum}}
    fixed = space | {"x": 0.1}
    assert recalled(fixed, kept, is_changed=True) == {"x": 0.5, "model": Sum, "n": {"of": sum}}


def test_a_trial_without_a_number_is_never_copied() -> None:
    pbt = PBT(1, metric="loss", mode="min", quantile=0.5)
    for number, loss in enumerate((math.nan, math.nan, 1.0, math.nan)):
        trial = Trial(Path(f"t{number}"), {})
        state_of(trial).last_result = {"training_iteration": 1, "loss": loss}
        state_of(trial).iteration = 1
        pbt.reported(trial)
    assert ends(pbt._population, range(4)) == (["t1", "t3"], ["t2"])


def ends(population: Population, numbers: Iterable[int]) -> tuple[list[str], list[str]]:
    """Return the worst and the best, in their order."""
    worst = [name for name in (f"t{number}" for number in numbers) if population.is_bad(name)]
    return sorted(worst, key=population.rank), [*population.best()]


badnesses = st.sampled_from([0.0, 1.0, 2.0, 3.0, math.inf, None])


@given(st.sampled_from([0.05, 0.25, 0.5]), st.lists(st.tuples(st.integers(0, 12), badnesses), max_size=60))
def test_the_population_is_that_of_a_plain_sort(
    quantile: float, moves: list[tuple[int, float | None]]
) -> None:
    population, plain = Population(quantile), dict[int, float]()
    for number, badness in moves:
        if badness is None:
            population.leave(f"t{number}")
            plain.pop(number, None)
        else:
            population.put(f"t{number}", badness, 1)
            plain[number] = badness
        ordered = sorted(plain, key=lambda each: (plain[each], each))
        many = min(math.ceil(len(ordered) * quantile), len(ordered) // 2)
        best = [f"t{each}" for each in ordered[:many] if plain[each] < math.inf]
        worst = {f"t{each}" for each in ordered[len(ordered) - many :]}
        assert ({name for name in map("t{}".format, range(13)) if population.is_bad(name)}) == worst
        assert [*population.best()] == best
        assert population.has_best is bool(best)
        assert len(population) == len(plain)
        for each in plain:
            assert population.rank(f"t{each}") == 1 + sum(other < plain[each] for other in plain.values())


@given(st.lists(st.integers(0, 8), max_size=60))
def test_turns_go_to_the_earliest_generation(numbers: list[int]) -> None:
    trials, turns, held = [Trial(Path(f"t{number}"), {}) for number in range(9)], Turns(), dict[str, Trial]()
    for number in numbers:
        trial = trials[number]
        if trial.id not in held:
            event = {"event": "decision", "do": "pause", "reason": "", "value": 1.0}
            state_of(trial).fold({**event, "rung": rungs_of(trial)})
            turns.wait(trial.id, rungs_of(trial))
            held[trial.id] = trial
        if len(held) > 4:
            first = turns.first(held)
            assert first is min(held.values(), key=lambda each: (rungs_of(each), int(each.id[1:])))
            del held[first.id]


def test_a_trial_that_comes_back_without_a_result_gets_a_turn() -> None:
    trials, turns = {f"t{number}": Trial(Path(f"t{number}"), {}) for number in range(3)}, Turns()
    for number in range(2):
        turns.wait(f"t{number}", 0)
    assert turns.first({"t1": trials["t1"]}) is trials["t1"]
    assert turns.first({"t0": trials["t0"], "t2": trials["t2"]}) is trials["t0"]


def test_many_generations_take_little_memory() -> None:
    state = state_of(Trial(Path("t0"), {}))
    for rung in range(1000):
        state.fold({"event": "decision", "do": "continue", "rung": rung, "reason": "", "value": 1.0})
    assert min(state.scheduling.rungs) == 1000 - 256
    assert state.scheduling.promoted == 1000


def test_impossible_arguments_are_refused(subtests: pytest.Subtests) -> None:
    for wrong, message in [
        ({"interval": 0}, "interval=0 is impossible: give a number above 0"),
        ({"interval": 5, "max_t": 4}, "max_t=4 is below interval=5"),
        ({"quantile": 0.6}, r"at most 0\.5"),
        ({"quantile": 0}, "above 0"),
        ({"resample": 2}, "from 0 to 1"),
        ({"factors": ()}, "numbers above 0, such as"),
        ({"factors": (1.2, -1)}, "numbers above 0, such as"),
        ({"mutations": {"x": 3}}, r"mutations\['x'\]=3 is not a range"),
        ({"mutations": {"x": "ab"}}, "is not a range"),
        ({"mutations": {"x": []}}, "is not a range"),
        ({"mutations": {"x": nbckpt.sample_from(len)}}, "is not a range"),
        ({"mode": "best"}, "'min' or 'max'"),
    ]:
        with subtests.test(message), pytest.raises(UsageError, match=message):
            PBT(**wrong)


@pytest.mark.parametrize(
    ("scheduler", "space", "message"),
    [
        (PBT(mutations={"lrr": [1, 2]}), {"lr": 1}, "mutations has 'lrr', but .* has not. Did you mean"),
        (PBT(), {"lr": 1}, "PBT has nothing to change: give ranges"),
        (PBT(), {"lr": nbckpt.sample_from(len)}, "PBT has nothing to change: give ranges"),
    ],
)
def test_a_space_that_cannot_change_is_refused(scheduler: PBT, space: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nbckpt.run(train, space, scheduler=scheduler, metric="total", mode="max", name="refused")
    assert not (Path(os.environ["NBCKPT_STORE"]) / "experiments" / "refused").exists()


def test_the_command_makes_pbt() -> None:
    made = find_scheduler("pbt interval=5 max_t=50 mutations={'lr':uniform(0,1)}", None)
    assert (made.interval, made.max_t, list(made.mutations)) == (5, 50, ["lr"])


def test_a_scheduler_of_yours_may_take_turns() -> None:
    class Turns(Scheduler):
        takes_turns = True

        def setup(self, experiment: Any) -> None:
            """Do nothing."""

        def wants_checkpoint(self, trial: Trial) -> bool:
            return True

        def reported(self, trial: Trial) -> Decision | None:
            return Decision("yield", "the next, please")

        def next_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
            first = min(held.values(), key=lambda trial: (trial.iteration, trial.id))
            return first, Decision("promote", "")

    experiment = search(scheduler=Turns(), xs=2, stop={"training_iteration": 3})
    assert [trial.attempts for trial in experiment.trials] == [3, 3]
    alone = search(scheduler=Turns(), xs=1, stop={"training_iteration": 3}, name="alone")
    assert [trial.attempts for trial in alone.trials] == [1]
