"""A trial is read-only: it shows its configuration, its results, its checkpoint and its end."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest
from trials.runs import ran

import nbckpt
from nbckpt.errors import NotFoundError
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.recorder import TrialRecorder

ATTRIBUTES = [name for name, member in inspect.getmembers(nbckpt.Trial) if isinstance(member, property)]


def train(config: dict[str, Any]) -> None:
    print("training", config["lr"])
    for step in range(3):
        nbckpt.report(loss=config["lr"] / (step + 1), checkpoint={"step": step} if step == 1 else None)


@pytest.fixture
def trial(tmp_path: Path) -> nbckpt.Trial:
    return ran(train, {"lr": 0.5}, name="e", folder=tmp_path, executor="inline").trial("t0")


def test_an_attribute_of_a_trial_cannot_be_assigned(trial: nbckpt.Trial, subtests: pytest.Subtests) -> None:
    for name in ATTRIBUTES:
        with subtests.test(name):
            before = getattr(trial, name)
            with pytest.raises(AttributeError, match=name):
                setattr(trial, name, before)


def test_changing_what_a_trial_returned_does_not_change_it(trial: nbckpt.Trial) -> None:
    trial.config["lr"] = 2
    trial.metrics["loss"] = 2
    trial.results.clear()
    assert (trial.config, trial.metrics["loss"]) == ({"lr": 0.5}, 0.5 / 3)
    assert trial.iteration == len(trial.results) == 3
    assert (trial.status, trial.error, trial.log()) == ("TERMINATED", "", ["training 0.5"])


def test_metrics_are_the_last_result_and_history_has_all(
    trial: nbckpt.Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trial.metrics == trial.results[-1]
    assert isinstance(trial.history, pandas.DataFrame)
    assert list(trial.history["loss"]) == [0.5, 0.25, 0.5 / 3]
    assert list(trial.history["training_iteration"]) == [1, 2, 3]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(nbckpt.UsageError, match="history needs pandas: pip install pandas"):
        _ = trial.history


def test_a_trial_without_results_is_empty(tmp_path: Path) -> None:
    trial = nbckpt.Trial(tmp_path / "t0", {})
    assert trial.metrics == {}
    assert trial.history.empty
    assert trial.checkpoint is None
    record = trial.checkpoints.publish(None, Record("checkpoint_000001", "null", 1))
    with TrialRecorder(trial) as recorder:
        recorder.result({"training_iteration": 1})
        recorder.saved(record)
    assert (trial.checkpoint_name, trial.checkpoint) == ("checkpoint_000001", None)


def test_a_trial_has_a_checkpoint_until_it_is_deleted(trial: nbckpt.Trial) -> None:
    assert isinstance(trial.checkpoint, nbckpt.Checkpoint)
    assert trial.checkpoint.to_dict() == {"step": 1}
    assert (trial.checkpoint_name, trial.checkpoint_iteration) == ("checkpoint_000002", 2)
    for record in trial.checkpoints.records():
        trial.checkpoints.delete(record)
    with pytest.raises(NotFoundError, match="there is no checkpoint 'checkpoint_000002'"):
        _ = trial.checkpoint
