"""Checkpoints that move between two trials' folders, as between two machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import nbckpt
from nbckpt.core.algorithms import PORTABLE
from nbckpt.errors import CorruptError
from nbckpt.store import base
from nbckpt.sync import SyncConfig
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.checkpoints.transfer import CheckpointTransfer, TransferManifest, read_piece
from nbckpt.trials.executors.base import Job
from nbckpt.trials.executors.ray import RayWorker
from nbckpt.trials.executors.ray_actor import TrialActor
from nbckpt.trials.executors.transport import pack

TREE = {"large": bytes(range(250)) * 20, "a/small": b"x", "a/empty": b""}


class Ends:
    """Two ends of a transfer: a checkpoint is in the folder `there`, and goes to the folder `here`."""

    def __init__(self, top: Path) -> None:
        self.there, self.here = CheckpointFolder(top / "there"), CheckpointFolder(top / "here")
        with self.there.staged() as stage:
            (stage / "a" / "none").mkdir(parents=True)
            for path, data in TREE.items():
                (stage / path).write_bytes(data)
            nbckpt.Checkpoint.from_dict({"i": 1}).to_directory(stage / "signed")
            self.record = self.there.commit(stage, Record("checkpoint_000001", "files", 1))
        self.manifest = CheckpointTransfer(self.there, "here").manifest(self.record)
        self.receiver = CheckpointTransfer(self.here, "there")

    def pull(self) -> Record:
        return self.receiver.fetch(self.manifest, partial(read_piece, self.there.folder))

    def push(self) -> Record:
        for path, piece in CheckpointTransfer(self.there, "here").pieces(self.record):
            self.receiver.write(path, piece)
        return self.receiver.commit(self.manifest)


@pytest.fixture
def ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ends:
    monkeypatch.setattr(base, "PIECE", 1000)
    return Ends(tmp_path)


both_ways = pytest.mark.parametrize("move", [Ends.pull, Ends.push])
Move = Callable[[Ends], Record]


@both_ways
def test_a_checkpoint_arrives_whole_and_signed_here(ends: Ends, move: Move, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "secret"))
        arrived = move(ends)
        ends.here.check(arrived)
        place = ends.here.path(arrived)
        assert {path: (place / path).read_bytes() for path in TREE} == TREE
        assert (arrived.name, arrived.folders) == ("checkpoint_000001", ("a/none",))
        assert nbckpt.Checkpoint.from_directory(place / "signed").to_dict() == {"i": 1}


@both_ways
def test_a_record_with_another_digest_is_accepted(ends: Ends, move: Move) -> None:
    folder = ends.there.folder / ends.record.name
    files = {
        path: (size, PORTABLE.checksum_of_file(folder / path))
        for path, (size, _) in ends.record.files.items()
    }
    ends.manifest = TransferManifest(replace(ends.record, files=files).encode())
    arrived = move(ends)
    assert arrived.files == files
    ends.here.check(arrived)


@both_ways
def test_files_other_than_recorded_leave_the_former_one(
    ends: Ends, move: Move, subtests: pytest.Subtests
) -> None:
    former = ends.pull()
    file = ends.there.folder / ends.record.name / "large"
    data = file.read_bytes()
    for change, content in {"changed": data[:-1] + b"?", "cut": data[:-1], "gone": None}.items():
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        with subtests.test(change):
            with pytest.raises((CorruptError, nbckpt.errors.StoreError), match="large"):
                move(ends)
            ends.here.sweep()  # pieces of a push that ended in the middle
            ends.here.check(former)
            assert ends.here.records() == [former]


class Draws(nbckpt.trials.Trainable):
    """Writes a file beside its checkpoints, which are folders."""

    def setup(self, config: dict[str, Any]) -> None:
        self.n = 0

    def step(self) -> dict[str, Any]:
        self.n += 1
        Path(self.logdir, "plot").write_text(str(self.n))
        return {"n": self.n}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "n").write_text(str(self.n))

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.n = int(Path(checkpoint, "n").read_text())


class Worker(RayWorker):
    """Calls its actor in this process, without Ray."""

    def _get(self, reference: Any, timeout: float | None = None) -> Any:
        return reference


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    actor = TrialActor("e/t0")
    calls = SimpleNamespace(do=SimpleNamespace(remote=actor.do))
    job = Job(Draws, {}, tmp_path / "t0", "t0", "e/t0", sync=SyncConfig())
    (tmp_path / "t0").mkdir()
    (tmp_path / "t0" / "params.json").write_text("{}")
    ours = Worker(SimpleNamespace(remote=lambda _: calls), job)
    with mock.patch("nbckpt.trials.executors.ray_actor._has", return_value=False):
        ours.make(pack(job))
    yield ours
    actor.stop()
    actor.leave()


def test_checkpoints_and_files_move_to_and_from_an_actor(worker: Worker, tmp_path: Path) -> None:
    worker.run(lambda result: result.metrics["n"] < 3)
    record = worker.save()
    assert (tmp_path / "t0" / record.name / "n").read_text() == "3"
    assert (tmp_path / "t0" / "plot").read_text() == "3"
    worker.run(lambda result: False)
    worker.restore(record)
    worker.run(lambda result: result.metrics["n"] != 4 and pytest.fail("it was not restored"))
