"""Replicas: this process's rank in its job and the number of processes, read from the environment.

| | read first | then | then | default |
|---|---|---|---|---|
| `rank()` | `NBCKPT_REPLICA_RANK` | `ADAPTDL_REPLICA_RANK` | `RANK` | 0 |
| `count()` | `NBCKPT_NUM_REPLICAS` | `ADAPTDL_NUM_REPLICAS` | `WORLD_SIZE` | 1 |
| `restarts()` | `NBCKPT_NUM_RESTARTS` | `ADAPTDL_NUM_RESTARTS` | `TORCHELASTIC_RESTART_COUNT` | 0 |
| `checkpoint_path()` | `NBCKPT_CHECKPOINT_PATH` | `ADAPTDL_CHECKPOINT_PATH` | | None |

torchrun sets the last names. An empty variable counts as not set. Each call reads the environment again.
"""

from __future__ import annotations

import re
from pathlib import Path

from nbckpt.errors import UsageError
from nbckpt.settings import first_set


def rank() -> int:
    """Return the rank of this replica, counted from 0. Only replica 0 writes.

    Raises:
        UsageError: The variable does not hold a rank, or the rank is not below `count()`.
    """
    name, own = number("NBCKPT_REPLICA_RANK", "ADAPTDL_REPLICA_RANK", "RANK", default=0)
    if own >= count():
        raise UsageError(f"{name}={own}, but there are {count()} replicas: ranks are below their number")
    return own


def count() -> int:
    """Return the number of replicas.

    Raises:
        UsageError: The variable does not hold a number of replicas.
    """
    name, replicas = number("NBCKPT_NUM_REPLICAS", "ADAPTDL_NUM_REPLICAS", "WORLD_SIZE", default=1)
    if replicas == 0:
        raise UsageError(f"{name}=0: a job has one replica at least")
    return replicas


def restarts() -> int:
    """Return how often the job was restarted.

    Raises:
        UsageError: The variable does not hold a number of restarts.
    """
    names = ("NBCKPT_NUM_RESTARTS", "ADAPTDL_NUM_RESTARTS", "TORCHELASTIC_RESTART_COUNT")
    return number(*names, default=0)[1]


def checkpoint_path() -> Path | None:
    """Return the folder in which the job saves its states, or None if no folder is set."""
    _, value = first_set("NBCKPT_CHECKPOINT_PATH", "ADAPTDL_CHECKPOINT_PATH")
    return Path(value) if value else None


def number(*names: str, default: int) -> tuple[str, int]:
    """Return the name and the number of the first variable that is set; else the last name and *default*.

    Raises:
        UsageError: The variable does not hold a whole number from 0 on.
    """
    name, value = first_set(*names)
    if not value:
        return name, default
    if not re.fullmatch(r"\s*\d{1,9}\s*", value, re.ASCII):
        raise UsageError(
            f"{name}={value!r} in the environment is not a whole number from 0 on: correct or unset it"
        )
    return name, int(value)
