"""Names in pickles: what pickles call ours is listed in FORMAT.md, and is found wherever it is now."""

from __future__ import annotations

import base64
import importlib
import json
import os
import pkgutil
import re
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import nbckpt
from nbckpt import trials
from nbckpt.compat import ray_tune
from nbckpt.compat.ray_tune.callbacks import Callback, adapted
from nbckpt.compat.ray_tune.stopper import MaximumIterationStopper
from nbckpt.compat.ray_tune.translation import stop
from nbckpt.core import algorithms
from nbckpt.core.files import FILES
from nbckpt.core.values import codec
from nbckpt.core.values.classes import MOVED, Classes
from nbckpt.integrations.mlflow import MLflowCallback
from nbckpt.integrations.tensorboard import TensorBoardCallback
from nbckpt.states.snapshot import Snapshot
from nbckpt.trials import CheckpointFolder, Record, Status

HERE = Path(__file__).parent
LISTED = set(re.findall(r"`(nbckpt[a-z_.]+)`", (HERE.parents[1] / "FORMAT.md").read_text()))
OURS = re.compile(rb"nbckpt\.[a-z_.]*[a-z]")


def ours_in(pickle: bytes) -> set[str]:
    return {name.decode() for name in OURS.findall(pickle)}


def kept_functions() -> list[bytes]:
    """Return the pickles of the experiments that format 1 wrote."""
    pickles = []
    for file in sorted((HERE / "v1" / "machine" / "experiments").glob("*/experiment.json")):
        kept = json.loads(file.read_text())["trainable"]
        digests = algorithms.named(kept.get("algorithms", algorithms.BLAKE3), str(file))
        pickles.append(digests.decompress(base64.b64decode(kept["pickle"]), 1 << 24))
    return pickles


def values(tmp_path: Path) -> list[Any]:
    nbckpt.run(lambda config: None, name="e", executor="inline")
    experiment = nbckpt.trials.Experiment.read(tmp_path / "experiments" / "e")
    domains = [nbckpt.grid_search([1]), nbckpt.choice([1]), nbckpt.uniform(0, 1), nbckpt.loguniform(1, 2)]
    return [
        *domains, nbckpt.SyncConfig(), nbckpt.trials.SyncerCallback(), FILES, Snapshot("S", b"x"),
        experiment, experiment.trials[0], Status.PAUSED,
        CheckpointFolder(tmp_path), Record("checkpoint_000001", "null", 1),
        stop({"loss": 1}, "loss", "min"), stop([MaximumIterationStopper(1)], "", ""), adapted(Callback()),
        ray_tune.Trainable, ray_tune.DurableTrainable, ray_tune.randint(1, 2),
        ray_tune.sample_from(os.getpid), ray_tune.schedulers.ASHAScheduler(),
        nbckpt.Checkpoint.from_dict({}), nbckpt.media.Image, nbckpt.media.Html,
        MLflowCallback, TensorBoardCallback, trials.Trainable, trials.DurableTrainable, trials.Callback,
        trials.Annotation, trials.RetentionPolicy(1), trials.Scheduler, trials.ASHA(),
        trials.MedianStopping(), trials.PBT(mutations={"lr": nbckpt.uniform(0, 1), "seed": os.getpid}),
        trials.OptunaPruner, trials.Search, trials.OptunaSampler,
    ]  # fmt: skip


def test_every_module_that_a_pickle_names_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path))
    named = set[str]()
    for value in values(tmp_path):
        named |= ours_in(codec.dump([value], {}).record) | ours_in(cloudpickle.dumps(value))
    assert named - LISTED == set()
    assert {"nbckpt.core.files", "nbckpt.states.snapshot", "nbckpt.trials.model.space"} <= named


def test_every_listed_name_exists() -> None:
    for name in LISTED:
        pkgutil.resolve_name(name)


def test_pickles_of_format_1_name_modules_that_still_exist() -> None:
    pickles = kept_functions()
    named = set().union(*map(ours_in, pickles))
    assert any(name in MOVED for name in named)
    for name in named:
        importlib.import_module(MOVED.get(name, name))


def test_a_module_that_an_old_function_may_mean_is_found() -> None:
    record = cloudpickle.dumps([nbckpt.states, nbckpt.states.use_folder])
    old = record.replace(b"\x0dnbckpt.states\x94", b"\x0cnbckpt.state\x94")
    old = old.replace(b"\x16nbckpt.states.registry\x94", b"\x15nbckpt.state.registry\x94")
    old = old.replace(b"\x0ause_folder\x94", b"\x06states\x94")
    assert len(record) - len(old) == 6
    assert record[2:3] == b"\x95"
    assert Classes().load(old[:2] + old[11:], ()) == [nbckpt.states, nbckpt.states.use_folder]


@pytest.mark.parametrize(
    ("value", "old"),
    [
        (nbckpt.uniform(0, 1), b"nbckpt.trials.space"),
        (Record("checkpoint_000001", "null", 1), b"nbckpt.trials.checkpoints"),
        (CheckpointFolder("folder"), b"nbckpt.trials.checkpoints"),
    ],
)
def test_an_old_module_name_finds_the_moved_class(value: Any, old: bytes) -> None:
    record = codec.dump([value], {}).record
    new = type(value).__module__.encode()
    renamed = record.replace(bytes([len(new)]) + new, bytes([len(old)]) + old)
    # The frame's length stands in front of it; without a frame the rest reads the same.
    assert renamed[2:3] == b"\x95"
    (loaded,) = Classes().load(renamed[:2] + renamed[11:], ())
    assert type(loaded) is type(value)
    assert vars(loaded) == vars(value)
