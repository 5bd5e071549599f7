"""A durable trainable with a user's `Syncer`: whole on the storage or not at all, whatever call fails."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import SECONDS, ran

import nbckpt
from nbckpt.errors import CorruptError, NotFoundError, StoreError, UsageError
from nbckpt.sync import Syncer
from nbckpt.trials import DurableTrainable, NotDurableError, Status, durable
from nbckpt.trials.checkpoints.synced import RECORDS, SyncedFolder

URL = "mine://bucket/trial"


class FolderSyncer(Syncer):
    """A user's syncer as their documents tell to write one: it copies folders, and can fail at a call.

    Args:
        place: The folder that stands for the storage.
        fails_at: The number of the call that fails.
        how: What the failing call does with the folders before it fails.
    """

    def __init__(
        self, place: Path, fails_at: int = 0, how: Callable[[Path, Path], object] = lambda *_: None
    ) -> None:
        super().__init__()
        self.place, self.fails_at, self.how = place, fails_at, how
        self.calls: list[str] = []

    @classmethod
    def validate_upload_dir(cls, upload_dir: str) -> bool:
        if not upload_dir.startswith("mine://"):
            raise UsageError(f"{upload_dir!r} is not of mine")
        return True

    def there(self, remote_dir: str) -> Path:
        return self.place / remote_dir.removeprefix("mine://")

    def _called(self, call: str, source: Path, target: Path) -> None:
        self.calls.append(call)
        if len(self.calls) == self.fails_at:
            self.how(source, target)
            raise ValueError("the call failed")

    def sync_up(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        self._called(f"up {remote_dir}", Path(local_dir), self.there(remote_dir))
        shutil.copytree(local_dir, self.there(remote_dir), dirs_exist_ok=True)
        return True

    def sync_down(self, remote_dir: str, local_dir: str, exclude: list[str] | None = None) -> bool:
        self._called(f"down {remote_dir}", self.there(remote_dir), Path(local_dir))
        shutil.copytree(self.there(remote_dir), local_dir, dirs_exist_ok=True)
        return True

    def delete(self, remote_dir: str) -> bool:
        self._called(f"delete {remote_dir}", self.there(remote_dir), Path())
        shutil.rmtree(self.there(remote_dir))
        return True


def half(source: Path, target: Path) -> None:
    """Copy one file of a folder, cut short; what a crash in the middle of a transfer leaves."""
    if target == Path():
        return  # a deletion has no target
    file = min(path for path in source.rglob("*") if path.is_file())
    place = target / file.relative_to(source)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(file.read_bytes()[:3])


def whole(source: Path, target: Path) -> None:
    """Copy everything, and fail after that, as a connection that breaks before the answer."""
    if target != Path():
        shutil.copytree(source, target, dirs_exist_ok=True)


class Counter(DurableTrainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.n = 0

    def step(self) -> dict[str, Any]:
        self.n += 1
        return {"n": self.n}

    def save_checkpoint(self, checkpoint_dir: str) -> str:
        (Path(checkpoint_dir) / "deep").mkdir()
        (Path(checkpoint_dir) / "empty").mkdir()
        (Path(checkpoint_dir) / "deep/n").write_text(f"{self.n}" * 10)
        (Path(checkpoint_dir) / "n").write_text(str(self.n))
        return checkpoint_dir

    def load_checkpoint(self, checkpoint: str) -> None:
        self.n = int((Path(checkpoint) / "n").read_text())
        assert (Path(checkpoint) / "deep/n").read_text() == f"{self.n}" * 10
        assert (Path(checkpoint) / "empty").is_dir()


def counter(syncer: Syncer, logdir: Path, **options: Any) -> Counter:
    return Counter(URL, {}, logdir, syncer=syncer, backoff_s=0, **{"attempts": 1} | options)


def seen(folder: Path) -> list[int]:
    """Return the iterations of the checkpoints that another machine can restore."""
    other = SyncedFolder(folder / "other", URL, FolderSyncer(folder / "place"), attempts=1)
    iterations = []
    for record in other.kept():
        shutil.rmtree(folder / "other", ignore_errors=True)
        with suppress(CorruptError, NotFoundError):
            other.fetch(record.name)
            iterations.append(record.iteration)
    return iterations


def test_a_checkpoint_goes_up_comes_down_and_is_deleted(tmp_path: Path) -> None:
    syncer = FolderSyncer(tmp_path / "place")
    trainable = counter(syncer, tmp_path / "a")
    trainable.train()
    path = trainable.save()
    assert syncer.calls == [f"up {URL}/checkpoint_000001", f"up {URL}/{RECORDS}/checkpoint_000001"]
    trainable.train()
    shutil.rmtree(tmp_path / "a")
    again = counter(syncer, tmp_path / "b")
    again.restore(tmp_path / "b/checkpoint_000001")
    assert (again.n, again.iteration, again.train()["n"]) == (1, 1, 2)
    again.delete_checkpoint(path)
    deleted = [f"delete {URL}/{RECORDS}/checkpoint_000001", f"delete {URL}/checkpoint_000001"]
    assert syncer.calls[-2:] == deleted
    with pytest.raises(NotFoundError):
        again.restore(tmp_path / "b/checkpoint_000001")


@pytest.mark.parametrize("how", [lambda *_: None, half, whole], ids=["nothing", "half", "whole"])
def test_a_fault_at_any_call_leaves_whole_checkpoints(
    tmp_path: Path, how: Callable[[Path, Path], object], subtests: pytest.Subtests
) -> None:
    for fails_at in range(1, 7):
        with subtests.test(fails_at=fails_at):
            check_fault(tmp_path / str(fails_at), how, fails_at)


def check_fault(folder: Path, how: Callable[[Path, Path], object], fails_at: int) -> None:
    """Save 1 and 2, delete 1, and save 2 again, without a fault."""
    syncer = FolderSyncer(folder / "place", fails_at, how)
    trainable = counter(syncer, folder / "logdir")
    kept: set[int] = set()
    for number in (1, 2):
        trainable.train()
        with suppress(NotDurableError):
            trainable.save()
            kept.add(number)
        assert kept <= set(seen(folder)) <= set(range(1, number + 1))
    try:
        trainable.delete_checkpoint(folder / "logdir/checkpoint_000001")
        assert 1 not in seen(folder)
    except StoreError:
        assert (folder / "logdir/checkpoint_000001").is_dir()
    syncer.fails_at = 0
    trainable.save()
    assert 2 in seen(folder)


def test_a_call_is_repeated_as_often_as_asked(tmp_path: Path) -> None:
    syncer = FolderSyncer(tmp_path / "place", fails_at=1, how=half)
    trainable = counter(syncer, tmp_path / "a", attempts=2)
    trainable.train()
    trainable.save()
    assert len(syncer.calls) == 3
    assert seen(tmp_path) == [1]


@pytest.mark.slow
def test_a_call_that_hangs_is_given_up(tmp_path: Path) -> None:
    over = threading.Event()
    syncer = FolderSyncer(tmp_path / "place", fails_at=1, how=lambda *_: over.wait(SECONDS))
    trainable = counter(syncer, tmp_path / "a", timeout=0.2)
    trainable.train()
    try:
        with pytest.raises(NotDurableError):
            trainable.save()
        assert seen(tmp_path) == []
    finally:
        over.set()


def test_files_that_the_record_does_not_name_stay_away(tmp_path: Path) -> None:
    trainable = counter(FolderSyncer(tmp_path / "place"), tmp_path / "a")
    trainable.train()
    trainable.save()
    there = tmp_path / "place/bucket/trial/checkpoint_000001"
    (there / "more").write_text("somebody else's")
    (there / "deep/more").write_text("somebody else's")
    again = counter(FolderSyncer(tmp_path / "place"), tmp_path / "b")
    again.restore(tmp_path / "b/checkpoint_000001")
    names = sorted(path.name for path in (tmp_path / "b/checkpoint_000001").iterdir())
    assert names == ["deep", "empty", "n"]


@pytest.mark.parametrize("kind", [False, True], ids=["function", "class"])
def test_an_experiment_continues_from_the_syncers_storage(tmp_path: Path, kind: bool) -> None:
    def count(config: dict[str, Any]) -> None:
        start = nbckpt.get_checkpoint()
        for n in range(start.to_dict()["n"] + 1 if start else 1, 6):
            nbckpt.report(n=n, checkpoint={"n": n})
            if n == 3 and not start:
                raise ValueError("once")

    class Fails(nbckpt.trials.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.n, self.restored = 0, False

        def step(self) -> dict[str, Any]:
            if self.n == 3 and not self.restored:
                raise ValueError("once")
            self.n += 1
            return {"n": self.n, "done": self.n == 5}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {"n": self.n}

        def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            self.n, self.restored = checkpoint["n"], True

    trainable = durable(Fails if kind else count, "mine://bucket", syncer=FolderSyncer(tmp_path / "place"))
    every = 1 if kind else 0
    experiment = ran(trainable, name="e", checkpoint_every=every, keep_checkpoints=2)
    for folder in experiment.folder.glob("t0/checkpoint_*"):
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    experiment.resume(errored=True)
    assert experiment.wait(SECONDS)
    (trial,) = experiment.trials
    assert (trial.status, [result["n"] for result in trial.results]) == (Status.TERMINATED, [1, 2, 3, 4, 5])
    there = SyncedFolder(tmp_path / "s", "mine://bucket/e/t0", FolderSyncer(tmp_path / "place"))
    assert [record.iteration for record in there.kept()][-2:] == [4, 5]


def test_a_url_that_the_syncer_refuses_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not of mine"):
        Counter("s3://bucket/folder", {}, tmp_path, syncer=FolderSyncer(tmp_path))
    with pytest.raises(UsageError, match="is not of mine"):
        durable(Counter, "s3://bucket/folder", syncer=FolderSyncer(tmp_path))
