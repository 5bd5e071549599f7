"""The notebook of trials: a kernel that is killed while they run goes on with them, and nobody can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbckpt.trials import Experiment, Status
from notebook.committed import FOLDER, code_cells, evaluate, kernel, read, restart, run

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
