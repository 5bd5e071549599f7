"""TensorBoard: what its callback wrote, read back by TensorBoard."""

from __future__ import annotations

import logging
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.integrations.tensorboard import TensorBoardCallback
from nbckpt.trials import Experiment
from nbckpt.trials.model.recorder import TrialRecorder

pytest.importorskip("tensorboard", reason="needs TensorBoard")


def run(fn: Any, logdir: Path, config: dict[str, Any] | None = None, **kwargs: Any) -> Experiment:
    experiment = ran(fn, config, name="e", callbacks=[TensorBoardCallback(logdir)], **kwargs)
    assert experiment.notes == []
    return experiment


def events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events(folder).Scalars(name)]


def train(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, 4):
        redone = 0.0 if checkpoint is None else 10.0
        nbckpt.report(
            loss=i + redone, test={"accuracy": 0.5}, name="x", checkpoint={"i": i + 1} if i == 1 else None
        )
        if i == 2 and config.get("fails") and checkpoint is None:
            raise ValueError("once")


def test_each_trial_has_a_folder_and_each_number_a_curve(tmp_path: Path) -> None:
    run(train, tmp_path / "log", {"lr": nbckpt.grid_search([0.1, 0.2])})
    assert sorted(str(file.relative_to(tmp_path / "log")) for file in (tmp_path / "log").glob("*/*")) == [
        "e/t0",
        "e/t1",
    ]
    for trial in ("t0", "t1"):
        folder = tmp_path / "log" / "e" / trial
        assert scalars(folder, "loss") == [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)]
        assert scalars(folder, "test/accuracy") == [(step, 0.5) for step in range(1, 5)]
        assert {"name", "done"}.isdisjoint(events(folder).Tags()["scalars"])


def test_the_configuration_is_among_the_hyperparameters(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    run(train, tmp_path / "log", {"lr": 0.25, "opt": {"kind": "sgd", "decay": None, "nesterov": True}})
    metadata = events(tmp_path / "log" / "e" / "t0").SummaryMetadata("_hparams_/session_start_info")
    session = HParamsPluginData.FromString(metadata.plugin_data.content).session_start_info
    assert session.hparams["lr"].number_value == 0.25
    assert session.hparams["opt/kind"].string_value == "sgd"
    assert session.hparams["opt/decay"].string_value == "None"
    assert session.hparams["opt/nesterov"].bool_value is True


def test_an_integer_that_no_float_holds_turns_nothing_off(tmp_path: Path) -> None:
    run(lambda config: {"loss": 1, "big": config["n"]}, tmp_path / "log", {"n": 10**400})
    assert scalars(tmp_path / "log" / "e" / "t0", "loss") == [(1, 1.0)]
    assert scalars(tmp_path / "log" / "e" / "t0", "big") == [(1, math.inf)]


def test_results_after_a_retry_replace_the_former_ones(tmp_path: Path) -> None:
    run(train, tmp_path / "log", {"fails": True}, max_failures=1)
    assert scalars(tmp_path / "log" / "e" / "t0", "loss") == [(1, 0.0), (2, 1.0), (3, 12.0), (4, 13.0)]


def test_a_paused_trial_continues_in_its_folder(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(1 if nbckpt.get_checkpoint() is None else 3):
            nbckpt.report(loss=float(i), checkpoint={})

    experiment = run(train, tmp_path / "log")
    with TrialRecorder(experiment.trials[0]) as recorder:
        recorder.pause()
    experiment.resume()
    assert experiment.wait(60)
    assert experiment.notes == []
    assert scalars(tmp_path / "log" / "e" / "t0", "loss") == [(1, 0.0), (2, 0.0), (3, 1.0), (4, 2.0)]


def test_a_stored_callback_has_no_open_writers(tmp_path: Path, store: Path) -> None:
    run(train, tmp_path / "log")
    callback = TensorBoardCallback(tmp_path / "log")
    callback._writers[tmp_path] = open  # type: ignore[assignment]
    back = pickle.loads(pickle.dumps(callback))
    assert (back.logdir, back._writers) == (tmp_path / "log", {})
    assert "left_out" not in (store / "experiments" / "e" / "experiment.json").read_text()


def test_without_tensorboard_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(
        UsageError, match=r"^TensorBoardCallback needs TensorBoard: pip install 'nbckpt\[tensorboard\]'$"
    ):
        TensorBoardCallback("log")


def test_images_and_figures_are_shown_with_their_step(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy", reason="makes an image")

    def paint(config: dict[str, Any]) -> None:
        for step in range(2):
            image = nbckpt.media.Image(numpy.zeros((2, 3 + step), numpy.uint8))
            nbckpt.report(loss=1.0, val={"image": image}, note=nbckpt.media.Text("long"))

    run(paint, tmp_path / "log")
    written = events(tmp_path / "log" / "e" / "t0")
    assert written.Tags()["images"] == ["val/image"]
    images = written.Images("val/image")
    assert [(image.step, image.width, image.height) for image in images] == [(1, 3, 2), (2, 4, 2)]
