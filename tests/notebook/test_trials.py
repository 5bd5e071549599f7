"""Trials as one types them: %ckpt run, track, trials, show, pause, stop, resume, best, restore, rm."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbckpt.trials import Catalog, Status
from nbckpt.trials.engine.open_trial import end_all, open_trials
from notebook.conftest import Notebook
from notebook.test_magic import completions
from waiting import until

TRAIN = """
import threading, nbckpt
gate = threading.Semaphore(0)
seen = []
def train(config):
    seen.append(config)
    start = nbckpt.get_checkpoint()
    for i in range(start.to_dict()["step"] if start else 0, 4):
        if config.get("fails") and i == 2:
            raise ValueError("it went wrong")
        if config.get("waits"):
            gate.acquire()
        nbckpt.report(loss=config.get("lr", 1) / (i + 1), checkpoint={"step": i + 1, "not a name": i})
def folders(config):
    with nbckpt.trials.checkpoint_dir(7) as folder:
        (folder / "model.txt").write_text("weights")
    nbckpt.report(loss=0)
"""


@pytest.fixture
def trained(notebook: Notebook) -> Notebook:
    """A notebook with functions to train."""
    notebook.run(TRAIN)
    return notebook


def wait(notebook: Notebook) -> None:
    """Let the newest experiment go on to its end."""
    assert notebook.run("gate.release(1000)", "%ckpt trials").experiment.wait(60)


def test_values_are_literals_or_variables_also_in_lists(trained: Notebook) -> None:
    trained.run("data = object()")
    trained.run(
        "%ckpt run train lr=0.1 data=data opt='adam w' layers=[64, 32] model/depth=2 pair=(1, data) "
        "words={'a': data} --grid n=1,2 --wait"
    )
    data = trained.names["data"]
    assert trained.names["seen"][0]["data"] is data
    assert sorted(trained.names["seen"], key=lambda trial: trial["n"]) == [
        {"lr": 0.1, "data": data, "opt": "adam w", "n": n, "pair": (1, data), "words": {"a": data}}
        | {"layers": [64, 32], "model": {"depth": 2}}
        for n in (1, 2)
    ]


def test_a_grid_of_one_list_tries_each_item(notebook: Notebook) -> None:
    notebook.run("def train(config): pass\nrates, several = [1, 2, 3], range(1, 4)")
    notebook.names["array"] = np.arange(1, 4)

    def tried(grid: str) -> list[object]:
        made = notebook.run(f"%ckpt run train --grid {grid} --executor inline")
        return [trial.config["lr"] for trial in made.trials]

    for grid in ("lr=[1,2,3]", "lr=rates", "lr=several", "lr=array"):
        assert tried(grid) == [1, 2, 3], grid
    assert tried("lr=[1,2],[3]") == [[1, 2], [3]]


def test_a_grid_below_a_dict_of_the_notebook_leaves_it_alone(trained: Notebook) -> None:
    trained.run("base = {'lr': 1, 'n': {'x': 2}}")
    made = trained.run("%ckpt run train opt=base --grid opt/n/x=3,4 --wait")
    assert [trial.config["opt"] for trial in made.trials] == [{"lr": 1, "n": {"x": x}} for x in (3, 4)]
    assert trained.names["base"] == {"lr": 1, "n": {"x": 2}}


def test_options_of_run_reach_the_experiment(trained: Notebook) -> None:
    experiment = trained.run(
        "%ckpt run train --grid lr=1,2 --grid n=3,4 --samples 2 --name e --stop training_iteration=2 x=5 "
        "--concurrent 3 --failures 1 --keep 2 --metric loss --mode min --every 3 --wait"
    )
    spec = experiment.spec
    assert (experiment.name, len(experiment.trials)) == ("e", 8)
    assert [trial.iteration for trial in experiment.trials] == [2] * 8
    assert {trial.config["x"] for trial in experiment.trials} == {5}
    assert (spec.max_concurrent, spec.max_failures, spec.checkpoint_every) == (3, 1, 3)
    assert (spec.metric, spec.mode, spec.keep.count) == ("loss", "min", 2)
    assert trained.run("%ckpt run train --stop 60 --wait").spec.stop == 60


def test_run_continues_an_existing_name_unless_resume_never(trained: Notebook) -> None:
    trained.run("%ckpt run train --name e --wait")
    assert len(trained.run("%ckpt run train --name e --grid lr=1,2 --wait").trials) == 3
    assert "there is an experiment 'e' already" in trained.error("%ckpt run train --name e --resume never")
    assert "there is no experiment 'f'" in trained.error("%ckpt run train --name f --resume must")


WRONG = [
    ("run", "required: FUNC"),
    ("run trian", "there is no function 'trian'. Did you mean 'train'?"),
    ("run train lr", "'lr' has no value. Write NAME=VALUE"),
    ("run train lr=1,2", "'lr=1,2': to try each value, --grid lr=1,2; for one tuple, lr=(1,2)"),
    ("run train opt=adam", "'opt=adam': there is no variable adam. For a text write it in quotes: 'adam'"),
    ("run train opt=see", "Did you mean 'seen'?"),
    ("run train lr=1+", "values are Python literals or names of variables"),
    ("run train lr=open('x')", "values are Python literals or names of variables"),
    ("run train --grid lr=", "has no value"),
    ("run train lr=1 lr=2", "lr is given twice, as lr=1 and as lr=2: leave one out"),
    ("run train --grid lr=1,2 --grid lr=3", "as lr=1,2 and as lr=3: give all its values in one --grid"),
    ("run train lr=1 --grid lr=2,3", "lr has a value and a grid: leave out lr=… or --grid lr=…"),
    ("run train lr=1 lr/x=2", "'lr/x' needs a dict 'lr', and lr is 1"),
    ("run train --executor nope", "there is no executor 'nope'"),
    ("run train --mode best", "invalid choice: 'best'"),
    ("run train --stop soon", "there is no variable soon"),
    ("run train --samples 0", "num_samples=0 is too few"),
    ("run train --name 'a b'", "cannot name an experiment"),
    ("run seen", "is not a function"),
    ("run twice", "twice takes (a, b): a trial's function takes (config)"),
    ("run nothing.py:train", "there is no file 'nothing.py'"),
    ("run math:trian", "there is no function 'trian' in math"),
    ("trials", "there is no experiment: start one with %ckpt run"),
    ("best --metric loss --mode min", "there is no experiment"),
    ("pause", "there is no experiment"),
    ("show t0", "there is no experiment"),
    ("restore t0@1", "there is no experiment"),
]


def test_an_error_is_one_line_with_advice(trained: Notebook, subtests: pytest.Subtests) -> None:
    trained.run("def twice(a, b): pass")
    for line, words in WRONG:
        with subtests.test(line):
            said = trained.error(f"%ckpt {line}")
            assert said.startswith("UsageError: ")
            assert words in said
            assert "\n" not in said


UNKNOWN = [
    ("best --metric los --mode min", "no trial of 'e' reported 'los': there are loss"),
    ("best", "which metric? %ckpt best --metric loss --mode min"),
    ("trials f", "there is no experiment 'f': there are e"),
    ("show t9", "'e' has no trial 't9': there are t0"),
    ("resume nosuch", "there is no experiment 'nosuch': there are e"),
    ("show f/t0", "there is no experiment 'f'"),
    ("restore t0@9", "t0 has no checkpoint of step 9: there are 1, 2, 3, 4"),
    ("restore t0@4 nope", "e/t0@4 has no variable 'nope'. It has step, not a name"),
    ("restore e", "e is an experiment, and not a checkpoint. Restore a trial's newest"),
    ("rm e/t0", "e/t0 is a trial. Remove its checkpoints, such as e/t0@10"),
    ("rm e/t9", "'e' has no trial 't9'"),
    ("note e x", "e is an experiment. Name one of its trials, such as e/t0"),
    ("pause", "there is nothing to pause in e: 1 trial, 1 done"),
    ("stop t0", "there is nothing to stop in e/t0"),
    ("checkpoint", "there is nothing to checkpoint in e: 1 trial, 1 done"),
    ("resume", "'e' has nothing to resume"),
    ("trials --columns loss,loss", "'loss' is given twice"),
]


def test_an_unknown_name_is_shown_with_the_known_ones(trained: Notebook, subtests: pytest.Subtests) -> None:
    trained.run("%ckpt run train --name e --wait")
    for line, words in UNKNOWN:
        with subtests.test(line):
            said = trained.error(f"%ckpt {line}")
            assert said.startswith(("UsageError: ", "NotFoundError: "))
            assert words in said


def test_trials_shows_the_newest_and_names_the_others(trained: Notebook) -> None:
    trained.run("%ckpt run train fails=1 --name first --wait")
    shown = trained.run("%ckpt run train --name second --wait", "%ckpt trials")
    assert shown.experiment.name == "second"
    ((name, trials, began),) = shown.others
    assert (name, trials) == ("first", "1 trial, 1 failed")
    assert "ago" in began.text or began.text == "just now"
    assert trained.run("%ckpt trials first").experiment.name == "first"


def test_the_status_summarizes_the_newest_experiment(trained: Notebook) -> None:
    assert "experiment" not in str(trained.run("%ckpt"))
    trained.run("%ckpt run train --name e --wait")
    assert "Newest experiment e: 1 trial, 1 done. Show it: %ckpt trials" in str(trained.run("%ckpt"))


def test_resume_continues_where_pause_stopped(trained: Notebook) -> None:
    experiment = trained.run("%ckpt run train waits=1 --grid lr=1,2 --name e --concurrent 2")
    assert str(trained.run("%ckpt pause")).startswith("Pausing t0, t1 of e")
    wait(trained)
    assert [trial.status for trial in experiment.trials] == ["PAUSED"] * 2
    assert "nothing to pause" in trained.error("%ckpt pause t0")
    trained.run("%ckpt resume t0 --wait")
    assert [trial.status for trial in experiment.trials] == ["TERMINATED", "PAUSED"]
    trained.run("%ckpt stop e/t1")
    assert experiment.trials[1].status == "TERMINATED"


def test_a_requested_checkpoint_comes_with_the_next_result(trained: Notebook) -> None:
    trained.run(
        "def counts(config):\n    for i in range(2):\n        gate.acquire()\n"
        "        nbckpt.report(i=i, checkpoint={'i': i} if nbckpt.should_checkpoint() else None)\n"
    )
    experiment = trained.run("%ckpt run counts --grid lr=1,2 --name e --concurrent 2")
    until(lambda: [trial.status for trial in experiment.trials] == ["RUNNING"] * 2)
    said = str(trained.run("%ckpt checkpoint"))
    assert said.startswith("t0, t1 of e save a checkpoint with the next result.")
    assert "t1 of e saves a checkpoint" in str(trained.run("%ckpt checkpoint e/t1"))
    wait(trained)
    assert [trial.checkpoint_name for trial in experiment.trials] == ["checkpoint_000001"] * 2


def test_output_after_the_end_of_the_cell_is_in_the_log(trained: Notebook) -> None:
    trained.run(
        "def talks(config):\n    for i in range(3):\n        gate.acquire()\n"
        "        print('at', i)\n        nbckpt.report(i=i)\n"
    )
    trained.run("import sys\nstreams = sys.stdout, sys.stderr")
    experiment = trained.run("%ckpt run talks --name e")  # IPython has taken its own `write` back now
    for i in range(3):
        trained.run("gate.release()" if i != 1 else "%%ckpt save inner\ngate.release()")
        until(lambda: experiment.trials[0].iteration == i + 1)  # noqa: B023  it is done within this turn
    assert experiment.wait(60)
    trained.run("2 + 2")
    assert experiment.trials[0].log() == ["at 0", "at 1", "at 2"]
    assert "at 2" in str(trained.run("%ckpt show t0"))
    left = [getattr(stream, "__dict__", {}).get("write") for stream in trained.names["streams"]]
    assert "teeing" not in str(left)
    assert "_put_on" not in str(left)


def test_a_failed_trial_is_shown_and_resumed_on_request(trained: Notebook) -> None:
    shown = str(trained.run("%ckpt run train fails=1 --name e --wait", "%ckpt show t0"))
    assert "e/t0: failed, 2 results" in shown
    assert 'raise ValueError("it went wrong")' in shown
    assert "Retry failed trials: %ckpt resume e --errored" in trained.error("%ckpt resume")
    trained.run("train.__code__ = (lambda config: nbckpt.report(loss=0)).__code__")
    experiment = trained.run("%ckpt resume --errored --wait")
    assert experiment.trials[0].status == "TERMINATED"


def test_best_uses_the_experiments_metric_or_the_given_one(trained: Notebook) -> None:
    trained.run("%ckpt run train --grid lr=2,1,3 --name e --metric loss --mode min --wait")
    assert trained.run("%ckpt best").trial.id == "t1"
    assert trained.run("%ckpt best e --metric loss --mode max").trial.id == "t2"
    assert trained.run("%ckpt trials --sort best").page().tables[0].rows[0][0].text == "t1"


@pytest.mark.slow
def test_the_hint_of_a_metric_with_a_space_can_be_typed(trained: Notebook) -> None:
    trained.run("def spaced(config): nbckpt.report({'val loss': config['lr']})")
    hint = trained.run("%ckpt run spaced --grid lr=1,2 --name e --wait").page().hints[0].command
    assert trained.run(hint).trial.id == "t0"
    assert trained.error("%ckpt best").endswith(hint.replace(" e ", " "))


def test_learning_curves_are_a_picture_with_words(trained: Notebook) -> None:
    trained.run("%ckpt run train --grid lr=2,1,3 --name e --wait")
    shown = trained.run("%ckpt run folders --name f --wait", "%ckpt plot e").page()
    assert (shown.headline, shown.notes) == ("e: loss", ())
    alt = "loss of t1, t0, t2 of e, by iteration. Best by loss (min): t1, 0.25."
    assert shown.pictures[0].alt == alt
    assert shown.pictures[0].data.startswith(b"<?xml")
    chosen = trained.run("%ckpt plot e t2 t0 --metric loss").picture.alt
    assert chosen.startswith("loss of t2, t0 of e, by iter")
    assert trained.run("%ckpt plot e/t1 t0").picture.alt.startswith("loss of t1, t0 of e, by iter")
    assert trained.run("%ckpt plot").picture.alt == trained.run("%ckpt plot t0").picture.alt
    for line, words in {
        "plot e/t0 f/t0": "e, f are different experiments",
        "plot g": "there is no experiment 'g'",
        "plot t9": "'f' has no trial 't9'",
        "plot e --metric los": "no trial of 'e' reported 'los': there are loss",
    }.items():
        assert words in trained.error(f"%ckpt {line}")
    assert completions(trained, "%ckpt plot f f/t") == ["f/t0"]


def test_trials_are_shown_page_by_page_the_best_first(trained: Notebook) -> None:
    trained.run("%ckpt run train --grid lr=2,1,3 --name e --wait")
    shown = trained.run("%ckpt trials e -n 2 --page 2").page()
    assert [row[0].text for row in shown.tables[0].rows] == ["t2"]
    assert "trials 3-3 of 3" in shown.notes
    sorted_ = trained.run("%ckpt trials -n 2 --page 1 --metric loss --mode min").page()
    assert [row[0].text for row in sorted_.tables[0].rows] == ["t1", "t0"]
    assert "so the last is page 2" in trained.error("%ckpt trials -n 2 --page 3")
    assert "which loss is best" in trained.error("%ckpt trials --metric loss")


def test_a_trials_dict_is_restored_and_undo_reverts_it(trained: Notebook) -> None:
    trained.run("%ckpt run train --name e --wait", "step = live = [1]")
    assert trained.run("%ckpt restore t0@3 --dry-run").changes == {"step": "changed"}
    assert trained.names["step"] == [1]
    result = trained.run("%ckpt restore e/t0@3")
    assert trained.names["step"] == 3
    assert result.rest == ("not a name",)
    trained.run("%ckpt undo")
    assert trained.names["step"] is trained.names["live"]
    trained.run("%ckpt restore t0 step --as newest_")
    assert trained.names["newest_step"] == 4


def test_restoring_a_trials_folder_shows_its_path(trained: Notebook) -> None:
    result = trained.run("%ckpt run folders --name e --wait", "%ckpt restore t0@7")
    assert (Path(result.path) / "model.txt").read_text() == "weights"
    assert str(result.path) in str(result)


def test_a_name_of_checkpoint_and_trial_means_the_checkpoint(trained: Notebook) -> None:
    """The output also names the trial."""
    trained.run("%ckpt run train --name e --wait", "kept = 1\n%ckpt save t0 kept")
    shown = str(trained.run("%ckpt show t0"))
    assert shown.startswith("t0@1")
    assert "The trial is e/t0." in shown
    assert "The trial is e/t0." in str(trained.run("%ckpt restore t0"))
    assert "e/t0: done" in str(trained.run("%ckpt show e/t0"))


def test_rm_removes_experiments_and_checkpoints_together(trained: Notebook, tmp_path: Path) -> None:
    trained.run("%ckpt run train --name e --wait", "kept = 1\n%ckpt save kept kept")
    folder = tmp_path / ".nbckpt" / "experiments" / "e"
    assert "Would remove the experiment e" in str(trained.run("%ckpt rm e --dry-run"))
    assert folder.is_dir()
    assert "Removed kept@1, the experiment e" in str(trained.run("%ckpt rm kept e"))
    assert not folder.exists()
    assert "Restored " in str(trained.run("%ckpt undo"))
    assert trained.run("%ckpt ls").total == 1
    assert "e/t0: done" in str(trained.run("%ckpt show e/t0"))


@pytest.mark.parametrize("name", ["e", "e/t1", "t1"])
def test_rm_older_keeps_the_newest_checkpoint_of_trials(trained: Notebook, name: str) -> None:
    trained.run("%ckpt run train --samples 2 --name e --wait")

    def steps(trial: str) -> list[str]:
        return [entry.removeprefix(f"{trial}@") for entry in completions(trained, f"%ckpt restore {trial}@")]

    assert steps("t0") == steps("t1") == ["4", "3", "2", "1"]
    assert "Would remove" in str(trained.run(f"%ckpt rm {name} --older --dry-run"))
    trained.run(f"%ckpt rm {name} --older")
    assert (steps("t0"), steps("t1")) == (["4"] if name == "e" else ["4", "3", "2", "1"], ["4"])
    assert "no trial has an older checkpoint" in trained.error(f"%ckpt rm {name} --older")
    trained.run("%ckpt undo")
    assert steps("t0") == steps("t1") == ["4", "3", "2", "1"]


@pytest.mark.slow
def test_an_experiment_that_runs_is_not_removed(trained: Notebook) -> None:
    trained.run("%ckpt run train waits=1 --name e")
    assert "e is running. Stop it first: %ckpt stop e" in trained.error("%ckpt rm e")
    wait(trained)


def test_functions_experiments_and_trials_are_completed(trained: Notebook) -> None:
    trained.run("%ckpt run train --name morning --wait", "%ckpt run train --name evening --wait")
    assert completions(trained, "%ckpt run tr") == ["train"]
    assert "seen" not in completions(trained, "%ckpt run ")
    assert completions(trained, "%ckpt trials mor") == ["morning"]
    assert completions(trained, "%ckpt pause ") == ["evening", "morning", "t0", "evening/t0"]
    assert completions(trained, "%ckpt show t") == ["t0"]
    assert completions(trained, "%ckpt restore t0@") == ["t0@4", "t0@3", "t0@2", "t0@1"]
    assert completions(trained, "%ckpt rm eve") == ["evening"]
    assert completions(trained, "%ckpt run train --sa") == ["--samples"]


def test_an_unpicklable_object_is_named_in_one_line(trained: Notebook) -> None:
    trained.run("lock = threading.Lock()\ndef locked(config): lock.acquire()")
    experiment = trained.run("%ckpt run locked --executor process --wait")
    assert experiment.trials[0].status == "ERROR"
    assert "cannot send" in str(experiment)
    assert "lock" in str(experiment)
    assert "use executor='thread'" in str(experiment)


def test_without_ray_the_error_names_the_package(trained: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install" in trained.error("%ckpt run train --executor ray")


def test_running_trials_are_synced(trained: Notebook, tmp_path: Path) -> None:
    there = (tmp_path / "there").as_uri()
    trained.run(f"%ckpt run train --grid lr=1,2 --name e --sync {there} --wait")
    assert (tmp_path / "there" / "e" / "experiment.json").is_file()
    assert (tmp_path / "there" / "e" / "t1" / "checkpoint_000004.json").is_file()
    assert "is not a URL" in trained.error("%ckpt run train --name other --sync there")


def test_show_describes_the_named_checkpoint(trained: Notebook) -> None:
    shown = trained.run("%ckpt run train --name e --wait", "%ckpt show e/t0@2")
    assert str(shown).startswith("e/t0@2: loss ")
    assert "step        int              17 bytes  2" in str(shown)
    assert str(shown).endswith("Restore: %ckpt restore e/t0@2")
    assert str(trained.run("%ckpt show t0")).endswith("Restore the newest: %ckpt restore e/t0")
    assert "there are 1, 2, 3, 4" in trained.error("%ckpt show t0@9")


@pytest.fixture
def cells(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A notebook that has imported nbckpt; no trial stays open."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    notebook.run("import nbckpt\n%reload_ext nbckpt")
    yield notebook
    for trial in open_trials():
        trial.finish()
        trial.experiment.wait()


def trials() -> Any:
    return Catalog(Path(os.environ["NBCKPT_STORE"], "experiments")).open("e").trials


def test_later_cells_report_and_the_next_track_ends_the_trial(cells: Notebook) -> None:
    cells.run("run = nbckpt.track('e', lr=0.1)", "for i in range(3): nbckpt.report(loss=i)")
    cells.run("run = nbckpt.track('e', lr=0.2)")
    first, second = trials()
    assert (first.status, first.iteration, second.status) == (Status.TERMINATED, 3, Status.RUNNING)


def test_a_cell_that_runs_again_ends_what_it_opened(cells: Notebook) -> None:
    cells.run("name = 'e'", "run = nbckpt.track(name)", "name = 'other'", "run = nbckpt.track(name)")
    assert [trial.trial_name for trial in open_trials()] == ["other/t0"]


def test_two_trials_of_one_cell_stay_open(cells: Notebook) -> None:
    cells.run("a = nbckpt.track('a'); b = nbckpt.track('b')", "a.report(loss=1); b.report(loss=2)")
    assert len(open_trials()) == 2


def test_an_error_of_a_cell_that_reported_fails_the_trial(cells: Notebook) -> None:
    cells.run("run = nbckpt.track('e')")
    assert "division by zero" in cells.error("1 / 0")
    assert open_trials()
    cells.error("run.report(loss=1)\n1 / 0")
    (trial,) = trials()
    assert (trial.status, trial.error) == (Status.ERROR, "ZeroDivisionError: division by zero")
    assert "1 / 0" in trial.traceback
    assert "IPython" not in trial.traceback.splitlines()[1]
    assert not open_trials()


def test_an_error_after_a_report_of_a_thread_fails_nothing(cells: Notebook) -> None:
    cells.run("import threading\nrun = nbckpt.track('e')")
    cells.error(
        "thread = threading.Thread(target=run.report, kwargs={'loss': 1})\nthread.start(); thread.join()\n1/0"
    )
    assert open_trials()


@pytest.mark.parametrize("stop", ["KeyboardInterrupt", "__import__('asyncio').CancelledError"])
def test_stop_leaves_the_trial_open_and_the_end_pauses_it(stop: str, cells: Notebook) -> None:
    """Stop raises the one in a cell, and the other in a cell that awaits something."""
    cells.run("run = nbckpt.track('e')")
    cells.error(f"run.report(loss=1)\nraise {stop}")
    cells.run("run.report(loss=2)")
    assert trials()[0].iteration == 2
    cells.error(f"run.report(loss=3)\nraise {stop}")
    cells.shell.events.trigger("post_run_cell", None)  # so ends a cell that Stop ended before it began
    cells.shell.kernel = object()
    try:
        end_all()
    finally:
        del cells.shell.kernel
    assert trials()[0].status == Status.PAUSED


def test_a_cell_magic_runs_the_cell_as_the_trial(cells: Notebook) -> None:
    cells.run("lr = 0.5", "%%ckpt track e lr=lr\nfor i in range(3): nbckpt.report(loss=lr * i)\nlast = i")
    cells.error("%%ckpt track e lr=2\nnbckpt.report(loss=1)\n1 / 0")
    done, failed = trials()
    assert (done.status, done.config, done.iteration) == (Status.TERMINATED, {"lr": 0.5}, 3)
    assert (failed.status, cells.names["last"]) == (Status.ERROR, 2)


def test_a_line_magic_opens_a_trial_for_the_next_cells(cells: Notebook) -> None:
    cells.run("run = %ckpt track e lr=0.5", "run.report(loss=1)", "run.finish()")
    cells.run("run = %ckpt track e --resume")
    assert [trial.status for trial in trials()] == [Status.TERMINATED, Status.RUNNING]


def test_what_later_cells_print_is_in_the_log(cells: Notebook) -> None:
    cells.run("run = nbckpt.track('e')", "print('epoch 1')")
    assert trials()[0].log() == ["epoch 1"]


def test_one_quiet_line_follows_the_trial(cells: Notebook, published: list[dict[str, Any]]) -> None:
    cells.run("run = nbckpt.track('e', lr=0.1)", "for i in range(100): run.report(loss=i)", "1")
    cells.run("run.finish()\nrun")
    lines = [output for output in published if "e/t0" in output["data"].get("text/plain", "")]
    first, *updates = lines
    assert first["data"]["text/plain"] == "e/t0: open"
    assert lines[-1]["data"]["text/plain"].startswith("e/t0: done, 100 results, loss 99")
    assert not first.get("update")
    assert all(output.get("update") for output in updates)
    assert len({output["transient"]["display_id"] for output in lines}) == 1
    assert len(lines) < 20
