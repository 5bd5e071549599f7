"""binder/: what mybinder.org would build, without building it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from nbckpt import Tracker
from notebook.conftest import Notebook
from notebook.lab import ACTIVATE, Lab, page_of, picture, served

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"


@pytest.fixture(scope="module")
def dockerfile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what repo2docker would build from. `.ci/run start` has it."""
    if importlib.util.find_spec("repo2docker") is None:
        pytest.skip("jupyter-repo2docker is not installed: pip install jupyter-repo2docker")
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


def test_binder_uses_the_requested_python_version(dockerfile: str) -> None:
    version = (BINDER / "runtime.txt").read_text().strip()
    assert version == "python-3.12"
    assert "3.12" in dockerfile


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as the script leaves it, which ran twice with one secret."""
    folder = tmp_path_factory.mktemp("image")
    shutil.copytree(BINDER, folder / "binder")
    (folder / "notebooks").mkdir()
    script = folder / "binder" / "postBuild"
    assert os.access(script, os.X_OK)
    environment = os.environ | {"NBCKPT_SECRET_FILE": str(folder / "secret")}
    environment.pop("NBCKPT_STORE", None)
    for _ in range(2):
        subprocess.run([sys.executable, str(script)], check=True, cwd=folder, env=environment)
    return folder


@pytest.fixture
def machine(image: Path, tmp_path: Path) -> Path:
    """Return a machine for one visitor. As from an image, its experiments are as old as their names say."""
    machine = Path(shutil.copytree(image, tmp_path / "machine"))
    for experiment in sorted((machine / "notebooks" / ".nbckpt" / "experiments").iterdir()):
        os.utime(experiment)
    return machine


@pytest.fixture
def visitor(machine: Path, notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """Return a notebook beside those of the image, with the image's secret."""
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(machine / "secret"))
    monkeypatch.chdir(machine / "notebooks")
    notebook.run("%reload_ext nbckpt")
    return notebook


@pytest.mark.slow
def test_the_script_creates_sample_checkpoints(visitor: Notebook, machine: Path) -> None:
    with Tracker(machine / "notebooks" / ".nbckpt") as tracker:
        assert len(tracker.entries()) == 2
        assert {"walk", "end"} <= {value.name for value in tracker.manifest("demo@2").values}
    visitor.run("%ckpt restore demo")
    assert len(visitor.names["walk"]) == 1000


@pytest.mark.slow
def test_a_visitor_resumes_a_half_finished_experiment(visitor: Notebook) -> None:
    table = visitor.run("%ckpt trials")
    results, paused = str(table), table.experiment.trials[2]
    assert results.startswith("half-finished: 4 trials, 1 done, 1 failed, 1 paused, 1 interrupted")
    assert "the rate 0.2 is too large" in results
    assert 7 <= paused.iteration < 40
    ended = visitor.run("%ckpt resume half-finished --wait", "%ckpt trials")
    assert str(ended).startswith("half-finished: 4 trials, 3 done, 1 failed")
    assert [trial.iteration for trial in ended.experiment.trials[2:]] == [40, 40]


@pytest.fixture
def opened(browser: Browser, python: str, machine: Path) -> Iterator[Lab]:
    """Open the notebook of the panel as Binder does."""
    notebooks = machine / "notebooks"
    shutil.copy(ROOT / "notebooks" / "04_panel.ipynb", notebooks)
    with served(python, machine, machine, NBCKPT_PANEL="") as url, page_of(browser, url, notebooks) as lab:
        lab.enter("04_panel.ipynb")
        yield lab


def run(lab: Lab, source: str) -> Locator:
    """Run the first cell that begins with a text, and return its output."""
    cells = lab.page.locator(".jp-Notebook .jp-Cell")
    starts = cells.evaluate_all(
        "cells => cells.map(cell => cell.querySelector('.cm-content')?.innerText ?? '')"
    )
    at = next(at for at, start in enumerate(starts) if start.startswith(source))
    lab.page.evaluate(ACTIVATE, at)
    lab.command("notebook:run-cell")
    return cells.nth(at).locator(".jp-OutputArea")


@pytest.mark.browser
@pytest.mark.slow
def test_binder_opens_a_panel_that_has_contents(opened: Lab) -> None:
    run(opened, "%load_ext nbckpt")
    panel = run(opened, "%ckpt panel").locator(".nb-panel")
    rows = panel.locator(".nb-rows .nb-row")
    expect(panel.get_by_role("tab", name="Trials")).to_have_attribute("aria-selected", "true")
    expect(rows.filter(has_text="t2")).to_contain_text("Paused")
    expect(rows.filter(has_text="t3")).to_contain_text("Interrupted")
    expect(panel.get_by_role("button", name="Resume 1 from")).to_be_visible()
    picture(opened.page, "binder-search")
    panel.get_by_label("Experiment").select_option("by-hand")
    expect(rows.filter(has_text="t0")).to_contain_text("Done")
    panel.get_by_role("tab", name="Checkpoints").click()
    expect(rows.filter(has_text="demo@2")).to_contain_text("and where they lead")
    picture(opened.page, "binder-checkpoints")
