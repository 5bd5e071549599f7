"""A trainable in a job of Slurm: the kernel sends its requests, and notices how the job ends.

Requests, answers and output are messages in files beside the trial: see docs/decisions/0110.
"""

from __future__ import annotations

import logging
import pickle
import shutil
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from nbckpt.errors import StoreError
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.executors.base import Job, Worker, WorkerEndedError, WorkerLostError, WorkerTimeUpError
from nbckpt.trials.executors.mailbox import (
    AGAIN,
    ALIVE,
    ANSWER,
    ARRIVED,
    OUTPUT,
    REQUEST,
    TIME_IS_UP,
    Mailbox,
)
from nbckpt.trials.executors.slurm_queue import ENDED, GONE, Queue
from nbckpt.trials.executors.transport import result_of
from nbckpt.trials.model.metrics import OnResult
from nbckpt.trials.model.trial import WAITS
from nbckpt.trials.training.function import STOP_TIMEOUT_S

_BEAT_S = 10.0
_SHORTEST_S, _LONGEST_S = 0.02, 0.5
_LAST_S = 2.0
"""How long to look for the last messages of a job that has ended: the shared disk may be late."""
_END_S = 10.0
_GOES_ON = {"TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REVOKED"}
_SILENT = "ended without an answer to its kernel"
_ENDED_BY_SOMEBODY = {"CANCELLED", "INTERRUPTED"}

_log = logging.getLogger("nbckpt")


class SlurmWorker(Worker):
    """A trainable in a job."""

    def __init__(self, job: Job, mailbox: Mailbox, handle: Any, queue: Queue) -> None:
        self._job, self._mailbox, self._handle, self._queue = job, mailbox, handle, queue
        self._checkpoints = CheckpointFolder(job.folder)
        self._answers: deque[bytes] = deque()
        self._owed = 1  # the answer to the job itself
        self._submitted_at = time.monotonic()
        self._beat_at = 0.0
        self._woken = threading.Event()
        self._has_arrived = self._is_leaving = self._has_saved = self._is_killed = self._is_over = False

    def arrives(self) -> bool:
        """Wait until the job runs on a node. Return False if the trial was given up.

        Raises:
            WorkerLostError: The job ended before it began.
        """
        pause_s = _SHORTEST_S
        while not self._has_arrived:
            self._receive()
            state, reason = self._queue.state(self._handle, self._submitted_at)
            if state in ENDED and not self._has_arrived:
                self._receive_last()
                if not self._has_arrived:
                    self._is_over = True
                    raise self._lost(state)
            why = f" ({reason})" if reason not in {"", "None"} else ""
            if not self._job.waits(f"{WAITS}Slurm job {self._handle.job_id}{why}"):
                return False
            pause_s = self._rest(pause_s)
        return True

    def restore(self, checkpoint: Record) -> None:
        """See `Worker.restore`."""
        self._ask("restore", checkpoint)

    def run(self, on_result: OnResult) -> None:
        """See `Worker.run`. Near the time limit, end after the next result that has a checkpoint.

        Raises:
            WorkerTimeUpError: The trial is to go on in another job.
        """
        while True:
            result = self._ask("next")
            if not on_result(result) or result.done:
                return
            if self._is_leaving and self._has_saved:
                raise WorkerTimeUpError(f"the time limit of Slurm job {self._handle.job_id} is near")

    def save(self) -> Record | None:
        """See `Worker.save`."""
        record: Record | None = self._ask("save")
        self._has_saved = self._is_leaving and record is not None
        return record

    def ask_for_checkpoint(self) -> None:
        """See `Worker.ask_for_checkpoint`: the job sends no answer to this request."""
        with suppress(StoreError):  # the next request fails with it
            self._send("ask_for_checkpoint")

    def stop(self) -> None:
        """See `Worker.stop`: a job that does not end in time is cancelled."""
        if self._is_over:
            self._end()
            self._clean()
            return
        self._is_over = True
        outcomes: list[bytes] = []
        try:
            if self._has_arrived:
                self._owed += 1
                self._send("stop")
                outcomes = self._collect(time.monotonic() + 2 * STOP_TIMEOUT_S)
        except (WorkerLostError, StoreError) as error:
            _log.warning("%s: %s while it was stopped", self._job.name, error)
        finally:
            self._end()
            self._clean()
        for data in outcomes:
            result_of(data)

    def kill(self) -> None:
        """See `Worker.kill`."""
        self._is_killed = True
        with suppress(OSError):
            self._handle.cancel(check=False)
        self._woken.set()

    def _collect(self, deadline: float) -> list[bytes]:
        """Return the owed answers that come before the deadline."""
        outcomes, pause_s = list[bytes](), _SHORTEST_S
        while self._owed and time.monotonic() < deadline:
            self._receive()
            while self._answers:
                outcomes.append(self._answers.popleft())
                self._owed -= 1
            if self._owed and self._queue.state(self._handle, self._submitted_at)[0] in ENDED:
                break
            pause_s = self._rest(pause_s) if self._owed else pause_s
        return outcomes

    def _end(self) -> None:
        """Cancel the job if it goes on. A process of this machine is waited for."""
        answered = self._has_arrived and not self._owed
        is_here = "Slurm" not in type(self._handle).__name__
        if answered and (not is_here or self._has_ended(_END_S)):
            return
        if self._queue.state(self._handle, self._submitted_at)[0] not in ENDED:
            with suppress(OSError):
                self._handle.cancel(check=False)
            if is_here:
                self._has_ended(_END_S)

    def _has_ended(self, patience_s: float) -> bool:
        """Wait for the end of the job. Return whether it came in time."""
        deadline, turn = time.monotonic() + patience_s, threading.Event()
        while self._queue.state(self._handle, self._submitted_at)[0] not in ENDED:
            if time.monotonic() >= deadline:
                return False
            turn.wait(_SHORTEST_S)
        return True

    def _clean(self) -> None:
        """Remove the mailbox. A job that still runs ends when it notices."""
        shutil.rmtree(self._mailbox.folder, ignore_errors=True)

    def _send(self, request: str, *given: Any) -> None:
        try:
            self._mailbox.send(REQUEST, pickle.dumps((request, given)))
        except FileNotFoundError:
            pass  # the next look notices that the job is gone
        except OSError as error:
            place = str(self._mailbox.folder)
            raise StoreError(f"cannot write {place!r}: {error.strerror or error}") from error

    def _ask(self, request: str, *given: Any) -> Any:
        """Send a request to the job, and return the result.

        Raises:
            NbckptError: The job raised it, now or before, while it made the trainable.
            WorkerLostError: The job is gone.
        """
        self._owed += 1
        self._send(request, *given)
        pause_s = _SHORTEST_S
        while True:
            self._receive()
            while self._answers:
                self._owed -= 1
                result = result_of(self._answers.popleft())
                if not self._owed:
                    return result
            state, _ = self._queue.state(self._handle, self._submitted_at)
            if state in ENDED:
                self._receive_last()
                if not self._answers:
                    self._is_over = True
                    raise self._lost(state)
                continue
            pause_s = self._rest(pause_s)

    def _rest(self, pause_s: float) -> float:
        """Wait for a moment, with a sign of life for the job. Return how long to wait the next time."""
        if time.monotonic() - self._beat_at >= _BEAT_S:
            self._beat_at = time.monotonic()
            with suppress(OSError):
                self._mailbox.send(ALIVE)
        self._woken.wait(pause_s)
        self._woken.clear()
        return min(1.5 * pause_s, _LONGEST_S)

    def _receive(self) -> None:
        messages: list[tuple[bytes, bytes]] = []
        with suppress(OSError):  # the shared disk is away for a moment
            messages = self._mailbox.receive()
        for kind, data in messages:
            if kind == ANSWER:
                self._answers.append(data)
            elif kind == OUTPUT:
                with suppress(Exception):  # whatever the user's stream raises, the trial continues
                    sys.stdout.write(data.decode("utf-8", "replace"))
            elif kind == ARRIVED:
                self._has_arrived = True
            elif kind == TIME_IS_UP:
                self._is_leaving = True
                self._job.leaves()
            elif kind == AGAIN:
                self._is_over = True
                raise WorkerTimeUpError(f"Slurm took the node from job {self._handle.job_id}")

    def _receive_last(self) -> None:
        """Look for the last messages of a job that has ended."""
        deadline = time.monotonic() + _LAST_S
        while not self._answers and time.monotonic() < deadline:
            self._receive()
            self._woken.wait(_LONGEST_S)
            self._woken.clear()

    def _lost(self, state: str) -> WorkerLostError:
        """Return the error that says how the job ended."""
        self._checkpoints.sweep()
        name = f"Slurm job {self._handle.job_id}"
        if self._is_killed:
            return WorkerLostError(f"{name} was cancelled")
        if state in _GOES_ON:
            return WorkerTimeUpError(f"{name} ended with {state}")
        if state in _ENDED_BY_SOMEBODY:
            return WorkerEndedError(f"{name} was cancelled")
        how = {GONE: "is gone", "FINISHED": _SILENT, "COMPLETED": _SILENT}.get(state, f"ended with {state}")
        return WorkerLostError(f"{name} {how}. The last it wrote: {self._last_lines()}")

    def _last_lines(self) -> str:
        with suppress(OSError):
            lines = [
                line.strip() for line in self._handle.paths.stderr.read_text("utf-8", "replace").splitlines()
            ]
            return " | ".join([line for line in lines if line][-3:]) or "nothing"
        return "nothing"
