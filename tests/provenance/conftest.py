"""Fixtures for the tests of provenance: a git repository with a working tree that has changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.provenance import background
from nbckpt.provenance import git as provenance_git
from nbckpt.trials import Experiment

Git = Callable[..., str]


def run(function: Any, config: Mapping[str, Any] | None = None, **settings: Any) -> Experiment:
    """Run an experiment, in the working folder unless its folder is given, until its provenance is kept."""
    settings = {"folder": Path(".nbckpt/experiments").absolute(), "executor": "inline", **settings}
    experiment = nbckpt.run(function, config or {}, **settings)
    assert experiment.wait(100)
    background.settle()
    return experiment


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Turn provenance on, in a folder without a repository and with a git that knows no user."""
    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    monkeypatch.setattr(provenance_git, "LIMIT_S", 120)  # a loaded machine is not slow git
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, str(tmp_path / "no-config"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)  # of pytest
    monkeypatch.chdir(tmp_path)
    yield
    background.settle(60)


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Return a function that runs git in the repository."""
    (tmp_path / "repository").mkdir()

    def call(*words: str, folder: Path = tmp_path / "repository") -> str:
        who = "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"
        done = subprocess.run(
            ["git", *who, *words], cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        return done.stdout.decode()

    call("init", "--quiet", "--initial-branch=main")
    return call


@pytest.fixture
def repository(git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit, which is the working folder."""
    folder = tmp_path / "repository"
    (folder / "train.py").write_text("RATE = 1\n")
    (folder / ".gitignore").write_text("ignored*\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def changed(repository: Path) -> Path:
    """Return the repository, with a change that no commit has."""
    (repository / "train.py").write_text("RATE = 2\n")
    return repository
