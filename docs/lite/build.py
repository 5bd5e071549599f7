#!/usr/bin/env python3
"""Build a static JupyterLite site with nbckpt in it.

It needs jupyterlite-core, jupyterlite-pyodide-kernel and anywidget. In the browser the notebooks' Python
comes from Pyodide's CDN; with --pyodide from a folder instead, which is copied into the site.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
IN_THE_BROWSER = {"30_000": "3_000", "30,000": "3,000", "216 MB": "22 MB", "half a minute": "a few minutes"}
"""What is smaller there: the memory of a browser is, and its Python is slower."""

SETTINGS = {"jupyter-lite-schema-version": 0, "jupyter-config-data": {"exposeAppInBrowser": True}}


def main() -> None:
    """Build the wheel, the notebooks and the site."""
    options = _options()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        wheels = [_wheel(work / "wheel"), *sorted(options.wheels.glob("*.whl") if options.wheels else ())]
        contents = work / "contents"
        contents.mkdir()
        (contents / "browser.ipynb").write_text((Path(__file__).parent / "browser.ipynb").read_text())
        (contents / "01_quickstart.ipynb").write_text(json.dumps(_adapted(NOTEBOOKS / "01_quickstart.ipynb")))
        (work / "jupyter-lite.json").write_text(json.dumps(SETTINGS))
        if options.pyodide:
            shutil.copytree(options.pyodide, work / "static" / "pyodide")  # where the site looks first
        command = [sys.executable, "-m", "jupyterlite_core", "build", "--no-sourcemaps"]
        command += ["--output-dir", str(options.site.resolve())]
        command += ["--lite-dir", str(work), "--contents", str(contents)]
        command += [f"--piplite-wheels={wheel.resolve()}" for wheel in wheels]
        subprocess.run(command, check=True, cwd=work)
    print(f"open it with: python -m http.server -d {options.site}, at lab/index.html?path=browser.ipynb")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, help="the folder of the site")
    parser.add_argument("--pyodide", type=Path, help="a folder with pyodide.mjs and what belongs to it")
    parser.add_argument("--wheels", type=Path, help="a folder of more wheels for the site's own index")
    return parser.parse_args()


def _wheel(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(pip, check=True)
    return next(folder.glob("nbckpt-*.whl"))


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
