"""`reproduce`: a folder with all that is needed to do a trial or a checkpoint again, and its run."""

from __future__ import annotations

import importlib
import json
import math
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from provenance.conftest import run

import kernels
import nbckpt
from nbckpt.cli import main
from nbckpt.commands import rerun
from nbckpt.provenance import document
from nbckpt.trials import PBT
from nbckpt.trials.model.trial import state_of

ROOT = Path(__file__).parents[2]
TRAIN = """
import random
import nbckpt

RATE = 1
API_KEY = "committed-secret"

def train(config):
    for step in range(3):
        nbckpt.report(loss=RATE * config["scale"] * random.random(), step=step)
"""

PATIENT = """
from nbckpt.provenance import checkpoint, git
assert checkpoint.WAIT_S < git.LIMIT_S  # both names are still those that a save uses
checkpoint.WAIT_S = git.LIMIT_S = 120
"""
"""On a loaded machine git may take longer than a save waits for it."""


@pytest.fixture
def trained(repository: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a repository whose function ran as trial fits/t1, with changes that no commit has."""
    (repository / "train.py").write_text(TRAIN)
    git("commit", "--quiet", "-am", "train")
    (repository / "train.py").write_text(TRAIN.replace("RATE = 1", "RATE = 2"))
    monkeypatch.syspath_prepend(str(repository))
    monkeypatch.setattr(document, "installed", lambda: {"nbckpt": nbckpt.__version__})
    monkeypatch.setattr(document, "origins", dict)
    module = importlib.import_module("train")
    run(module.train, {"scale": nbckpt.grid_search([1.0, 3.0])}, name="fits")
    yield repository
    del sys.modules["train"]


def reproduce(*words: str) -> int:
    return main(["reproduce", *words])


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder / "run.py"), *words],
        capture_output=True,
        text=True,
        check=False,
        env=rerun.environment(PYTHONPATH=str(ROOT)),
    )


def test_the_folder_has_the_code_with_its_changes(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("fits/t1") == 0
    folder = trained / "reproduce-fits-t1"
    assert "RATE = 2" in (folder / "code/train.py").read_text()
    assert json.loads((folder / "params.json").read_text()) == {"scale": 3.0}
    assert f"nbckpt=={nbckpt.__version__}" in (folder / "requirements.txt").read_text()
    assert "Wrote reproduce-fits-t1" in capsys.readouterr().out
    assert (trained / "train.py").read_text() == TRAIN.replace("RATE = 1", "RATE = 2")


@pytest.mark.slow
def test_a_run_gives_the_same_metrics(trained: Path) -> None:
    reproduce("fits/t1", "-o", "again")
    done = python(trained / "again")
    assert done.returncode == 0, done.stderr
    results = json.loads((trained / "again/results.json").read_text())
    assert [row["name"] for row in results["rows"]] == ["loss", "step"]
    assert results["same"]


def test_numbers_too_large_for_a_float_are_compared(subtests: pytest.Subtests) -> None:
    rows: dict[str, tuple[float, float, bool]] = {
        "equal": (10**400, 10**400, True),
        "other": (10**400, 2 * 10**400, False),
        "finite": (10**400, 1.0, False),
        "nan": (math.nan, math.nan, True),
        "infinite": (math.inf, math.inf, True),
        "sign": (math.inf, -math.inf, False),
        "close": (1.0, 1.0 + 1e-12, True),
    }
    for name, (old, new, same) in rows.items():
        with subtests.test(name):
            (row,) = rerun.compare_metrics({"metrics": {"x": old}}, {"x": new})
            assert row.same is same


@pytest.mark.slow
def test_a_run_with_other_parameters_says_what_differs(trained: Path) -> None:
    reproduce("fits/t1", "-o", "again")
    (trained / "again/params.json").write_text('{"scale": 30.0}')
    done = python(trained / "again")
    assert done.returncode == 1
    assert "differs from" in done.stdout


def test_a_masked_patch_applies_and_its_secrets_are_named(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TRAIN.replace("committed-secret", "new-secret").replace("RATE = 1", "RATE = 5")
    (trained / "train.py").write_text(source)
    run(sys.modules["train"].train, {"scale": 1.0}, name="more")
    assert reproduce("more/t0") == 0
    folder = trained / "reproduce-more-t0"
    text = (folder / "code/train.py").read_text()
    assert "RATE = 5" in text
    assert 'API_KEY = "***"' in text
    assert b"committed-secret" not in (folder / "patch.diff").read_bytes()
    assert "Secrets were masked, write them again: train.py:6" in " ".join(capsys.readouterr().out.split())


def test_a_repository_that_is_gone_is_cloned_from_its_remote(
    trained: Path, git: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained / ".git", tmp_path / "remote.git")
    git("remote", "add", "origin", f"file://{tmp_path / 'remote.git'}")
    run(sys.modules["train"].train, {"scale": 1.0}, name="far", folder=tmp_path / "far")
    (tmp_path / "store").mkdir()
    shutil.move(tmp_path / "far", tmp_path / "store/experiments")
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(trained)
    assert reproduce("far/t0", "--store", "store") == 0
    assert "RATE = 2" in (tmp_path / "reproduce-far-t0/code/train.py").read_text()


def test_code_that_is_nowhere_is_named(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.move(trained / ".nbckpt", tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(trained)
    assert reproduce("fits/t1", "--store", "store") == 0
    assert "is not here" in capsys.readouterr().out


def test_an_existing_folder_is_not_touched(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trained / "mine").mkdir()
    assert reproduce("fits/t1", "-o", "mine") == 1
    assert "exists" in capsys.readouterr().err
    assert list((trained / "mine").iterdir()) == []
    assert not list(trained.glob(".nbckpt-tmp*"))


@pytest.mark.slow
def test_a_trial_that_needed_a_retry_is_reproduced_with_it(trained: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        checkpoint = nbckpt.get_checkpoint()
        for step in range(checkpoint.to_dict()["step"] if checkpoint else 0, 4):
            if step == 2 and not checkpoint:
                raise RuntimeError("once")
            nbckpt.report(loss=step, checkpoint={"step": step + 1})

    run(train, {}, name="again", max_failures=1)
    assert reproduce("again/t0", "-o", "again") == 0
    done = python(trained / "again")
    assert (done.returncode, done.stdout) == (0, "loss: 3 = 3\n"), done.stderr


def test_a_trial_that_went_on_from_another_one_is_named(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(config: dict[str, Any]) -> None:
        checkpoint = nbckpt.get_checkpoint()
        kept = checkpoint.to_dict() if checkpoint else {"step": 0, "loss": 0.0}
        for step in range(kept["step"], 6):
            kept = {"step": step + 1, "loss": kept["loss"] - config["lr"]}
            nbckpt.report(loss=kept["loss"], checkpoint=kept)

    points = [{"lr": lr} for lr in (0.1, 0.3, 0.6, 0.9)]
    settings = {"metric": "loss", "mode": "min", "scheduler": PBT(2), "seed": 1, "num_samples": 4}
    experiment = run(train, {"lr": nbckpt.uniform(0, 1)}, name="p", points=points, **settings)
    donors = {trial.id: state_of(trial).scheduling.donor for trial in experiment.trials}
    for at, donor in donors.items():
        assert reproduce(f"p/{at}") == 0
        said = capsys.readouterr().out
        assert ("went on from" in said) == bool(donor)
        assert not donor or (f"went on from p/{donor} with other values" in said)
    assert any(donors.values())


@pytest.mark.slow
def test_a_strangers_function_needs_trust(
    trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "other-secret"))
    assert reproduce("fits/t1", "-o", "again") == 0
    assert reproduce("fits/t1", "-o", "other", "--run") == 1
    assert "was not recorded by you" in capsys.readouterr().err
    assert not (trained / "other").exists()
    done = python(trained / "again")
    assert (done.returncode, "pass --trust" in done.stderr) == (2, True)
    assert python(trained / "again", "--trust").returncode == 0


def test_a_trial_without_provenance_is_an_error(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(lambda _: None, {}, name="bare", provenance=False)
    assert reproduce("bare/t0") == 1
    assert "has no provenance" in capsys.readouterr().err


CHANGES: list[dict[str, Any]] = [
    {"code": {"commit": "--upload-pack=touch x"}},
    {"code": {"root": "", "remote": "ext::sh -c touch% x"}},
    {"code": {"root": "", "remote": "--upload-pack=touch x"}},
    {"code": {"folder": "../../.."}},
    {"code": {"folder": "\0", "root": "/\0", "untracked": ["\0", "\ud800"]}},
    {"data": [{"path": "\0"}, {"path": "\ud800"}, {"path": "/dev/zero"}, {"path": "../x"}]},
    {"machine": {"python": "\ud800\0"}},
    {"origins": {"evil\n--index-url http://x": "y\nz"}},
]


def test_a_strangers_provenance_runs_nothing(
    trained: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    def changed(task: Any, *rest: Any) -> Any:
        kept = finished(task, *rest)
        for part, fields in change.items():
            kept[part] = fields if isinstance(fields, list) else {**kept.get(part, {}), **fields}
        return kept

    finished = document.finished
    monkeypatch.setattr("nbckpt.provenance.trial.finished", changed)
    evil = {"evil\n--index-url http://x": "1", "-e": "2", "good": "--pre"}
    monkeypatch.setattr(document, "installed", lambda: evil)
    for number, change in enumerate(CHANGES):
        with subtests.test(str(change)):
            run(sys.modules["train"].train, {"scale": 1.0}, name=f"evil{number}")
            again = trained / f"again{number}"
            assert reproduce(f"evil{number}/t0", "-o", again.name) == 0
            lines = (again / "requirements.txt").read_text().splitlines()
            assert all(line.startswith("#") for line in lines)
            assert not list(trained.rglob("x"))
            assert rerun.work_folder(again, {"folder": "../../.."}) in {again, again / "code"}


@pytest.mark.slow
def test_a_fresh_environment_gives_the_same_metrics(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pip = sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"
    subprocess.run([*pip, str(tmp_path / "dist"), str(ROOT)], check=True, timeout=240)
    create, libraries = venv.create, [path for path in sys.path if path.endswith("site-packages")]

    def lends(folder: Path, **more: Any) -> None:
        """Make an environment that finds the libraries of this one behind its own, except nbckpt."""
        create(folder, **more)
        lent = folder / "lent"
        lent.mkdir()
        for path in (path for library in libraries for path in Path(library).iterdir()):
            if "nbckpt" not in path.name and not (lent / path.name).exists():
                (lent / path.name).symlink_to(path)
        (next(folder.rglob("site-packages")) / "lent.pth").write_text(str(lent))

    monkeypatch.setattr(venv, "create", lends)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "dist"))
    assert reproduce("fits/t1", "--run", "--limit", "300") == 0, capsys.readouterr()
    assert "2 of 2 results equal" in capsys.readouterr().out
    assert (trained / "reproduce-fits-t1/env").is_dir()


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_ended(trained: Path) -> None:
    from nbckpt.errors import UsageError
    from nbckpt.provenance.install import run_program

    with pytest.raises(UsageError, match="did not end within"):
        run_program([sys.executable, "-c", "import time; time.sleep(600)"], trained, 0.5)


@pytest.mark.slow
def test_the_cells_of_a_notebook_make_a_checkpoint_again(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = rerun.environment(PYTHONPATH=str(ROOT), NBCKPT_STORE=str(trained / "store"))
    with kernels.lent(trained, env=variables) as (_, client):
        reply = client.execute_interactive(PATIENT, timeout=120, silent=True)
        assert reply["content"]["status"] == "ok", reply["content"]
        for cell in ("import train", "%load_ext nbckpt", "x = train.RATE * 21", "%ckpt save answer x"):
            reply = client.execute_interactive(
                cell, timeout=120, store_history=True, output_hook=lambda _: None
            )
            assert reply["content"]["status"] == "ok", reply["content"]
    assert reproduce("answer", "--store", "store") == 0
    assert "Run: cells 1 to 4" in capsys.readouterr().out
    folder = trained / "reproduce-answer"
    assert [cell["source"] for cell in json.loads((folder / "notebook.ipynb").read_text())["cells"]][2:] == [
        "x = train.RATE * 21",
        "%ckpt save answer x",
    ]
    done = python(folder)
    assert (done.returncode, "x: 42 = 42" in done.stdout) == (0, True), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("is_changed", [False, True])
def test_an_input_that_no_commit_has_is_lent(
    trained: Path, capsys: pytest.CaptureFixture[str], *, is_changed: bool
) -> None:
    def reads(_: object) -> None:
        nbckpt.report(length=len(Path(nbckpt.data("data/ignored.csv")).read_text()))

    (trained / "data").mkdir()
    (trained / "data/ignored.csv").write_text("12345")
    run(reads, {}, name="reads")
    if is_changed:
        (trained / "data/ignored.csv").write_text("67890")
    assert reproduce("reads/t0", "-o", "again") == 0
    shown = capsys.readouterr().out
    assert ("data/ignored.csv has changed since" in shown) == is_changed
    assert "Not kept" not in shown
    assert (trained / "again/code/data/ignored.csv").exists() != is_changed
    assert python(trained / "again").returncode == (2 if is_changed else 0)


def test_an_input_is_not_lent_through_a_link_of_the_commit(
    trained: Path, git: Callable[..., str], tmp_path: Path
) -> None:
    def reads(_: object) -> None:
        nbckpt.data("data/file.csv")

    (tmp_path / "outside").mkdir()
    (trained / "data").symlink_to(tmp_path / "outside")
    git("add", "data")
    git("commit", "--quiet", "-m", "link")
    (tmp_path / "outside/file.csv").write_text("1")
    run(reads, {}, name="reads")
    (tmp_path / "outside/file.csv").rename(tmp_path / "outside/moved.csv")
    assert reproduce("reads/t0", "-o", "again") == 0
    assert [file.name for file in (tmp_path / "outside").iterdir()] == ["moved.csv"]
