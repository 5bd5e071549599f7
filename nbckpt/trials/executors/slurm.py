"""Trials as jobs of a Slurm cluster, through submitit. The kernel runs on a node that shares the disk.

A job opens no connection: requests, answers and output are messages in files beside the trial. A job ends if
it does not hear of its kernel. At its time limit it saves a checkpoint, and another job goes on from there.
See docs/decisions/0110.
"""

from __future__ import annotations

import pickle
import shutil
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbckpt.errors import StoreError, UsageError
from nbckpt.store.base import CACHE
from nbckpt.store.scan import link_outside
from nbckpt.trials.executors.base import Executor, Job, UnstartedWorker, Worker
from nbckpt.trials.executors.mailbox import REQUEST, Mailbox
from nbckpt.trials.executors.reservations import Needs
from nbckpt.trials.executors.slurm_queue import Queue, Submitter, opened
from nbckpt.trials.executors.slurm_worker import SlurmWorker
from nbckpt.trials.executors.transport import pack

FOLDER = f"slurm{CACHE}"
"""The folder in an experiment's folder that holds mailboxes and the logs of jobs. No copy has it."""
LOST_S = 120.0
"""How many seconds a job waits for a sign of life of its kernel."""
_MOST = 32
_GENERIC = {
    "timeout_min",
    "mem_gb",
    "nodes",
    "tasks_per_node",
    "gpus_per_node",
    "cpus_per_task",
    "stderr_to_stdout",
}


class SlurmExecutor(Executor):
    """Trials as jobs of a Slurm cluster. Jobs that start together are one array.

    Args:
        cluster: `slurm`, or `local` for processes of this machine that behave like jobs.
        options: Parameters of submitit: `timeout_min`, `mem_gb`; those of Slurm without their prefix, such as
            `partition`, `account`, `qos` and `constraint`.

    Raises:
        UsageError: submitit is not installed, there is no such parameter, or no Slurm on this machine.
    """

    name = "slurm"
    reserves = True

    def __init__(self, cluster: str = "slurm", **options: Any) -> None:
        self._cluster = cluster
        self._options = options
        given = options if cluster == "slurm" else {"cluster": cluster} | options
        self.name = " ".join(["slurm", *(f"{key}={value}" for key, value in given.items())])
        self._submitter, self._queue = Submitter(cluster), Queue()

    def check(self, resources: Mapping[str, float]) -> None:
        """See `Executor.check`: submitit knows the parameters, and Slurm is here."""
        opened(self._cluster, Path("slurm"), self._parameters(resources, "check"))

    def most_at_once(self, resources: Mapping[str, float]) -> int:
        """See `Executor.most_at_once`: Slurm decides how many of them run."""
        return _MOST

    def start(self, job: Job) -> Worker:
        """See `Executor.start`. Wait for a node while the trial is wanted."""
        pickled, place = pack(job), _place(job.folder.parent)
        _end_former(place, job.trial)
        try:
            mailbox = Mailbox.of_kernel(place / f"{job.trial}-{uuid.uuid4().hex[:12]}")
            mailbox.send(REQUEST, pickle.dumps((sys.path, LOST_S)))
            mailbox.send(REQUEST, pickled)
        except OSError as error:
            raise StoreError(f"cannot write {str(place)!r}: {error.strerror or error}") from error
        parameters = self._parameters(job.resources, job.name.partition("/")[0])
        try:
            handle = self._submitter.submit(mailbox.folder, place / "logs", parameters)
        except BaseException:
            shutil.rmtree(mailbox.folder, ignore_errors=True)
            raise
        worker = SlurmWorker(job, mailbox, handle, self._queue)
        if worker.arrives():
            return worker
        worker.stop()
        return UnstartedWorker()

    def _parameters(self, resources: Mapping[str, float], name: str) -> dict[str, Any]:
        """Return the parameters of submitit. Those that only Slurm knows are left out elsewhere."""
        needs = Needs.of(resources)
        parameters: dict[str, Any] = {
            "slurm_job_name": name,
            "slurm_additional_parameters": {"no-requeue": True},
        }
        if needs.gpus is not None:
            parameters["gpus_per_node"] = needs.gpus
        if needs.cpus is not None:
            parameters["cpus_per_task"] = needs.cpus
        return parameters | {
            key if key in _GENERIC or key.startswith("slurm_") else f"slurm_{key}": value
            for key, value in self._options.items()
        }


def _place(experiment: Path) -> Path:
    """Return the folder of mailboxes.

    Raises:
        UsageError: A link leads out of the experiment; nothing was written or removed there.
    """
    if link := link_outside(experiment, f"{FOLDER}/logs"):
        raise UsageError(f"{link!r} in {str(experiment)!r} is a link that leads outside: remove it")
    return experiment / FOLDER


def _end_former(place: Path, trial: str) -> None:
    """Remove the mailboxes of a kernel that was killed: jobs of it that still run end when they notice."""
    for former in place.glob(f"{trial}-*"):
        shutil.rmtree(former, ignore_errors=True)
