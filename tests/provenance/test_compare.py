"""A comparison of trials names the code, the packages and the data that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

import nbckpt
from nbckpt.provenance import background


def train(config: dict[str, float]) -> None:
    nbckpt.report(loss=config["rate"])


def test_a_comparison_names_the_code_that_differs(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "experiments"
    for name in ("a", "b"):
        nbckpt.run(train, {"rate": 0.5}, name=name, folder=folder, executor="inline")
        background.settle()
        (repository / "train.py").write_text("RATE = 2\n")
    compared = nbckpt.trials.compare("a/t0", "b/t0", folder=folder)
    (row,) = compared.provenance
    assert row.name == "changes"
    assert row.values[0] == ""
    assert "train.py" in row.values[1]
    assert "code, packages and data that differ" in str(compared)
    background.settle()


def test_provenance_is_a_frame_too(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="needs pandas")
    for name in ("a", "b"):
        (tmp_path / "data.csv").write_text(name)
        nbckpt.data(tmp_path / "data.csv")
        nbckpt.run(train, {"rate": 0.5}, name=name, folder=tmp_path / "e", executor="inline")
        background.settle()
    frame = nbckpt.trials.compare("a/t0", "b/t0", folder=tmp_path / "e").provenance_frame()
    (row,) = [name for name in frame.index if name.startswith("data ")]
    assert frame.loc[row, "a/t0"] != frame.loc[row, "b/t0"]
