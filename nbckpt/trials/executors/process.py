"""Trials in processes of their own: a crash ends one trial only, and each has an interpreter to itself.

A process is a fresh Python, never a fork of the kernel, whose threads and libraries would not survive
it. It is started here and not by `multiprocessing`, which would run the user's script again in it: one
without an `if __name__ == "__main__"` would start its experiment once more. The function travels by
value instead, so one that was written in a notebook or a script works as it is.

Parent and child talk through a pair of sockets (on Windows, the ends of a pipe) that only these two
hold: there is no port, no file and no name to guess. The death of either is an end of file for the
other, at once. In the child the trainable is an `InlineExecutor`'s; `child.py` does there what is
asked here.
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
import weakref
from contextlib import suppress
from contextvars import copy_context
from multiprocessing.connection import Pipe
from typing import IO, Any

from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.executors.base import Executor, Handle, Job, Worker, WorkerEndedError, WorkerLostError
from nbckpt.trials.executors.output import listener, speaker
from nbckpt.trials.executors.transport import pack, result_of
from nbckpt.trials.model.metrics import DONE
from nbckpt.trials.training.function import STOP_TIMEOUT_S

_BOOT = (
    "import pickle, sys; sys.path[:], handle = pickle.load(sys.stdin.buffer); "
    "from nbckpt.trials.executors.child import main; main(handle)"
)
_DRAIN_S = 1.0
"""How long the end of a process waits for the last of its output, which others may hold open."""
_EXIT_S = 5.0
"""How long a process may take to end once it has closed its end of the connection."""
_LINES = 3
_TAIL = 16_000
_ASKED_TO_END = {-signal.SIGTERM, -signal.SIGINT}
"""Exit codes of a process that was asked to end, as a kernel asks all its processes when it shuts down."""

_log = logging.getLogger("nbckpt")

_open: weakref.WeakSet[ProcessWorker] = weakref.WeakSet()


class ProcessExecutor(Executor):
    """Trials in processes of their own, a new one for each attempt."""

    name = "process"

    def start(self, job: Job) -> Worker:
        """See `Executor.start`; that `setup` failed is told by the worker's first call."""
        pickled = pack(job)
        try:
            return ProcessWorker(job, pickled)
        except (OSError, RuntimeError) as error:
            raise WorkerLostError(
                f"cannot start a process for {job.name}: {error}. Run fewer at once with max_concurrent, or "
                "use executor='thread'"
            ) from error


class ProcessWorker(Worker):
    """A trainable in a process of its own, which starts with this object and ends with `stop`.

    Args:
        job: What it is to run.
        pickled: The same, for the child.

    Raises:
        OSError: No process can be started.
    """

    def __init__(self, job: Job, pickled: bytes) -> None:
        self._name = job.name
        self._checkpoints = CheckpointFolder(job.folder)
        self._owed = 0
        self._sending = threading.Lock()
        self._killed = False
        self._connection, theirs = Pipe()
        try:
            self._process = _start_python(theirs.fileno())
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()
        _open.add(self)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out = _Output(self._process.stdout, "stdout")
        self._err = _Output(self._process.stderr, "stderr")
        self._send(pickled)

    def restore(self, checkpoint: Record) -> None:
        """See `Worker.restore`."""
        self._ask("restore", checkpoint)

    def run(self, handle: Handle) -> None:
        """See `Worker.run`."""
        going = True
        while going:
            result = self._ask("next")
            going = handle(result) and not result.get(DONE)

    def save(self) -> Record | None:
        """See `Worker.save`."""
        record: Record | None = self._ask("save")
        return record

    def ask_for_checkpoint(self) -> None:
        """See `Worker.ask_for_checkpoint`: no answer comes to this."""
        self._write(pickle.dumps(("ask_for_checkpoint", ())))

    def stop(self) -> None:
        """See `Worker.stop`: what does not end in time is killed.

        Raises:
            TrialError: The user's `cleanup` failed; the process is gone all the same.
        """
        if self._connection.closed:
            return
        self._send(pickle.dumps(("stop", ())))
        outcomes = []
        deadline = time.monotonic() + STOP_TIMEOUT_S
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
        """See `Worker.kill`; what the process had started ends with it."""
        if self._process.poll() is None:
            self._killed = True
            _kill(self._process)

    def _ask(self, what: str, *given: Any) -> Any:
        """Have the child do something, and return what comes of it.

        Raises:
            NbckptError: What it raised there, or before, while the trainable was made.
            WorkerLostError: It is gone.
        """
        self._send(pickle.dumps((what, given)))
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
        with self._sending, suppress(OSError):  # a child that is gone is noticed by reading
            self._connection.send_bytes(data)

    def _lost(self) -> WorkerLostError:
        """Return the error that tells how the process ended."""
        code = self._end()
        if self._killed:
            return WorkerLostError("its process was killed")
        if code in _ASKED_TO_END:
            return WorkerEndedError(f"its process was asked to end by {signal.Signals(-code).name}")
        lines = _last_lines(self._err.tail)
        said = f". The last it wrote: {' | '.join(lines)}" if lines else ""
        return WorkerLostError(f"the process of {self._name} {_how(code)}{said}")

    def _end(self) -> int:
        """Wait for the end of the process, which is near, and let go of what it had; return its exit code."""
        try:
            code = self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:  # it closed its end and goes on: nobody can talk to it
            self.kill()
            code = self._process.wait()
        if code:
            _kill(self._process)  # what a crash left of its children
            self._checkpoints.sweep()
        self.close()
        self._out.join()
        self._err.join()
        return code

    def close(self) -> None:
        """Let go of the connection; the child ends when it notices."""
        self._connection.close()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()


class _Output:
    """Passes on what a process writes to a stream, to that of the cell which started the trial.

    Args:
        pipe: Where the process writes to; closed at its end.
        stream: `stdout` or `stderr`.
    """

    def __init__(self, pipe: IO[bytes], stream: str) -> None:
        self.tail = ""
        self._pipe = pipe
        self._stream = stream
        # With the context of the driver, which is that of the cell.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._pass_on,), name="nbckpt-output", daemon=True
        )
        self._thread.start()

    def _pass_on(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        logs, _ = listener.get(), listener.set(None)  # not by the stream, which may be another one by then
        with self._pipe:
            while data := os.read(self._pipe.fileno(), 1 << 16):
                text = decode(data)
                self.tail = (self.tail + text)[-_TAIL:]
                if logs is not None:
                    logs(text)
                with suppress(Exception):  # whatever stream the user has there, the process must not block
                    stream, by = getattr(sys, self._stream), speaker.get()
                    stream.write(text if by is None else by.says(stream, text))
                    stream.flush()

    def join(self) -> None:
        """Wait until all of it was passed on, unless others hold the pipe open."""
        self._thread.join(_DRAIN_S)


def _start_python(handle: int) -> subprocess.Popen[bytes]:
    """Start a Python that inherits *handle* and runs `child.main` with it."""
    options: dict[str, Any]
    if sys.platform == "win32":
        os.set_handle_inheritable(handle, True)  # noqa: FBT003  it takes no keyword
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handle]})
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        options = {"startupinfo": startup, "creationflags": flags}
    else:
        # A session of its own: Ctrl-C in the terminal is for the parent, which pauses its trials.
        options = {"pass_fds": (handle,), "start_new_session": True}
    # Not multiprocessing, which would run the user's script once more: see docs/decisions/0021.
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable or "", "-c", _BOOT], stdin=pipe, stdout=pipe, stderr=pipe, **options
    )
    assert process.stdin is not None
    with suppress(OSError):  # one that is gone already is noticed by the first call
        pickle.dump((sys.path, handle), process.stdin)
        process.stdin.flush()
    return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and, where there are sessions, all that it started."""
    with suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _last_lines(written: str) -> list[str]:
    """Return the last lines that a process wrote; of a crash, those that say where it was."""
    _, crash, where = written.rpartition("(most recent call first):\n")
    lines = [line.strip() for line in (where if crash else written).splitlines() if line.strip()]
    return lines[:_LINES] if crash else lines[-_LINES:]


def _how(code: int) -> str:
    """Return how a process ended, as its exit code tells."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (perhaps for want of memory)" if name == "SIGKILL" else "")


def _let_go() -> None:
    """In a fork of this process: do not keep children alive, nor from noticing this one's end."""
    for worker in list(_open):
        worker.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
