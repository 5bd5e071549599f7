"""Summaries of trials: a cache of what tables, filters and sorting need, which is never trusted."""

from __future__ import annotations

import json
from typing import Any

import pytest

import nbckpt
from nbckpt.errors import CorruptError
from nbckpt.media import Text
from nbckpt.trials.model.annotation import Annotation
from nbckpt.trials.model.state import Status
from nbckpt.trials.model.summary import Summary
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.views.data import trial_data
from nbckpt.trials.views.fields import fields, own_fields

nothing = Annotation()


@pytest.fixture
def trial() -> Trial:
    def train(config: dict[str, Any]) -> None:
        for step in range(40):
            nbckpt.report(loss=1 / (step + 1), deep={"acc": step}, samples=Text("x" * 9), word="good")
        raise ValueError("no")

    return nbckpt.run(train, {"lr": nbckpt.grid_search([0.1])}, name="e", executor="inline").trials[0]


def read_again(trial: Trial, annotation: Annotation = nothing) -> Summary:
    document = json.loads(json.dumps(Summary(trial, annotation).to_json()))
    return Summary.from_json(document, trial.folder)


def shown(trial: Trial) -> Any:
    annotation = Annotation("a note", ("good",))
    row = fields(trial, own_fields(trial, "failed", annotation), ["metrics/loss"])
    return repr(row), trial_data(trial, "failed"), state_of(trial).condensed.curves, trial.metric_names


def test_a_summary_has_what_a_row_needs_and_reads_the_rest(trial: Trial) -> None:
    summary = read_again(trial, Annotation("a note", ("good",)))
    assert summary.annotation == Annotation("a note", ("good",))
    assert shown(summary.trial) == shown(trial)
    again = read_again(trial).trial
    assert again.results == trial.results
    assert again.traceback == trial.traceback != ""
    assert again.media == trial.media != []
    assert str(again.page()) == str(trial.page())
    assert state_of(again).condensed == state_of(trial).condensed


def test_a_summary_that_nbckpt_would_not_write_is_refused(trial: Trial, subtests: pytest.Subtests) -> None:
    document = Summary(trial, nothing).to_json()
    for change in [
        {"status": "DAMAGED"},
        {"status": "FINE"},
        {"iteration": -1},
        {"iteration": 1.5},
        {"iteration": 1 << 70},
        {"config": []},
        {"result": {"training_iteration": -1}},
        {"curves": [["a", [1, 1, 1.0, None, None, []]]]},
        {"curves": [["a"]]},
        {"curves": [[f"m{at}", [1, 1, 1.0, None, None, [1.0]]] for at in range(1_001)]},
        {"media": [{"name": "a"}]},
        {"media": [{"name": "a", "step": 1, "count": 1, "steps": []}] * 201},
        {"load": {"cpu": "much"}},
        {"tags": ["x"] * 101},
        {"user_note": "x" * 10_001},
        {"error": None},
    ]:
        with subtests.test(change=change), pytest.raises(CorruptError):
            Summary.from_json({**document, **change}, trial.folder)
    with pytest.raises(CorruptError):
        Summary.from_json([], trial.folder)


def test_every_status_is_kept_and_no_path_of_media(trial: Trial) -> None:
    document = Summary(trial, nothing).to_json()
    hostile = {"type": "file", "digest": "../" * 8, "size": 1, "ending": "../x"}
    document["media"] = [{"name": "a", "step": 1, "count": 1, "steps": [], **hostile}]
    assert state_of(Summary.from_json(document, trial.folder).trial).media == {}
    for status in set(Status) - {Status.DAMAGED}:
        state_of(trial).status = status
        assert read_again(trial).trial.status == status
