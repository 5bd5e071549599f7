"""Peers: find the contenders that can run here, and make the environments that they need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent

_LIBRARIES = ("numpy", "pandas", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Own:
    """The requirements of a peer that has its own environment.

    Attributes:
        requirements: The requirements for pip.
        pythons: The Python versions that it runs on, best first.
        does: What it is measured for: it saves namespaces, and so needs their libraries, or it runs trials,
            or it syncs.
    """

    requirements: tuple[str, ...]
    pythons: tuple[str, ...]
    does: str = "saves"


OWN = {
    "kishu": Own(("kishu==0.3.4",), ("3.11", "3.12", "3.13")),
    "ray": Own(("ray==2.6.3",), ("3.11", "3.10", "3.9", "3.8")),
    "ray-tune": Own(("ray[tune]",), ("3.13", "3.12", "3.11", "3.10"), "trials"),
    "ray-tune-1.0.0": Own(("ray[tune]==1.0.0", "protobuf<3.21"), ("3.8", "3.7"), "trials"),
    "awscli": Own(("awscli",), ("3.13", "3.12", "3.11", "3.10"), "sync"),
    "ray-syncer": Own(
        ("ray==2.6.3", "pyarrow<16", "numpy<2", "pandas<3", "requests", "tensorboardX", "setuptools<80"),
        ("3.11", "3.10", "3.9"),
        "sync",
    ),
}
HERE_INSTALLED = ("cloudpickle", "joblib", "dill", "s3fs", "optuna")
PEERS = (*HERE_INSTALLED, *OWN)
SEARCHERS = ("ray-tune", "optuna")
RUNNERS = tuple(name for name, value in OWN.items() if value.does == "trials")
SYNCERS = ("s3fs", *(name for name, value in OWN.items() if value.does == "sync"))


class InstallError(Exception):
    """A peer's environment could not be made."""


def interpreter(peer: str) -> str | None:
    """Return the interpreter that has *peer* installed, or None."""
    if peer in HERE_INSTALLED:
        return sys.executable if find_spec(peer) else None
    python = _python_of(HERE / f".venv-{peer}")
    return str(python) if python.exists() else None


def install(peer: str, python: str | None = None) -> str:
    """Make the environment of *peer* if it does not exist, and return its interpreter.

    Args:
        peer: The name of the peer.
        python: The interpreter to make it with; by default a suitable one on the path.

    Raises:
        InstallError: The environment cannot be made; the message says why. Nothing is left behind.
    """
    if peer not in OWN:
        raise InstallError(f"pip install {peer}")
    folder = HERE / f".venv-{peer}"
    if (_python_of(folder)).exists():
        return str(_python_of(folder))
    own = OWN[peer]
    libraries = _same_libraries() if own.does == "saves" else []
    try:
        _make(folder, python or _suitable(own.pythons))
        _run([str(_python_of(folder)), "-m", "pip", "install", "-q", *own.requirements, *libraries])
    except InstallError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return str(_python_of(folder))


def _make(folder: Path, python: str) -> None:
    _run([python, "-m", "venv", str(folder)])


def _suitable(versions: tuple[str, ...]) -> str:
    """Return an interpreter of one of these versions: this one, one on the path, or one of uv's."""
    if f"{sys.version_info[0]}.{sys.version_info[1]}" in versions:
        return sys.executable
    for wanted in versions:
        named = shutil.which(f"python{wanted}")
        if named and subprocess.run([named, "--version"], capture_output=True, check=False).returncode == 0:
            return named
        if uv := shutil.which("uv"):
            done = subprocess.run([uv, "python", "find", wanted], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return done.stdout.strip()
    raise InstallError(f"needs Python {' or '.join(versions)}, and there is none on the path: give --python")


def _same_libraries() -> list[str]:
    """Return the libraries of the namespaces, at the versions that nbckpt is measured with."""
    wanted = []
    for name in _LIBRARIES:
        try:
            wanted.append(f"{name}=={version(name)}")
        except PackageNotFoundError:
            wanted.append(name)
    return wanted


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InstallError(f"{command[0]}: {error}") from None
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()]
        raise InstallError(last[-1] if last else f"{command[0]} failed")


def _python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
