"""The environment of a job, by AdaptDL's names. nbckpt's own variables come first: nbckpt.states.replica."""

from __future__ import annotations

from nbckpt.settings import first_set
from nbckpt.states import replica
from nbckpt.states.replica import count as num_replicas
from nbckpt.states.replica import rank as replica_rank
from nbckpt.states.replica import restarts as num_restarts

__all__ = [
    "checkpoint_path",
    "job_id",
    "master_addr",
    "master_port",
    "num_nodes",
    "num_replicas",
    "num_restarts",
    "replica_rank",
    "share_path",
    "supervisor_url",
]


def checkpoint_path() -> str | None:
    """Return the folder in which the job saves its states, or None if no folder is set."""
    path = replica.checkpoint_path()
    return None if path is None else str(path)


def share_path() -> str | None:
    """Return the folder that all replicas share, or None if it is not set."""
    return first_set("ADAPTDL_SHARE_PATH")[1] or None


def job_id() -> str | None:
    """Return the job's id, or None if it is not set."""
    return first_set("ADAPTDL_JOB_ID")[1] or None


def supervisor_url() -> str | None:
    """Return the URL of the cluster's supervisor, or None if it is not set."""
    return first_set("ADAPTDL_SUPERVISOR_URL")[1] or None


def master_addr() -> str:
    """Return the address of replica 0, by default `0.0.0.0`. torchrun sets `MASTER_ADDR`."""
    return first_set("ADAPTDL_MASTER_ADDR", "MASTER_ADDR")[1] or "0.0.0.0"


def master_port() -> int:
    """Return the port of replica 0, by default 0. torchrun sets `MASTER_PORT`.

    Raises:
        UsageError: The variable does not hold a number.
    """
    return replica.number("ADAPTDL_MASTER_PORT", "MASTER_PORT", default=0)[1]


def num_nodes() -> int:
    """Return the number of machines, by default the number of replicas.

    Raises:
        UsageError: The variable does not hold a number.
    """
    return replica.number("ADAPTDL_NUM_NODES", default=num_replicas())[1]
