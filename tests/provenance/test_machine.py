"""The machine, the packages and the states of random generators."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from nbckpt.core import environment
from nbckpt.provenance import packages, seeds
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.lines import lines
from nbckpt.provenance.machine import known_machine, machine


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    """Forget the machine, which is read once per process."""
    machine.cache_clear()
    yield
    machine.cache_clear()


def smi(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_the_machine_has_its_gpus_and_their_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, "echo 'NVIDIA H200, 143771, 570.1'; echo 'NVIDIA H200, 143771, 570.1'", monkeypatch)
    assert "gpus" not in known_machine()
    assert machine()["gpus"] == [{"name": "NVIDIA H200", "memory_mib": 143771, "driver": "570.1"}] * 2
    assert known_machine() == machine()
    text = "\n".join(lines(Provenance({"at": "", "machine": machine()}, lambda _: b"")))
    assert "2 x NVIDIA H200 (driver 570.1)" in text


@pytest.mark.parametrize("text", ["exit 9", "echo strange", "echo a, b, c, d", "echo"])
def test_a_driver_that_fails_means_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    smi(tmp_path, text, monkeypatch)
    assert "gpus" not in machine()


def test_packages_are_read_again_when_one_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = packages.installed()
    assert packages.installed() is before
    (tmp_path / "Some_Thing-1.2.dist-info").mkdir()
    (tmp_path / "old-3-py3.11.egg-info").mkdir()
    (tmp_path / "numpy-0.0.dist-info").mkdir()
    after = packages.installed()
    assert (after["some-thing"], after["old"]) == ("1.2", "3")
    assert after["numpy"] == "0.0", "the first folder on the path wins"


def test_editable_installs_and_repositories_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = {
        "a": '{"url": "file:///home/a", "dir_info": {"editable": true}}',
        "b": '{"url": "https://me:pass@example.org/b", "vcs_info": {"vcs": "git", "commit_id": "123"}}',
        "c": "[]",
        "d": "{",
    }
    for name, text in urls.items():
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info/direct_url.json").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert packages.origins() == {"a": "editable: file:///home/a", "b": "git+https://***@example.org/b@123"}


def test_generators_go_on_from_their_recorded_states() -> None:
    kept = seeds.read_seeds()
    drawn = random.random(), np.random.rand()
    assert {"random", "numpy"} <= set(seeds.write_seeds(kept))
    assert (random.random(), np.random.rand()) == drawn


def test_a_strange_state_sets_nothing(subtests: pytest.Subtests) -> None:
    before = random.getstate()
    for state in (None, [], {}, "x", [3, "!", None], [[1, 2, 3], "AAAA"], [3, "AAAA", None]):
        with subtests.test(str(state)):
            assert "random" not in seeds.write_seeds({"random": state})
            assert "numpy" not in seeds.write_seeds({"numpy": state})
            assert random.getstate() == before


@pytest.mark.parametrize("is_started", [True, False])
def test_cuda_is_read_only_if_it_was_started(monkeypatch: pytest.MonkeyPatch, *, is_started: bool) -> None:
    state = SimpleNamespace(tolist=lambda: [1, 2])

    def all_states() -> list[Any]:
        assert is_started, "this would start CUDA"
        return [state]

    cuda = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: is_started, get_rng_state_all=all_states
    )
    torch = SimpleNamespace(get_rng_state=lambda: state, cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert ("torch.cuda" in seeds.read_seeds()) == is_started
    assert ("torch.cuda.random.state" in environment.read_states()) == is_started


@pytest.mark.parametrize("name", ["NVIDIA H200", b"NVIDIA H200"], ids=["text", "bytes"])
def test_gpus_come_from_pynvml_if_there_is_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Any
) -> None:
    ended: list[int] = []
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: ended.append(1),
        nvmlSystemGetDriverVersion=lambda: "570.1",
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda at: at,
        nvmlDeviceGetName=lambda at: name,
        nvmlDeviceGetMemoryInfo=lambda at: SimpleNamespace(total=143771 << 20),
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert machine()["gpus"] == [{"name": "NVIDIA H200", "memory_mib": 143771, "driver": "570.1"}] * 2
    assert ended == [1]


def test_a_pynvml_without_a_driver_means_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = Mock(side_effect=RuntimeError("no driver"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(nvmlInit=fails))
    assert "gpus" not in machine()
