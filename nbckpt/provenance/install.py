"""Install: a virtual environment with the packages of `requirements.txt`, and a program that runs in it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.provenance.packages import origins
from nbckpt.provenance.processes import kill
from nbckpt.provenance.recipe import REQUIREMENTS

ENVIRONMENT = "env"
_LAST_LINES = 8


def make_environment(folder: Path, limit_s: float) -> Path:
    """Make a virtual environment in a recipe's folder, install its packages, and return its Python.

    The list of packages is complete, so pip resolves nothing. nbckpt itself comes from where this one does.

    Raises:
        UsageError: pip failed or took too long.
    """
    import venv  # a browser has none

    venv.create(folder / ENVIRONMENT, with_pip=True, clear=True)
    python = folder / ENVIRONMENT / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    listed = (folder / REQUIREMENTS).read_text("utf-8").splitlines()
    if any(line and not line.startswith("#") for line in listed):
        _checked([*pip, "-r", REQUIREMENTS], folder, limit_s, "pip")
    if not any(line.startswith("nbckpt==") for line in listed):
        _checked([*pip, _own_origin()], folder, limit_s, "pip")
    return python


def _own_origin() -> str:
    """Return what pip installs to get this nbckpt."""
    local = re.sub(r"^(editable: )?file://", "", origins().get("nbckpt", ""))
    if Path(local).is_dir() and local:
        return local
    from importlib.metadata import version

    return f"nbckpt=={version('nbckpt')}"


def _checked(command: Sequence[str], folder: Path, limit_s: float, name: str) -> None:
    status, lines = run_program(command, folder, limit_s)
    if status:
        why = " ".join(lines[-2:]) or f"exit status {status}"
        raise UsageError(f"{name} failed: {why}. Change {str(folder / REQUIREMENTS)!r} and run it yourself")


def run_program(command: Sequence[str], folder: Path, limit_s: float) -> tuple[int, list[str]]:
    """Run a program to its end. Return its exit status, and the last lines of its output.

    Raises:
        UsageError: It cannot be started, or did not end in time; then it and what it started were ended.
    """
    own: dict[str, Any] = {} if sys.platform == "win32" else {"start_new_session": True}
    log = folder / "output.txt"
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **own
            )
        except (OSError, ValueError) as error:
            raise UsageError(f"{command[0]!r} cannot be started: {error}") from None
        try:
            status = process.wait(limit_s)
        except BaseException as error:
            kill(process)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise UsageError(
                f"it did not end within {limit_s:g} s, see {str(log)!r}. Allow more time with --limit"
            ) from None
    return status, log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
