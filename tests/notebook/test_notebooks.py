"""The committed notebooks: they are whole, and their outputs are what they say.

After a change to a notebook or to how results look, run it from top to bottom in a fresh folder and
commit it with its outputs; in JupyterLab, where tables of trials are kept up after their cell has ended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from late import Library
from notebook.committed import FOLDER, ROOT, code_cells, read, tags

nbformat = Library("nbformat")

# nbval does not apply updates, so a save that shows its progress on a slow machine looks like two outputs.
QUIET = "import nbckpt.notebook.magic as m\nm.CheckpointMagics.progress_delay = 3600.0\ndel m\n"
CHECKED = "nbval-check-output"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_a_committed_notebook_is_valid_and_has_outputs(subtests: pytest.Subtests) -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        with subtests.test(path.stem):
            notebook = read(path)
            nbformat.validate(notebook)
            assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
            checked = [cell for cell in code_cells(notebook) if CHECKED in tags(cell)]
            assert len(checked) >= 4
            assert all(cell.outputs for cell in checked)
            kinds = {output.output_type for cell in code_cells(notebook) for output in cell.outputs}
            assert "error" not in kinds


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_rerun_notebook_gives_the_committed_outputs(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path)
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "quiet.py").write_text(QUIET)
    nbval = ["-p", "kernels", "--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120"]
    around = {
        "IPYTHONDIR": str(startup.parents[1]),
        "NBCKPT_PROVENANCE": "1",
        "PYTHONPATH": str(ROOT / "tests"),
    }
    sanitize = f"--nbval-sanitize-with={ROOT / 'tests' / 'sanitize.cfg'}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *nbval, sanitize, "."],
        cwd=tmp_path,
        env=os.environ | around,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
