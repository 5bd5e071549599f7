"""The notebook of sync, with a bucket of a real S3 server as the place that its last section sends to."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbckpt import Tracker
from nbckpt.trials import Catalog
from notebook.committed import FOLDER, code_cells, evaluate, kernel, read, run

SHOWN = ("trials", "bucket", "bucket-ls", "fetched")
STATE = "print(repr(found.tolist()), [trial.iteration for trial in fits.trials])"


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
        values, iterations = evaluate(client, STATE).rsplit(" [", 1)
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
