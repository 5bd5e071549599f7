"""The provenance of strangers, damaged files, links, two kernels and tracked loops."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from provenance.conftest import run

import nbckpt
from nbckpt.cli import main
from nbckpt.commands import rerun
from nbckpt.core.schema import seal
from nbckpt.errors import NbckptError
from nbckpt.provenance import background, inputs
from nbckpt.provenance.lines import described, differences
from nbckpt.provenance.trial import FILE, OBJECTS, of_trial, read_attempts
from nbckpt.trials import Experiment
from nbckpt.trials.views.trial_page import TrialShown

ROOT = Path(__file__).parents[2]


@pytest.fixture
def experiment(changed: Path) -> Iterator[Experiment]:
    """Return an experiment with one trial whose code had changes."""
    inputs.forget()
    yield run(lambda _: nbckpt.report(loss=1), name="e")
    inputs.forget()


def use_everything(folder: Path) -> list[str]:
    """Use every part of a provenance as the commands do. Only nbckpt's own errors may leave it."""
    with suppress(NbckptError):
        attempts = read_attempts(folder)
        texts = described(attempts[-1])
        differences(attempts[0], attempts[-1])
        with suppress(NbckptError):
            attempts[-1].check()
        return texts
    return []


def test_a_mutated_file_is_an_error_or_the_same(experiment: Experiment) -> None:
    folder = experiment.folder / "t0"
    whole, before = (folder / FILE).read_bytes(), use_everything(folder)
    choose = random.Random(1)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(choose.randint(1, 4)):
            at = choose.randrange(len(data))
            kind = choose.randrange(3)
            data[at : at + (kind > 0)] = bytes([choose.randrange(256)]) if kind < 2 else b""
        (folder / FILE).write_bytes(data)
        assert use_everything(folder) in ([], before)


def test_a_sealed_file_of_another_form_is_an_error(experiment: Experiment, subtests: pytest.Subtests) -> None:
    folder = experiment.folder / "t0"
    attempt: dict[str, Any] = {"at": "", "objects": {}, "iteration": 0}
    documents = [
        {},
        {"attempts": []},
        {"attempts": [{}]},
        {"attempts": [attempt | {"iteration": -1}]},
        {"attempts": [attempt | {"objects": {"patch": "../../../etc/passwd"}}]},
        {"attempts": [attempt | {"code": {"commit": []}}]},
        {"attempts": [attempt | {"machine": {"gpus": [1]}}]},
        {"attempts": {"at": ""}, "deep": json.loads("[" * 90 + "]" * 90)},
    ]
    for document in documents:
        (folder / FILE).write_bytes(seal({"format": 2, **document}))
        with subtests.test(str(document)):
            with pytest.raises(NbckptError):
                read_attempts(folder)
            assert "damaged" in "\n".join(TrialShown(experiment, experiment.trial("t0")).page().notes)


@pytest.mark.slow
def test_hostile_texts_stay_in_their_four_lines(experiment: Experiment) -> None:
    evil = "\x1b[31m<script>\n" * 1000
    code = dict.fromkeys(("commit", "branch", "remote", "root", "folder", "note"), evil)
    code |= dict.fromkeys(("changed", "untracked", "left_out"), [evil] * 1000)
    attempt = {"at": evil, "objects": {}, "iteration": 0, "code": code, "command": [evil], "notes": [evil]}
    attempt["data"] = [{"path": evil, "checksum": evil}]
    (experiment.folder / "t0" / FILE).write_bytes(seal({"format": 2, "attempts": [attempt]}))
    for line in use_everything(experiment.folder / "t0"):
        assert len(line) < 200
        assert "\x1b" not in line
        assert "\n" not in line


def test_verify_names_damaged_and_missing_objects(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "e"]) == 0
    (kept,) = read_attempts(experiment.folder / "t0")
    file = experiment.folder / OBJECTS / kept.document["objects"]["patch"]
    file.write_bytes(file.read_bytes()[:-1])
    capsys.readouterr()
    assert main(["verify", "e"]) != 0
    assert "the object patch is damaged" in " ".join(capsys.readouterr().out.split())
    file.unlink()
    main(["verify", "e"])
    assert "the object patch of its provenance is missing" in " ".join(capsys.readouterr().out.split())


def test_links_out_of_the_experiment_are_not_followed(experiment: Experiment, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (experiment.folder / OBJECTS).rename(outside)
    (experiment.folder / OBJECTS).symlink_to(outside)
    (kept,) = read_attempts(experiment.folder / "t0")
    with pytest.raises(NbckptError, match="is not read"):
        kept.check()
    before = set(outside.iterdir())
    (experiment.folder / "t7").mkdir()
    of_trial(experiment.folder / "t7")
    background.settle()
    assert set(outside.iterdir()) == before
    assert not (experiment.folder / "t7" / FILE).exists()


def test_a_removed_experiment_does_not_come_back(experiment: Experiment) -> None:
    of_trial(experiment.folder.parent / "gone/t0")
    background.settle()
    assert not (experiment.folder.parent / "gone").exists()


def test_a_full_disk_is_only_logged(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("nbckpt.provenance.trial.write_files", full)
    of_trial(experiment.folder / "t0")
    background.settle()
    assert "No space left on device" in caplog.text


def test_show_gives_the_provenance_as_json(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    del experiment
    main(["show", "e/t0", "--json"])
    assert json.loads(capsys.readouterr().out)["provenance"]["code"]["changed"] == ["train.py"]


def test_run_without_provenance_keeps_none(repository: Path) -> None:
    (repository / "train.py").write_text("def fit(config):\n    pass\n")
    assert main(["run", "train.py:fit", "--name", "bare", "--no-provenance", "--executor", "inline"]) == 0
    background.settle()
    assert not (repository / ".nbckpt/experiments/bare/t0" / FILE).exists()


def test_a_tracked_loop_keeps_provenance_and_inputs(repository: Path) -> None:
    (repository / "train.csv").write_text("1")
    loop = nbckpt.track("loop", lr=0.1)
    loop.report(loss=1)
    nbckpt.data("train.csv")
    loop.finish()
    background.settle()
    (kept,) = read_attempts(loop.trial.folder)
    assert kept.code["untracked"] == ["train.csv"]
    assert [noted["path"] for noted in kept.inputs] == ["train.csv"]
    assert kept.seeds


def test_two_processes_share_objects_of_an_experiment(changed: Path, tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from nbckpt.provenance import background, git
from nbckpt.provenance.trial import of_trial
git.LIMIT_S = 120
for number in range(10):
    folder = Path(sys.argv[1], f"t{sys.argv[2]}{number}")
    folder.mkdir(parents=True)
    of_trial(folder)
background.settle()
"""
    (tmp_path / "program.py").write_text(program)
    folder = tmp_path / "e"
    processes = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "program.py"), str(folder), str(number)],
            env=rerun.environment(PYTHONPATH=str(ROOT)),
        )
        for number in (1, 2)
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    patches = set()
    for trial in folder.glob("t*"):
        (kept,) = read_attempts(trial)
        kept.check()
        patches.add(kept.patch)
    assert len(patches) == 1
    assert b"+RATE = 2" in patches.pop()


def test_a_start_asks_nothing_in_its_own_thread(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A start may take 5 ms: it starts no process, writes no file, and lists no folder that is known."""
    (tmp_path / "e/t0").mkdir(parents=True)
    of_trial(tmp_path / "e/t0")  # the packages are read once
    background.settle()
    calls: list[str] = []

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counts(*words: Any, **more: Any) -> Any:
            calls.append(name)
            return call(*words, **more)

        return counts

    monkeypatch.setattr(background, "ask", lambda *_: calls.append("ask"))
    for name in ("listdir", "scandir", "open", "replace", "fsync"):
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
    monkeypatch.setattr(subprocess, "Popen", counted("Popen", subprocess.Popen))
    of_trial(tmp_path / "e/t0")
    assert calls == ["ask"]
