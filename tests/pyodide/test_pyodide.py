"""The quickstart under Pyodide in Node: the wheel and what it asks for there, without a network."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from lite.wheels import needed, requirements
from pyodide.packages import HERE
from servers.started import program


@pytest.mark.slow
def test_the_wheel_asks_for_nothing_compiled_in_a_browser(wheels: Path) -> None:
    names = set(needed(requirements(next(wheels.glob("nbckpt-*.whl")))))
    assert {"cloudpickle", "filelock", "fsspec", "ipython", "markupsafe"} <= names
    assert not {"blake3", "backports-zstd", "psutil"} & names


def test_the_quickstart_runs_in_a_browsers_python(pyodide: Path, wheels: Path, tmp_path: Path) -> None:
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path / "site")
    node = program("node", "apt-get install nodejs")
    script = [str(HERE / "quickstart.mjs"), str(pyodide), str(tmp_path / "site"), str(HERE / "quickstart.py")]
    done = subprocess.run([node, *script], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the quickstart ran under Pyodide" in done.stdout
