"""Filters over trials: parsed, never run; and `nbckpt.find_trials`, which uses them on whole stores."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials.conftest import ran

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.trials.model import annotation
from nbckpt.trials.model.where import DEEPEST, LONGEST, Several, Where

CASES = json.loads((Path(__file__).parent / "where_cases.json").read_text(encoding="utf-8"))
"""What the panel's parser reads too: tests/front/where.test.mjs."""
VALUES: dict[str, Any] = {
    **CASES["values"],
    **{name: float(number) for name, number in CASES["numbers"].items()},
    **{name: Several(values) for name, values in CASES["several"].items()},
    **{name: tuple(values) for name, values in CASES["lists"].items()},
    **{name: at and datetime.fromisoformat(at).timestamp() for name, at in CASES["moments"].items()},
}


def test_a_filter_compares_names_with_constants(subtests: pytest.Subtests) -> None:
    for text, passes in CASES["cases"]:
        with subtests.test(text=text):
            assert Where(text).matches(VALUES) is passes


def test_what_the_panel_refuses_is_refused(subtests: pytest.Subtests) -> None:
    for text in CASES["refused"]:
        with subtests.test(text=text), pytest.raises(UsageError, match="cannot read the filter at character"):
            Where(text)


def test_anything_else_is_refused_with_its_position(subtests: pytest.Subtests) -> None:
    no_date = "at character 14, .*not a date such as '2026-11-19'"
    for text, message in [
        ("started_at > 'last week'", no_date),
        ("started_at > '2026-13-01'", no_date),
        ("started_at > '0001-01-01'", no_date),
        ("lr <", "at character 5: it ends too early; use comparisons"),
        ("é < 1 and ", "at character 10: it ends too early; use comparisons"),
        ("lr = 0.1", "at character"),
        ("", "at character 1: it is empty"),
        ("__import__('os').system('true')", "at character 1"),
        ("lr < 1 and (lambda: 1)()", "at character 12"),
        ("é == 1 and f(lr)", "at character 12, 'f\\(lr\\)'"),
        ("[x for x in y]", "not a name or a constant"),
        ("lr if n else 1", "not a name or a constant"),
        ("lr is None", "'is' is not a comparison"),
        ("lr ** 99999999", "not a name or a constant"),
        ("lr + 1 < 2", "'lr \\+ 1'"),
        ("f'{lr}' == '1'", "not a name or a constant"),
        ("(n := 3)", "not a name or a constant"),
        ("lr < 1; n", "at character"),
        ("lr\x00", "cannot read the filter"),
        ("lr < 1j", "not a name or a constant"),
        ("x" * (LONGEST + 1), "at most 2,000 characters"),
        ("not " * (DEEPEST + 2) + "n", "nested too deep"),
        ("(" * 900 + "n" + ")" * 900, "cannot read the filter"),
        ("n == " + "(" * 90 + "1," + ")," * 89 + ")", "nested too deep"),
    ]:
        with subtests.test(text=text), pytest.raises(UsageError, match=message):
            Where(text)


@given(st.text(max_size=60))
def test_no_text_raises_anything_but_a_usage_error(text: str) -> None:
    with suppress(UsageError):
        Where(text).matches(VALUES)


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"no trial has 'los', at character 12 .* Did you mean 'loss'"):
        Where("lr < 1 and los < 2").check(VALUES)


class Hostile:
    """A value whose comparisons do harm."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("no truth value")

    __hash__ = None  # type: ignore[assignment]


def test_a_value_that_cannot_be_compared_passes_nothing() -> None:
    assert not Where("lr == 1 or lr in (1, 2)").matches({"lr": Hostile()})


@pytest.fixture
def session(store: Path) -> Session:
    """Return a session over two experiments: `a` with lr 1, 2, 3 and `b` with another metric."""
    tracker = nbckpt.Tracker(store)

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1 / config["lr"], val={"loss": config["lr"]}, checkpoint={"x": 1})

    ran(train, {"lr": nbckpt.grid_search([1, 2, 3])}, name="a", executor="inline")
    ran(lambda config: nbckpt.report(acc=0.5), {"net": {"size": 4}}, name="b", executor="inline")
    return Session(tracker, AutoMirror(tracker.store, in_background=False), {})


def run(session: Session, *words: str) -> Any:
    return parse(TABLE, words, "%ckpt").run(session)


def shown(session: Session, *words: str) -> list[str]:
    return [str(row[0].text) for row in run(session, "trials", *words).page().tables[0].rows]


def test_a_table_shows_the_trials_that_pass(session: Session) -> None:
    run(session, "tag", "a/t1", "good")
    assert shown(session, "a", "--where", "lr > 1 and val.loss < 3") == ["t1"]
    assert shown(session, "a", "--where", "tag == 'good'") == ["t1"]
    assert shown(session, "a", "--where", "lr > 99") == []
    assert shown(session, "a", "--sort", "loss") == ["t2", "t1", "t0"]
    assert shown(session, "a", "--sort", "loss", "--mode", "max", "--where", "lr < 3") == ["t0", "t1"]
    page = run(session, "trials", "a", "--where", "lr > 1", "-n", "1").page()
    assert "2 of 3 trials match lr > 1" in page.notes
    with pytest.raises(UsageError, match="Did you mean 'loss'"):
        run(session, "trials", "a", "--where", "los < 1")


def test_find_trials_searches_all_experiments(session: Session, store: Path) -> None:
    annotation.change(store / "experiments/a/t2", note="better edges", add=["good"])
    everything = nbckpt.find_trials()
    assert list(everything["trial"]) == ["t0", "t1", "t2", "t0"]
    assert everything["config/net/size"].iloc[-1] == 4
    frame = nbckpt.find_trials(store, "tag == 'good' or acc > 0.1")
    rows = [tuple(row) for row in frame[["experiment", "trial", "status"]].values]
    assert rows == [("a", "t2", "done"), ("b", "t0", "done")]
    assert (frame["note"][0], frame["tags"][0], frame["val/loss"][0]) == ("better edges", ("good",), 3)
    assert len(nbckpt.find_trials(store / "experiments", "lr >= 2")) == 2
    assert len(nbckpt.find_trials(store.with_name("nothing"))) == 0
    with pytest.raises(UsageError, match=r"For a filter write find_trials\(where='lr >= 2'\)"):
        nbckpt.find_trials("lr >= 2")
    with pytest.raises(UsageError, match="no trial has 'acx'"):
        nbckpt.find_trials(where="acx > 1")


def test_find_trials_at_a_url_downloads_no_checkpoint(session: Session) -> None:
    run(session, "note", "a/t0", "hello", "there")
    run(session, "push", "memory://where/store")
    frame = nbckpt.find_trials("memory://where/store", "note == 'hello there' or acc == 0.5")
    assert list(frame["experiment"] + "/" + frame["trial"]) == ["a/t0", "b/t0"]


def test_a_damaged_experiment_is_left_out(session: Session, experiments: Path, caplog: Any) -> None:
    (experiments / "a/experiment.json").write_text("{")
    assert list(nbckpt.find_trials()["experiment"]) == ["b"]
    assert "a is left out" in caplog.text
