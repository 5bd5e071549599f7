"""The child of `ProcessExecutor`: runs one trainable in a process of its own, as its parent asks.

The main thread does one request after the other. While the trainable runs, requests come inside its
reports, where it is at rest. When the parent is gone, or the process is asked to end, the function is
left through `StopTrial`, so that its `finally` blocks run.
"""

from __future__ import annotations

import _thread
import faulthandler
import io
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from inspect import unwrap
from typing import Any

import cloudpickle

from nbckpt.errors import CodecError
from nbckpt.trials.executors.base import Job, Worker
from nbckpt.trials.executors.local import FunctionWorker, InlineExecutor
from nbckpt.trials.executors.transport import outcome
from nbckpt.trials.training.session import StopTrial
from nbckpt.trials.training.trainable import Trainable

GRACE_S = 2.0
"""How long the function's `finally` blocks may take when the parent is gone."""
ASKS = "ask_for_checkpoint"
"""What is said at any time, and needs no answer."""
_ENDS = (signal.SIGTERM, signal.SIGINT)
"""The signals that ask a process to end."""


def main(handle: int) -> None:
    """Serve the parent at the other end of *handle* until it wants no more, or is gone."""
    child = Child(_connect(handle))
    _watch(_take_stdin())
    faulthandler.enable(all_threads=False)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(
            encoding="utf-8", errors="backslashreplace", line_buffering=True, write_through=False
        )
    child.serve()
    if child.signal:
        sys.stdout.flush()
        signal.signal(child.signal, signal.SIG_DFL)
        signal.raise_signal(child.signal)


class Child:
    """Does what the parent asks.

    Attributes:
        signal: The signal that asked the process to end, if one did.
    """

    def __init__(self, connection: Any) -> None:
        self.signal = 0
        self._connection = connection
        self._reading = threading.Lock()
        self._early: deque[tuple[str, Any]] = deque()
        self._worker: Worker | None = None
        self._ended = False
        for number in _ENDS:
            signal.signal(number, self._end)
        if hasattr(os, "register_at_fork"):
            mask = partial(signal.pthread_sigmask, signal.SIG_BLOCK, _ENDS)
            unmask = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, _ENDS)
            # A signal that comes at once would be lost in a fork: Python clears there what is pending.
            os.register_at_fork(before=mask, after_in_parent=unmask, after_in_child=self._forked)
            os.register_at_fork(after_in_child=unmask)

    def serve(self) -> None:
        """Make the trainable and do what is asked of it, to its end."""
        with suppress(StopTrial, EOFError):
            self._do(self._make, self._connection.recv_bytes())
            while self._worker is not None and self._rest():
                self._do(self._worker.run, self._report)
        self._ended = True
        if self._worker is not None:
            self._do(self._worker.stop)

    def _make(self, data: bytes) -> None:
        self._worker = worker = InlineExecutor().start(_job(data))
        if isinstance(worker, FunctionWorker):
            worker.listen(self._listen)

    def _listen(self) -> None:
        """Take in what is asked while the function runs; within a report, that is done already."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            with suppress(EOFError, OSError):  # that the parent is gone is noticed elsewhere
                while self._connection.poll():
                    what, given = pickle.loads(self._connection.recv_bytes())
                    if what == ASKS:
                        self._worker_asked()
                    else:
                        self._early.append((what, given))
        finally:
            self._reading.release()

    def _worker_asked(self) -> None:
        assert self._worker is not None
        self._worker.ask_for_checkpoint()

    def _request(self) -> tuple[str, Any]:
        """Return what is asked next."""
        with self._reading:
            if self._early:
                return self._early.popleft()
            what, given = pickle.loads(self._connection.recv_bytes())
            return what, given

    def _rest(self) -> bool:
        """Do what is asked of a trainable at rest; tell whether it is to go on."""
        while not self._ended:
            try:
                what, given = self._request()
            except (EOFError, OSError):
                what = "stop"
            if what == "next":
                return True
            if what == "stop":
                self._ended = True
            elif what == ASKS:
                self._worker_asked()
            else:
                self._do(getattr(self._worker, what), *given)
        return False

    def _report(self, result: dict[str, Any]) -> bool:
        """Hand over a result; tell whether the trainable is to go on."""
        self._do(lambda: result)
        return self._rest()

    def _do(self, action: Callable[..., Any], *given: Any) -> None:
        """Do something and tell the parent what came of it, unless that is only being asked to end."""
        told = outcome(action, *given)
        if not self.signal:
            with suppress(OSError):  # that the parent is gone is noticed by the next request
                self._connection.send_bytes(told)

    def _end(self, number: int, frame: object) -> None:
        """Leave the function, once: asked to end again, it is left to its `finally` blocks."""
        if not self._ended:
            self._ended = True
            self.signal = number
            raise StopTrial

    def _forked(self) -> None:
        """In a fork of this process: neither keep the parent from noticing its end, nor act in its place."""
        self._connection.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _connect(handle: int) -> Any:
    """Return the inherited connection; what this process starts does not get it."""
    connection: Any
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        os.set_handle_inheritable(handle, False)  # noqa: FBT003  it takes no keyword
        connection = PipeConnection(handle)
    else:
        from multiprocessing.connection import Connection

        os.set_inheritable(handle, False)  # noqa: FBT003  it takes no keyword
        connection = Connection(handle)
    return connection


def _take_stdin() -> int:
    """Return the pipe that stdin is, and leave an empty stdin to the function."""
    lifeline = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return lifeline


def _watch(lifeline: int) -> None:
    """End this process when its parent is gone, whatever it does at the time.

    Only a call into C that keeps the interpreter's lock comes to its end first.
    """

    def wait() -> None:
        with suppress(OSError):
            os.read(lifeline, 1)
        if hasattr(signal, "pthread_kill"):  # wakes what waits, too
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            _thread.interrupt_main()
        time.sleep(GRACE_S)
        os._exit(1)

    threading.Thread(target=wait, name="nbckpt-watch", daemon=True).start()


def _job(data: bytes) -> Job:
    """Return the job that was sent, and give `__main__` the names that the function knows there.

    So plain pickle finds the classes of a notebook in the child too.

    Raises:
        CodecError: It cannot be loaded here.
    """
    try:
        job = Job(*cloudpickle.loads(data))
    except Exception as error:
        raise CodecError(
            f"cannot load the function in a process of its own: {type(error).__name__}: {error}. Import what "
            "it needs from a module that is installed, or use executor='thread'"
        ) from error
    main = vars(sys.modules["__main__"])
    kind: type[Trainable] = job.trainable
    for function in map(unwrap, filter(callable, vars(kind).values())):
        if getattr(function, "__module__", "") == "__main__":
            names = getattr(function, "__globals__", {})
            main.update({name: it for name, it in names.items() if not name.startswith("__")})
    if kind.__module__ == "__main__":
        main[kind.__name__] = kind
    return job
