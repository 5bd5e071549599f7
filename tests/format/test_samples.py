"""The format: experiments, states and copies that format 1 wrote are read by this version too.

`make_samples.py` made them, once, with the code that wrote format 1 first.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import nbckpt
from format import trainables
from nbckpt.errors import CodecError
from nbckpt.mirror import Mirror, note
from nbckpt.provenance.lines import described
from nbckpt.provenance.trial import read_attempts
from nbckpt.states import use_folder
from nbckpt.store import LocalStore
from nbckpt.sync.download import download
from nbckpt.trials import Experiment
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.model.trial import Trial

V1 = Path(__file__).parent / "v1"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copy(V1 / "secret", tmp_path / "secret")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "secret"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the store with the experiments."""
    shutil.copytree(V1 / "machine", tmp_path / "machine")
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "machine"))
    return tmp_path / "machine"


@pytest.fixture
def library(machine: Path) -> Catalog:
    return Catalog(machine / "experiments")


def summary(trial: Trial) -> tuple[str, int, str | None]:
    return trial.status, trial.iteration, trial.checkpoint_name


def test_experiments_are_read_with_their_trials(library: Catalog) -> None:
    assert sorted(library.names()) == ["by-value", "class", "counts", "states"]
    counts = library.open("counts")
    assert [summary(trial) for trial in counts.trials] == [
        ("TERMINATED", 4, "checkpoint_000004"),
        ("ERROR", 2, "checkpoint_000002"),
        ("PAUSED", 2, "checkpoint_000002"),
        ("RUNNING", 2, "checkpoint_000002"),
    ]
    assert [trial.config["kind"] for trial in counts.trials] == ["done", "fails", "paused", "interrupted"]
    assert counts.trial("t1").error == "ValueError: on purpose"
    assert counts.best().id == "t0"
    assert counts.interrupted(counts.trial("t3"))


def test_a_trials_log_and_nested_metrics_are_read(library: Catalog) -> None:
    trial = library.open("counts").trial("t0")
    assert trial.log() == [f"done: step {step}" for step in (1, 2, 3, 4)]
    assert trial.metric("more/done") == [1, 2, 3, 4]


def test_a_trials_checkpoint_is_loaded(library: Catalog) -> None:
    for name, record in (("counts/t0@3", "checkpoint_000003"), ("class/t0", "checkpoint_000004")):
        trial, saved = library.checkpoint(name)
        assert saved.name == record
        trial.checkpoints.check(saved)
    trial, saved = library.checkpoint("counts/t0@3")
    folder = trial.checkpoints.path(saved)
    assert nbckpt.Checkpoint.from_directory(folder).to_dict() == {"done": 3}


def resumed(experiment: Experiment) -> list[tuple[str, int, str | None]]:
    experiment.resume()
    assert experiment.wait(60)
    return [summary(trial) for trial in experiment.trials]


def test_paused_and_interrupted_trials_are_resumed(library: Catalog) -> None:
    done = ("TERMINATED", 4, "checkpoint_000004")
    assert resumed(library.open("counts")) == [done, ("ERROR", 2, "checkpoint_000002"), done, done]


def test_a_trial_with_states_is_resumed(library: Catalog) -> None:
    journal = library.folder / "states" / "t0" / "events.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[-1])["event"] == "end"
    journal.write_bytes(b"".join(lines[:-1]))  # as if the kernel had died before
    experiment = library.open("states")
    (trial,) = experiment.trials
    assert (trial.iteration, trial.checkpoint_name) == (3, "checkpoint_000002")
    assert resumed(experiment) == [("TERMINATED", 3, "checkpoint_000002")]
    assert trial.metric("steps") == [1, 2, 3]


def test_a_trainable_class_and_its_sync_are_read(library: Catalog) -> None:
    from nbckpt.core.trust import open_signer
    from nbckpt.trials.model import spec_file

    spec = spec_file.read(library.folder / "class").load(open_signer())
    assert spec.trainable is trainables.Counter
    assert spec.keep == nbckpt.trials.RetentionPolicy(2)
    assert spec.sync is not None
    assert spec.sync.upload_dir == "memory://samples"
    assert [record.iteration for record in library.open("class").trial("t0").checkpoints.records()] == [2, 4]


def test_a_function_kept_by_value_runs_in_its_python_alone(library: Catalog) -> None:
    from nbckpt.core.trust import open_signer
    from nbckpt.trials.model import spec_file

    read = spec_file.read(library.folder / "by-value")
    if sys.version_info[:2] != (3, 11):  # which wrote it
        with pytest.raises(CodecError, match="made by another version of Python"):
            read.load(open_signer())
        return
    spec = read.load(open_signer())
    assert spec.function_name == "train"
    assert spec.config == {"x": 1}


def test_saved_states_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(V1 / "states", tmp_path / "states")
    monkeypatch.setenv("NBCKPT_CHECKPOINT_PATH", str(tmp_path / "states"))
    with use_folder():
        steps = trainables.Steps()
        value = {"weights": np.zeros(6), "name": ""}
        model = nbckpt.State.of("Größe", value)
        assert nbckpt.load_state(steps)
        assert nbckpt.load_state(model)
    assert steps.done == 2
    assert np.array_equal(model.value["weights"], np.arange(6.0) + 2)
    assert model.value["name"] == "net"


def test_a_durable_checkpoint_is_restored(tmp_path: Path) -> None:
    shutil.copytree(V1 / "durable", tmp_path / "durable")
    counter = trainables.DurableCounter(str(tmp_path / "durable"), {}, str(tmp_path / "trial"))
    counter.restore(str(tmp_path / "trial" / "checkpoint_000003"))
    assert (counter.done, counter.iteration) == (3, 3)
    counter.stop()


def test_a_sync_target_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = tmp_path / "fresh"
    monkeypatch.setenv("NBCKPT_STORE", str(fresh))
    pulled = Mirror(LocalStore(fresh), fresh / "experiments", V1 / "target").pull()
    assert sorted(pulled.experiments) == ["by-value", "class", "counts", "states"]
    namespace: dict[str, object] = {}
    with nbckpt.Tracker(fresh) as tracker:
        tracker.restore("first", namespace)
    assert namespace["numbers"] == [1, 2]
    for name in ("counts", "class"):
        ours, theirs = V1 / "machine" / "experiments" / name, fresh / "experiments" / name
        files = sorted(path.relative_to(ours) for path in ours.rglob("*") if path.is_file())
        assert files == sorted(path.relative_to(theirs) for path in theirs.rglob("*") if path.is_file())
        assert all((ours / file).read_bytes() == (theirs / file).read_bytes() for file in files)


def test_a_folder_target_is_downloaded(tmp_path: Path) -> None:
    moved = download(LocalStore(V1 / "target" / "experiments" / "counts"), tmp_path / "counts")
    assert moved.files == len(
        [path for path in (V1 / "machine/experiments/counts").rglob("*") if path.is_file()]
    )


def test_a_sync_file_is_read() -> None:
    assert note.read(V1 / "sync.json") == ("memory://samples", 300.0, True)


def test_no_sample_contains_a_path_of_its_machine() -> None:
    texts = [path.read_text() for path in V1.rglob("*.json*") if path.is_file()]
    assert not [text for text in texts if re.search(r'File "/', text.replace("\\", ""))]


def test_the_provenance_of_a_trial_is_read() -> None:
    (kept,) = read_attempts(V1 / "provenance/e/t0")
    kept.check()
    assert kept.patch.endswith(b"-RATE = 1\n+RATE = 2\n")
    assert kept.packages == {"nbckpt": "0.1.0", "numpy": "2.0.0"}
    assert kept.cells == ["import train", "%ckpt run train.fit"]
    assert kept.seeds == {"torch": "AAEC"}
    assert [noted["path"] for noted in kept.inputs] == ["a.csv", "s3://b/c", "b.csv"]
    assert described(kept) == [
        "Code: 1111111111 on main of https://***@example.org/a.git, read 2.5 s before",
        "With: Python 3.12.1, 2 packages, Linux x86_64, A processor, A GPU (driver 1.2)",
        "Data: a.csv 2222222222 (3 bytes), s3://b/c x, b.csv 3333333333 (1 bytes)",
        "Run: cells 1 to 2, seeds of torch",
        "Not committed: 1 changed file; not kept: big.bin, new.py",
        "a note",
    ]
