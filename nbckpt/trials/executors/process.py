"""Trials in separate processes: a crash ends one trial only, and each trial has its own interpreter.

A process is a fresh Python, and gets the function by value over a pair of sockets (on Windows, the ends of a
pipe) that only parent and child hold. If one of them dies, the other sees an end of file at once. In the
child, an `InlineExecutor` runs the trainable; `child.py` carries out the requests. While a trial runs, the
process of the next one starts: `spare.py`. See docs/decisions/0021 and 0153.
"""

from __future__ import annotations

import codecs
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from typing import IO, Any

from nbckpt.provenance.processes import kill
from nbckpt.settings import environment
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.executors.base import (
    Executor,
    Job,
    UnstartedWorker,
    Worker,
    WorkerEndedError,
    WorkerLostError,
)
from nbckpt.trials.executors.interpreter import Interpreter
from nbckpt.trials.executors.output import listener, speaker
from nbckpt.trials.executors.reservations import Needs, ReservationPool, Reserved
from nbckpt.trials.executors.spare import SpareInterpreter
from nbckpt.trials.executors.transport import pack, result_of
from nbckpt.trials.model.metrics import OnResult, Result
from nbckpt.trials.training.function import STOP_TIMEOUT_S

_DRAIN_S = 1.0
"""How many seconds to wait for the last output of a process; other processes may hold the pipe open."""
_EXIT_S = 5.0
"""How many seconds a process may take to end after it has closed its end of the connection."""
_LINES = 3
_TAIL = 16_000
_ASKED_TO_END = {-signal.SIGTERM, -signal.SIGINT}
"""Exit codes of a process that was asked to end, as a kernel asks its processes when it shuts down."""

_log = logging.getLogger("nbckpt")


class ProcessExecutor(Executor):
    """Trials in separate processes, a new process for each attempt.

    No process runs two trials. While other trials wait, one more process starts ahead of time: it imports
    nbckpt, runs nothing of yours, and waits for the next trial. It is a spare. A trial gets it only if the
    environment variables, the working folder and `sys.path` are the same as when it started. A trial with
    GPUs always starts its own process. The executor ends the spare when no trial runs.

    Args:
        stop_timeout: Seconds that a process may take to stop; after that it is killed.
    """

    name = "process"
    reserves = True

    def __init__(self, stop_timeout: float = STOP_TIMEOUT_S) -> None:
        self._stop_timeout = stop_timeout
        self._pool = ReservationPool()
        self._spare = SpareInterpreter()

    def check(self, resources: Mapping[str, float]) -> None:
        """See `Executor.check`: a trial has whole GPUs and processors of this machine."""
        Needs.of(resources).check()

    def most_at_once(self, resources: Mapping[str, float]) -> int:
        """See `Executor.most_at_once`: no more trials than have their resources at the same time."""
        return Needs.of(resources).most_at_once(super().most_at_once(resources))

    def start(self, job: Job) -> Worker:
        """See `Executor.start`. If `setup` fails, the worker's first call raises the error."""
        pickled = pack(job)
        reserved = self._pool.reserve(Needs.of(job.resources), job.waits)
        if reserved is None:
            return UnstartedWorker()
        try:
            python = self._python(reserved, job)
            try:
                return ProcessWorker(job, pickled, self._stop_timeout, reserved, python)
            except BaseException:
                python.end()
                raise
        except BaseException as error:
            reserved.release()
            if not isinstance(error, (OSError, RuntimeError)):
                raise
            raise WorkerLostError(
                f"cannot start a process for {job.name}: {error}. Run fewer at once with max_concurrent, or "
                "use executor='thread'"
            ) from error

    def idle(self) -> None:
        """See `Executor.idle`: end the process that waits for a trial."""
        self._spare.drop()

    def _python(self, reserved: Reserved, job: Job) -> Interpreter:
        """Return a process for a trial, and start the next one if other trials wait."""
        whole = environment(**reserved.environment)
        if reserved.handles:  # the locks of its GPUs, which only a process that starts now can inherit
            return Interpreter(whole, reserved.handles)
        python = self._spare.take(whole)
        if job.is_followed:
            self._spare.prepare(whole)
        return python


class ProcessWorker(Worker):
    """A trainable in its own process, which ends with `stop`.

    Args:
        job: The job to run.
        pickled: The packed job, for the child.
        stop_timeout: See `ProcessExecutor`.
        reserved: What the process has for itself; released when it has ended.
        python: The process.
    """

    def __init__(
        self, job: Job, pickled: bytes, stop_timeout: float, reserved: Reserved, python: Interpreter
    ) -> None:
        self._name = job.name
        self._stop_timeout = stop_timeout
        self._checkpoints = CheckpointFolder(job.folder)
        self._reserved = reserved
        self._owed = 0
        self._sending = threading.Lock()
        self._killed = False
        self._python = python
        self._connection, self._process = python.connection, python.process
        out, err = python.outputs
        self._out, self._err = _Output(out, "stdout"), _Output(err, "stderr")
        self._send(pickled)

    def restore(self, checkpoint: Record) -> None:
        """See `Worker.restore`."""
        self._ask("restore", checkpoint)

    def run(self, on_result: OnResult) -> None:
        """See `Worker.run`."""
        result: Result
        while on_result(result := self._ask("next")) and not result.done:
            pass

    def save(self) -> Record | None:
        """See `Worker.save`."""
        record: Record | None = self._ask("save")
        return record

    def ask_for_checkpoint(self) -> None:
        """See `Worker.ask_for_checkpoint`: the child sends no answer to this request."""
        self._write(pickle.dumps(("ask_for_checkpoint", ())))

    def stop(self) -> None:
        """See `Worker.stop`: a process that does not end in time is killed.

        Raises:
            TrialError: The user's `cleanup` failed; the process has ended all the same.
        """
        if self._connection.closed:
            return
        self._send(pickle.dumps(("stop", ())))
        outcomes = []
        deadline = time.monotonic() + self._stop_timeout
        try:
            while self._connection.poll(max(0.0, deadline - time.monotonic())):
                outcomes.append(self._connection.recv_bytes())
        except (EOFError, OSError):
            code = self._end()
            if code:
                _log.warning("the process of %s %s while it was stopped", self._name, _how(code))
        else:
            _log.warning("%s was asked to stop and did not end: its process is killed", self._name)
            self.kill()
            self._end()
        for data in outcomes:
            result_of(data)

    def kill(self) -> None:
        """See `Worker.kill`: the processes that it started end with it."""
        if self._process.poll() is None:
            self._killed = True
            kill(self._process)

    def _ask(self, request: str, *given: Any) -> Any:
        """Send a request to the child, and return the result.

        Raises:
            NbckptError: The child raised it, now or before, while it made the trainable.
            WorkerLostError: The child is gone.
        """
        self._send(pickle.dumps((request, given)))
        while True:
            try:
                data = self._connection.recv_bytes()
            except (EOFError, OSError):
                raise self._lost() from None
            self._owed -= 1
            result = result_of(data)
            if not self._owed:
                return result

    def _send(self, data: bytes) -> None:
        self._owed += 1
        self._write(data)

    def _write(self, data: bytes) -> None:
        with self._sending, suppress(OSError):  # the next read notices that the child is gone
            self._connection.send_bytes(data)

    def _lost(self) -> WorkerLostError:
        """Return the error that says how the process ended."""
        code = self._end()
        if self._killed:
            return WorkerLostError("its process was killed")
        if code in _ASKED_TO_END:
            return WorkerEndedError(f"its process was asked to end by {signal.Signals(-code).name}")
        lines = _last_lines(self._err.tail)
        output = f". The last it wrote: {' | '.join(lines)}" if lines else ""
        return WorkerLostError(f"the process of {self._name} {_how(code)}{output}")

    def _end(self) -> int:
        """Wait for the end of the process, which is near, and release its resources. Return its exit code."""
        try:
            code = self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:  # it closed its end and still runs: nobody can reach it
            self.kill()
            code = self._process.wait()
        if code:
            kill(self._process)  # ends the children that a crash left behind
            self._checkpoints.sweep()
        self._reserved.release()
        self._python.close()
        self._out.join()
        self._err.join()
        return code


class _Output:
    """Passes the output of a process to the stream of the cell that started the trial.

    Args:
        pipe: The pipe that the process writes to; closed at its end.
        stream: `stdout` or `stderr`.
    """

    def __init__(self, pipe: IO[bytes], stream: str) -> None:
        self.tail = ""
        self._pipe = pipe
        self._stream = stream
        # In a copy of the worker thread's context, which is the context of the cell.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._pass_on,), name="nbckpt-output", daemon=True
        )
        self._thread.start()

    def _pass_on(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        logs, _ = listener.get(), listener.set(None)  # not through the stream, which may have changed by then
        with self._pipe:
            while data := os.read(self._pipe.fileno(), 1 << 16):
                text = decode(data)
                self.tail = (self.tail + text)[-_TAIL:]
                if logs is not None:
                    logs(text)
                with suppress(Exception):  # whatever the user's stream raises, the process must not block
                    stream, by = getattr(sys, self._stream), speaker.get()
                    stream.write(text if by is None else by.says(stream, text))
                    stream.flush()

    def join(self) -> None:
        """Wait until all output was passed on, unless other processes hold the pipe open."""
        self._thread.join(_DRAIN_S)


def _last_lines(written: str) -> list[str]:
    """Return the last lines that a process wrote; after a crash, the lines that say where it was."""
    _, crash, where = written.rpartition("(most recent call first):\n")
    lines = [line.strip() for line in (where if crash else written).splitlines() if line.strip()]
    return lines[:_LINES] if crash else lines[-_LINES:]


def _how(code: int) -> str:
    """Return how a process ended, in words, from its exit code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (perhaps for want of memory)" if name == "SIGKILL" else "")
