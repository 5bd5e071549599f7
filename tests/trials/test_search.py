"""Searches: configurations that come one by one, and what they learn of the trials."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import forget, ran

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.trials import Experiment, Search, Status, Trial
from nbckpt.trials.engine.guarded import SafeSearch
from nbckpt.trials.model.drawing import recalled
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.space import choice, grid_search, uniform


class Counting(Search):
    """Suggests n = 0, 1, 2, …, and notes what it is told."""

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.calls: list[str] = []

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        n = sum(call.startswith("suggest") for call in self.calls)
        self.calls.append(f"suggest {trial_id}")
        return {"n": n} if n < self.most else None

    def reported(self, trial: Trial) -> str:
        self.calls.append(f"reported {trial.id} {trial.iteration}")
        return "it is enough" if trial.config["n"] == 1 and trial.iteration == 2 else ""

    def ended(self, trial: Trial) -> None:
        self.calls.append(f"ended {trial.id} {trial.status}")


def train(config: dict[str, Any]) -> None:
    for i in range(3):
        nbckpt.report(loss=config["n"] + i)


def configs(experiment: Experiment) -> list[dict[str, Any]]:
    return [trial.config for trial in experiment.trials]


def test_a_search_suggests_configurations_and_sees_reports() -> None:
    search = Counting()
    experiment = ran(train, search=search, num_samples=2, max_concurrent=1)
    assert configs(experiment) == [{"n": 0}, {"n": 1}]
    assert search.calls == [
        *("suggest t0", "reported t0 1", "reported t0 2", "reported t0 3", "ended t0 TERMINATED"),
        *("suggest t1", "reported t1 1", "reported t1 2", "ended t1 TERMINATED"),
    ]
    ends = [(trial.note, trial.stopped_early) for trial in experiment.trials]
    assert ends == [("done", False), ("it is enough", True)]


def test_parallel_trials_have_the_configurations_of_a_search() -> None:
    experiment = ran(train, search=Counting(), num_samples=40, max_concurrent=4)
    assert configs(experiment) == [{"n": n} for n in range(40)]
    experiment = ran(train, search=Counting(most=3), num_samples=10, max_concurrent=2)
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED] * 3


def test_a_search_is_called_by_one_thread_at_a_time() -> None:
    inside, go = threading.Event(), threading.Event()
    order = []

    class Slow(Counting):
        def suggest(self, trial_id: str) -> None:
            inside.set()
            assert go.wait(60)
            order.append("suggest")

        def ended(self, trial: Any) -> None:
            order.append("ended")

    calls = SafeSearch(Slow())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(calls.suggest, "t0")
        assert inside.wait(60)
        second = pool.submit(calls.ended, None)
        wait([second], 0.1)  # long enough to get in, if that could be
        go.set()
        first.result()
        second.result()
    assert order == ["suggest", "ended"]


@pytest.mark.parametrize("method", ["setup", "suggest", "reported", "ended"])
def test_a_failing_search_ends_and_the_trials_continue(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Search, argument: object) -> None:
        raise RuntimeError("no database")

    monkeypatch.setattr(Counting, method, fail)
    experiment = ran(train, search=Counting(), num_samples=3, max_concurrent=1)
    assert experiment.notes == [f"the search is over since {method} failed: RuntimeError: no database"]
    assert all(trial.note == "done" for trial in experiment.trials)
    assert len(experiment.trials) == (0 if method in {"setup", "suggest"} else 1)


def test_a_pause_stops_the_search_until_the_resume() -> None:
    started, go = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        started.set()
        assert go.wait(60)
        nbckpt.report(loss=config["n"], checkpoint={})

    search = Counting()
    experiment = nbckpt.run(train, search=search, num_samples=3, name="e", max_concurrent=1)
    assert started.wait(60)
    with pytest.raises(UsageError, match=r"^'e/t0' has nothing to resume: 1 trial, 1 running$"):
        experiment.resume("t0")
    experiment.pause()
    go.set()
    assert experiment.wait(60)
    assert [trial.status for trial in experiment.trials] == [Status.PAUSED]
    experiment.resume("t0")
    assert experiment.wait(60)
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED]
    experiment.resume()
    assert experiment.wait(60)
    assert [call for call in search.calls if "suggest" in call] == ["suggest t0", "suggest t1", "suggest t2"]
    with pytest.raises(UsageError, match="nothing to resume"):
        experiment.resume()


def test_a_search_learns_that_a_paused_trial_was_stopped() -> None:
    search = Counting()
    experiment = ran(train, search=search, num_samples=1)
    with TrialRecorder(experiment.trials[0]) as recorder:
        recorder.pause()
    search.calls.clear()
    experiment.stop("t0")
    assert search.calls == ["ended t0 TERMINATED"]
    assert experiment.trials[0].stopped_early


class Odd(Search):
    """Suggests and answers what the test says."""

    def __init__(self, config: Any, reason: Any = "") -> None:
        self.config = config
        self.reason = reason

    def suggest(self, trial_id: str) -> Any:
        return self.config

    def reported(self, trial: Trial) -> Any:
        return self.reason


def test_a_search_that_suggests_no_dict_is_over(subtests: pytest.Subtests, store: Path) -> None:
    with pytest.raises(UsageError, match="is not a search: give the name of an Optuna sampler"):
        nbckpt.run(train, search=42)
    assert not store.exists()
    for config in [5, [1], "n"]:
        with subtests.test(config=config):
            experiment = ran(train, search=Odd(config), num_samples=2)
            note = f"the search is over since suggest returned {config!r}, and not a dict"
            assert experiment.notes == [note]


def test_a_search_may_give_up_a_trial_by_true() -> None:
    experiment = nbckpt.run(train, search=Odd({"n": 1}, reason=True), num_samples=1)
    folder = forget(experiment)
    (trial,) = Experiment.read(folder).trials
    assert (trial.status, trial.iteration, trial.damage) == (Status.TERMINATED, 1, "")


def one(value: float) -> float:
    return value


def other(value: float) -> float:
    return -value


def test_a_configuration_file_recalls_values_json_cannot_hold(subtests: pytest.Subtests) -> None:
    space = {
        "f": choice([one, other]),
        "opt": {"g": grid_search([(1, 2), (3, 4)]), "lr": uniform(0, 1)},
        "h": one,
    }
    kept = {"f": repr(other), "opt": {"g": [3, 4], "lr": 0.25}, "h": repr(one)}
    assert recalled(space, kept) == {"f": other, "opt": {"g": (3, 4), "lr": 0.25}, "h": one}
    for kept in [{"f": "gone", "n": 1}, {"n": 1}, {"f": repr(one), "n": 2}, {"f": repr(one)}]:
        with subtests.test(kept=kept):
            assert recalled({"f": choice([one, other]), "n": 1}, kept) == kept
