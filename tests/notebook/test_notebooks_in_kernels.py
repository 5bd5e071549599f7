"""The committed notebooks in kernels that restart or are killed, and beside a real S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbckpt import Tracker
from nbckpt.trials import Catalog, Experiment, Status
from notebook.committed import FOLDER, code_cells, evaluate, kernel, read, restart, run, tags

STATE = """
import hashlib
import pandas
print(hashlib.sha256(features).hexdigest(), hashlib.sha256(model.coef_.tobytes()).hexdigest())
print(pandas.util.hash_pandas_object(digits).sum(), by_digit.to_dict(), accuracy(model))
print(lift.directions[0, :3], [axis.get_title() for axis in figure.axes])
"""


@pytest.mark.slow
def test_a_restarted_kernel_restores_everything(tmp_path: Path) -> None:
    quickstart = read(FOLDER / "01_quickstart.ipynb")
    cells = code_cells(quickstart)
    loss = next(at for at, cell in enumerate(cells) if "loss" in tags(cell))
    restored = next(at for at, cell in enumerate(cells) if cell.id == "restore") + 1
    with kernel(quickstart, tmp_path) as client:
        run(client, cells[:loss])
        before = evaluate(client, STATE)
        restart(client)
        assert evaluate(client, "print('features' in globals())") == "False\n"
        run(client, cells[loss + 1 : restored])
        assert evaluate(client, STATE) == before
        run(client, cells[restored:])


ONCE = """
once = nbckpt.run(train, tuning.trial("t0").config)
once.wait()
for name in ("loss", "accuracy"):
    print(once.trial("t0").metric(name) == tuning.trial("t0").metric(name))
"""


@pytest.mark.slow
def test_trials_of_a_killed_kernel_end_as_without_the_kill(tmp_path: Path) -> None:
    notebook = read(FOLDER / "02_trials.ipynb")
    cells = {cell.id: cell for cell in code_cells(notebook)}
    names = list(cells)
    killed, back = names.index("pause"), names.index("reload")
    with kernel(notebook, tmp_path) as client:
        run(client, [cells[name] for name in names[:killed]])
        restart(client)
        run(client, [cells[name] for name in names[back:]])
        shown = {name: cells[name].outputs[0].data for name in ("quick", "trials", "resume", "curves")}
        once = evaluate(client, ONCE)
    assert "3 done, 1 failed" in shown["quick"]["text/plain"]
    assert "must be a float in the range (0.0, inf). Got 0" in shown["quick"]["text/plain"]
    assert "t0, t1, t2, t3, t4, t5 were interrupted" in shown["trials"]["text/plain"]
    assert "6 trials, 6 done" in shown["resume"]["text/plain"]
    assert "image/png" in shown["curves"]
    assert once == "True\nTrue\n"
    tuning = min((tmp_path / ".nbckpt" / "experiments").glob("train_*"))
    trials = Experiment.read(tuning).trials
    for trial in trials:
        assert trial.status == Status.TERMINATED
        assert [result["training_iteration"] for result in trial.results] == list(range(1, 41))
    assert trials[0].attempts == 2
    assert {trial.attempts for trial in trials} <= {1, 2}


SHOWN = ("trials", "bucket", "bucket-ls", "fetched")
FOUND = "print(repr(found.tolist()), [trial.iteration for trial in fits.trials])"


@pytest.mark.slow
def test_the_bucket_has_all_checkpoints_and_trials(
    s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBCKPT_DEMO_BUCKET", f"{s3_bucket}/demo")
    notebook = read(FOLDER / "03_sync.ipynb")
    cells = {cell.id: cell for cell in code_cells(notebook)}
    with kernel(notebook, tmp_path) as client:
        run(client, cells.values())
        shown = {name: cells[name].outputs[-1].data["text/plain"] for name in SHOWN}
        values, iterations = evaluate(client, FOUND).rsplit(" [", 1)
    assert f"to {s3_bucket}/demo in " in shown["bucket"]
    assert f"2 checkpoints in {s3_bucket}/demo" in shown["bucket-ls"]
    assert "t0, t1, t2 were interrupted" in shown["trials"]
    assert shown["fetched"] == "(30, 1)"
    assert iterations == "30, 30, 30]\n"
    with Tracker(f"{s3_bucket}/demo") as tracker:
        assert not tracker.verify().damages
        there = {}
        tracker.restore("fitted", there)
    assert repr(there["found"].tolist()) == values
    for machine in ("machine-1", "machine-2"):
        assert not Catalog(tmp_path / machine / "experiments").open("fits").running
