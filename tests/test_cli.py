"""nbckpt in a shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbckpt import Tracker
from nbckpt.cli import main


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with two versions of one name."""
    with Tracker(tmp_path / "store") as tracker:
        tracker.save({"x": 1}, "one", message="first")
        tracker.save({"x": 2}, "one")
    return str(tmp_path / "store")


def test_ls_lists_the_checkpoints(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--store", store]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"2 checkpoints in {store}"
    assert [line.split()[0] for line in lines[-2:]] == ["one@2", "one@1"]


def test_the_bare_command_is_status(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--store", store]) == 0
    out = capsys.readouterr().out
    assert "2 checkpoints" in out
    assert "%ckpt" not in out


def test_a_command_that_needs_variables_says_so(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["save", "--store", store]) == 1
    assert "needs live variables" in capsys.readouterr().err


def test_an_error_is_one_line_with_the_next_step(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "onee", "--store", store]) == 1
    err = capsys.readouterr().err
    assert err == "nbckpt: no checkpoint matches 'onee'. Did you mean 'one'? See `nbckpt ls`\n"


def test_a_wrong_word_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sav"]) == 1
    assert (
        capsys.readouterr().err
        == "nbckpt: there is no command 'sav'; did you mean 'save'? See `nbckpt help`\n"
    )


def test_help_is_shown_and_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restore", "--help"]) == 0
    assert "--dry-run" in capsys.readouterr().out


def test_diff_of_two_checkpoints_works_in_a_shell(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "one@1", "one@2", "--store", store]) == 0
    assert "1 -> 2 (+100.0%)" in capsys.readouterr().out


def test_damage_is_exit_status_two(store: str) -> None:
    manifest = next(Path(store, "checkpoints").iterdir())
    manifest.write_bytes(manifest.read_bytes().replace(b'"first"', b'"other"').replace(b'"x"', b'"y"'))
    assert main(["verify", "--store", store]) == 2


def test_python_dash_m_works(store: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nbckpt", "ls", "--store", store], capture_output=True, check=True
    )
    assert b"one@2" in done.stdout
