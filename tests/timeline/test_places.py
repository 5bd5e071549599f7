"""The working directory goes back with undo, and a difference in os.environ is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.timeline.test_timeline import Kernel


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    return first, second


def test_the_working_directory_goes_back_and_forward(folders: tuple[Path, Path]) -> None:
    first, second = folders
    kernel = Kernel()
    kernel.names["second"] = str(second)
    kernel.run("import os; a = 1; second", "a = 2; os.chdir(second)")
    assert kernel.undo().places == (f"The working directory is {first} again.",)
    assert Path.cwd() == first
    kernel.redo()
    assert Path.cwd() == second


def test_a_folder_that_is_gone_is_said(folders: tuple[Path, Path]) -> None:
    first, second = folders
    kernel = Kernel()
    kernel.run("a = 1")
    os.chdir(second)
    kernel.run("a = 2")
    first.rmdir()
    (note,) = kernel.undo().places
    assert note.startswith(f"The working directory stays {second}: ")
    assert kernel.names["a"] == 1


def test_another_environment_is_said_without_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    kernel.run("a = 1")
    monkeypatch.setenv("NBCKPT_TEST_TOKEN", "secret")
    kernel.run("a = 2")
    assert kernel.undo().places == ("os.environ stays as it is. It differs from then: NBCKPT_TEST_TOKEN.",)
    assert os.environ["NBCKPT_TEST_TOKEN"] == "secret"


def test_the_place_of_a_point_is_that_of_its_pause(folders: tuple[Path, Path]) -> None:
    first, second = folders
    kernel = Kernel()
    kernel.run("a = 1")
    kernel.names["a"] = 2
    kernel.timeline.begin({})
    os.chdir(second)  # the next cell, before the point is taken over
    kernel.run("a = 3")
    kernel.undo()
    assert Path.cwd() == first
