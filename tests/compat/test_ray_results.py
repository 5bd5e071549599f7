"""Experiments that Ray Tune wrote are read, and nothing in them is trusted."""

from __future__ import annotations

import json
import logging
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from nbckpt import NotFoundError
from nbckpt.compat import ray_tune as tune
from nbckpt.compat.ray_tune.analysis import read_trials
from nbckpt.errors import UntrustedError

LINES = [{"loss": 1 / n, "training_iteration": n, "trial_id": "ab1", "done": n == 3} for n in (1, 2, 3)]


def written_by_ray(folder: Path, name: str = "train_ab1_00000_0_lr=0.1", **more: str) -> Path:
    trial = folder / name
    (trial / "checkpoint_000002").mkdir(parents=True)
    (trial / "checkpoint_000010").mkdir()
    (trial / "checkpoint_000002" / "dict_checkpoint.pkl").write_bytes(pickle.dumps({"step": 2}))
    (trial / "params.json").write_text('{"lr": 0.1, "net": {"width": 3}}')
    (trial / "params.pkl").write_bytes(b"never read")
    (trial / "result.json").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    for file, text in more.items():
        (trial / file.replace("_", ".")).write_text(text)
    return trial


def test_an_experiment_of_ray_is_read(tmp_path: Path) -> None:
    trial = written_by_ray(tmp_path)
    (tmp_path / "experiment_state-2020.json").write_text("{}")
    for analysis in (
        tune.ExperimentAnalysis(tmp_path, default_metric="loss", default_mode="min"),
        tune.ExperimentAnalysis(tmp_path / "experiment_state-2020.json", "loss", "min"),
    ):
        best = analysis.best_trial
        assert (best.trial_id, best.status, best.config["net"]) == ("ab1", "TERMINATED", {"width": 3})
        assert (analysis.best_result["loss"], analysis.best_logdir) == (1 / 3, str(trial))
        assert analysis.get_trial_checkpoints_paths(best, "loss") == [
            (str(trial / "checkpoint_000002"), 0.5),
            (str(trial / "checkpoint_000010"), None),
        ]
        assert analysis.best_checkpoint == str(trial / "checkpoint_000002")
        assert analysis.notes == []


def test_a_tuner_reads_the_results_of_ray(tmp_path: Path) -> None:
    trial = written_by_ray(tmp_path, error_txt="Traceback: lost")
    with (trial / "result.json").open("a") as file:
        file.write(json.dumps({"training_iteration": 4, "checkpoint_dir_name": "checkpoint_000010"}))
    (result,) = tune.Tuner.restore(tmp_path).get_results()
    assert (result.config["lr"], str(result.error)) == (0.1, "Traceback: lost")
    assert result.metrics["training_iteration"] == 4
    assert [metrics["training_iteration"] for _, metrics in result.best_checkpoints] == [2, 4]
    first = result.get_best_checkpoint("loss", "min")
    assert first is not None
    with pytest.raises(UntrustedError, match="trust=True"):
        first.to_dict()


def test_pickles_in_checkpoints_of_ray_are_read_with_trust(tmp_path: Path) -> None:
    written_by_ray(tmp_path)
    assert tune.ExperimentAnalysis(tmp_path, "loss", "min", trust=True).best_trial.trust
    (result,) = tune.ResultGrid(read_trials(tmp_path, trust=True))
    best = result.get_best_checkpoint("loss", "min")
    assert best is not None
    assert best.to_dict() == {"step": 2}


def test_a_table_stands_in_for_missing_results(tmp_path: Path) -> None:
    trial = written_by_ray(
        tmp_path, progress_csv="loss,training_iteration,done,host\n0.5,1,False,a\nnan,2,True,b\n"
    )
    (trial / "result.json").unlink()
    (read,) = tune.ExperimentAnalysis(tmp_path).trials
    assert read.results[0] == {"loss": 0.5, "training_iteration": 1, "done": False, "host": "a"}
    assert read.values("loss") == [0.5]


DAMAGED = [
    ("result_json", '{"loss": 1}\n{"lo\n[1]\n' + "[" * 5000 + "\n", "line 2 of result.json is damaged"),
    ("result_json", '{"a":' * 200 + "1" + "}" * 200, "nested too deeply"),
    ("result_json", '{"a": ' + "9" * 9999 + "}", "result.json"),
    ("params_json", "[]", "params.json is damaged"),
    ("params_json", "\x00\xff", "params.json is damaged"),
]


def test_damage_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for at, (file, text, note) in enumerate(DAMAGED):
        with subtests.test(text[:20]):
            written_by_ray(tmp_path / str(at), **{file: text})
            caplog.clear()
            with caplog.at_level(logging.WARNING, "nbckpt"):
                analysis = tune.ExperimentAnalysis(tmp_path / str(at))
            assert len(analysis.trials) == 1
            assert any(note in each for each in analysis.notes)
            assert note in caplog.text


def test_odd_values_in_results_are_harmless(tmp_path: Path) -> None:
    odd = {"trial_id": [1], "checkpoint_dir_name": {}, "training_iteration": [], "loss": 10**400, "config": 3}
    trial = written_by_ray(tmp_path, result_json=json.dumps(odd) + "\n" + json.dumps({"loss": 0.5}))
    (trial / "params.json").unlink()
    analysis = tune.ExperimentAnalysis(tmp_path, "loss", "min")
    assert (analysis.best_trial.values("loss"), analysis.best_config) == ([0.5], {})
    assert analysis.best_checkpoint is None
    assert len(analysis.get_trial_checkpoints_paths(analysis.best_trial)) == 2


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbckpt.compat.ray_tune import ray_results

    written_by_ray(tmp_path)
    monkeypatch.setattr(ray_results, "LONGEST_FILE", 20)
    (trial,) = tune.ExperimentAnalysis(tmp_path).trials
    assert (trial.results, trial.status) == ([], "PENDING")


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_links_that_lead_outside_are_not_followed(tmp_path: Path) -> None:
    outside = written_by_ray(tmp_path / "outside", "trial")
    inside = tmp_path / "inside"
    trial = written_by_ray(inside, "own")
    for name in ("result.json", "params.json"):
        (trial / name).unlink()
        (trial / name).symlink_to(outside / name)
    (trial / "checkpoint_000077").symlink_to(outside / "checkpoint_000002")
    (inside / "linked").symlink_to(outside)
    analysis = tune.ExperimentAnalysis(inside)
    (read,) = analysis.trials
    assert (read.results, read.config) == ([], {})
    assert "checkpoint_000077" not in [Path(saved.folder).name for saved in read.list_checkpoints()]
    assert len(analysis.notes) == 3
    assert all("leads outside" in note for note in analysis.notes)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    trial = written_by_ray(tmp_path)
    (trial / "result.json").unlink()
    os.mkfifo(trial / "result.json")
    (read,) = tune.ExperimentAnalysis(tmp_path).trials
    assert read.results == []


def test_a_folder_without_an_experiment_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nothing"):
        with pytest.raises(NotFoundError, match="no experiment of nbckpt or Ray in"):
            tune.ExperimentAnalysis(path)


def test_an_experiment_of_nbckpt_is_read_by_rays_names(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        tune.report(loss=config["x"])

    made = tune.run(
        train, config={"x": tune.grid_search([2, 1])}, metric="loss", mode="min", local_dir=tmp_path
    )
    analysis = tune.ExperimentAnalysis(made.experiment_path)
    assert analysis.best_config == {"x": 1}
    assert sorted(result["loss"] for result in analysis.results.values()) == [1, 2]
