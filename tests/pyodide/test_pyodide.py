"""The quickstart under Pyodide in Node: the wheel and what it asks for there, without a network."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from servers.started import program

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BROWSER = {"sys_platform": "emscripten", "platform_system": "Emscripten", "os_name": "posix", "extra": ""}


@pytest.fixture(scope="module")
def pyodide() -> Path:
    """Return the npm package's folder, where the environment says that there is one."""
    folder = os.environ.get("NBCKPT_PYODIDE")
    if folder is None:
        pytest.skip("npm install pyodide@314.0.6, then set NBCKPT_PYODIDE to node_modules/pyodide")
    return Path(folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel's contents and the pure parts of what it needs in a browser."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(pip, check=True, timeout=240)
    site = folder / "site"
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (ours,) = importlib.metadata.distributions(path=[str(site)])
    for name in needed(ours.requires or []):
        install(importlib.metadata.distribution(name), site)
    return site


def needed(requirements: list[str]) -> list[str]:
    """Return the names of all that these requirements bring along in a browser."""
    waiting, found = list(requirements), dict.fromkeys("")
    for text in waiting:  # grows on the way
        it = Requirement(text)
        if (it.marker is None or it.marker.evaluate(BROWSER)) and canonicalize_name(it.name) not in found:
            found[canonicalize_name(it.name)] = None
            waiting += importlib.metadata.requires(it.name) or []
    return list(found)


def install(package: importlib.metadata.Distribution, site: Path) -> None:
    """Copy an installed package without what is compiled for this machine."""
    for file in package.files or []:
        if file.suffix not in {".so", ".pyd", ".pyc"} and ".." not in file.parts:
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), site / file)


def test_the_wheel_asks_for_nothing_compiled_in_a_browser(site: Path) -> None:
    (ours,) = (it for it in importlib.metadata.distributions(path=[str(site)]) if it.name == "nbckpt")
    names = needed(ours.requires or [])
    assert {"cloudpickle", "filelock", "fsspec", "ipython", "markupsafe"} <= set(names)
    assert not {"blake3", "zstandard"} & set(names)


def test_the_quickstart_runs_in_a_browsers_python(pyodide: Path, site: Path, tmp_path: Path) -> None:
    node = program("node", "apt-get install nodejs")
    command = [node, str(HERE / "quickstart.mjs"), str(pyodide), str(site), str(HERE / "quickstart.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the quickstart ran under Pyodide" in done.stdout
