"""Process: start workers, send them requests, and watch their memory from outside.

A thread inside the worker would not run while a pickler holds the interpreter's lock.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from types import TracebackType

REPOSITORY = Path(__file__).resolve().parent.parent

_START = "import benchmarks.worker as _worker; _worker.serve()"
_SAMPLE_S = 0.001


class WorkerError(Exception):
    """A worker could not fulfil a request, or it died."""


class FileStat(NamedTuple):
    """A process's memory in bytes: before a request, at its peak meanwhile, and after."""

    before: int
    peak: int
    after: int


class Process:
    """A worker process; use it in a `with` block.

    Args:
        python: The interpreter of the contender's environment.
        folder: The folder for the worker's log and private files.
        contenders: The contenders to load.
    """

    def __init__(self, python: str, folder: Path, contenders: list[str]) -> None:
        self._log = folder / f"worker-{'-'.join(contenders)}.log"
        private = {
            "NBCKPT_SECRET_FILE": str(folder / "secret"),
            "KISHU_PATH_ROOT": str(folder / "kishu"),
        }
        with self._log.open("w") as log:
            self._child = subprocess.Popen(
                [python, "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=REPOSITORY,
                env=os.environ | private,
            )
        self.versions: dict[str, str] = self.ask("load", contenders=contenders)["versions"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        if error is not None:
            self._child.kill()
        self._child.wait()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send one request and return the reply.

        Raises:
            WorkerError: The request failed; the worker's log has the traceback.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise WorkerError(f"the worker ended during {do!r}: {self._last_words()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            with self._log.open("a") as log:
                log.write(reply["trace"])
            raise WorkerError(f"{do}: {reply['error']}")
        return reply

    def watch(self, do: str, **request: Any) -> FileStat | None:
        """Send a request and watch the worker's memory meanwhile.

        The worker's own memory counts: anonymous and shared memory, but not pages of mapped files. If the
        system does not report it, the peak of all resident memory is used.
        """
        before_all = self.ask("settle")["peak_rss"]
        before = self._memory()
        if before is None:
            after_all = self.ask(do, **request)["peak_rss"]
            return None if after_all is None else FileStat(before_all, after_all, before_all)
        peak, done = before, threading.Event()

        def sample() -> None:
            nonlocal peak
            while not done.wait(_SAMPLE_S):
                peak = max(peak, self._memory() or 0)

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            self.ask(do, **request)
        finally:
            done.set()
            sampler.join()
        self.ask("settle")
        after = self._memory() or 0
        return FileStat(before, max(peak, after), after)

    def _memory(self) -> int | None:
        """Return the child's own memory in bytes, or None if there is no /proc."""
        try:
            status = Path(f"/proc/{self._child.pid}/status").read_text()
        except OSError:
            return None
        fields = dict(line.split(":", 1) for line in status.splitlines())
        try:
            return 1024 * sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem"))
        except KeyError:
            return None

    def _last_words(self) -> str:
        lines = self._log.read_text().strip().splitlines()
        return lines[-1] if lines else "it said nothing"
