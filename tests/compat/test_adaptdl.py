"""AdaptDL's states and environment, and the checkpoints that AdaptDL wrote."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import IO

import pytest

import nbckpt
from nbckpt.compat.adaptdl import checkpoint, env
from nbckpt.errors import UntrustedError


class Number(checkpoint.State):
    value = 0

    def save(self, fileobj: IO[bytes]) -> None:
        pickle.dump(self.value, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        self.value = pickle.load(fileobj)


def written_by_adaptdl(job: Path, **values: int) -> None:
    for number, plus in (("0", 0), ("5", 5)):
        folder = job / f"checkpoint-{number}"
        folder.mkdir(parents=True)
        for name, value in values.items():
            (folder / name).write_bytes(pickle.dumps(value + plus))


def test_the_newest_checkpoint_of_adaptdl_is_read_with_trust(tmp_path: Path) -> None:
    written_by_adaptdl(tmp_path, a=1, b=2)
    with nbckpt.states.use_folder(tmp_path):
        a, b, c = Number("a"), Number("b"), Number("c")
        assert checkpoint.load_state(a, trust=True)
        assert checkpoint.load_state(b, trust=True)
        assert not checkpoint.load_state(c, trust=True)
    assert (a.value, b.value, c.value) == (6, 7, 0)


def test_a_checkpoint_of_adaptdl_is_not_read_without_trust(tmp_path: Path) -> None:
    written_by_adaptdl(tmp_path, a=1)
    with nbckpt.states.use_folder(tmp_path):
        state = Number("a")
        with pytest.raises(UntrustedError, match=r"checkpoint-5' was written by AdaptDL.*trust=True"):
            checkpoint.load_state(state)
    assert state.value == 0


def test_a_save_of_nbckpt_comes_before_those_of_adaptdl(tmp_path: Path) -> None:
    written_by_adaptdl(tmp_path, a=1)
    with nbckpt.states.use_folder(tmp_path):
        state = Number("a")
        checkpoint.load_state(state, trust=True)
        state.value = 40
        assert checkpoint.save_all_states() == str(tmp_path / "checkpoint-6")
        state.value = 0
        assert checkpoint.load_state(state)
        assert state.value == 40
    assert (tmp_path / "checkpoint-5" / "a").exists()


def test_a_state_is_never_read_outside_its_checkpoint(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "secret").write_bytes(pickle.dumps(1))
    written_by_adaptdl(tmp_path / "job", a=1)
    (tmp_path / "job" / "checkpoint-5" / "x").mkdir()
    (tmp_path / "job" / "checkpoint-5" / "x" / "y").write_bytes(pickle.dumps(1))
    if hasattr(os, "symlink"):
        (tmp_path / "job" / "checkpoint-5" / "link").symlink_to(tmp_path / "secret")
    with nbckpt.states.use_folder(tmp_path / "job"):
        for name in ("../secret", "/etc/passwd", "", "..", "x/y", "\0", "link"):
            with subtests.test(name):
                assert not checkpoint.load_state(Number(name), trust=True)


def test_env_has_adaptdls_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ADAPTDL_", "MASTER_", "WORLD_", "RANK"))]:
        monkeypatch.delenv(name)
    assert (env.checkpoint_path(), env.share_path(), env.job_id(), env.supervisor_url()) == (None,) * 4
    assert (env.master_addr(), env.master_port()) == ("0.0.0.0", 0)
    assert (env.replica_rank(), env.num_replicas(), env.num_nodes(), env.num_restarts()) == (0, 1, 1, 0)


def test_env_reads_adaptdls_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    values = (
        *("CHECKPOINT_PATH=/c", "SHARE_PATH=/s", "JOB_ID=j", "MASTER_ADDR=h", "MASTER_PORT=9"),
        *("REPLICA_RANK=1", "NUM_REPLICAS=4", "NUM_RESTARTS=2"),
    )
    for name, _, value in (each.partition("=") for each in values):
        monkeypatch.setenv(f"ADAPTDL_{name}", value)
    assert (env.checkpoint_path(), env.share_path(), env.job_id()) == (str(Path("/c")), "/s", "j")
    assert (env.master_addr(), env.master_port(), env.num_nodes()) == ("h", 9, 4)
    assert (env.replica_rank(), env.num_replicas(), env.num_restarts()) == (1, 4, 2)
    monkeypatch.setenv("ADAPTDL_NUM_NODES", "2")
    assert env.num_nodes() == 2
