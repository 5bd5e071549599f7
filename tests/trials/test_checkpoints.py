"""A trial's folder of checkpoints: committed whole or not at all; and its checkpoints in another folder."""

from __future__ import annotations

import io
import itertools
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbckpt
from nbckpt.core.algorithms import PORTABLE, PREFERRED
from nbckpt.core.tree import check_path
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import base, files
from nbckpt.store.files import write_file, write_files
from nbckpt.sync import SyncConfig
from nbckpt.trials.checkpoints import folder as checkpoint_folder
from nbckpt.trials.checkpoints.folder import CheckpointFolder, find
from nbckpt.trials.checkpoints.record import SUFFIX, Record, name_of
from nbckpt.trials.checkpoints.transfer import CheckpointTransfer, TransferManifest, read_piece
from nbckpt.trials.executors.base import Job
from nbckpt.trials.executors.ray import RayWorker
from nbckpt.trials.executors.ray_actor import TrialActor
from nbckpt.trials.executors.transport import pack

Tree = dict[str, bytes | None]
"""The contents of files by their paths; None for a folder."""
CALLS = ("open", "mkdir", "replace", "unlink", "fsync", "scandir", "rmdir", "stat")


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "trial")


def write(top: Path, tree: Tree) -> None:
    for path, content in tree.items():
        place = top / path
        if content is None:
            place.mkdir(parents=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def tree_of(top: Path) -> Tree:
    return {
        str(place.relative_to(top)): place.read_bytes() if place.is_file() else None
        for place in top.rglob("*")
        if place.is_file() or not any(place.iterdir())
    }


def save(folder: CheckpointFolder, tree: Tree, iteration: int = 1, **fields: Any) -> Record:
    with folder.staged() as stage:
        write(stage, tree)
        return folder.commit(stage, Record(name_of(iteration), "files", iteration, **fields))


def names_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def content(folder: CheckpointFolder, record: Record) -> Tree:
    return tree_of(folder.folder / record.name)


def test_a_checkpoint_is_the_users_files_and_a_record(folder: CheckpointFolder) -> None:
    save(folder, {"model.bin": b"1", "deep/er/file": b"22"}, 3)
    place = "checkpoint_000003"
    assert {*tree_of(folder.folder)} == {f"{place}/model.bin", f"{place}/deep/er/file", f"{place}.json"}
    written = json.loads((folder.folder / "checkpoint_000003.json").read_bytes())
    assert {path: size for path, (size, _) in written["files"].items()} == {"model.bin": 1, "deep/er/file": 2}


def test_a_record_is_read_as_it_was_committed(folder: CheckpointFolder) -> None:
    fields = {"metrics": {"loss": 0.5}, "inner": "a/f", "timesteps_total": 0}
    made = save(folder, {"a/f": b"1", "empty": None}, 7, **fields)
    assert folder.read("checkpoint_000007") == made
    assert (made.step, made.size, made.folders, folder.path(made).read_bytes()) == (7, 1, ("empty",), b"1")


def test_checkpoints_are_listed_by_their_iteration(folder: CheckpointFolder) -> None:
    for iteration in (1_000_000, 2, 10):
        save(folder, {"f": b""}, iteration)
    assert [record.iteration for record in folder.records()] == [2, 10, 1_000_000]


def test_a_checkpoint_replaces_the_former_one_of_its_name(folder: CheckpointFolder) -> None:
    save(folder, {"old": b"1", "both": b"1"})
    record = save(folder, {"both": b"2"})
    assert content(folder, record) == {"both": b"2"}
    assert names_in(folder.folder) == ["checkpoint_000001", "checkpoint_000001.json"]


def test_a_checkpoint_that_is_being_saved_is_not_warned_of(
    folder: CheckpointFolder, caplog: pytest.LogCaptureFixture
) -> None:
    (folder.folder / "checkpoint_000009").mkdir(parents=True)
    assert (folder.records(), caplog.records) == ([], [])


def test_unfinished_and_damaged_checkpoints_are_skipped(
    folder: CheckpointFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_folder, "COMMITS_S", -1)
    save(folder, {"f": b"1"}, 4)
    names = ["checkpoint_000009", "checkpoint_tmpab12cd", "checkpoint_-00001", ".hidden", "checkpoint_x"]
    for name in names:
        (folder.folder / name).mkdir()
    (folder.folder / "checkpoint_000005.json").write_text('{"format": 1, "name"')
    (folder.folder / "checkpoint_000006.json").write_text('{"format": 99}')
    (folder.folder / "notes.json").write_text("mine")
    assert [record.name for record in folder.records()] == ["checkpoint_000004"]
    for name in ("checkpoint_000009", "checkpoint_000005", "checkpoint_000006"):
        levels = [record.levelno for record in caplog.records if name in record.getMessage()]
        assert levels == [logging.WARNING]
    for name in names:
        (folder.folder / name).rmdir()


def test_a_sweep_removes_unfinished_folders_but_not_the_users(folder: CheckpointFolder) -> None:
    save(folder, {"f": b"1"}, 4)
    for name in ("checkpoint_000009", "checkpoint_best"):
        (folder.folder / name).mkdir()
        (folder.folder / name / "file").write_text("half")
    folder.sweep()
    assert names_in(folder.folder) == ["checkpoint_000004", "checkpoint_000004.json", "checkpoint_best"]


@pytest.mark.parametrize("at", ["write_new", "rename"])
def test_a_sweep_does_not_keep_others_from_writing(
    folder: CheckpointFolder, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provenance, notes, step, sweeps = (
        folder.folder / "a.json",
        folder.folder / "b.json",
        getattr(files, at),
        [],
    )

    def sweeping(stage: Path, *given: Any, **more: Any) -> None:
        if len(sweeps) < 2:
            sweeps.append(folder.sweep())
        step(stage, *given, **more)
        if len(sweeps) < 4:
            sweeps.append(folder.sweep())

    monkeypatch.setattr(files, at, sweeping)
    write_files({provenance: b"1"})
    write_file(notes, b"2")
    assert provenance.read_bytes() + notes.read_bytes() == b"12"
    assert names_in(folder.folder) == ["a.json", "b.json"]


def test_a_folder_with_a_glob_pattern_as_name_works(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "lr=[0.1]*?")
    save(folder, {"f": b"1"})
    folder.stage()
    folder.sweep()
    assert [record.name for record in folder.records()] == ["checkpoint_000001"]


def test_only_a_path_inside_a_checkpoint_finds_it(folder: CheckpointFolder) -> None:
    save(folder, {"a/b/c": b"1"}, 2)
    place = folder.folder / "checkpoint_000002"
    for inside in (place, place / "a", place / "a/b/c"):
        assert find(inside)[1].name == "checkpoint_000002"
    for outside in (folder.folder, folder.folder.parent, folder.folder / "else"):
        with pytest.raises(FileNotFoundError, match="is in no checkpoint"):
            find(outside)
    (folder.folder / "checkpoint_0000020").mkdir()  # it has no record, and a longer name
    with pytest.raises(NotFoundError):
        find(folder.folder / "checkpoint_0000020" / "a")
    with pytest.raises(NotFoundError):
        folder.read("checkpoint_0000020")


@pytest.mark.parametrize("harm", [b"", b"2", b"11", None])
def test_a_file_that_changed_is_named(folder: CheckpointFolder, harm: bytes | None) -> None:
    record = save(folder, {"f": b"1", "g": b"1"})
    file = folder.folder / record.name / "f"
    file.unlink() if harm is None else file.write_bytes(harm)
    with pytest.raises(CorruptError, match="'f'"):
        folder.check(record)
    with pytest.raises(CorruptError, match="'f'"):
        folder.pack(record)


def test_a_pipe_in_a_checkpoint_is_refused_by_name(folder: CheckpointFolder) -> None:
    with folder.staged() as stage:
        os.mkfifo(stage / "pipe")
        with pytest.raises(UsageError, match="'pipe' in the checkpoint is neither"):
            folder.commit(stage, Record(name_of(1), "files", 1))
    assert names_in(folder.folder) == []


def test_a_link_inside_a_checkpoint_becomes_its_target_file(folder: CheckpointFolder) -> None:
    with folder.staged() as stage:
        write(stage, {"model-3.bin": b"3"})
        (stage / "best.bin").symlink_to(stage / "model-3.bin")
        record = folder.commit(stage, Record(name_of(1), "files", 1))
    assert content(folder, record) == {"model-3.bin": b"3", "best.bin": b"3"}
    folder.check(record)


@pytest.mark.parametrize("target", ["/etc/hostname", "nowhere", "..", "sub"])
def test_a_link_that_is_not_to_a_file_inside_is_refused(folder: CheckpointFolder, target: str) -> None:
    with folder.staged() as stage:
        (stage / "sub").mkdir()
        (stage / "link").symlink_to(target)
        with pytest.raises(UsageError, match="'link' in the checkpoint is a link"):
            folder.commit(stage, Record(name_of(1), "files", 1))


INVALID: list[dict[str, Any]] = [
    *({"name": name} for name in ("../evil", "checkpoint_1/../../evil", "evil", 5)),
    *({"iteration": iteration} for iteration in (None, -1)),
    {"inner": "../../etc"},
    {"files": {"../evil": [1, "00"]}},
    {"files": {"/evil": [1, "00"]}},
    {"folders": ["../evil"]},
    {"unknown": 1},
]


def test_a_record_with_invalid_paths_or_values_is_corrupt(subtests: pytest.Subtests) -> None:
    good = json.loads(Record(name_of(1), "files", 1).encode())
    for change in INVALID:
        with subtests.test(change=change), pytest.raises(CorruptError):
            Record.decode(json.dumps(good | change).encode(), "the record")


def test_a_record_of_a_newer_version_says_to_upgrade() -> None:
    with pytest.raises(FormatError, match="upgrade"):
        Record.decode(b'{"format": 3}', "the record")


def test_an_object_holds_every_file_and_every_empty_folder(folder: CheckpointFolder, tmp_path: Path) -> None:
    tree = {"a": b"1", "deep/er/b": b"2" * 100_000, "empty/er": None, "ü ": b"", ".dot": b"3"}
    record = save(folder, tree, 5, metrics={"loss": 1.0})
    other = CheckpointFolder(tmp_path / "other")
    assert other.unpack(folder.pack(record)) == record
    assert content(other, record) == tree


def can_be_a_path(path: str) -> bool:
    try:
        return bool(check_path(path))
    except UsageError:
        return False


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
paths = st.lists(names, min_size=1, max_size=3).map("/".join).filter(can_be_a_path)
trees = st.dictionaries(paths, st.binary(max_size=99) | st.none(), max_size=5).filter(
    lambda tree: (
        not any(one != other and (other + "/").startswith(one + "/") for one in tree for other in tree)
    )
)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(trees)
def test_any_tree_of_files_survives_a_save_and_a_round_trip(folder: CheckpointFolder, tree: Tree) -> None:
    record = save(folder, tree)
    assert content(folder, record) == tree
    packed = folder.pack(record)
    folder.delete(record)
    assert content(folder, folder.unpack(packed)) == tree


def test_files_older_than_1980_are_packed(folder: CheckpointFolder) -> None:
    record = save(folder, {"f": b"1"})
    os.utime(folder.folder / record.name / "f", (0, 0))
    packed = folder.pack(record)
    folder.delete(record)
    assert content(folder, folder.unpack(packed)) == {"f": b"1"}


@given(st.data())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_a_damaged_object_is_refused_and_leaves_nothing(
    folder: CheckpointFolder, data: st.DataObject
) -> None:
    packed = bytearray(folder.pack(save(folder, {"f": b"abc", "empty": None})))
    before = tree_of(folder.folder)
    if data.draw(st.booleans()):
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del packed[data.draw(st.integers(0, len(packed) - 1)) :]
    with pytest.raises(CorruptError, match=r"is not a (whole )?checkpoint of a trial"):
        folder.unpack(bytes(packed))
    assert tree_of(folder.folder) == before


def test_an_object_writes_nothing_outside(folder: CheckpointFolder, subtests: pytest.Subtests) -> None:
    """Somebody may have made the object, not `pack`."""
    for name in ("../evil", "/evil", "a/../../evil", ".nbckpt/../../evil", "a//b", ""):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("record.json", Record(name_of(1), "files", 1).encode())
            archive.writestr(f"files/{name}", b"evil")
        with subtests.test(name):
            with pytest.raises(CorruptError):
                folder.unpack(PREFERRED.digest(file.getvalue()) + file.getvalue())
            assert tree_of(folder.folder.parent) == {"trial": None}


def test_a_temporary_checkpoint_is_marked_and_not_listed(folder: CheckpointFolder) -> None:
    packed = folder.pack(save(folder, {"f": b"1"}, 4))
    one, other = (folder.unpack(packed, temporary=True) for _ in range(2))
    assert one.name != other.name
    assert (one.temporary, one.step, content(folder, one)) == (True, 4, {"f": b"1"})
    assert [record.name for record in folder.records()] == ["checkpoint_000004"]
    folder.sweep()
    assert [name for name in names_in(folder.folder) if "tmp" in name] == []


def test_a_null_checkpoint_is_a_record_without_a_folder(folder: CheckpointFolder) -> None:
    record = folder.commit(None, Record("checkpoint_null_1", "null", 0))
    assert names_in(folder.folder) == ["checkpoint_null_1.json"]
    again = folder.unpack(folder.pack(record), temporary=True)
    assert (again.kind, folder.records()) == ("null", [])
    folder.delete(again)


class Crash(BaseException):
    """The process ends here."""


class Faults:
    """Lets the call number *at* fail, or all from there on.

    Attributes:
        reached: Whether there were so many calls.
    """

    def __init__(self, at: int, error: Callable[[], BaseException], *, from_then_on: bool = False) -> None:
        self.reached = False
        self._calls = itertools.count(1)
        self._at, self._error, self._more = at, error, from_then_on

    def __enter__(self) -> Self:
        self._patch = mock.patch.multiple(os, **{name: self._faulty(getattr(os, name)) for name in CALLS})
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()

    def _faulty(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            number = next(self._calls)
            self.reached |= number >= self._at
            if number == self._at or (self._more and self.reached):
                raise self._error()
            return real(*args, **options)

        return call


def disk_full() -> OSError:
    return OSError(28, "No space left on device")


def attempts(
    folder: CheckpointFolder, name: str, error: Callable[[], BaseException], **how: bool
) -> Iterator[bool]:
    """Commit a checkpoint with a fault at each call in turn; yield whether it was committed.

    The last time there is no fault any more.
    """
    for at in itertools.count(1):
        stage = folder.stage()
        write(stage, NEW)
        committed = False
        with Faults(at, error, **how) as faults, suppress(StoreError, Crash):
            folder.commit(stage, Record(name, "files", 2))
            committed = True
        yield committed
        if not faults.reached:
            assert at > 20
            return
        shutil.rmtree(stage, ignore_errors=True)


def whole(folder: CheckpointFolder) -> dict[str, Tree]:
    seen = {}
    for record in folder.records():
        folder.check(record)
        seen[record.name] = content(folder, record)
    return seen


OLD = {"old": b"1"}
NEW = {"new": b"new", "deep/er": b"new"}
replaced_or_new = pytest.mark.parametrize("name", ["checkpoint_000002", "checkpoint_000003"])


def older(folder: CheckpointFolder) -> dict[str, Tree]:
    """Bring the folder to two checkpoints, and return them."""
    for record in folder.records():
        folder.delete(record)
    shutil.rmtree(folder.folder / "checkpoint_000003", ignore_errors=True)
    return {save(folder, OLD, iteration).name: OLD for iteration in (1, 2)}


@pytest.mark.slow
@replaced_or_new
def test_a_full_disk_at_any_call_leaves_checkpoints_unchanged(folder: CheckpointFolder, name: str) -> None:
    before = older(folder)
    for committed in attempts(folder, name, disk_full):
        assert whole(folder) == (before | {name: NEW} if committed else before)
        assert (folder.folder / name).exists() == (committed or name in before)
        older(folder)


@pytest.mark.slow
@replaced_or_new
def test_a_crash_at_any_call_leaves_only_whole_checkpoints(folder: CheckpointFolder, name: str) -> None:
    """Of a checkpoint that is being replaced, the former or the new one is there."""
    before = older(folder)
    for committed in attempts(folder, name, Crash, from_then_on=True):
        after = before | {name: NEW}
        visible = whole(folder)
        assert visible in (before, after, {other: tree for other, tree in before.items() if other != name})
        folder.sweep()
        assert whole(folder) in ((after,) if committed else (before, after))
        older(folder)


@pytest.mark.slow
@replaced_or_new
def test_a_staged_folder_can_be_committed_after_a_full_disk(folder: CheckpointFolder, name: str) -> None:
    older(folder)
    for at in itertools.count(1):
        stage = folder.stage()
        write(stage, NEW)
        with Faults(at, disk_full) as faults:
            try:
                folder.commit(stage, Record(name, "files", 2))
            except StoreError:
                assert tree_of(stage) == NEW
                folder.commit(stage, Record(name, "files", 2))
        assert whole(folder)[name] == NEW
        if not faults.reached:
            break
        older(folder)


def test_a_checkpoint_that_cannot_be_removed_stays_complete(folder: CheckpointFolder) -> None:
    record = save(folder, OLD)
    with Faults(1, disk_full, from_then_on=True), pytest.raises(StoreError, match="cannot remove"):
        folder.delete(record)
    assert whole(folder) == {record.name: OLD}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot make '.*file/trial"):
        CheckpointFolder(tmp_path / "file" / "trial").stage()


def test_the_records_file_appears_only_after_everything_else(folder: CheckpointFolder) -> None:
    seen = []
    real = os.replace

    def replace_(source: Any, target: Any, **options: Any) -> None:
        seen.append((Path(target).name, names_in(folder.folder / name_of(1)) if len(seen) else []))
        real(source, target, **options)

    with mock.patch.object(os, "replace", replace_):
        save(folder, {"a": b"1", "b": b"2"})
    assert seen == [(name_of(1), []), (name_of(1) + SUFFIX, ["a", "b"])]


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
