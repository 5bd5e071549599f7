"""The table of trials, how long they still take, and their results as pages, CSV and the best trial."""

from __future__ import annotations

import csv
import html
import math
import re
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import TrialError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.render import Hint, Page
from nbckpt.render.markdown import fenced
from nbckpt.render.sparkline import blocks, svg
from nbckpt.render.text import text
from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker
from nbckpt.trials import Experiment, Status, Trial
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.engine.runner import runner_of
from nbckpt.trials.model import journal
from nbckpt.trials.model.condensed import Condensed
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.views.eta import Progress, left_in_all, progress, typical
from nbckpt.trials.views.formats import shown_value, tail
from nbckpt.trials.views.metrics import inferred, metric_columns, varying
from nbckpt.trials.views.rows import fair_share
from nbckpt.trials.views.statuses import nothing_to_resume
from nbckpt.trials.views.table import TrialTable


class Made:
    """An experiment whose trials did what a test says, without running."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        folder.mkdir()
        self.experiment = Experiment(folder, Spec(None, **spec))

    def trial(self, *results: dict[str, Any], end: bool = True, **config: Any) -> Trial:
        (trial,) = runner_of(self.experiment).add(config)
        with TrialRecorder(trial) as recorder:
            recorder.start("thread", None)
            for at, result in enumerate(results, 1):
                recorder.result({"training_iteration": at, "time_total_s": at * 1.5, "done": False, **result})
            if end:
                recorder.end("done")
        return trial

    def page(self, **options: Any) -> Page:
        return TrialTable(self.experiment, **options).page()

    def rows(self, **options: Any) -> list[dict[str, str]]:
        """Return the table's rows, the text of each cell by its heading."""
        table = self.page(**options).tables[0]
        names = [column.name for column in table.columns]
        texts = ([str(getattr(cell, "text", cell)) for cell in row] for row in table.rows)
        return [dict(zip(names, row, strict=True)) for row in texts]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "e")


def failed(trial: Trial, message: str = "boom") -> Trial:
    error = TrialError(f"ValueError: {message}")
    error.__cause__ = ValueError(message)
    with TrialRecorder(trial) as recorder:
        recorder.fail(error, retry=False)
    return trial


def paused(trial: Trial) -> Trial:
    with TrialRecorder(trial) as recorder:
        recorder.pause()
    return trial


def reported(trial: Trial, **result: Any) -> Trial:
    with TrialRecorder(trial) as recorder:
        recorder.result(result)
    return trial


def test_each_status_has_a_fair_share_of_the_rows(made: Made) -> None:
    """A line counts the trials that are not shown."""
    for at in range(30):
        made.trial({"loss": 1}, at=at)
    for at in range(2):
        failed(made.trial(end=False, at=at))
    for at in range(9):
        paused(made.trial(end=False, at=at))
    states = {trial.id: str(trial.status) for trial in made.experiment.trials}
    shown = fair_share(made.experiment.trials, states, 8)
    counts = Counter(trial.status for trial in shown)
    assert counts == {Status.TERMINATED: 3, Status.ERROR: 2, Status.PAUSED: 3}
    assert [int(trial.id[1:]) for trial in shown] == sorted(int(trial.id[1:]) for trial in shown)
    page = made.page(most=8)
    assert len(page.tables[0].rows) == 8
    assert page.notes[:2] == (
        "Showing 8 of 41 trials. Not shown: 27 done, 6 paused.",
        "Show all: %ckpt trials e -n 0, by page: %ckpt trials e --page 1",
    )
    assert len(made.rows(most=0)) == 41


def test_requested_metrics_are_shown_under_their_headings(made: Made) -> None:
    assert metric_columns(["loss", "val/loss"]) == {"loss": "loss", "val/loss": "val/loss"}
    assert metric_columns({"loss": "L"}) == {"loss": "L"}
    with pytest.raises(UsageError, match="give a dict"):
        metric_columns([("loss", "L")])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="given twice"):
        metric_columns(["loss", "loss"])
    made.trial({"val": {"loss": 0.25}, "other": 3})
    assert made.experiment.table({"val/loss": "v"}).page().tables[0].columns[3].name == "v"
    row = made.rows(metrics={"val/loss": "validation", "missing": "missing"})[0]
    assert row["validation"] == "0.25"
    assert row["missing"] == ""
    assert "other" not in row


def test_inferred_metrics_are_numbers_that_the_user_reported(made: Made) -> None:
    result = {"note": "good", "loss": 0.5, "time_this_iter_s": 1.0, "timesteps_total": 7, "ok": True}
    trial = made.trial(result | {"val": {"accuracy": 1, "name": "x"}, "fit_time": 3.0})
    assert inferred([trial]) == ["loss", "val/accuracy", "fit_time"]
    assert inferred([trial], "fit_time") == ["fit_time", "loss", "val/accuracy"]
    assert inferred([made.trial(dict.fromkeys("abcdef", 1))]) == ["a", "b", "c"]
    made.trial({"loss": 0.5})
    zero = made.trial({"loss": 3}, {"loss": 0})
    made.trial({"loss": float("nan")})
    made.trial()
    assert made.experiment.best("loss", "min") is zero
    assert made.rows()[3]["loss"] == "0"


def test_rows_are_sorted_only_on_request_with_metric_and_mode(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for at, (metric, mode, sort, order) in enumerate(
        [
            ("loss", "min", True, ["t1", "t2", "t0", "t3", "t4"]),
            ("loss", "max", True, ["t0", "t2", "t1", "t3", "t4"]),
            ("loss", "min", False, ["t0", "t1", "t2", "t3", "t4"]),
            ("loss", "", True, ["t0", "t1", "t2", "t3", "t4"]),
            ("", "min", True, ["t0", "t1", "t2", "t3", "t4"]),
        ]
    ):
        made = Made(tmp_path / str(at), metric=metric, mode=mode)
        for loss in (3, 1, 2, float("nan")):
            made.trial({"loss": loss})
        made.trial()
        with subtests.test(metric=metric, mode=mode, sort=sort):
            assert [row["trial"] for row in made.rows(sort=sort)] == order


def test_a_table_of_many_trials_shows_the_best_first(tmp_path: Path) -> None:
    made = Made(tmp_path / "few")
    for acc in (0.1, 0.9, 0.8, 0.7):
        made.trial({"acc": acc})
    assert made.page().hints[0] == Hint("Best trial", "%ckpt best few --metric acc --mode max")
    failed(made.trial({"acc": 0.05}, end=False))
    rows = made.rows(sort=True, metric="acc", mode="max", most=3)
    assert [row["trial"] for row in rows] == ["t1", "t2", "t3"]
    made = Made(tmp_path / "e", metric="acc", mode="max")
    for at in range(199):
        made.trial({"acc": at})
    failed(made.trial({"acc": -1}, end=False))
    assert [row["trial"] for row in made.rows()] == [*(f"t{at}" for at in range(198, 179, -1)), "t199"]
    note = "Showing 20 of 200 trials, the best by acc (max) first. Not shown: 180 done."
    assert made.page().notes[0] == note


def test_pages_have_all_trials_in_order_and_name_their_range(made: Made) -> None:
    for at in range(7):
        made.trial({"loss": -at})
    pages = [made.experiment.table(most=3, page=number).page() for number in (1, 2, 3)]
    shown = [[str(getattr(row[0], "text", "")) for row in page.tables[0].rows] for page in pages]
    assert shown == [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6"]]
    assert [page.notes for page in pages] == [(f"trials {part} of 7",) for part in ("1-3", "4-6", "7-7")]
    best = made.experiment.table(most=3, page=1, sort=True, metric="loss", mode="min").page()
    assert best.notes == ("trials 1-3 of 7, the best by loss (min) first", "Best so far: t6, loss -6")
    assert made.experiment.table(most=0, page=1).page().notes == ()


@pytest.mark.parametrize("loss", [math.nan, "0.3"])
def test_a_metric_without_a_number_has_no_best_trial(tmp_path: Path, loss: Any) -> None:
    made = Made(tmp_path / "e", metric="loss", mode="min")
    made.trial({"loss": loss, "b": 0})
    page = made.page()
    assert not [note for note in page.notes if note.startswith("Best so far")]
    assert "%ckpt best" not in str(page.hints)
    with pytest.raises(UsageError, match=r"^'loss' is not a number in any trial: there are b$"):
        made.experiment.best("loss", "min")


def test_a_metric_and_a_mode_may_be_given_to_sort_by(made: Made) -> None:
    for loss in (3, 1, 2):
        made.trial({"loss": loss, "b": 0, "c": 0, "score": -loss})
    rows = made.rows(sort=True, metric="score", mode="max")
    assert [row["trial"] for row in rows] == ["t1", "t2", "t0"]
    assert list(rows[0])[3] == "score"
    note = "no trial reported 'scoer', so they are not sorted: there are loss, b, c, score"
    assert made.page(sort=True, metric="scoer", mode="max").notes == (note,)


def test_invalid_table_options_are_refused(made: Made, subtests: pytest.Subtests) -> None:
    for _ in range(7):
        made.trial({"loss": 1})
    for options, words in [
        ({"page": 4, "most": 3}, "there is no page 4: 7 trials, 3 on a page, so the last is page 3"),
        ({"page": -1}, "there is no page -1: 7 trials, 20 on a page, so the last is page 1"),
        ({"page": 2, "most": 0}, "there is no page 2: 7 trials, all on a page"),
        ({"most": -1}, "cannot show -1 rows"),
        ({"metric": "loss"}, "which loss is best\\? mode='min' or mode='max'"),
        ({"mode": "least"}, "which value is best"),
        ({"mode": "min"}, "which metric compares the trials"),
    ]:
        with subtests.test(words), pytest.raises(UsageError, match=words):
            made.experiment.table(**options)


def test_a_page_of_many_trials_reads_only_new_results(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(50):
        made.trial(*[{"loss": at}] * 20, lr=at, same=1)
    table = made.experiment.table(most=5, page=2, sort=True, metric="missing", mode="min")
    before = table.page()
    read: list[object] = []
    extended = Condensed.extended
    monkeypatch.setattr(
        Condensed, "extended", lambda known, results: read.extend(results) or extended(known, results)
    )
    monkeypatch.setattr(journal, "read", None)
    assert table.page() == before
    assert read == []
    reported(made.experiment.trials[3], training_iteration=21, time_total_s=1.0, missing=5)
    assert table.page() != before
    assert len(read) == 1  # of 1,001


def test_the_newest_value_of_a_metric_is_its_last_number(made: Made) -> None:
    trial = made.trial({"loss": 3, "deep": {"a": 1}}, {"loss": "text"}, {"loss": True}, end=False)
    assert (trial.newest("loss"), trial.newest("deep/a"), trial.newest("none")) == (3, 1, None)
    reported(trial, training_iteration=4, loss=2, none=7)
    assert (trial.newest("loss"), trial.newest("deep/a"), trial.newest("none")) == (2, 1, 7)
    with TrialRecorder(trial) as recorder:
        recorder.start("thread", Record("checkpoint_000003", "fields", 3))
    assert (trial.newest("loss"), trial.newest("none")) == (3, None)


def test_long_names_keep_their_end_and_numbers_are_never_cut(made: Made) -> None:
    assert tail("encoder/layers/0/attention/weight") == ".../attention/weight"
    assert len(tail("x" * 100)) == 20
    assert tail("x" * 20) == "x" * 20
    assert shown_value(123456789012345678901234567890).text == "123456789012345678901234567890"
    assert shown_value(12345.678).text == "12346"
    long = "s3://bucket/" + "data/" * 9
    made.trial({"encoder/layers/0/attention/weight": 2.0}, path=long + "a")
    made.trial(path=long + "b")
    table = made.page().tables[0]
    cell = table.rows[0][2]
    assert cell.text == ".../data/data/data/a"  # type: ignore[union-attr]
    assert cell.hint == long + "a"  # type: ignore[union-attr]


def test_only_parameters_that_vary_are_shown(made: Made) -> None:
    made.trial(lr=0.1, same="x", model={"depth": 2, "width": [3]})
    made.trial(lr=0.2, same="x", model={"depth": 4, "width": [3]}, extra=None)
    assert varying(made.experiment.trials) == ["lr", "model/depth", "extra"]
    assert [(row["lr"], row["model/depth"]) for row in made.rows()] == [("0.1", "2"), ("0.2", "4")]


def test_a_row_shows_the_newest_checkpoint_and_unsaved_results(made: Made) -> None:
    trial = made.trial(*[{"loss": 1 / at} for at in range(1, 5)], end=False)
    with TrialRecorder(trial) as recorder:
        recorder.saved(Record("checkpoint_000003", "fields", 3))
    paused(reported(trial, training_iteration=5, time_total_s=3700.0, loss=0.1))
    row = made.rows()[0]
    assert row["status"] == "paused"
    assert (row["iteration"], row["checkpoint"], row["unsaved"]) == ("5", "@3", "2")
    assert (row["loss"], row["elapsed"]) == ("0.1", "1 h 2 min")
    assert [str(hint) for hint in made.page().hints] == ["Resume: %ckpt resume e"]


def test_a_running_trial_shows_its_end_and_time_left(tmp_path: Path) -> None:
    made = Made(tmp_path / "e", stop={"training_iteration": 5})
    runner_of(made.experiment).pool.workers = 1  # it runs
    made.trial(*[{"time_this_iter_s": 60.0}] * 2, end=False)
    paused(made.trial({"time_this_iter_s": 60.0}, end=False))
    made.trial(*[{"loss": 1}] * 5)
    assert [(row["iteration"], row["eta"]) for row in made.rows()] == [("2/5", "3 min"), ("1", ""), ("5", "")]
    runner_of(made.experiment).pool.workers = 0
    assert "eta" not in made.rows()[0]
    assert [row["iteration"] for row in made.rows()] == ["2", "1", "5"]


def test_without_a_set_end_finished_trials_give_the_estimate(made: Made) -> None:
    """Trials that were stopped early do not count."""
    runner_of(made.experiment).pool.workers = 1
    for results in (4, 4, 9):
        made.trial(*[{"loss": 1}] * results)
    for _ in range(9):
        with TrialRecorder(made.trial({"loss": 1}, end=False)) as recorder:
            recorder.end("stopped", stopped_early=True)
    made.trial({"loss": 1}, {"loss": 1, "time_this_iter_s": 1.5}, end=False)
    assert [(row["iteration"], row["eta"]) for row in made.rows()][-1] == ("2/~4", "~3 s")


def test_nothing_to_resume_names_what_can_be_done_instead(made: Made) -> None:
    def said() -> str:
        return nothing_to_resume("e", made.experiment.trials, runner_of(made.experiment).asked)

    made.trial({"loss": 1})
    assert said() == "'e' has nothing to resume: 1 trial, 1 done"
    for _ in range(2):
        with TrialRecorder(made.trial({"loss": 1}, end=False)) as recorder:
            recorder.end("stopped", stopped_early=True)
    assert said().endswith("done, 2 stopped. Continue a stopped trial: %ckpt resume e/t1")
    with TrialRecorder(made.trial({"loss": 1}, end=False)) as recorder:
        recorder.fail(ValueError("bad"), retry=False)
    assert ", 1 failed. Retry failed trials: %ckpt resume e --errored. Continue a" in said()


def test_an_interrupted_trial_is_noted_with_the_resume_command(made: Made) -> None:
    made.trial({"loss": 1}, end=False)
    made.trial({"loss": 1})
    page = made.page()
    assert made.rows()[0]["status"] == "interrupted"
    assert page.headline == "e: 2 trials, 1 interrupted, 1 done"
    again = "t0 saved no checkpoint, and begins again when resumed."
    assert page.notes == ("t0 was interrupted. Resume: %ckpt resume e", again)


def test_an_interrupted_loop_is_noted_with_its_call(made: Made) -> None:
    made.trial({"loss": 1}, end=False)
    runner = runner_of(made.experiment)
    runner.spec = replace(runner.spec, executor="cell")
    call = "nbckpt.track('e', resume=True)"
    assert made.page().notes == (f"t0 was interrupted. Resume: {call}",)
    assert made.page().hints == (Hint("Resume", call),)


def test_an_error_shows_its_last_line_and_unfolds_its_traceback(made: Made) -> None:
    failed(made.trial(end=False), "<script>alert(1)</script>")
    table = TrialTable(made.experiment)
    fold = table.page().folds[0]
    assert fold.summary == "t0: ValueError: <script>alert(1)</script>"
    shown = table._repr_mimebundle_()
    assert "<details" in shown["text/html"]
    assert "<script" not in shown["text/html"]
    assert html.escape("ValueError: <script>") in shown["text/html"]
    assert shown["text/plain"].count("ValueError") == 1  # a terminal cannot fold: the last line is enough
    for _ in range(11):
        failed(made.trial(end=False))
    folds = made.page().folds
    assert len(folds) == 9
    assert folds[-1].summary == "4 more errors"


def test_a_metric_has_a_sparkline_in_text_and_html(made: Made) -> None:
    made.trial(*[{"loss": 1 / at} for at in range(1, 100)])
    shown = TrialTable(made.experiment)._repr_mimebundle_()
    assert re.search(r"█▁+ 0.0101", shown["text/plain"])
    assert 'alt="from 1 to 0.0101, between 0.0101 and 1"' in shown["text/html"]
    assert "<svg" not in shown["text/html"]  # a notebook that is not trusted drops it; a picture stays
    assert "data:image/svg+xml;base64," in shown["text/html"]
    for values in [[0.0], [1.0, 1.0], [1e308, -1e308], [0.0] * 500]:
        assert set(blocks(values)) <= set("▁▂▃▄▅▆▇█")
        assert "nan" not in svg(values)
        assert "inf" not in svg(values)


def test_nan_and_infinity_do_not_break_the_table(made: Made) -> None:
    made.trial({"loss": float("nan")}, {"loss": float("inf")})
    assert made.rows()[0]["loss"] == "inf"
    for name, value in {"nan": math.nan, "inf": math.inf}.items():
        made.trial({"other": value}, name=name)
    assert made.experiment.best("other", "min").id == "t2"


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


AT_TWO_S = [2.0] * 10


def told(
    stop: Any = None, usual: int | None = None, *, iteration: int = 12, times: Any = AT_TWO_S
) -> tuple[str, str]:
    estimate = progress(times, iteration, 24.0, stop, usual)
    return str(estimate), estimate.eta


def test_progress_shows_the_end_that_comes_first(subtests: pytest.Subtests) -> None:
    for stop, usual, said in [
        ({"training_iteration": 40}, None, ("12/40", "56 s")),
        ({"training_iteration": 39.5, "loss": 1}, None, ("12/40", "56 s")),
        ({"training_iteration": 40}, 30, ("12/~30", "~36 s")),
        ({"training_iteration": 40}, 50, ("12/40", "56 s")),
        ({"training_iteration": 7}, None, ("12", "")),
        ({"training_iteration": math.inf}, None, ("12", "")),
        (144, None, ("12/~72", "2 min")),
        ({"time_total_s": 144}, None, ("12/~72", "2 min")),
        ({"time_total_s": 144, "training_iteration": 40}, None, ("12/40", "56 s")),
        ({"time_total_s": 44, "training_iteration": 40}, None, ("12/~22", "20 s")),
        (20, None, ("12/~12", "1 s")),
        (None, 40, ("12/~40", "~56 s")),
        (None, 12, ("12/~12", "~1 s")),
        (None, 11, ("12", "")),
        (None, None, ("12", "")),
        ({"loss": 3}, None, ("12", "")),
        (lambda name, result: True, 3000, ("12/~3000", "~1 h 40 min")),
        (lambda name, result: True, 300_000, ("12/~300000", "~6 d 23 h")),
    ]:
        with subtests.test(stop=stop, usual=usual):
            assert told(stop, usual) == said


def test_without_times_only_a_time_limit_has_an_eta(subtests: pytest.Subtests) -> None:
    for times in [[], ["soon"], [math.nan], [None]]:
        with subtests.test(times=times):
            assert told({"training_iteration": 40}, times=times) == ("12/40", "")
            assert told(None, 40, times=times) == ("12/~40", "")
            assert told(144, times=times) == ("12", "2 min")
    assert (str(Progress(3)), Progress(3).eta) == ("3", "")
    assert progress([], 0, 0.0, None, None) == Progress(0)


numbers = st.floats() | st.integers() | st.just("text") | st.none()
counts = st.integers(0, 1 << 40)
metrics = st.dictionaries(st.sampled_from(["training_iteration", "time_total_s"]), numbers)


@pytest.mark.slow
@given(st.lists(numbers, max_size=12), counts, st.floats(), numbers | metrics, st.none() | counts)
def test_progress_is_never_negative_or_nan(
    times: Any, iteration: int, elapsed_s: float, stop: Any, usual: int | None
) -> None:
    estimate = progress(times, iteration, elapsed_s, stop, usual)
    assert estimate.total is None or estimate.total >= iteration
    assert estimate.left_s is None or 0 <= estimate.left_s < math.inf
    assert not set("-ni") & set(estimate.eta.replace("min", ""))


@given(st.lists(st.integers(1, 1000)))
def test_the_typical_count_is_between_minimum_and_maximum(iterations: list[int]) -> None:
    estimate = typical(iterations)
    assert estimate is None if not iterations else min(iterations) <= (estimate or 0) <= max(iterations)


def test_the_time_left_for_all_trials(subtests: pytest.Subtests) -> None:
    for ended, running, waiting, side_by_side, left in [
        ([], [(5, None)], 3, 1, None),  # nothing says how long a trial takes
        ([], [(5, 15)], 3, 1, 75),
        ([10], [(5, None)], 0, 1, 5),
        ([10], [(50, None)], 0, 1, 0),  # it takes longer than usual
        ([10, 20], [(0, 30), (0, 10)], 0, 2, 30),  # the longest is the last
        ([10, 20], [], 4, 2, None),
        ([10], [(0, 10)], 7, 100, 10),
    ]:
        with subtests.test(ended=ended, running=running):
            assert left_in_all(ended, running, waiting, side_by_side) == left


def test_the_table_says_how_long_all_trials_take() -> None:
    reported, go = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0)
        reported.set()
        assert go.wait(60)

    space = {"x": nbckpt.grid_search([1, 2, 3])}
    experiment = nbckpt.run(train, space, name="e", max_concurrent=1, stop={"training_iteration": 5})
    assert reported.wait(60)
    assert "left for 3 trials" in str(experiment)
    go.set()
    assert experiment.wait(60)
    assert "left for" not in str(experiment)
