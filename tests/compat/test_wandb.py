"""W&B's names: scripts run with the import changed, and what is not here says what to use."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbckpt.compat import wandb
from nbckpt.compat.wandb import runs
from nbckpt.compat.wandb.arguments import MEANINGS, NAMES, NOTHING_TO_DO, REFUSED
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.trials import Catalog, Status
from nbckpt.trials.engine.open_trial import open_trials

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store of its own; no run stays open."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "said", set())
    wandb.opened_runs.clear()
    yield tmp_path
    for trial in open_trials():
        trial.finish()
        trial.experiment.wait()


def trials(store: Path, name: str = "p") -> Any:
    return Catalog(store / "experiments").open(name).trials


def test_every_argument_has_one_meaning_and_is_documented() -> None:
    known = [*MEANINGS, *NOTHING_TO_DO, *REFUSED]
    assert len(known) == len(set(known))
    text = (ROOT / "docs/compat.md").read_text()
    assert [name for name in [*known, *NAMES] if f"`{name}`" not in text] == []
    meanings = [*MEANINGS.values(), *NOTHING_TO_DO.values(), *REFUSED.values(), *NAMES.values()]
    assert [meaning for meaning in meanings if meaning not in text] == []


def test_a_script_after_the_quickstart(store: Path) -> None:
    run = wandb.init(
        entity="my-team", project="my project/1", config={"learning_rate": 0.02, "epochs": 4}, tags=["a"]
    )
    for epoch in range(2, wandb.config.epochs):
        run.log({"acc": 1 - 2**-epoch})
        wandb.log({"loss": 2**-epoch})
    wandb.summary["best"] = 0.75
    run.finish()
    (trial,) = trials(store, "my-project-1")
    assert trial.status == Status.TERMINATED
    assert trial.config == {"tags": ["a"], "learning_rate": 0.02, "epochs": 4}
    assert trial.metric_names == ["acc", "loss", "best"]
    assert [trial.newest(name) for name in trial.metric_names] == [0.875, 0.125, 0.75]


def test_values_of_one_step_are_one_result(store: Path) -> None:
    with wandb.init(project="p") as run:
        for step in (0, 10):
            run.log({"a": step}, step=step)
            run.log({"b": step}, step=step)
        with pytest.raises(UsageError, match="step 5 is over: the last one was 10"):
            run.log({"a": 5}, step=5)
        run.log({"c": 1}, commit=False)
        run.log({"d": 1}, commit=True)
    (trial,) = trials(store)
    assert [(result.get("step"), result.get("a"), result.get("b")) for result in trial.results] == [
        (0, 0, 0),
        (10, 10, 10),
    ]
    assert (trial.newest("c"), trial.newest("d")) == (1, 1)


def test_names_of_nbckpt_s_counts_are_kept_under_other_names(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = wandb.init(project="p")
    for step in (1, 2):
        run.log({"reward": step, "done": step == 1, "timestamp": 5, "training_iteration": 77})
    wandb.summary["time_total_s"] = 3
    run.finish()
    (trial,) = trials(store)
    assert (trial.status, trial.iteration) == (Status.TERMINATED, 3)
    assert [result.get("wandb/done") for result in trial.results] == [True, False, None]
    assert [result.get("wandb/training_iteration") for result in trial.results] == [77, 77, None]
    assert (trial.newest("wandb/timestamp"), trial.newest("wandb/time_total_s")) == (5, 3)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "nbckpt: 'done' is a name of nbckpt's own: what you log is kept as 'wandb/done'"
    assert len(said) == 4


def test_an_exit_or_an_error_fails_a_run_unless_its_status_is_0(store: Path) -> None:
    for code in (0, 1):
        with pytest.raises(SystemExit), wandb.init(project="p"):
            sys.exit(code)
    wandb.init(project="p").finish(exit_code=3)
    with pytest.raises(ZeroDivisionError), wandb.init(project="p") as run:
        run.log({"loss": 1 / 0})
    assert [trial.status for trial in trials(store)] == [Status.TERMINATED, *[Status.ERROR] * 3]


def test_the_configuration_may_change_while_the_run_is_open(store: Path) -> None:
    run = wandb.init(project="p", config=argparse.Namespace(lr=0.1))
    wandb.config.update({"depth": 3})
    wandb.config.width = 4
    run.config["lr"] = 0.2
    run.config.setdefaults({"lr": 9, "seed": 1})
    assert (run.config.lr, run.config.get("nothing"), "depth" in run.config) == (0.2, None, True)
    with pytest.raises(AttributeError, match="there is no value 'learning'"):
        _ = run.config.learning
    run.finish()
    assert trials(store)[0].config == {"lr": 0.2, "depth": 3, "width": 4, "seed": 1}


def test_media_are_kept(store: Path) -> None:
    run = wandb.init(project="p")
    table = wandb.Table(columns=["a", "b"], data=[[1, 2]])
    table.add_data(3, 4)
    table.add_column("c", [5, 6])
    assert repr(table) == "nbckpt.media.Table('')"
    images = [wandb.Image(np.zeros((4, 4, 3), np.uint8), caption="dark"), wandb.Image(np.eye(3) * 255.0)]
    run.log({"examples": images, "table": table, "page": wandb.Html("<b>bold</b>"), "loss": 1})
    run.finish()
    kinds = {medium.name: medium.type for medium in trials(store)[0].media}
    assert kinds == {"examples/0": "image", "examples/1": "image", "table": "table", "page": "html"}
    with pytest.raises(UsageError, match="the table has 3 columns, and the row has 1 values"):
        table.add_data(1)
    with pytest.raises(UsageError, match="Image takes no 'masks' here"):
        wandb.Image(np.eye(3), masks={})


def test_saved_files_are_in_the_trials_folder(store: Path) -> None:
    (store / "out").mkdir()
    (store / "out" / "model.bin").write_bytes(b"weights")
    run = wandb.init(project="p")
    (copy,) = wandb.save("out/*.bin", base_path="out")
    assert Path(copy).read_bytes() == b"weights"
    assert Path(copy).is_relative_to(run.dir)
    with pytest.raises(NotFoundError, match=r"no file matches 'nothing\.bin'"):
        run.save("nothing.bin")


def test_a_second_init_ends_the_run_before(store: Path) -> None:
    first = wandb.init(project="p")
    second = wandb.init(project="other")
    assert not first.trial or not first.trial.is_open
    assert wandb.init(project="p", reinit="return_previous") is second
    third = wandb.init(project="p", reinit="create_new")
    assert second.trial is not None
    assert second.trial.is_open
    assert wandb.run is third


def test_a_run_resumes_by_its_id(store: Path) -> None:
    run = wandb.init(project="p", id="abc", config={"lr": 1})
    run.log({"loss": 1})
    assert run.trial is not None
    run.trial.close(pause=True)
    again = wandb.init(project="p", id="abc", resume="must")
    assert (again.resumed, again.config.lr, again.id) == (True, 1, "abc")
    with pytest.raises(NotFoundError, match=r"there is no experiment 'q' in .* to resume"):
        wandb.init(project="q", id="x", resume="must")
    assert not (store / "experiments" / "q").exists()
    with pytest.raises(NotFoundError, match="'p' has no trial to continue"):
        wandb.init(project="p", id="other", resume="must")
    assert len(trials(store)) == 1


def test_a_disabled_run_keeps_nothing(store: Path) -> None:
    run = wandb.init(project="p", mode="disabled", config={"lr": 1})
    run.log({"loss": 1})
    run.summary["best"] = 1
    run.finish()
    assert run.config.lr == 1
    assert not (store / "experiments").exists()


def test_what_does_nothing_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    run = wandb.init(project="p")
    wandb.watch(object())
    run.watch(object(), log="all")
    wandb.define_metric("loss", summary="min")
    assert wandb.login()
    assert capsys.readouterr().out == (
        "nbckpt: watch() keeps nothing here: log the norms of gradients as metrics\n"
    )
    wandb.alert("low", "the accuracy is low")
    assert capsys.readouterr().out == "low: the accuracy is low\n"


def test_what_is_not_here_is_refused_with_advice() -> None:
    given: Any = 3
    for make, message in (
        (lambda: wandb.init(projct="p"), r"init has no argument 'projct'\. Did you mean 'project'"),
        (lambda: wandb.init(project="p", config="c.yaml"), r"config='c\.yaml' is not a dict: read the file"),
        (lambda: wandb.init(sync_tensorboard=True), r"sync_tensorboard=True here: log .* with wandb\.log"),
        (lambda: wandb.Artifact, r"Artifact is not available in nbckpt\.compat\.wandb: save files"),
        (lambda: wandb.log({"loss": 1}), "log needs an open run"),
        (lambda: wandb.init(project="p").log(given), "has no name for it"),
    ):
        with pytest.raises(UsageError, match=message):
            make()
