"""binder/: what mybinder.org would build, without building it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nbckpt import Tracker

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"


@pytest.fixture(scope="module")
def dockerfile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what repo2docker would build from; without it, a skip here and a failure in CI."""
    if importlib.util.find_spec("repo2docker") is None:
        reason = "jupyter-repo2docker is not installed: pip install jupyter-repo2docker"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    repository = tmp_path_factory.mktemp("repository")
    shutil.copytree(BINDER, repository / "binder")
    options = ["--no-build", "--debug", "--user-id", "1000", "--user-name", "jovyan"]
    done = subprocess.run(
        [sys.executable, "-m", "repo2docker", *options, str(repository)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_binder_installs_the_requirements_and_runs_the_script(dockerfile: str) -> None:
    assert "-r binder/requirements.txt" in dockerfile.replace('"', "")
    assert "RUN ./binder/postBuild" in dockerfile


def test_binder_gets_the_python_that_is_asked_for(dockerfile: str) -> None:
    version = (BINDER / "runtime.txt").read_text().strip()
    assert version == "python-3.12"
    assert "3.12" in dockerfile


def test_the_script_makes_checkpoints_to_look_at(tmp_path: Path) -> None:
    shutil.copytree(BINDER, tmp_path / "binder")
    (tmp_path / "notebooks").mkdir()
    script = tmp_path / "binder" / "postBuild"
    assert os.access(script, os.X_OK)
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path)
    with Tracker(tmp_path / "notebooks" / ".nbckpt") as tracker:
        assert len(tracker.entries()) == 2
        assert {"walk", "end"} <= {value.name for value in tracker.manifest("demo@2").values}
