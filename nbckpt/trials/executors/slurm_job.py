"""The job of `SlurmExecutor`: runs one trainable on a node of the cluster, at the kernel's requests.

`child.py` carries out the requests, as in a process on the kernel's machine; here they come by a mailbox.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from nbckpt.trials.executors.base import WorkerLostError
from nbckpt.trials.executors.child import GRACE_S, Child
from nbckpt.trials.executors.mailbox import AGAIN, ALIVE, ANSWER, ARRIVED, OUTPUT, TIME_IS_UP, Mailbox
from nbckpt.trials.executors.output import Printed, listener, teeing
from nbckpt.trials.training.session import in_trial

_SHORTEST_S, _LONGEST_S = 0.02, 0.5
"""How long to wait between two looks into the mailbox: first the shortest time, then longer and longer."""
_WATCH_S = 0.5


class JobConnection:
    """The job's end of the connection to the kernel, for `Child`."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._requests: deque[bytes] = deque()
        self._printed = Printed()
        self.write = self._printed.write
        self.is_cut = False

    def poll(self) -> bool:
        """Return whether there is a request.

        Raises:
            EOFError: The mailbox is damaged.
        """
        try:
            messages = self._mailbox.receive()
        except WorkerLostError as error:
            raise EOFError(str(error)) from None
        for kind, data in messages:
            if kind != ALIVE:
                self._requests.append(data)
        return bool(self._requests)

    def recv_bytes(self) -> bytes:
        """Wait for the next request.

        Raises:
            EOFError: The kernel is gone.
        """
        pause_s, turn = _SHORTEST_S, threading.Event()
        try:
            while not self.poll():
                if self.is_cut:
                    raise EOFError
                turn.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_S)
        except OSError:
            raise EOFError from None
        return self._requests.popleft()

    def send_bytes(self, data: bytes) -> None:
        """Send an answer, after the output that came before it. If that fails, the job ends.

        Raises:
            OSError: The disk is full, or the kernel is gone.
        """
        try:
            self.flush()
            self._mailbox.send(ANSWER, data)
        except OSError as error:
            self.is_cut = True  # the kernel would wait for this answer for ever
            sys.stderr.write(f"the job cannot answer its kernel: {error.strerror or error}\n")
            raise

    def flush(self) -> None:
        """Send the output since the last call."""
        if text := self._printed.take():
            self._mailbox.send(OUTPUT, text.encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Do nothing: a fork of the job has no connection that keeps the kernel waiting."""


class Watch:
    """A thread that tells the kernel of the time limit, and ends this process if the kernel is gone.

    Args:
        mailbox: The mailbox.
        connection: The connection whose output is sent.
        lost_s: How many seconds the kernel may be silent.
    """

    def __init__(self, mailbox: Mailbox, connection: JobConnection, lost_s: float) -> None:
        self._mailbox, self._connection, self._lost_s = mailbox, connection, lost_s
        self._time_is_up = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nbckpt-watch", daemon=True)
        signal.signal(signal.SIGUSR2, self._on_signal)  # in place of submitit's, which starts the job again
        self._thread.start()

    def end(self) -> None:
        """Stop watching: the job has ended."""
        self._ended.set()
        self._thread.join()

    def _on_signal(self, number: int, frame: object) -> None:
        self._time_is_up = True

    def _watch(self) -> None:
        size, at = self._mailbox.sent_to_me(), time.monotonic()
        while not self._ended.wait(_WATCH_S):
            with suppress(OSError):
                if self._time_is_up:
                    self._time_is_up = False
                    self._mailbox.send(TIME_IS_UP)
                self._connection.flush()
            former, size = size, self._mailbox.sent_to_me()
            if size != former:
                at = time.monotonic()
            if size < 0 or time.monotonic() - at > self._lost_s:
                self._leave()

    def _leave(self) -> None:
        """End this process, as if it were asked to by a signal; at once if that takes too long."""
        self._connection.is_cut = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if not self._ended.wait(GRACE_S):
            os._exit(1)


def run_job(folder: str) -> None:
    """Serve the kernel at the other end of the mailbox in *folder* until it sends `stop` or is gone."""
    mailbox = Mailbox.of_job(Path(folder))
    if mailbox.was_used:  # Slurm has started the job again: the kernel starts another one
        mailbox.send(AGAIN)
        return
    mailbox.send(ARRIVED, socket.gethostname().encode())
    connection = JobConnection(mailbox)
    sys.path[:], lost_s = pickle.loads(connection.recv_bytes())
    in_trial.set(True)
    listener.set(connection.write)
    child = Child(connection)
    watch = Watch(mailbox, connection, lost_s)
    with teeing():
        child.serve()
    watch.end()
    with suppress(OSError):
        connection.flush()
    if child.signal:
        signal.signal(child.signal, signal.SIG_DFL)
        signal.raise_signal(child.signal)
