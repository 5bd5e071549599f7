"""The results of trials, as rows for people, as CSV, and as the best trial."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.render.markdown import fenced
from nbckpt.render.text import text
from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker

LOSSES = {"t0": [3.0, 1.0, 2.0], "t1": [1.5, math.nan, 1.75]}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Return a session whose store has the experiment `e` with the trials of `LOSSES`."""

    def train(config: dict[str, Any]) -> None:
        for loss in LOSSES[config["trial"]["name"]]:
            nbckpt.report(loss=loss, text='a "b", c')

    store = LocalStore(tmp_path / "store")
    session = Session(Tracker(store), AutoMirror(store, in_background=False), {})
    space = {"trial": {"name": nbckpt.grid_search(list(LOSSES))}}
    nbckpt.run(train, space, name="e", folder=session.library.folder, executor="inline")
    return session


def said(session: Session, line: str) -> str:
    return text(parse(TABLE, line.split(), "%ckpt").run(session).page())


def test_csv_has_a_row_for_each_result(session: Session) -> None:
    rows = list(csv.DictReader(said(session, "results e --csv").splitlines()))
    names = [(row["trial"], row["config/trial/name"]) for row in rows]
    assert names == [("t0", "t0")] * 3 + [("t1", "t1")] * 3
    assert [float(row["loss"]) for row in rows[:4]] == [3.0, 1.0, 2.0, 1.5]
    assert math.isnan(float(rows[4]["loss"]))
    assert {row["text"] for row in rows} == {'a "b", c'}
    assert len(list(csv.DictReader(said(session, "results e/t1 --csv").splitlines()))) == 3


def test_csv_keeps_a_row_whose_texts_have_ends_of_lines(session: Session, subtests: pytest.Subtests) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(text=f"x{config['end']}y", last=1)

    options = {"folder": session.library.folder, "executor": "inline"}
    for at, end in enumerate(["\r", "\r\n", "\u2028", "\x85", "\x0c", "\n"]):
        nbckpt.run(train, {f"a{end}b": 1, "end": end}, name=f"odd{at}", **options)
        written = parse(TABLE, ["results", f"odd{at}", "--csv"], "%ckpt").run(session).page()
        with subtests.test(end=end):
            assert f'"x{end}y"' in written.code
            assert f'"config/a{end}b"' in written.code
            fence = fenced(written.code).removeprefix("```\n").removesuffix("```")
            for shown in (text(written), fence):
                (row,) = csv.DictReader(shown.split("\n"))
                assert (row["trial"], row["last"]) == ("t0", "1")


def test_results_are_shown_in_pages(session: Session) -> None:
    assert "e: 6 results; 1 to 4 of them" in said(session, "results -n 4")
    assert "%ckpt results e --page 2" in said(session, "results -n 4")
    assert "5 to 6 of them" in said(session, "results -n 4 --page 2")
    with pytest.raises(UsageError, match="6 results, 4 on a page, so the last page is 2"):
        said(session, "results -n 4 --page 3")


def test_best_takes_the_last_or_the_best_value(session: Session) -> None:
    assert "Best of e by loss (min): e/t1" in said(session, "best e --metric loss --mode min")
    best = said(session, "best e --metric loss --mode min --scope best")
    assert "Best of e by loss (min of all its values): e/t0" in best
    assert "e/t0" in said(session, "best e --metric loss --mode max --scope best")


@pytest.mark.slow
def test_plot_writes_the_picture_to_a_file(session: Session, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    for name, start in {"a.png": b"\x89PNG", "a.svg": b"<?xml", "a.PDF": b"%PDF"}.items():
        assert f"Written to {tmp_path / name}" in said(session, f"plot e --metric loss -o {tmp_path / name}")
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(UsageError, match="no ending of a picture: use one of"):
        said(session, f"plot e --metric loss -o {tmp_path / 'a.txt'}")
