"""Growth: many reports and many trials cost no more than a few, which counts show and not clocks."""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from late import library
from nbckpt.commands import TABLE, Session, parse
from nbckpt.commands.values import find_scheduler
from nbckpt.mirror import AutoMirror
from nbckpt.trials import Catalog
from nbckpt.trials.engine import shutdown
from nbckpt.trials.home import experiments_folder
from nbckpt.trials.model import journal, params, summary_file
from nbckpt.trials.model.condensed import Condensed
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.views.metrics import metric_cell

VALUES = {f"m{number}": float(number) for number in range(20)}


def run(reports: int, look: Callable[[], None]) -> Trial:
    def train(config: dict[str, Any]) -> None:
        for step in range(1, reports + 1):
            nbckpt.report(VALUES)
            if step % (reports // 5) == 0:
                look()

    return nbckpt.run(train, name="e", executor="inline").trials[0]


def track(reports: int, look: Callable[[], None]) -> Trial:
    with nbckpt.track("e") as tracked:
        for step in range(1, reports + 1):
            tracked.report(VALUES)
            if step % (reports // 5) == 0:
                look()
    return Catalog(tracked.trial.folder.parents[1]).open("e").trials[0]


@pytest.fixture
def condensed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many results each call condenses from now on."""
    numbers: list[int] = []
    extended = Condensed.extended
    monkeypatch.setattr(
        Condensed, "extended", lambda known, results: numbers.append(len(results)) or extended(known, results)
    )
    return numbers


@pytest.mark.parametrize("way", [run, track])
@pytest.mark.parametrize("reports", [1_280, pytest.param(25_600, marks=pytest.mark.slow)])
def test_memory_and_work_of_a_report_do_not_grow(
    way: Callable[..., Trial], reports: int, condensed: list[int]
) -> None:
    sizes: list[int] = []

    def look() -> None:
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        trial = way(reports, look)
    finally:
        tracemalloc.stop()
    assert max(sizes[1:]) - sizes[0] < 64 << 10  # the results alone would take 100 times that
    assert (trial.iteration, len(trial.results), trial.newest("m3")) == (reports, reports, 3.0)
    assert sum(condensed) <= reports + 256  # each result once
    assert max(condensed) <= 256


def test_views_of_a_running_trial_look_at_new_results_only(condensed: list[int]) -> None:
    def look() -> None:
        before = sum(condensed)
        (trial,) = nbckpt.open_experiment("e").trials
        assert [metric_cell(trial, name).text for name in VALUES] == [f"{number}" for number in range(20)]
        assert sum(condensed) - before <= 256

    run(2_500, look)


@pytest.fixture
def many(experiments: Path) -> Path:
    """Make an experiment of many trials with summaries. Return its folder."""
    run(10, lambda: None)
    for number in range(1, 30):
        folder = experiments / "e" / f"t{number}"
        folder.mkdir()
        (folder / params.FILE).write_bytes(params.encode({"lr": number / 10}, folder.name))
        events = Journal(folder / journal.FILE)
        events.append({"event": "start", "executor": "thread", "from": None, "iteration": 0})
        events.append({"event": "result", "result": {"loss": 100 - number, "training_iteration": 1}})
        events.append({"event": "end", "note": "done", "early": False})
        events.close()
        summary_file.write(Trial.read(folder))
    shutdown.live.clear()
    return experiments / "e"


@pytest.fixture
def looked_at(many: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count how often each file of a trial is looked at or opened, and each folder listed."""
    counts: Counter[str] = Counter()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(path: Any, *given: Any, **named: Any) -> Any:
            if str(path).startswith(f"{many}{os.sep}t") or (str(path) == str(many) and "dir" in name):
                action = "look at" if name in {"stat", "lstat"} else name
                counts[f"{action} {Path(path).relative_to(many.parent).as_posix()}"] += 1
            return call(path, *given, **named)

        return counting

    with monkeypatch.context() as patch:
        for name in ("stat", "lstat", "open", "listdir", "scandir"):
            patch.setattr(os, name, counted(name, getattr(os, name)))
        yield counts


def table() -> str:
    tracker = nbckpt.Tracker()
    session = Session(tracker, AutoMirror(tracker.store), namespace={})
    words = ["trials", "e", "--where", "lr < 2 and loss > 0", "--sort", "loss", "-n", "5"]
    return str(parse(TABLE, words, "%ckpt").run(session).page())


def frame() -> str:
    pytest.importorskip("pandas")
    return str(nbckpt.find_trials(where="lr < 2 and loss > 0").sort_values("loss"))


@pytest.mark.parametrize("list_trials", [table, frame])
def test_many_trials_are_listed_with_one_look_at_each_file(
    list_trials: Callable[[], str], looked_at: Counter[str]
) -> None:
    assert "t19" in list_trials()
    twice = [name for name, number in looked_at.items() if number > 1]
    assert [name for name in twice if "notes.json" not in name] == []
    assert len(twice) <= 5  # the rows that are shown have the newest notes
    assert [name for name in looked_at if name.startswith("open") and summary_file.FILE not in name] == []
    assert sum(name.startswith("open") for name in looked_at) == 30


def test_opening_many_trials_reads_no_journal(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "read", None)
    experiment = nbckpt.open_experiment("e")
    assert (len(experiment.trials), experiment.best("loss", "min").id) == (30, "t29")
    assert experiment.best("loss", "max", scope="best").id == "t1"
    assert sum(len(state_of(trial).kept[1]) for trial in experiment.trials) == 0


@pytest.mark.parametrize(
    ("scheduler", "search", "journals"),
    [("asha", None, 0), ("median", None, 1), ("hyperband max_resource=20", None, 0), (None, "random", 0)],
)
def test_a_resume_parses_each_journal_once_at_most(
    scheduler: str | None, search: str | None, journals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if search or scheduler not in {"asha", "median"}:
        library("optuna", reason="samplers and pruners")
    reports = 20

    def train(config: dict[str, Any]) -> None:
        for step in range(reports):
            nbckpt.report(loss=config["x"] + step)

    def run(samples: int) -> int:
        experiment = nbckpt.run(
            train, {"x": nbckpt.uniform(0, 1)}, num_samples=samples, name="e", executor="inline", seed=1,
            metric="loss", mode="max", search=search,
            scheduler=find_scheduler(scheduler, None) if scheduler else None,
        )  # fmt: skip
        return sum(trial.iteration for trial in experiment.trials)

    results = run(6)
    gc.collect()
    shutdown.live.clear()
    Catalog(experiments_folder()).open("e")  # whose summaries are written now, if they are not there
    gc.collect()
    shutdown.live.clear()
    parsed = []
    known = journal.checked
    monkeypatch.setattr(journal, "checked", lambda event, where: parsed.append(event) or known(event, where))
    assert run(6) == results
    assert sum(event["event"] == "result" for event in parsed) == journals * results
