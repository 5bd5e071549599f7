"""Growth: little is kept of results, and many reports and trials cost no more than a few. Counts show it."""

from __future__ import annotations

import gc
import json
import math
import os
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbckpt
from late import library
from nbckpt.commands import TABLE, Session, parse
from nbckpt.commands.values import find_scheduler
from nbckpt.errors import CorruptError
from nbckpt.mirror import AutoMirror
from nbckpt.trials import Catalog
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.engine import shutdown
from nbckpt.trials.home import experiments_folder
from nbckpt.trials.model import condensed as condensed_module
from nbckpt.trials.model import journal, params, summary_file
from nbckpt.trials.model import state as state_module
from nbckpt.trials.model.condensed import Condensed
from nbckpt.trials.model.curve import MOST_POINTS, Curve
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.recorder import TrialRecorder
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


numbers = st.floats() | st.integers(-(10**400), 10**400)
nested = st.dictionaries(st.sampled_from("ab"), numbers)
values = numbers | st.none() | st.booleans() | st.text(max_size=3) | nested
rows = st.dictionaries(st.sampled_from(["a", "b", "c", "a/b", "episodes_total"]), values, max_size=5)


def results_of(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "training_iteration": at} for at, row in enumerate(given, 1)]


@pytest.mark.slow
@given(st.lists(rows, max_size=60), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 5))
def test_results_condense_alike_at_once_or_in_parts(
    made: list[dict[str, Any]], cuts: list[int], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(condensed_module, "MOST_NAMES", most)
        results, ends = results_of(made), sorted({*cuts, 0, len(made)})
        parts = Condensed()
        for begin, end in pairwise(ends):
            parts = parts.extended(results[begin:end])
        one_by_one = Condensed()
        for result in results:
            one_by_one = one_by_one.extended([result])
        whole = Condensed().extended(results)
    assert repr(parts) == repr(one_by_one) == repr(whole)
    assert len(whole.curves) <= most


@given(st.lists(numbers, min_size=1, max_size=200))
def test_a_curve_keeps_first_last_lowest_and_highest(given: list[float]) -> None:
    curve = Curve().extended(given)
    finite = [number for number in given if isinstance(number, int) or math.isfinite(number)]
    sound = [number for number in given if number == number]
    assert repr((curve.points[0], curve.last, curve.count)) == repr((given[0], given[-1], len(given)))
    assert (curve.low and curve.low[1]) == min(sound, default=None)
    assert (curve.high and curve.high[1]) == max(sound, default=None)
    assert set(curve.shown) <= set(finite)
    assert len(curve.points) <= MOST_POINTS
    assert repr(Curve.from_json(json.loads(json.dumps(curve.to_json())))) == repr(curve)


CONTRADICTORY: list[Any] = [
    None,
    [],
    [1, 1, 1.0, None, None],
    [1, 0, 1.0, None, None, [1.0]],
    [2, 1, 1.0, None, None, [1.0]],
    [1 << 62, 1, 1.0, None, None, [1.0] * 24],
    [100, 1, 1.0, None, None, [1.0] * 100],
    [1, 1, 1.0, [1, 1.0], None, [1.0]],
    [1, 1, "1", None, None, [1.0]],
    [1, 1, 1.0, None, None, ["1"]],
]


def test_a_curve_that_contradicts_itself_is_refused(subtests: pytest.Subtests) -> None:
    for document in CONTRADICTORY:
        with subtests.test(document=document), pytest.raises(CorruptError):
            Curve.from_json(document)


def live_and_read(folder: Path, steps: list[Any]) -> tuple[Trial, Trial]:
    """Return a trial after results and restarts, and the same trial read from its journal."""
    trial = Trial(folder / "e" / "t0", {"lr": 1})
    params.write({trial.folder: trial.config})
    with TrialRecorder(trial) as recorder:
        recorder.start("thread", None, provenance=False)
        for step in steps:
            if isinstance(step, dict):
                recorder.result({**step, "training_iteration": trial.iteration + 1})
            else:
                record = Record("checkpoint_000000", "fields", min(step, trial.iteration))
                recorder.start("thread", record, provenance=False)
    return trial, Trial.read(trial.folder)


def known(trial: Trial) -> str:
    return repr((state_of(trial).condensed, trial.iteration, trial.metrics, trial.metric_names))


@settings(max_examples=30)
@given(st.lists(rows | st.integers(0, 30), max_size=40), st.integers(1, 6))
def test_a_trial_is_the_same_live_and_read_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], waiting: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, "MOST_WAITING", waiting)
        trial, again = live_and_read(tmp_path_factory.mktemp("live"), steps)
    assert known(trial) == known(again)
    assert [result["training_iteration"] for result in trial.results] == [*range(1, trial.iteration + 1)]
    assert Condensed().extended(trial.results) == state_of(trial).condensed or "nan" in known(trial)
    assert trial.metrics == (trial.results[-1] if trial.results else {}) or "nan" in known(trial)


def test_results_that_are_repeated_count_once(tmp_path: Path) -> None:
    steps = [{"loss": 1.0}, {"loss": -9.0, "extra": 1}, 1, {"loss": 3.0}, {"loss": 2.0}, 2, {"loss": 5.0}]
    trial, again = live_and_read(tmp_path, steps)
    for one in (trial, again):
        assert one.metric("loss") == [1.0, 3.0, 5.0]
        assert (one.metric_names, one.iteration) == (["loss"], 3)
        curve = state_of(one).condensed.curves["loss"]
        assert (curve.low, curve.high, curve.count) == ((0, 1.0), (2, 5.0), 3)


def test_a_lost_first_start_does_not_count_results_twice(tmp_path: Path) -> None:
    trial, _ = live_and_read(tmp_path, [{"loss": 1.0}, {"loss": -9.0}, 1, {"loss": 3.0}])
    file = trial.folder / journal.FILE
    file.write_bytes(file.read_bytes().replace(b"start", b"st\0rt", 1))
    again = Trial.read(trial.folder)
    assert (again.metric("loss"), again.iteration, again.damage != "") == ([1.0, 3.0], 2, True)


def test_a_trial_keeps_little_however_much_it_reports(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "e" / "t0", {})
    state, row = state_of(trial), {f"m{at}": float(at) for at in range(20)}
    sizes = []
    for step in range(1, 20_001):
        state.fold({"event": "result", "result": {**row, "training_iteration": step, "timestamp": 1.0}})
        if step % 5_000 == 0:
            condensed, waiting = state.kept
            sizes.append(max(len(curve.points) for curve in condensed.curves.values()))
            assert (len(waiting) <= 256, len(condensed.curves), len(state.times)) == (True, 20, 10)
    assert max(sizes) <= MOST_POINTS


def test_views_never_see_a_last_result_before_its_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is drawn meanwhile keeps its cells until the last result is another one."""
    state = state_of(Trial(tmp_path / "e" / "t0", {}))
    seen: list[int] = []
    extended = Condensed.extended
    monkeypatch.setattr(
        Condensed, "extended", lambda known, results: seen.append(state.iteration) or extended(known, results)
    )
    for step in (1, 2, 3):
        state.fold({"event": "result", "result": {"loss": 1.0, "word": "x", "training_iteration": step}})
    assert seen == [0, 1, 2]
