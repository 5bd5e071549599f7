"""Checks that contributors run: `nox -l` lists them, `nox -s lint` runs one.

Each makes an environment of its own. `.ci/run` is what decides; it runs the same commands and more.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]

nox.options.sessions = ["lint", "types", "tests"]
nox.options.error_on_missing_interpreters = False


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, spelling, plain words and the workflow files."""
    session.install("ruff==0.15.*", "codespell>=2.4", "check-jsonschema>=0.33")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("python", "tests/plain_words.py")
    workflows = sorted(map(str, Path(".github/workflows").glob("*.yml")))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)


@nox.session
def package(session: nox.Session) -> None:
    """Build the wheel and the source archive, and check both."""
    session.install("build>=1.2", "check-wheel-contents>=0.6", "twine>=6")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", "dist")
    session.run("twine", "check", "--strict", *sorted(map(str, Path("dist").iterdir())))
    session.run("check-wheel-contents", "dist")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the quick tests, or what follows `--`: `nox -s tests-3.13 -- tests/core`."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def everything(session: nox.Session) -> None:
    """Run all tests, the slow ones too, many of which wait: two workers for each processor."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", str(2 * (os.cpu_count() or 1)), "--all", *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """Run the tests in JupyterLab and Chromium."""
    session.install("-e", ".[test]")
    session.run("pytest", "-m", "browser", *session.posargs)


@nox.session
def start(session: nox.Session) -> None:
    """Walk the first five minutes with the wheel alone: in JupyterLab, IPython, a shell and a script."""
    session.install("-e", ".[dev]")
    folder = Path(session.create_tmp()).resolve()
    session.run("python", "-m", "build", "-w", "--outdir", str(folder / "wheel"))
    session.run("python", "-m", "venv", "--clear", str(folder / "fresh"))
    python = folder / "fresh" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    (wheel,) = (folder / "wheel").glob("*.whl")
    session.run(str(python), "-m", "pip", "install", "-q", str(wheel), "jupyterlab", external=True)
    test = ("--all", "tests/notebook/test_fresh_start.py")
    session.run("pytest", *test, env={"NBCKPT_START_PYTHON": str(python)})


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation, and check its pages: `nox -s site`, then open ci-output/site/index.html.

    With NBCKPT_PYODIDE, a folder of Pyodide, it has a page in which notebooks run: see docs/lite/README.md.
    """
    session.install("-e", ".[docs,test]")
    folder = str(Path("ci-output/site").resolve())
    session.run("mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", folder)
    tests = ("tests/test_site.py", "tests/pyodide/test_lite.py")
    session.run("pytest", "--all", *tests, env={"NBCKPT_SITE": folder})


@nox.session(venv_backend="uv")
def lowest(session: nox.Session) -> None:
    """Run the quick tests with the lowest versions that pyproject.toml allows."""
    session.install("--resolution", "lowest-direct", "-e", ".[test]")
    session.run("pytest", "-n", "auto", *session.posargs)


# From Python 3.12 on, coverage leaves traces and signals to the tests.
@nox.session(python="3.13")
def coverage(session: nox.Session) -> None:
    """Measure which lines of nbckpt the quick tests run, their processes too; fail below the floor."""
    session.install("-e", ".[test]", "coverage>=7.10")
    session.run("coverage", "run", "-m", "pytest", *session.posargs, env={"COVERAGE_CORE": "sysmon"})
    session.run("coverage", "combine", "-q")
    session.run("coverage", "report")
