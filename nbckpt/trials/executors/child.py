"""The child of `ProcessExecutor`: runs one trainable in its own process, at its parent's requests.

The main thread carries out one request after the other. While the trainable runs, requests are carried out
inside its reports, where it is idle. If the parent is gone, or the process is asked to end, `StopTrial` ends
the function, so that its `finally` blocks run.
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
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from inspect import unwrap
from typing import Any

import cloudpickle

from nbckpt.errors import CodecError
from nbckpt.provenance.worker import seeds_now
from nbckpt.trials.executors.base import Job, Worker
from nbckpt.trials.executors.local import InlineExecutor
from nbckpt.trials.executors.transport import outcome
from nbckpt.trials.model.metrics import Result, with_origin
from nbckpt.trials.training.session import StopTrial, in_trial
from nbckpt.trials.training.trainable import Trainable

GRACE_S = 2.0
"""How many seconds the function's `finally` blocks may take after the parent is gone."""
ASKS = "ask_for_checkpoint"
"""The request that may come at any time and needs no answer."""
_ENDS = (signal.SIGTERM, signal.SIGINT)
"""The signals that ask a process to end."""


def main(handle: int, *locks: int) -> None:
    """Serve the parent at the other end of *handle* until it sends `stop` or is gone.

    The process holds the inherited files of *locks* open until it ends; what it starts does not get them.
    """
    for lock in locks:
        os.set_inheritable(lock, False)  # noqa: FBT003  it takes no keyword
    child = Child(_connect(handle))
    in_trial.set(True)
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
    """Carries out the parent's requests.

    Attributes:
        signal: The signal that asked the process to end; 0 if there was none.
    """

    def __init__(self, connection: Any) -> None:
        self.signal = 0
        self._connection = connection
        self._reading = threading.Lock()
        self._received: deque[tuple[str, Any]] = deque()
        self._worker: Worker | None = None
        self._ended = False
        self._seeds: Mapping[str, Any] | None = seeds_now()
        """The states of the random generators at the beginning; None after the first result."""
        for number in _ENDS:
            signal.signal(number, self._end)
        if hasattr(os, "register_at_fork"):
            mask = partial(signal.pthread_sigmask, signal.SIG_BLOCK, _ENDS)
            unmask = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, _ENDS)
            # A signal right after a fork would be lost in the child: Python clears pending signals there.
            os.register_at_fork(before=mask, after_in_parent=unmask, after_in_child=self._forked)
            os.register_at_fork(after_in_child=unmask)

    def serve(self) -> None:
        """Make the trainable and carry out requests until its end."""
        with suppress(StopTrial, EOFError):
            self._do(self._make, self._connection.recv_bytes())
            while self._worker is not None and self._rest():
                self._do(self._worker.run, self._report)
        self._ended = True
        if self._worker is not None:
            self._do(self._worker.stop)

    def _make(self, data: bytes) -> None:
        self._worker = worker = InlineExecutor().start(_job(data))
        worker.listen(self._listen)

    def _listen(self) -> None:
        """Receive requests while the function runs; inside a report, another caller reads them already."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            with suppress(EOFError, OSError):  # the next request notices that the parent is gone
                while self._connection.poll():
                    request, given = pickle.loads(self._connection.recv_bytes())
                    if request == ASKS:
                        self._worker_asked()
                    else:
                        self._received.append((request, given))
        finally:
            self._reading.release()

    def _worker_asked(self) -> None:
        assert self._worker is not None
        self._worker.ask_for_checkpoint()

    def _request(self) -> tuple[str, Any]:
        """Return the next request."""
        with self._reading:
            if self._received:
                return self._received.popleft()
            request, given = pickle.loads(self._connection.recv_bytes())
            return request, given

    def _rest(self) -> bool:
        """Carry out requests for an idle trainable. Return whether it may continue."""
        while not self._ended:
            try:
                request, given = self._request()
            except (EOFError, OSError):
                request = "stop"
            if request == "next":
                return True
            if request == "stop":
                self._ended = True
            elif request == ASKS:
                self._worker_asked()
            else:
                self._do(getattr(self._worker, request), *given)
        return False

    def _report(self, result: Result) -> bool:
        """Send a result to the parent. Return whether the trainable may continue."""
        seeds, self._seeds = self._seeds, None
        self._do(lambda: result if seeds is None else with_origin(result, seeds))
        return self._rest()

    def _do(self, action: Callable[..., Any], *given: Any) -> None:
        """Call *action* and send its outcome to the parent, unless a signal asked the process to end."""
        answer = outcome(action, *given)
        if not self.signal:
            with suppress(OSError):  # the next request notices that the parent is gone
                self._connection.send_bytes(answer)

    def _end(self, number: int, frame: object) -> None:
        """Leave the function by StopTrial, once: a second signal must not end its `finally` blocks."""
        if not self._ended:
            self._ended = True
            self.signal = number
            raise StopTrial

    def _forked(self) -> None:
        """In a fork: close the connection, so that the parent notices this process's end; reset signals."""
        self._connection.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _connect(handle: int) -> Any:
    """Return the inherited connection. The processes that this one starts do not inherit it."""
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
    """Return the pipe that is stdin now, and give the function an empty stdin."""
    lifeline = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return lifeline


def _watch(lifeline: int) -> None:
    """End this process when its parent is gone, whatever it is doing.

    Only a call into C that holds the interpreter lock delays this, until the call returns.
    """

    def wait() -> None:
        with suppress(OSError):
            os.read(lifeline, 1)
        if hasattr(signal, "pthread_kill"):  # this wakes a thread that waits, too
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            _thread.interrupt_main()
        time.sleep(GRACE_S)
        os._exit(1)

    threading.Thread(target=wait, name="nbckpt-watch", daemon=True).start()


def _job(data: bytes) -> Job:
    """Return the received job, and copy the function's `__main__` names into this `__main__`.

    So plain pickle finds the classes of a notebook in the child too.

    Raises:
        CodecError: The job cannot be loaded here.
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
            main.update({name: value for name, value in names.items() if not name.startswith("__")})
    if kind.__module__ == "__main__":
        main[kind.__name__] = kind
    return job
