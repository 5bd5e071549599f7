"""The load of the machine: sampled with results, kept apart from them, and shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.trials import Catalog
from nbckpt.trials.engine import system
from nbckpt.trials.engine.system import PERIOD_S, SystemSampler
from nbckpt.trials.views.trial_page import TrialShown


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries that always tell the same load, on a machine with two GPUs."""
    psutil = SimpleNamespace(
        __spec__=True,
        cpu_percent=lambda: 25,
        virtual_memory=lambda: SimpleNamespace(percent=50),
        Process=lambda: SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=3_000_000)),
    )
    nvml = SimpleNamespace(
        __spec__=True,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda at: at,
        nvmlDeviceGetMemoryInfo=lambda at: SimpleNamespace(used=at, total=4),
        nvmlDeviceGetUtilizationRates=lambda at: SimpleNamespace(gpu=10 * at),
    )
    monkeypatch.setitem(sys.modules, "psutil", psutil)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


LOAD = {"cpu_percent": 25.0, "memory_percent": 50.0, "process_bytes": 3e6}
GPUS = {"gpu0_percent": 0.0, "gpu0_memory_percent": 0.0, "gpu1_percent": 10.0, "gpu1_memory_percent": 25.0}


@pytest.mark.usefixtures("libraries")
def test_the_load_is_sampled_once_in_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that fails is not asked again."""
    clock = Clock()
    sampler = SystemSampler(clock)
    assert sampler.sample() == LOAD | GPUS
    assert sampler.sample() == {}
    clock.now = PERIOD_S
    assert sampler.sample() == LOAD | GPUS

    asked = []

    def fail(handle: int) -> Any:
        asked.append(handle)
        raise RuntimeError("the driver is gone")

    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetMemoryInfo", fail)
    for turn in (2, 3):
        clock.now = turn * PERIOD_S
        assert sampler.sample() == LOAD
    assert asked == [0]


@pytest.mark.usefixtures("libraries")
def test_a_trial_keeps_the_load_apart_from_its_results(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        for loss in (2, 1):
            nbckpt.report(loss=loss)

    nbckpt.run(train, name="e", folder=tmp_path, executor="inline", system_metrics=True)
    experiment = Catalog(tmp_path).open("e")
    (trial,) = experiment.trials
    (load,) = trial.loads
    assert load == LOAD | GPUS | {"at": load["at"]}
    assert trial.metric_names == ["loss"]
    page = str(TrialShown(experiment, trial))
    assert "process" in page
    assert "3 MB" in page
    assert experiment.spec.system_metrics


def test_a_machine_without_the_libraries_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pip install psutil"):
        nbckpt.run(lambda config: None, name="e", folder=tmp_path, system_metrics=True)
    with pytest.raises(UsageError, match="pip install psutil"):
        nbckpt.track("t", folder=tmp_path, system_metrics=True)
    assert list(tmp_path.iterdir()) == []


def test_a_strange_load_in_a_journal_is_damage(tmp_path: Path) -> None:
    experiment = nbckpt.run(lambda config: {"loss": 1}, name="e", folder=tmp_path, executor="inline")
    assert experiment.trials[0].loads == []  # it was not asked for
    assert "load of the machine" not in str(TrialShown(experiment, experiment.trials[0]))
    with (experiment.trials[0].folder / "events.jsonl").open("a") as journal:
        journal.write(json.dumps({"event": "load", "load": {"cpu_percent": "much"}}) + "\n")
    (trial,) = Catalog(tmp_path).open("e").trials
    assert "damaged" in trial.damage
    assert trial.metric("_metric") == []
