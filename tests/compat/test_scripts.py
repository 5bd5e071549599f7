"""Scripts written for Ray Tune, Ray AIR, AdaptDL, W&B and trackio run with only their imports changed."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nbckpt.states import use_folder
from nbckpt.trials import Catalog

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[2]
IMPORTS = {
    "import adaptdl.checkpoint": "from nbckpt.compat import adaptdl",
    "import adaptdl.env": "",
    "from adaptdl import": "from nbckpt.compat.adaptdl import",
    "from ray import air, tune": "from nbckpt.compat import ray_air as air, ray_tune as tune",
    "from ray import tune": "from nbckpt.compat import ray_tune as tune",
    "from ray.tune import": "from nbckpt.compat.ray_tune import",
    "from ray.tune.durable_trainable import": "from nbckpt.compat.ray_tune import",
    "from ray.tune.syncer import": "from nbckpt.compat.ray_tune import",
    "from ray.air.checkpoint import": "from nbckpt.compat.ray_air import",
    "from ray.air import": "from nbckpt.compat.ray_air import",
    "import wandb": "import nbckpt.compat.wandb as wandb",
    "import trackio as wandb": "import nbckpt.compat.wandb as wandb",
}
"""The beginning of an import line, and the line's beginning that replaces it."""

Run = Callable[..., list[str]]


def changed(source: str) -> str:
    """Return a script with nbckpt's imports."""
    lines = source.splitlines(keepends=True)
    for at, line in enumerate(lines):
        for old, new in IMPORTS.items():
            if line.startswith(old):
                lines[at] = new + line.removeprefix(old)
                break
    return "".join(lines)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a script in a fresh namespace and returns the lines that it printed."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ADAPTDL_")]:
        monkeypatch.delenv(name)

    def run_script(name: str, **environment: str) -> list[str]:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        script = tmp_path / f"{name}.py"
        script.write_text(changed((SCRIPTS / script.name).read_text()))
        with use_folder():
            runpy.run_path(str(script), run_name="script")
        return capsys.readouterr().out.splitlines()

    return run_script


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda script: script.stem)
def test_a_script_runs_in_a_process_of_its_own(script: Path, tmp_path: Path) -> None:
    (tmp_path / script.name).write_text(changed(script.read_text()))
    job = {"PYTHONPATH": str(ROOT), "ADAPTDL_CHECKPOINT_PATH": str(tmp_path / "job")}
    command = [sys.executable, script.name]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | job, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_no_changed_script_imports_the_original_system() -> None:
    for script in sorted(SCRIPTS.glob("*.py")):
        source = changed(script.read_text())
        assert source != script.read_text()
        assert [
            line
            for line in source.splitlines()
            if line.startswith(("import ray", "from ray", "import wandb"))
        ] == []


def test_adaptdl_counter_continues_after_a_restart(run: Run, tmp_path: Path) -> None:
    job = {"ADAPTDL_CHECKPOINT_PATH": str(tmp_path / "job")}
    assert run("adaptdl_counter", **job) == ["restored False at 0 of restart 0", "counted to 8"]
    again = run("adaptdl_counter", ADAPTDL_NUM_RESTARTS="1", **job)
    assert again == ["restored True at 8 of restart 1", "counted to 10"]


def test_adaptdl_replicas_share_what_the_first_one_saved(run: Run, tmp_path: Path) -> None:
    job = {"ADAPTDL_CHECKPOINT_PATH": str(tmp_path / "job"), "ADAPTDL_JOB_ID": "j1"}
    assert run("adaptdl_replicas", **job) == [
        "replica 0 of 1 job j1",
        "samples [0, 1, 2, 3] valid [1] synced 1",
        "saved True",
    ]
    second = run("adaptdl_replicas", ADAPTDL_REPLICA_RANK="1", ADAPTDL_NUM_REPLICAS="2", **job)
    assert second == [
        "replica 1 of 2 job j1",
        "samples [0, 1, 2, 3, 5, 7] valid [1, 2] synced 1",
        "saved False",
    ]


def test_syncer_custom_gets_the_experiment(run: Run, tmp_path: Path) -> None:
    assert run("syncer_custom") == ["valid True", "score 4", "copied True"]
    assert (tmp_path / "shelf_one" / "scores" / "t0" / "events.jsonl").exists()


PRINTED = r"""
air_dict: bytes [1, 2, 3] 7; folder ['best', 'epoch', 'weights']; lent 7; Scored 0.5 None
air_directory: uri True; layer b'\x00\x01\x02'; extra True; note from the bucket; a checkpoint is not a path
durable_train: [4, 2]; 1 4; 2 4; remote True
durable_restore: 11; stopped at 14; 12 2; 15; left []; stopped at 15
syncer_direct: up True; due True; again False; inner/two.txt; gone True; None
tune_run: best 0.1 0.025 3; iterations 4 TERMINATED; checkpoint {'step': 4}; kept 2; frame 2 [0.1, 0.4]
tune_tuner: best 3 21 2; trials 3 errors 0; history [19, 20, 21]; retried 1 [11, 12, 13]; restored 21
"""
"""What scripts print: their lines, with semicolons between them."""


def test_a_script_prints_what_it_prints_with_its_system(run: Run, subtests: pytest.Subtests) -> None:
    for printed in PRINTED.strip().splitlines():
        script, _, lines = printed.partition(": ")
        with subtests.test(script):
            assert run(script) == lines.split("; ")


def test_wandb_quickstart_is_a_trial(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    assert run("wandb_quickstart") == ["t0: 5"]
    (trial,) = Catalog(tmp_path / "store" / "experiments").open("quickstart").trials
    assert (trial.config["learning_rate"], trial.metric_names) == (0.02, ["acc", "loss", "epochs_done"])
