"""Placement: tensors that were saved on a GPU are restored to a device that is here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import nbckpt
from late import library
from nbckpt.commands import TABLE, Session, parse
from nbckpt.core import reducers
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import CodecError, UsageError
from nbckpt.mirror import AutoMirror

torch = library("torch", reason="needs PyTorch")


@contextmanager
def on_gpu(device: str = "cuda:0") -> Iterator[None]:
    """Save tensors as PyTorch saves those of a GPU: by its own pickling, which writes the device's name."""
    with (
        mock.patch.object(reducers, "reduce_tensor", return_value=NotImplemented),
        mock.patch("torch.serialization.location_tag", return_value=device),
    ):
        yield


@pytest.fixture
def tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nbckpt.Tracker:
    """A store with a model and two tensors of a GPU, a tensor of the CPU and a number."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    tracker = nbckpt.Tracker(tmp_path / "store")
    torch.manual_seed(0)
    with on_gpu():
        tracker.save({"net": torch.nn.Linear(2, 3), "x": torch.arange(3.0), "y": torch.ones(2)}, "gpu")
    more = {"small": torch.zeros(2), "n": 5}
    tracker.save(more, "cpu")
    return tracker


def run(tracker: nbckpt.Tracker, line: str, namespace: dict[str, Any]) -> Any:
    session = Session(tracker, AutoMirror(tracker.store, in_background=False), namespace)
    return parse(TABLE, line.split(), "%ckpt").run(session)


def test_a_missing_gpu_is_one_failure_with_the_next_step(tracker: nbckpt.Tracker) -> None:
    with on_gpu():
        tracker.save({"x": torch.arange(3.0), "y": torch.ones(2), "n": 5, "words": ["a"]}, "mixed")
    namespace = {"x": "mine", "y": 1}
    result = run(tracker, "restore mixed", namespace)
    assert namespace == {"x": "mine", "y": 1, "n": 5, "words": ["a"]}
    (failure,) = result.restored.failed
    assert (failure.names, failure.device) == (("x", "y"), "cuda:0")
    text = " ".join(str(result).split())
    assert "saved on cuda:0, which this machine does not have" in text
    assert "Restore to the CPU: %ckpt restore mixed x y --device cpu" in text
    assert result.warns


def test_a_device_restores_what_a_missing_gpu_held_back(tracker: nbckpt.Tracker) -> None:
    namespace: dict[str, Any] = {}
    result = run(tracker, "restore gpu --device cpu", namespace)
    assert not result.restored.failed
    torch.manual_seed(0)
    expected = torch.nn.Linear(2, 3)
    assert torch.equal(namespace["net"].weight, expected.weight)
    assert isinstance(namespace["net"].weight, torch.nn.Parameter)
    assert torch.equal(namespace["x"], torch.arange(3.0))
    assert {namespace[name].device.type for name in ("x", "y")} == {"cpu"}


def test_a_tensor_of_the_cpu_stays_there(tracker: nbckpt.Tracker) -> None:
    namespace: dict[str, Any] = {}
    tracker.restore("cpu", namespace, device="meta")
    assert (namespace["small"].device.type, namespace["n"]) == ("cpu", 5)
    tracker.restore("gpu", namespace, device="meta")
    assert {namespace[name].device.type for name in ("x", "y")} == {"meta"}


def test_an_unknown_device_changes_nothing(tracker: nbckpt.Tracker) -> None:
    for device in ("cuda:0", "gpu"):
        namespace: dict[str, Any] = {"x": 1}
        with pytest.raises(UsageError, match=f"device='{device}' is not here"):
            tracker.restore("gpu", namespace, device=device)
        assert namespace == {"x": 1}


def test_a_device_holds_for_one_restore_only(tracker: nbckpt.Tracker) -> None:
    tracker.restore("gpu", {}, device="cpu")
    assert [failure.device for failure in tracker.restore("gpu", {}).failed] == ["cuda:0"]


def test_checkpoints_of_trials_are_restored_to_the_cpu(tracker: nbckpt.Tracker) -> None:
    def train(config: dict[str, Any]) -> None:
        with on_gpu("cuda:7"):
            nbckpt.report(loss=1, checkpoint={"w": torch.arange(3.0), "epoch": 1})

    nbckpt.run(train, name="e").wait()
    namespace: dict[str, Any] = {}
    with pytest.raises(CodecError, match=r"cannot load 'w': saved on cuda:7, which .* --device cpu"):
        run(tracker, "restore e/t0@1", namespace)
    assert namespace == {}
    run(tracker, "restore e/t0@1 --device cpu", namespace)
    assert torch.equal(namespace["w"], torch.arange(3.0))


def test_a_checkpoint_gives_its_fields_on_a_device() -> None:
    with on_gpu():
        checkpoint = Checkpoint.from_dict({"w": torch.arange(3.0)})
        data = checkpoint.to_bytes()
    restored = Checkpoint.from_bytes(data)
    with pytest.raises(CodecError, match="device='cpu' in Python"):
        restored.to_dict()
    assert torch.equal(restored.to_dict(device="cpu")["w"], torch.arange(3.0))


def test_damage_is_not_taken_for_a_missing_gpu() -> None:
    from nbckpt.core.values.placement import load_storage

    with pytest.raises(Exception) as error:
        load_storage(b"no storage")
    assert not isinstance(error.value, CodecError)
