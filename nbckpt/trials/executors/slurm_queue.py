"""The queue of Slurm: jobs are submitted together as arrays, and one question answers for all of them."""

from __future__ import annotations

import getpass
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.trials.executors.base import WorkerLostError
from nbckpt.trials.executors.slurm_job import run_job

_WINDOW_S = 0.3
_PERIOD_S = 10.0
_ANSWER_S = 60.0
GONE = "GONE"
"""The state of a job that the queue no longer lists."""
ENDED = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"} | {
    *("OUT_OF_MEMORY", "REVOKED", GONE, "FINISHED", "INTERRUPTED", "NO PROCESS AND NO RESULT"),
}
"""The states in which a job no longer runs; the last three are those of jobs without Slurm."""


class Submitter:
    """Submits jobs: those that come within a short time with equal parameters are one array.

    Args:
        cluster: See `SlurmExecutor`.
        window_s: How long the first of several jobs waits for the others, in seconds.

    Attributes:
        waiting: The jobs that are not submitted yet, by what those of one array have in common.
        hurry: Once it is set, nobody waits for others.
    """

    def __init__(self, cluster: str, window_s: float = _WINDOW_S) -> None:
        self._cluster, self._window_s = cluster, window_s
        self._changed = threading.Lock()
        self.waiting: dict[str, list[tuple[Path, Future[Any]]]] = {}
        self.hurry = threading.Event()

    def submit(self, mailbox: Path, logs: Path, parameters: Mapping[str, Any]) -> Any:
        """Submit a job for a mailbox, and return it.

        Raises:
            UsageError: There is no such parameter, or no Slurm on this machine.
            WorkerLostError: Slurm refused the job, or the thread that submits several was interrupted.
            KeyboardInterrupt: This thread was interrupted. The job is not submitted, unless it was before.
        """
        key, mine = f"{logs} {sorted(parameters.items())}", Future[Any]()
        with self._changed:
            batch = self.waiting.setdefault(key, [])
            batch.append((mailbox, mine))
            leads = len(batch) == 1
        if leads:
            self._lead(key, batch, logs, parameters)
        try:
            return mine.result()
        except BaseException:
            mine.cancel()
            raise

    def _lead(
        self, key: str, batch: list[tuple[Path, Future[Any]]], logs: Path, parameters: Mapping[str, Any]
    ) -> None:
        """Wait for others, and submit the jobs of all. After an interrupt submit nothing."""
        try:
            self.hurry.wait(self._window_s)
            with self._changed:
                del self.waiting[key]
            self._submit(batch, logs, parameters)
        except BaseException:  # the others wait for an answer
            with self._changed:
                if self.waiting.get(key) is batch:
                    del self.waiting[key]
            _fail(batch, WorkerLostError("the submission of the job was interrupted. Resume the trial"))
            raise

    def _submit(
        self, batch: list[tuple[Path, Future[Any]]], logs: Path, parameters: Mapping[str, Any]
    ) -> None:
        batch = [(mailbox, future) for mailbox, future in batch if future.set_running_or_notify_cancel()]
        try:
            executor = opened(self._cluster, logs, parameters)
            if len(batch) == 1:
                jobs = [executor.submit(run_job, str(batch[0][0]))]
            else:
                with executor.batch():
                    jobs = [executor.submit(run_job, str(mailbox)) for mailbox, _ in batch]
        except UsageError as error:
            _fail(batch, error)
        except Exception as error:  # noqa: BLE001  what submitit and sbatch raise
            reason = " ".join(str(error).split())
            _fail(batch, WorkerLostError(f"Slurm did not take the job: {reason}. See sinfo and squeue"))
        else:
            for (_, future), job in zip(batch, jobs, strict=True):
                future.set_result(job)


def _fail(batch: list[tuple[Path, Future[Any]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)


def opened(cluster: str, logs: Path, parameters: Mapping[str, Any]) -> Any:
    """Return submitit's executor.

    Raises:
        UsageError: submitit is not installed, there is no such parameter, or no Slurm on this machine.
    """
    try:
        import submitit
    except ImportError:
        raise UsageError("executor='slurm' needs submitit: pip install 'nbckpt[slurm]'") from None
    try:
        executor = submitit.AutoExecutor(folder=logs, cluster=cluster)
        executor.update_parameters(**parameters)
    except RuntimeError as error:
        raise UsageError(
            f"there is no Slurm on this machine: {error}. Run the kernel on a login node"
        ) from None
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"executor='slurm' with {dict(parameters)}: {error}") from None
    return executor


class Queue:
    """The states of the jobs of this user, asked for at most every few seconds. Any thread may call it."""

    def __init__(self, period_s: float = _PERIOD_S) -> None:
        self._period_s = period_s
        self._lock = threading.Lock()
        self._states: dict[str, tuple[str, str]] = {}
        self._asked_at = -float("inf")
        self._is_known = False

    def state(self, job: Any, submitted_at: float) -> tuple[str, str]:
        """Return the state of a job, and the reason why it waits; "" if the queue does not answer.

        Args:
            job: The job of submitit.
            submitted_at: When it was submitted, by `time.monotonic`.
        """
        if "Slurm" not in type(job).__name__:
            return job.state, ""
        with self._lock:
            if time.monotonic() - self._asked_at >= self._period_s:
                self._ask()
            gone = self._is_known and self._asked_at > submitted_at + self._period_s
            return self._states.get(job.job_id, (GONE if gone else "", ""))

    def _ask(self) -> None:
        command = ["squeue", "-h", "-r", "-t", "all", "-u", getpass.getuser(), "-o", "%i|%T|%r"]
        try:
            answer = subprocess.run(
                command,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_ANSWER_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):  # the controller is busy: ask again later
            self._is_known, self._asked_at = False, time.monotonic()
            return
        # Administrators write the reasons of reservations: any text, also with a bar.
        rows = [line.split("|", 2) for line in answer.stdout.splitlines() if line.count("|") >= 2]
        self._states = {name: (state, reason) for name, state, reason in rows}
        self._is_known, self._asked_at = True, time.monotonic()
