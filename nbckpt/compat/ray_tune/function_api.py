"""What a function calls while it runs as a trial, by the names of Ray 1.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nbckpt.compat.ray_air.session import get_trial_dir, get_trial_id, get_trial_name
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.trials.training import session
from nbckpt.trials.training.calling import DEFAULT_METRIC

__all__ = [
    "checkpoint_dir",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "is_session_enabled",
    "report",
]


def report(_metric: Any = None, *, checkpoint: Checkpoint | None = None, **values: Any) -> None:
    """Report a result: `report(loss=0.1)`, `report({"loss": 0.1}, checkpoint=…)` or `report(0.1)`."""
    if _metric is not None and not isinstance(_metric, Mapping):
        _metric = {DEFAULT_METRIC: _metric}
    session.report({**(_metric or {}), **values}, checkpoint=checkpoint)


@contextmanager
def checkpoint_dir(step: int) -> Iterator[str]:
    """Lend a new folder, whose files become the checkpoint of *step* with the next report."""
    with session.checkpoint_dir(step) as folder:
        yield str(folder)


def is_session_enabled() -> bool:
    """Tell whether a trial runs here."""
    return session.current.get() is not None
