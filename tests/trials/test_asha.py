"""ASHA: the promotions of the paper's algorithm 2, and trials that pause at rungs and go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials.conftest import SECONDS, forget, ran
from trials.kills import Killed, kill_at

import nbckpt
from nbckpt.commands.values import find_scheduler
from nbckpt.errors import StoreError, UsageError
from nbckpt.trials import ASHA, Experiment, MedianStopping, Scheduler, Status, Trainable
from nbckpt.trials.engine import shutdown
from nbckpt.trials.engine.runner import runner_of
from nbckpt.trials.model import optuna, summary_file
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.trial import Trial, is_held, state_of


def trial_at(number: int, time: float, loss: float) -> Trial:
    made = Trial(Path(f"t{number}"), {})
    state_of(made).last_result = {"training_iteration": time, "loss": loss}
    return made


@dataclass
class Paper:
    """Algorithm 2 of Li et al. 2020, line by line, with all trials of a rung sorted each time."""

    factor: int
    most: int
    rungs: dict[int, dict[int, float]] = field(default_factory=dict)
    promoted: set[tuple[int, int]] = field(default_factory=set)
    made: int = 0

    def report(self, trial: int, rung: int, loss: float) -> None:
        self.rungs.setdefault(rung, {})[trial] = loss

    def get_job(self) -> tuple[int, int] | None:
        for rung in sorted(self.rungs, reverse=True):
            best = sorted((loss, trial) for trial, loss in self.rungs[rung].items())
            candidates = best[: len(best) // self.factor]
            promotable = [trial for _, trial in candidates if (trial, rung) not in self.promoted]
            if promotable:
                self.promoted.add((promotable[0], rung))
                return promotable[0], rung + 1
        if self.made < self.most:
            self.made += 1
            return self.made - 1, 0
        return None


class Ours:
    """The same jobs from a scheduler."""

    def __init__(self, factor: int, most: int) -> None:
        self.asha = ASHA(reduction_factor=factor, metric="loss", mode="min")
        self.factor, self.most = factor, most
        self.held: dict[str, Trial] = {}
        self.going: tuple[int, int] | None = None
        self.made = 0

    def report(self, trial: int, rung: int, loss: float) -> None:
        reporting = trial_at(trial, self.factor**rung, loss)
        decision = self.asha.reported(reporting)
        assert decision is not None
        if decision.do == "continue":
            self.going = trial, rung + 1
        else:
            assert decision.do == "pause"
            self.held[reporting.id] = reporting

    def get_job(self) -> tuple[int, int] | None:
        going, self.going = self.going, None
        if going is not None:
            return going
        picked = self.asha.next_trial(self.held)
        if picked is not None:
            trial, decision = picked
            assert decision.rung is not None
            del self.held[trial.id]
            return int(trial.id[1:]), decision.rung + 1
        if self.made < self.most:
            self.made += 1
            return self.made - 1, 0
        return None


@given(
    st.integers(2, 4),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60),
)
def test_promotions_are_those_of_the_paper(
    factor: int, workers: int, arrivals: list[tuple[int, int]]
) -> None:
    paper, ours = Paper(factor, 12), Ours(factor, 12)
    jobs: list[tuple[int, int]] = []
    for which, loss in arrivals:
        while len(jobs) < workers and (job := paper.get_job()) is not None:
            assert ours.get_job() == job
            jobs.append(job)
        if not jobs:
            assert ours.get_job() is None
            return
        trial, rung = jobs.pop(which % len(jobs))
        paper.report(trial, rung, loss)
        ours.report(trial, rung, loss)


def train(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    start = checkpoint.to_dict()["step"] if checkpoint else 0
    for step in range(start + 1, 100):
        saved = nbckpt.Checkpoint.from_dict({"step": step}) if nbckpt.should_checkpoint() else None
        nbckpt.report(loss=config["x"] + 1 / step, checkpoint=saved)


class Train(Trainable):
    """The same as a class."""

    def setup(self, config: Mapping[str, Any]) -> None:
        self.x, self.steps = config["x"], 0

    def step(self) -> dict[str, Any]:
        self.steps += 1
        return {"loss": self.x + 1 / self.steps}

    def save_checkpoint(self, folder: str) -> None:
        Path(folder, "steps").write_text(str(self.steps))

    def load_checkpoint(self, folder: str) -> None:
        self.steps = int(Path(folder, "steps").read_text())


def search(function: Any = train, *, scheduler: Any = None, xs: int = 9, **options: Any) -> Experiment:
    space = {"x": nbckpt.grid_search(list(range(xs)))}
    options = {"executor": "inline", "name": "e", "metric": "loss", "mode": "min"} | options
    return ran(function, space, scheduler=scheduler or ASHA(max_t=27), **options)


def steps(experiment: Experiment) -> list[int]:
    return [trial.iteration for trial in experiment.trials]


@pytest.mark.parametrize("executor", ["inline", "thread"])
@pytest.mark.parametrize("function", [train, Train])
def test_only_the_best_trials_are_trained_far(function: Any, executor: str) -> None:
    experiment = search(function, executor=executor, max_concurrent=1)
    assert steps(experiment) == [27, 3, 3, 1, 1, 1, 1, 1, 1]
    assert [trial.status for trial in experiment.trials] == ["TERMINATED"] + ["PAUSED"] * 8
    assert experiment.best().id == "t0"


@pytest.mark.slow
@pytest.mark.parametrize("function", [train, Train])
def test_trials_in_processes_are_scheduled_too(function: Any) -> None:
    assert steps(search(function, executor="process", xs=3, scheduler=ASHA(max_t=9))) == [9, 1, 1]


def test_no_step_is_trained_twice() -> None:
    experiment = search()
    for trial in experiment.trials:
        assert [result["training_iteration"] for result in trial.results] == [*range(1, trial.iteration + 1)]
        events = (trial.folder / "events.jsonl").read_text().count('"event":"result"')
        assert events == trial.iteration


def test_a_restart_keeps_the_rungs_and_adds_trials() -> None:
    forget(search(xs=3))
    again = search(xs=9)
    assert again.trials[0].iteration == 27
    assert sorted(steps(again)) == [1, 1, 1, 1, 1, 1, 3, 3, 27]


def test_without_a_scheduler_held_trials_go_on() -> None:
    forget(search(xs=3))
    space = {"x": nbckpt.grid_search([0, 1, 2])}
    again = ran(train, space, executor="inline", name="e", stop={"training_iteration": 30})
    assert steps(again) == [27, 30, 30]


def test_trials_without_checkpoints_stop_at_rungs() -> None:
    def forgets(config: dict[str, Any]) -> None:
        for step in range(1, 100):
            nbckpt.report(loss=config["x"] + 1 / step)

    experiment = search(forgets)
    assert steps(experiment) == [27, 1, 1, 1, 1, 1, 1, 1, 1]
    assert all(trial.status == "TERMINATED" for trial in experiment.trials)
    assert [note for note in experiment.notes if "cannot be paused" in note] == [
        "trials without a checkpoint cannot be paused: at a rung they go on or stop. Report one when "
        "nbckpt.should_checkpoint() says so"
    ]
    assert not any("reported none" in trial.note for trial in experiment.trials)
    assert experiment.trials[1].note.endswith("number 2 of 2, the best goes on")


@pytest.mark.parametrize("factor", [3.0, 2.5])
def test_a_reduction_factor_need_not_be_a_whole_number(factor: float) -> None:
    experiment = search(scheduler=ASHA(max_t=27, reduction_factor=factor))
    assert steps(experiment) == [27, 3, 3, 1, 1, 1, 1, 1, 1]
    assert experiment.trials[8].note == "rung 0 (training_iteration 1): number 9 of 9, the best 3 go on"
    assert experiment.notes == []


def test_the_stop_rule_pauses_nothing() -> None:
    experiment = search(scheduler=ASHA(max_t=9, rule="stop"))
    assert all(trial.status == "TERMINATED" for trial in experiment.trials)
    assert steps(experiment)[0] == 9
    assert experiment.trials[8].stopped_early


def test_a_stopped_trial_leaves_its_place_to_others() -> None:
    asha = ASHA(reduction_factor=2, metric="loss", mode="min")
    held = {f"t{n}": trial_at(n, 1, n) for n in range(4)}
    asha.reported(trial_at(0, 1, 0))
    for trial in list(held.values())[1:]:
        asha.reported(trial)
    asha.ended(held.pop("t0"))
    assert (picked := asha.next_trial(held)) is not None
    assert picked[0].id == "t1"


def test_a_user_may_hold_and_resume_a_trial() -> None:
    experiment = search()
    experiment.pause("t1")
    assert experiment.trials[1].note == "paused"
    forget(experiment)
    again = search()
    assert again.trials[1].iteration == 9
    assert again.trials[2].iteration == 3


def test_losses_that_are_not_numbers_are_never_promoted() -> None:
    asha = ASHA(reduction_factor=2, metric="loss", mode="min")
    held = {f"t{n}": trial_at(n, 1, math.nan) for n in range(4)}
    for trial in held.values():
        decision = asha.reported(trial)
        assert decision is not None
        assert (decision.do, decision.value) == ("pause", None)
    assert asha.next_trial(held) is None


def test_a_hostile_rung_takes_no_memory() -> None:
    class Counted(ASHA):
        def count(self) -> int:
            return len(self._rungs)

    trial = trial_at(0, 1, 1.0)
    for rung in (10**12, 2**62):
        state_of(trial).fold({"event": "decision", "do": "promote", "rung": rung, "reason": "", "value": 1.0})
    asha = Counted(metric="loss", mode="min")
    asha.setup(SimpleNamespace(trials=(trial,)))  # type: ignore[arg-type]
    assert asha.count() <= 64


class Fails(Scheduler):
    """A scheduler with an error."""

    def setup(self, experiment: Any) -> None:
        """Do nothing."""

    def reported(self, trial: Trial) -> Decision | None:
        raise ValueError("no idea")


def test_trials_go_on_without_a_scheduler_that_fails() -> None:
    experiment = search(scheduler=Fails(), xs=2, stop={"training_iteration": 3})
    assert steps(experiment) == [3, 3]
    assert experiment.notes == ["the scheduler is over since reported failed: ValueError: no idea"]


class Numpy(Fails):
    """A scheduler that decides by numbers of NumPy."""

    def reported(self, trial: Trial) -> Decision | None:
        loss = np.float32(trial.metrics["loss"])
        return Decision("stop", np.str_("it grows"), rung=np.int64(0), value=loss)  # type: ignore[arg-type]


def test_a_scheduler_may_decide_by_numbers_of_numpy() -> None:
    (trial,) = Experiment.read(forget(search(scheduler=Numpy(), xs=1))).trials
    assert (trial.status, trial.damage) == (Status.TERMINATED, "")
    assert list(trial.rungs) == [0]


def test_a_misspelt_metric_of_a_scheduler_is_noted() -> None:
    needs = "the scheduler needs {}, which no trial reports: there are loss"
    assert search(xs=2, metric="los").notes == [needs.format("'los'")]
    misspelt = ASHA(max_t=9, metric="losses", time_attr="steps")
    noted = [needs.format("'losses'"), needs.format("'steps'")]
    assert search(xs=2, name="f", scheduler=misspelt).notes == noted
    assert search(xs=2, name="g").notes == []
    assert search(xs=2, name="h", scheduler=MedianStopping(1, time_attr="time_total_s")).notes == []


IMPOSSIBLE: list[tuple[Callable[[], Any], str]] = [
    (lambda: ASHA(reduction_factor=1.9), "give 2 or more"),
    (lambda: ASHA(reduction_factor=math.inf), "reduction_factor=inf is impossible"),
    (lambda: ASHA(grace_period=0), "above 0"),
    (lambda: ASHA(max_t=1, grace_period=2), "no trial reaches a rung"),
    (lambda: ASHA(rule="win"), "'promote' or 'stop'"),  # type: ignore[arg-type]
    (lambda: ASHA(mode="best"), "'min' or 'max'"),
    (lambda: nbckpt.run(train, scheduler=ASHA()), "ASHA needs metric='loss'"),
    (lambda: nbckpt.run(train, scheduler="asha"), "is not a scheduler"),  # type: ignore[arg-type]
]


def test_impossible_arguments_are_refused(subtests: pytest.Subtests) -> None:
    for make, message in IMPOSSIBLE:
        with subtests.test(message), pytest.raises(UsageError, match=message):
            make()


def test_the_command_makes_a_scheduler() -> None:
    asha = find_scheduler("asha max_t=9 reduction_factor=4", None)
    assert (asha.max_t, asha.reduction_factor) == (9, 4)
    assert find_scheduler("mine", {"mine": asha}) is asha
    with pytest.raises(UsageError, match=r"unexpected keyword argument 'most'\. Its options: max_t, grace"):
        find_scheduler("asha most=3", None)


@pytest.mark.parametrize(
    ("missing", "rest"),
    [
        ("", "a pruner of Optuna such as hyperband, or a variable"),
        ("Install it.", "or a variable. Install it."),
    ],
)
def test_an_unknown_scheduler_names_what_can_be_used(
    missing: str, rest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optuna, "has", lambda kind, name: False)
    monkeypatch.setattr(optuna, "lacking", lambda kind: missing)
    with pytest.raises(UsageError) as caught:
        find_scheduler("best", {})
    assert str(caught.value) == f"the scheduler 'best' is unknown: use asha, median, pbt, {rest}"


def test_the_table_shows_rungs() -> None:
    experiment = search(xs=4)
    (table, *_) = experiment.page().tables
    at = [column.name for column in table.columns].index("rung")
    assert [getattr(row[at], "text", row[at]) for row in table.rows] == ["2", "0", "0", "0"]
    why = [getattr(row[at + 1], "text", row[at + 1]) for row in table.rows]
    best = [f"number {at} of {at}, the best goes on" for at in (3, 4)]
    assert why[1:] == ["number 2 of 2, none goes on yet", *best]
    assert "Best so far: t0, loss" in " ".join(experiment.page().notes)


def test_side_by_side_no_trial_is_trained_twice() -> None:
    experiment = search(executor="thread", max_concurrent=4, xs=27)
    reached = sorted(steps(experiment), reverse=True)
    assert reached[0] == 27
    assert all(count in {1, 3, 9, 27} for count in reached)
    assert sum(count >= 3 for count in reached) >= 9


def test_a_summary_keeps_the_rungs() -> None:
    for trial in search(xs=4).trials:
        kept, whole = summary_file.read(trial.folder), Trial.read(trial.folder)
        assert kept is not None
        assert kept.rungs == whole.rungs == trial.rungs
        assert state_of(kept).scheduling == state_of(whole).scheduling
        assert is_held(kept) == (trial.id != "t0")


class Repeats(ASHA):
    """Promotes the first trial over and over, also while it runs and after its end."""

    first: Trial | None = None

    def next_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        self.first = self.first or next(iter(held.values()), None)
        return None if self.first is None else (self.first, Decision("promote", "again", 0))


def test_a_scheduler_cannot_promote_a_trial_that_is_not_held() -> None:
    experiment = search(scheduler=Repeats(max_t=3), xs=3)
    assert experiment.notes == []  # no worker ended for that
    for trial in experiment.trials:
        assert [result["training_iteration"] for result in trial.results] == [*range(1, trial.iteration + 1)]


class Halves(Scheduler):
    """Pauses each trial after its first report, and lets all go on when none is new. It has no rungs."""

    def setup(self, experiment: Any) -> None:
        self.done = {trial.id for trial in experiment.trials if trial.iteration}

    def wants_checkpoint(self, trial: Trial) -> bool:
        return trial.id not in self.done

    def reported(self, trial: Trial) -> Decision | None:
        if trial.id in self.done:
            return None
        self.done.add(trial.id)
        return Decision("pause", "the first half")

    def last_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        return next(((trial, Decision("promote", "the other half")) for trial in held.values()), None)


class HoldsAll(Halves):
    """Lets no trial go on."""

    def last_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        return None


def test_a_scheduler_without_rungs_promotes_what_it_paused() -> None:
    experiment = search(scheduler=Halves(), xs=2, stop={"training_iteration": 3})
    assert steps(experiment) == [3, 3]
    assert [trial.attempts for trial in experiment.trials] == [2, 2]
    assert [trial.rungs for trial in experiment.trials] == [{}, {}]


def test_trials_held_without_a_rung_are_held_after_a_restart() -> None:
    stop = {"training_iteration": 3}
    held = search(scheduler=HoldsAll(), xs=2, stop=stop)
    assert [(trial.status, trial.note) for trial in held.trials] == [("PAUSED", "the first half")] * 2
    forget(held)
    assert all(is_held(Trial.read(trial.folder)) for trial in held.trials)
    assert steps(search(scheduler=Halves(), xs=2, stop=stop)) == [3, 3]


def test_a_user_may_resume_a_trial_held_without_a_rung() -> None:
    experiment = search(scheduler=HoldsAll(), xs=2, stop={"training_iteration": 3})
    experiment.resume("t1")
    assert experiment.wait(SECONDS)
    assert steps(experiment) == [1, 3]
    events = (experiment.trials[1].folder / "events.jsonl").read_text()
    assert '"do":"promote","reason":"resumed by the user"' in events


HELD: list[tuple[dict[str, Any], list[dict[str, Any]], bool]] = [
    ({"rung": 1}, [], True),  # as ASHA's journals have it that are older than `held`
    ({"held": True}, [], True),
    ({}, [], False),
    ({"held": False, "rung": 1}, [], False),
    ({"rung": 1}, [{"event": "decision", "do": "promote", "rung": 1, "reason": ""}], False),
    ({"held": True}, [{"event": "decision", "do": "promote", "reason": ""}], False),
    ({"rung": 1}, [{"event": "pause", "note": "paused"}], False),
    ({"rung": 1}, [{"event": "queue"}, {"event": "pause"}], False),
]


def test_the_journal_says_whether_a_trial_is_held(subtests: pytest.Subtests) -> None:
    for pause, then, held in HELD:
        with subtests.test(pause=pause, then=then):
            trial = Trial(Path("t0"), {})
            for event in ({"event": "pause", "note": ""} | pause, *then):
                state_of(trial).fold(event)
            assert is_held(trial) is held


def full_at_promotions(patch: pytest.MonkeyPatch, name: str) -> None:
    """Let the disk be full for each promotion of a trial."""
    append = Journal.append

    def appends(self: Journal, event: Any, *, durable: bool = False) -> None:
        if event.get("do") == "promote" and self._file.parent.name == name:
            raise StoreError("No space left on device")
        append(self, event, durable=durable)

    patch.setattr(Journal, "append", appends)


def test_a_full_disk_at_a_promotion_fails_only_that_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    full_at_promotions(monkeypatch, "t1")
    experiment = search(scheduler=Halves(), xs=3, stop={"training_iteration": 3})
    assert [trial.status for trial in experiment.trials] == ["TERMINATED", "ERROR", "TERMINATED"]
    assert experiment.trials[1].error == "No space left on device"
    assert experiment.notes == []  # no worker ended for that


def test_a_resume_that_meets_a_full_disk_leaves_the_trial_held(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = search()
    with monkeypatch.context() as patch:
        full_at_promotions(patch, "t5")
        with pytest.raises(StoreError, match="No space left"):
            experiment.resume("t5")
    assert is_held(experiment.trial("t5"))
    settings = runner_of(experiment).pool.run_settings
    assert settings is not None
    assert "t5" in settings.scheduler.held
    experiment.resume("t5")
    assert experiment.wait(SECONDS)
    assert experiment.trial("t5").iteration > 1


def test_a_stop_without_a_reason_ends_the_trial() -> None:
    class Stops(Halves):
        def reported(self, trial: Trial) -> Decision | None:
            return Decision("stop", "")

    assert steps(search(scheduler=Stops(), xs=2)) == [1, 1]


def test_only_the_trial_goes_on_that_the_user_resumes() -> None:
    experiment = search()
    done = {trial.id: trial.iteration for trial in experiment.trials}
    held = [trial for trial in experiment.trials if is_held(trial)]
    assert len(held) > 2
    experiment.resume(held[0])
    assert experiment.wait(SECONDS)
    now = {trial.id: trial.iteration for trial in experiment.trials}
    assert {name for name in now if now[name] != done[name]} == {held[0].id}


def test_a_resume_in_a_new_kernel_leaves_trials_to_the_scheduler() -> None:
    former = search()
    forget(former)
    again = nbckpt.open_experiment("e").resume(trust=True)
    assert again.wait(SECONDS)
    assert steps(again) == steps(former) == [27, 3, 3, 1, 1, 1, 1, 1, 1]
    assert "One that the scheduler paused: %ckpt resume e/t1" in str(again)


def history(experiment: Experiment) -> dict[str, Any]:
    """What holds of each trial after whatever happened on the way."""
    return {
        trial.id: (
            [(result["training_iteration"], result["loss"]) for result in trial.results],
            trial.rungs,
            state_of(trial).scheduling.promoted,
            str(trial.status),
            trial.stopped_early,
        )
        for trial in experiment.trials
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    [ASHA(max_t=9, reduction_factor=2), ASHA(max_t=9, rule="stop"), MedianStopping(2, min_samples=2)],
)
def test_a_kill_at_any_event_changes_nothing(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(place: str) -> dict[str, Any]:
        monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / place))
        made = search(scheduler=scheduler, xs=5, stop={"training_iteration": 6}, provenance=False)
        forget(made)
        return history(made)

    whole, number, came = run("whole"), 0, True
    while came:
        number += 1
        with pytest.MonkeyPatch.context() as patch:
            calls = kill_at(patch, Journal, "append", number)
            with suppress(Killed):
                run(str(number))
        shutdown.live.clear()
        came = calls[0] >= number
        assert run(str(number)) == whole, number
    assert number > 20
