"""Packages for a browser: our wheel, and of what is installed here what it asks for there."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BROWSER = {
    "sys_platform": "emscripten",
    "platform_system": "Emscripten",
    "os_name": "posix",
    "python_version": "3.14",
}
PURE = "Wheel-Version: 1.0\nGenerator: nbckpt's tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
COMPILED = {".so", ".pyd", ".pyc"}


@pytest.fixture(scope="session")
def pyodide() -> Path:
    """Return the npm package's folder, where the environment says that there is one."""
    folder = os.environ.get("NBCKPT_PYODIDE")
    if folder is None:
        pytest.skip("npm install pyodide@314.0.6, then set NBCKPT_PYODIDE to node_modules/pyodide")
    return Path(folder)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with our wheel, and pure ones of all that it needs in a browser."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(pip, check=True, timeout=240)
    for name in needed(requirements(next(folder.glob("*.whl"))), "widget"):
        pack(importlib.metadata.distribution(name), folder)
    return folder


def requirements(wheel: Path) -> list[str]:
    """Return what a wheel asks for."""
    (ours,) = importlib.metadata.distributions(path=[str(wheel)])
    return ours.requires or []


def needed(requirements: list[str], extra: str = "") -> list[str]:
    """Return the names of all that these requirements, with one extra, bring along in a browser."""
    waiting, names = list(requirements), set[str]()
    for text in waiting:  # grows on the way
        requirement = Requirement(text)
        name, marker = canonicalize_name(requirement.name), requirement.marker
        if (marker is None or marker.evaluate(BROWSER | {"extra": extra})) and name not in names:
            names.add(name)
            waiting += importlib.metadata.requires(requirement.name) or []
    return sorted(names)


def pack(package: importlib.metadata.Distribution, folder: Path) -> Path:
    """Make a wheel of an installed package without what is compiled for this machine."""
    wheel = folder / f"{package.name.replace('-', '_')}-{package.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files_of(package):
            changed = {"WHEEL": PURE, "RECORD": ""}.get(file.name)
            archive.writestr(str(file), file.read_binary() if changed is None else changed)
    return wheel


def files_of(package: importlib.metadata.Distribution) -> Iterator[importlib.metadata.PackagePath]:
    """Yield what would be installed in a browser."""
    for file in package.files or []:
        if file.suffix not in COMPILED and ".." not in file.parts and file.name != "direct_url.json":
            yield file
