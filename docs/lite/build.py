#!/usr/bin/env python3
"""Build a static JupyterLite site with nbckpt in it: `docs/lite/build.py FOLDER`.

It needs jupyterlite-core, jupyterlite-pyodide-kernel and anywidget. In the browser the notebooks' Python
comes from Pyodide's CDN. With --pyodide it comes from a folder, and the site asks no other host.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import ROOT, own_wheel, wheels_beside

HERE = Path(__file__).parent
LOCK = "pyodide-lock.json"
"""Pyodide's list of its packages."""
IN_THE_BROWSER = {"30_000": "3_000", "30,000": "3,000", "216 MB": "22 MB", "half a minute": "a few minutes"}
"""What is smaller there: the memory of a browser is, and its Python is slower."""

SETTINGS = {"jupyter-lite-schema-version": 0, "jupyter-config-data": {"exposeAppInBrowser": True}}


def main() -> None:
    """Build the wheels, the notebooks and the site."""
    options = _options()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "jupyter-lite.json").write_text(json.dumps(SETTINGS))
        wheels = [own_wheel(work / "wheels")]
        packages = {"scikit-learn"}  # the CDN has it
        if options.pyodide:
            wheels += wheels_beside(wheels[0], "widget")
            packages = _copy_pyodide(
                options.pyodide, work / "static" / "pyodide"
            )  # the site looks there first
        command = [sys.executable, "-m", "jupyterlite_core", "build", "--no-sourcemaps"]
        command += ["--output-dir", str(options.site.resolve()), "--lite-dir", str(work)]
        command += ["--contents", str(_notebooks(work / "contents", packages))]
        command += [f"--piplite-wheels={wheel}" for wheel in wheels]
        subprocess.run(command, check=True, cwd=work)
    print(f"open it with: python -m http.server -d {options.site}, at lab/index.html?path=browser.ipynb")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, help="the folder of the site")
    parser.add_argument("--pyodide", type=Path, help="a folder with pyodide.mjs and what belongs to it")
    return parser.parse_args()


def _copy_pyodide(source: Path, target: Path) -> set[str]:
    """Copy Pyodide, whose list then has only the packages that are there; return their names."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.map", "*.d.ts", "console*.html"))
    lock = json.loads((target / LOCK).read_text())
    lock["packages"] = {
        name: about | {"sha256": hashlib.sha256((target / about["file_name"]).read_bytes()).hexdigest()}
        for name, about in lock["packages"].items()
        if (target / about["file_name"]).exists()
    }
    if missing := {"micropip", "packaging"} - lock["packages"].keys():
        sys.exit(
            f"{source} lacks the wheels of {', '.join(sorted(missing))}: docs/lite/README.md has the commands"
        )
    (target / LOCK).write_text(json.dumps(lock))
    return {*lock["packages"]}


def _notebooks(folder: Path, packages: set[str]) -> Path:
    """Write the notebooks of the site into a folder: those whose packages it can have."""
    folder.mkdir()
    shutil.copy(HERE / "browser.ipynb", folder)
    if "scikit-learn" in packages:
        (folder / "01_quickstart.ipynb").write_text(
            json.dumps(_adapted(ROOT / "notebooks/01_quickstart.ipynb"))
        )
    return folder


def _adapted(notebook: Path) -> dict[str, object]:
    """Return a notebook without outputs that installs what it uses, and uses less memory."""
    text = notebook.read_text()
    for here, there in IN_THE_BROWSER.items():
        text = text.replace(here, there)
    made: dict[str, object] = json.loads(text)
    cells = made["cells"]
    assert isinstance(cells, list)
    for cell in cells:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    install = "%pip install -q nbckpt[widget] scikit-learn pandas matplotlib"
    first = {"cell_type": "code", "id": "install", "metadata": {}, "source": install}
    cells.insert(0, first | {"outputs": [], "execution_count": None})
    return made | {"metadata": {"kernelspec": {"name": "python", "display_name": "Python (Pyodide)"}}}


if __name__ == "__main__":
    main()
