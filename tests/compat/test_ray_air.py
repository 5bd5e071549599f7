"""Checkpoints by Ray's name, and the checkpoints that Ray wrote."""

from __future__ import annotations

import io
import itertools
import pickle
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nbckpt
from nbckpt import NbckptError, UsageError
from nbckpt.compat.ray_air import Checkpoint, session
from nbckpt.core.files import FILES
from nbckpt.errors import CodecError, CorruptError, UntrustedError


def tar_of(*members: tuple[str, bytes | None], **fields: Any) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.size = len(content or b"")
            for key, value in fields.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content or b""))
    return file.getvalue()


def pickled_by_ray(name: str, monkeypatch: pytest.MonkeyPatch, **values: Any) -> bytes:
    """Return the pickle of values, and of an object whose class only Ray has."""
    module = ModuleType(name)
    module.Metadata = type("Metadata", (), {"__module__": name, "kind": "x"})  # type: ignore[attr-defined]
    with monkeypatch.context() as patched:
        for parent in (*itertools.accumulate(name.split("."), "{}.{}".format),):
            patched.setitem(sys.modules, parent, module)
        data = pickle.dumps({**values, "_metadata": module.Metadata()})
    monkeypatch.setitem(sys.modules, "ray", None)  # as if Ray were not installed
    return data


def test_a_dict_with_a_packed_folder_is_read() -> None:
    archive = tar_of(("", None), ("a", None), ("a/b.txt", b"1"), ("empty", None))
    checkpoint = Checkpoint.from_dict({"fs_checkpoint": archive, "_metadata": object, "note": 1})
    data = checkpoint.to_dict()
    assert (data["note"], dict(data[FILES]), data[FILES].folders) == (1, {"a/b.txt": b"1"}, {"empty"})
    assert set(data) == {"note", FILES}


def test_a_dict_with_more_files_is_read() -> None:
    more = {"one.txt": tar_of(("", b"1")), "folder": tar_of(("", None), ("two.txt", b"2"))}
    data = Checkpoint.from_dict({"x": 1, "_ray_additional_checkpoint_files": more}).to_dict()
    assert (data["x"], dict(data[FILES])) == (1, {"one.txt": b"1", "folder/two.txt": b"2"})


def test_a_users_own_value_under_a_reserved_key_is_kept() -> None:
    data = {"fs_checkpoint": 5, "bytes_data": b"x"}
    assert Checkpoint.from_dict(data).to_dict() == data


def ray_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder.mkdir()
    pickle_file = folder / "dict_checkpoint.pkl"
    pickle_file.write_bytes(pickled_by_ray("ray.air.checkpoint", monkeypatch, epoch=3))
    (folder / ".metadata.pkl").write_bytes(b"never read")
    (folder / "model.bin").write_bytes(b"m")
    return folder


def test_a_folder_of_ray_with_a_dict_is_read_with_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ray_folder(tmp_path / "old", monkeypatch)
    checkpoint = Checkpoint.from_directory(folder, trust=True)
    data = checkpoint.to_dict()
    assert (data["epoch"], dict(data[FILES])) == (3, {"model.bin": b"m"})
    assert Checkpoint.from_dict(data).to_dict()["epoch"] == 3
    with checkpoint.as_directory() as path:
        assert Path(path) == folder


def test_a_folder_of_ray_is_not_loaded_without_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint.from_directory(ray_folder(tmp_path / "old", monkeypatch))
    with pytest.raises(UntrustedError, match=r"dict_checkpoint.pkl.*trust=True"):
        checkpoint.to_dict()
    with pytest.raises(UntrustedError):
        checkpoint.get_preprocessor()


def test_a_folder_of_ray_with_fields_beside_files_is_read(tmp_path: Path) -> None:
    for name, value in {".metadata": 0, "note.meta": "hello", "_preprocessor.meta": [1]}.items():
        (tmp_path / f"{name}.pkl").write_bytes(pickle.dumps(value))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "own.meta.pkl").write_bytes(b"mine")
    checkpoint = Checkpoint.from_directory(tmp_path, trust=True)
    data = checkpoint.to_dict()
    assert (data["note"], dict(data[FILES])) == ("hello", {"a/own.meta.pkl": b"mine"})
    assert checkpoint.get_preprocessor() == [1]


def test_a_users_pickle_in_a_folder_is_only_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.meta.pkl").write_bytes(b"mine")
    assert dict(Checkpoint.from_directory(tmp_path).to_dict()[FILES]) == {"own.meta.pkl": b"mine"}


def test_bytes_of_ray_are_read_with_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickled_by_ray("ray.train.torch", monkeypatch, epoch=3)
    assert Checkpoint.from_bytes(data, trust=True).to_dict() == {"epoch": 3}
    assert Checkpoint.from_bytes(pickle.dumps([1]), trust=True).to_dict() == {"bytes_data": [1]}
    with pytest.raises(UntrustedError, match="trust=True"):
        Checkpoint.from_bytes(data)
    with pytest.raises(CodecError, match="UnpicklingError"):
        Checkpoint.from_bytes(data[:-9], trust=True)


HOSTILE = {
    "a folder above": tar_of(("../out", b"x")),
    "the root": tar_of(("/etc/x", b"x")),
    "a file as a folder": tar_of(("a", b"x"), ("a/b", b"x")),
    "a link": tar_of(("link", b""), type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": tar_of(("link", b""), type=tarfile.LNKTYPE, linkname="a"),
    "a pipe": tar_of(("pipe", b""), type=tarfile.FIFOTYPE),
    "nbckpt's own name": tar_of((".nbckpt/checkpoint.json", b"x")),
    "cut": tar_of(("a", b"x" * 600))[:700],
    "no archive": b"not an archive" * 100,
}


def test_a_hostile_archive_writes_nothing_outside(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind, archive in HOSTILE.items():
        with subtests.test(kind):
            with pytest.raises(NbckptError):
                Checkpoint.from_dict({"fs_checkpoint": archive}).to_directory(tmp_path / "here")
            assert list(tmp_path.iterdir()) == []


def test_a_sparse_file_in_an_archive_is_not_read() -> None:
    sizes = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 50)}
    archive = tar_of(("a", b"1\n0\n0\n".ljust(512, b"\0")), pax_headers=sizes)
    with pytest.raises(CorruptError, match="neither a file nor a folder"):
        Checkpoint.from_dict({"fs_checkpoint": archive})


def test_a_dict_checkpoint_has_no_key_of_its_own() -> None:
    assert Checkpoint.from_dict({}).to_dict() == {}
    assert Checkpoint.from_dict({"x": 1}).digest() == nbckpt.Checkpoint.from_dict({"x": 1}).digest()


def test_from_dict_takes_a_dict() -> None:
    with pytest.raises(UsageError, match="not list"):
        Checkpoint.from_dict([])  # type: ignore[arg-type]


def test_the_session_tells_which_trial_runs(tmp_path: Path) -> None:
    seen = []

    def train(config: dict[str, Any]) -> None:
        checkpoint = session.get_checkpoint()
        done = 0 if checkpoint is None else checkpoint.to_dict()["step"]
        seen.append((session.get_trial_id(), session.get_trial_name(), session.get_experiment_name(), done))
        assert session.get_trial_dir() == str(tmp_path / "exp" / "t0")
        for step in range(done + 1, 4):
            if step == 3 and done == 0:
                raise RuntimeError
            session.report({"loss": 1 / step}, checkpoint=Checkpoint.from_dict({"step": step}))

    experiment = nbckpt.run(train, name="exp", folder=tmp_path, max_failures=1)
    assert experiment.wait(60)
    assert seen == [("t0", "exp/t0", "exp", 0), ("t0", "exp/t0", "exp", 2)]
    assert experiment.trial("t0").metrics["loss"] == 1 / 3


def test_the_session_is_empty_outside_a_trial() -> None:
    assert session.get_trial_id() is session.get_trial_name() is session.get_experiment_name() is None
    assert session.get_checkpoint() is session.get_trial_dir() is None
    assert (session.get_world_rank(), session.get_world_size()) == (0, 1)
    with pytest.raises(UsageError, match="load the data in the function"):
        session.get_dataset_shard("train")
    assert not hasattr(session, "unknown")
