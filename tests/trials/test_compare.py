"""Trials side by side: what differs, and what is shown of it."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.render import Page
from nbckpt.render.markdown import markdown
from nbckpt.render.text import text
from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker
from nbckpt.trials.views.comparison import TrialsCompared

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m"


def train(config: dict[str, Any]) -> None:
    for at in range(1, 4):
        nbckpt.report(loss=config["lr"] / at + (at == 3), note="n", out={"acc": 1 - config["lr"] / at})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the experiments `grid`, of three trials, and `other`, of one."""
    folder = tmp_path / "store" / "experiments"
    lrs = nbckpt.grid_search([0.5, 0.1, 0.3])
    space = {"lr": lrs, "model": {"layers": 2}, "seed": 1}
    nbckpt.run(train, space, name="grid", folder=folder, executor="inline", metric="loss", mode="min")
    nbckpt.run(train, {"lr": 0.2, "opt": "adam"}, name="other", folder=folder, executor="inline")
    return folder


def side_by_side(folder: Path, *trials: Any, **more: Any) -> TrialsCompared:
    return nbckpt.trials.compare(*trials, folder=folder, **more)


def two(tmp_path: Path, train: Any, space: Any, **options: Any) -> TrialsCompared:
    """Run an experiment of two trials, and compare them."""
    nbckpt.run(train, space, name="e", folder=tmp_path, executor="inline", **options)
    return side_by_side(tmp_path, "t0", "t1")


def section(page: Page, heading: str) -> list[tuple[str, ...]]:
    """Return the rows below a heading of the table; with "", those above the first heading."""
    parts: dict[str, list[tuple[str, ...]]] = {"": []}
    for cells in page.tables[0].rows:
        row = tuple(str(getattr(cell, "text", cell)) for cell in cells)
        if len(row) == 1:
            parts[row[0]] = []
        else:
            parts[[*parts][-1]].append(row)
    return parts[heading]


def test_only_the_parameters_that_differ_are_shown(folder: Path) -> None:
    compared = side_by_side(folder, "grid/t0", "grid/t1")
    assert compared.trials == ("t0", "t1")
    page = compared.page()
    assert page.headline == "t0 and t1 of grid"
    assert section(page, "parameters") == [("lr", "0.5", "0.1")]
    assert page.notes[0] == "2 parameters are the same."


def test_metrics_have_their_differences_and_best_values(folder: Path) -> None:
    page = side_by_side(folder, "grid/t0", "grid/t1").page()
    accuracies = "0.8333", "0.9667 (+0.133) ★"
    assert section(page, "last") == [("loss", "1.167", "1.033 (-0.133) ★"), ("out/acc", *accuracies)]
    assert section(page, "best") == [("loss (min)", "0.25", "0.05 (-0.2) ★"), ("out/acc (max)", *accuracies)]


def test_trials_of_several_experiments_have_full_names(folder: Path) -> None:
    compared = side_by_side(folder, "grid/best", "other/t0", "grid")
    assert compared.trials == ("grid/t1", "other/t0")
    page = compared.page()
    assert ("opt", "", "adam") in section(page, "parameters")
    assert [column.name for column in page.tables[0].columns] == ["trial", "grid/t1", "other/t0"]
    assert section(page, "")[:2] == [("status", "done", "done"), ("results", "3", "3")]
    if compared.curves is not None:
        assert compared.curves.alt.startswith("loss and out/acc of grid/t1, other/t0 of grid, other")


def test_the_curves_are_over_each_other(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    compared = side_by_side(folder, "grid/t0", "grid/t2", metrics="out/acc")
    assert compared.curves is not None
    assert compared.curves.alt == "out/acc of t0, t2 of grid, by iteration. Best by loss (min): t2, 1.1."
    assert compared.curves in compared.page().pictures


def test_without_matplotlib_the_tables_are_still_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    compared = side_by_side(folder, "grid/t0", "grid/t1")
    assert compared.curves is None
    assert compared.notes == ("No curves: plots need matplotlib: pip install matplotlib",)
    with pytest.raises(UsageError, match="pip install matplotlib"):
        side_by_side(folder, "grid/t0", "grid/t1", metrics=["loss"])


def test_trials_and_experiments_can_be_given_as_objects(folder: Path) -> None:
    grid = nbckpt.trials.Catalog(folder).open("grid")
    assert side_by_side(folder, grid.trials[0], grid, "grid/t2").trials == ("t0", "t1", "t2")
    assert side_by_side(folder, grid.trials[0], "other").trials == ("grid/t0", "other/t0")


def test_best_needs_a_mode_that_something_says(tmp_path: Path) -> None:
    def odd(config: dict[str, Any]) -> None:
        nbckpt.report(x=config["lr"])

    nbckpt.run(odd, {"lr": nbckpt.grid_search([1, 2])}, name="e", folder=tmp_path, executor="inline")
    with pytest.raises(UsageError, match=r"which trial of 'e' is the best\? Say --metric x --mode min"):
        side_by_side(tmp_path, "t0", "best")
    assert side_by_side(tmp_path, "t0", "best", mode="max").trials == ("t0", "t1")


def test_each_objective_has_its_own_mode(tmp_path: Path) -> None:
    def odd(config: dict[str, Any]) -> None:
        nbckpt.report(latency=config["x"], score=config["x"], gain=config["x"])

    objectives = {"metric": ["latency", "score", "gain"], "mode": ["min", "min", "max"]}
    compared = two(tmp_path, odd, {"x": nbckpt.grid_search([1, 2])}, **objectives)
    modes = [(row.name, row.mode) for row in compared.metrics]
    assert modes == [("latency", "min"), ("score", "min"), ("gain", "max")]
    assert ("score (min)", "1 ★", "2 (+1)") in section(compared.page(), "best")


def test_the_given_mode_is_that_of_the_first_metric(folder: Path) -> None:
    for more in ({"metrics": ["loss", "out/acc"]}, {}):
        compared = side_by_side(folder, "grid/t0", "grid/t1", mode="max", **more)
        assert {row.name: row.mode for row in compared.metrics} == {"loss": "max", "out/acc": "max"}
        assert section(compared.page(), "last")[0] == ("loss", "1.167 ★", "1.033 (-0.133)")
        if compared.curves is not None:
            assert compared.curves.alt.endswith("Best by loss (max): t0, 1.167.")
    with pytest.raises(UsageError, match="mode='Max' is unknown: use 'min' or 'max'"):
        side_by_side(folder, "grid/t0", "grid/t1", mode="Max")


REFUSED: list[tuple[list[str], type[Exception], str]] = [
    ([], UsageError, "compare shows 2 to 12 trials, and these are 0"),
    (["t0"], UsageError, "these are 1"),
    (["grid/t1", "grid/best"], UsageError, "all of these are the same trial, grid/t1"),
    (["grid/t0", "grid/t9"], UsageError, "has no trial 't9'"),
    (["grid/t0", "gone/t1"], NotFoundError, "there is no experiment 'gone'"),
]


def test_a_comparison_that_makes_no_sense_is_refused(folder: Path, subtests: pytest.Subtests) -> None:
    for trials, error, message in REFUSED:
        with subtests.test(message), pytest.raises(error, match=message):
            side_by_side(folder, *trials)


def test_odd_numbers_can_be_compared(tmp_path: Path) -> None:
    def odd(config: dict[str, Any]) -> None:
        nbckpt.report(loss=config["lr"], many=10**400, acc=True)

    values = [math.nan, math.inf, -math.inf, 1, 10**400, None, "text"]
    nbckpt.run(odd, {"lr": nbckpt.grid_search(values)}, name="e", folder=tmp_path, executor="inline")
    compared = side_by_side(tmp_path, *(f"t{at}" for at in range(7)))
    assert "t0, t1, t2, t3, t4, t5 and t6 of e" in str(compared)
    compared._repr_mimebundle_()


def test_frames_have_a_column_for_each_trial(folder: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    compared = side_by_side(folder, "grid/t0", "grid/t1")
    assert compared.parameters_frame().loc["lr"].to_dict() == {"t0": 0.5, "t1": 0.1}
    assert compared.metrics_frame().loc[("loss", "best"), "t1"] == pytest.approx(0.05)
    curves = compared.curves_frame()
    assert isinstance(curves, pandas.DataFrame)
    assert list(curves.trial) == ["t0"] * 3 + ["t1"] * 3


def test_media_of_the_same_name_stand_side_by_side(tmp_path: Path) -> None:
    def talk(config: dict[str, Any]) -> None:
        rows = nbckpt.media.Table([{"lr": config["lr"]}])
        nbckpt.report(loss=1, story=nbckpt.media.Text(f"{HOSTILE} {config['lr']}"), rows=rows)

    compared = two(tmp_path, talk, {"lr": nbckpt.grid_search([1, 2])})
    tables, stories = compared.page().beside
    assert [part.tables[0].caption.split(",")[0] for part in tables] == ["t0: rows", "t1: rows"]
    assert [part.folds[0].summary for part in stories] == ["t0: story, step 1", "t1: story, step 1"]
    assert stories[1].folds[0].text.endswith(" 2")
    bundle = compared._repr_mimebundle_()
    assert bundle["text/html"].count("display:flex") == 2
    assert "<img src=x" not in bundle["text/html"]
    assert bundle["text/plain"].index("t0: story") < bundle["text/plain"].index("t1: story")
    assert "t1\\: story" in markdown(compared.page())


def test_a_trial_without_the_media_of_another_leaves_a_gap(tmp_path: Path) -> None:
    def talk(config: dict[str, Any]) -> None:
        media = {"story": nbckpt.media.Text("once")} if config["lr"] == 2 else {}
        nbckpt.report(loss=1, **media)

    (row,) = two(tmp_path, talk, {"lr": nbckpt.grid_search([1, 2])}).page().beside
    assert [len(part.folds) for part in row] == [0, 1]


def test_hostile_text_in_a_comparison_is_escaped(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report({HOSTILE: 1.0, "loss": config["lr"]})

    compared = two(tmp_path, train, {HOSTILE: nbckpt.grid_search([HOSTILE, "b"]), "lr": 1})
    bundle = compared._repr_mimebundle_()
    assert "<img src=x" not in bundle["text/html"]
    assert "\x1b" not in bundle["text/plain"] + bundle["text/html"]


def test_the_command_compares_trials_of_the_store(folder: Path) -> None:
    store = LocalStore(folder.parent)
    session = Session(Tracker(store), AutoMirror(store, in_background=False), {})
    compared = parse(TABLE, ["compare", "grid/t0", "grid/best", "--metric", "loss"], "%ckpt").run(session)
    assert compared is not None
    assert "t0 and t1 of grid" in text(compared.page())
    session.tracker.save({"x": 1}, "cleaned")
    session.tracker.save({"x": 1}, "best")
    assert parse(TABLE, ["compare", "grid/t0", "grid/best", "best"], "%ckpt").run(session) is not None
    advice = r"cleaned is a checkpoint\. Compare checkpoints: %ckpt diff cleaned"
    with pytest.raises(UsageError, match=advice):
        parse(TABLE, ["compare", "grid/t0", "cleaned"], "%ckpt").run(session)
