"""Wheels for a browser: our own, and pure ones of its dependencies, made from the packages installed here.

So the site needs no package from elsewhere, and holds the versions with which it was built.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
BROWSER = {
    "sys_platform": "emscripten",
    "platform_system": "Emscripten",
    "os_name": "posix",
    "python_version": "3.14",
}
PURE = "Wheel-Version: 1.0\nGenerator: nbckpt's site\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
COMPILED = {".so", ".pyd", ".pyc"}


def own_wheel(folder: Path) -> Path:
    """Build the wheel of nbckpt."""
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(pip, check=True, timeout=240)
    return next(folder.glob("nbckpt-*.whl"))


def wheels_beside(wheel: Path, extra: str = "") -> list[Path]:
    """Make a wheel of each package that a wheel brings along in a browser, beside it."""
    names = needed(requirements(wheel), extra)
    return [pack(importlib.metadata.distribution(name), wheel.parent) for name in names]


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
