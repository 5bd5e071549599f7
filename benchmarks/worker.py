"""Worker: a process that acts as the notebook's kernel and answers requests, which are JSON lines.

Its `__main__` is almost empty at the start and then serves as the notebook's namespace.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import time
import traceback
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from benchmarks.contenders import CONTENDERS, Contender, Kernel, Kishu, Shell

if TYPE_CHECKING:
    from collections.abc import Callable

_REPORTED = (
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "matplotlib",
    "ipython",
    "blake3",
    "backports.zstd",
)
_LIBRARIES = ("numpy", "pandas", "sklearn.ensemble", "matplotlib.pyplot")


class Worker:
    """Answer requests. The `do` of a request names a public method."""

    def __init__(self) -> None:
        self._kernel = Kernel()
        self._contenders: dict[str, Contender] = {}

    def load(self, contenders: list[str]) -> dict[str, Any]:
        """Import the libraries of *contenders* and of the cells."""
        if any(issubclass(CONTENDERS[name], Kishu) for name in contenders):
            self._kernel = Shell()
        for library in _LIBRARIES:
            importlib.import_module(library)
        for name in contenders:
            self._contenders[name] = CONTENDERS[name](self._kernel)
        return {"versions": _versions((*contenders, *_REPORTED))}

    def run(self, source: str) -> dict[str, Any]:
        """Run a cell."""
        self._kernel.run(source)
        return {}

    def check(self, expression: str) -> dict[str, Any]:
        """Return the value of an expression over the namespace."""
        try:
            return {"value": repr(self._kernel.evaluate(expression))}
        except Exception as error:
            return {"value": f"{type(error).__name__}: {error}"}

    def settle(self) -> dict[str, Any]:
        """Return unused memory to the system."""
        gc.collect()
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        return {}

    def open(self, contender: str, folder: str) -> dict[str, Any]:
        """Prepare for saves into *folder*."""
        Path(folder).mkdir(parents=True)
        self._contenders[contender].open(Path(folder))
        return {}

    def close(self, contender: str) -> dict[str, Any]:
        """Release the resources of the saves."""
        self._contenders[contender].close()
        return {}

    def save(self, contender: str, source: str = "pass") -> dict[str, Any]:
        """Run a cell, then save. The time of the cell counts if the contender saves by running cells."""
        runner = self._contenders[contender]
        if not runner.runs_cells:
            self._kernel.run(source)
        return _timed(lambda: runner.save(source))

    def restore(self, contender: str, folder: str, *, lazy: bool = False) -> dict[str, Any]:
        """Restore the save in *folder* into this kernel's namespace."""
        runner = self._contenders[contender]
        runner.prepare_restore(Path(folder))
        return _timed(lambda: runner.restore(Path(folder), lazy=lazy))

    def write_floor(self, folder: str) -> dict[str, Any]:
        """Write the bytes of the arrays to one file and sync it."""
        file = Path(folder) / "floor"
        buffers = [memoryview(array).cast("B") for array in self._arrays()]
        reply = _timed(lambda: _write(file, buffers))
        file.unlink()
        return reply

    def hash_floor(self, threads: int) -> dict[str, Any]:
        """Hash the bytes of the arrays once."""
        from blake3 import blake3

        def pass_over() -> None:
            for array in arrays:
                blake3(array, max_threads=threads).digest()

        arrays = [memoryview(array).cast("B") for array in self._arrays()]
        return _timed(pass_over)

    def _arrays(self) -> list[Any]:
        import numpy as np

        return [
            value
            for value in self._kernel.variables().values()
            if isinstance(value, np.ndarray) and not value.dtype.hasobject
        ]


def serve() -> None:
    """Answer the requests on stdin until stdin ends."""
    replies = _private_stdout()
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(worker, request.pop("do"))(**request) | {"peak_rss": _peak_rss()}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _timed(work: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    """Measure *work* after collecting garbage and flushing earlier writes to disk."""
    gc.collect()
    if hasattr(os, "sync"):
        os.sync()
    started = time.perf_counter()
    result = work()
    return {"seconds": time.perf_counter() - started, **(result or {})}


def _write(file: Path, buffers: list[memoryview]) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for buffer in buffers:
            rest = buffer
            while rest:  # one call takes at most 2 GiB
                rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _private_stdout() -> TextIO:
    """Reserve stdout for the replies; output of libraries goes to stderr."""
    private = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return private


def _peak_rss() -> int | None:
    """Return the peak resident memory of the process in bytes, or None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _versions(names: tuple[str, ...]) -> dict[str, str]:
    versions = {"python": sys.version.split()[0]}
    for name in names:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
