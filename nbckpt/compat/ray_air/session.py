"""The session by Ray's names: what a function calls while it runs as a trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbckpt.compat.arguments import refused_names
from nbckpt.compat.ray_air.checkpoint import Checkpoint
from nbckpt.core import checkpoint as core
from nbckpt.states import replica
from nbckpt.trials.training import session


def report(metrics: Mapping[str, Any], *, checkpoint: core.Checkpoint | None = None) -> None:
    """Report a result of the trial, optionally with a checkpoint; see `nbckpt.report`."""
    session.report(metrics, checkpoint=checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """Return the trial's newest checkpoint, or None if there is none yet; see `nbckpt.get_checkpoint`."""
    latest = session.get_checkpoint()
    return None if latest is None else Checkpoint.from_checkpoint(latest)


def get_trial_name() -> str | None:
    """Return the trial's full name, or None outside a trial."""
    current = session.active()
    return None if current is None else current.trial_name


def get_trial_id() -> str | None:
    """Return the trial's short name, or None outside a trial."""
    current = session.active()
    return None if current is None else current.trial_id


def get_trial_dir() -> str | None:
    """Return the trial's folder, or None outside a trial."""
    current = session.active()
    return None if current is None else current.logdir


def get_experiment_name() -> str | None:
    """Return the name of the trial's experiment, or None outside a trial."""
    folder = get_trial_dir()
    return None if folder is None else Path(folder).parent.name


def get_world_size() -> int:
    """Return the number of replicas of the job; see `nbckpt.states.replica.count`."""
    return replica.count()


def get_world_rank() -> int:
    """Return the rank of this replica; see `nbckpt.states.replica.rank`."""
    return replica.rank()


__getattr__ = refused_names(
    __name__,
    {
        "get_dataset_shard": "load the data in the function",
        "get_local_rank": "read LOCAL_RANK, which torchrun sets",
        "get_local_world_size": "read LOCAL_WORLD_SIZE, which torchrun sets",
        "get_node_rank": "read GROUP_RANK, which torchrun sets",
        "get_trial_resources": "nbckpt reserves nothing for a trial that runs on this machine",
    },
)
