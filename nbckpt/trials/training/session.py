"""The session: what a function can say and ask while it runs as a trial.

Which trial that is, is kept in a context variable: two trials in one process never see each other, and
a thread that the function starts with a copy of its context belongs to the same trial.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import UsageError

CheckpointLike = Checkpoint | Mapping[Any, Any] | str | os.PathLike[str]
"""What can be reported as a checkpoint: a Checkpoint, a dict, or the path of a folder or a file."""

_log = logging.getLogger("nbckpt")


class StopTrial(SystemExit):  # see docs/decisions/0017
    """Raised by `report` in a trial that was stopped, so that the function's `finally` blocks run.

    It is no `StopIteration`, which `except Exception` would hold up, and which Python turns into a
    `RuntimeError` inside generators and coroutines. It is a `SystemExit`, so a thread of the function's
    that meets it ends without a word. A function that raises `StopIteration` itself ends well.
    """


class Session(Protocol):
    """What stands behind the functions below while a trial runs."""

    def report(self, metrics: dict[str, Any], checkpoint: CheckpointLike | None) -> None:
        """Hand over a result, and return when the trial may go on."""

    def latest(self) -> Checkpoint | None:
        """Return the newest checkpoint of the trial."""

    def checkpoint_dir(self, step: int) -> AbstractContextManager[Path]:
        """Lend a folder that becomes a checkpoint."""

    def should_checkpoint(self) -> bool:
        """Tell whether somebody asked for a checkpoint."""


current: ContextVar[Session | None] = ContextVar("nbckpt_session", default=None)
_told: ContextVar[frozenset[str]] = ContextVar("nbckpt_told", default=frozenset())


def report(
    metrics: Mapping[str, Any] | None = None, *, checkpoint: CheckpointLike | None = None, **values: Any
) -> None:
    """Report a result of the trial that runs here, and with it a checkpoint.

    When it returns, the result is in the trial's journal and the checkpoint is committed; neither is
    lost when the kernel dies. Outside a trial it does nothing, and the log says so.

    Args:
        metrics: The result; a copy is taken.
        checkpoint: What to go on from after this result: a dict, a Checkpoint, or the path of a folder,
            whose files are copied.
        values: Further metrics.

    Raises:
        StopTrial: The trial was stopped or paused: let it pass.
        UsageError: The metrics are not a dict, or have a `done`, which ends the trial, that is neither True
            nor False.
        NotFoundError: There is no such folder.
        CodecError: The dict cannot be pickled.
    """
    if metrics is not None and not isinstance(metrics, Mapping):
        raise UsageError(f"report({metrics!r}) has no name for it: write report(loss={metrics!r})")
    session = current.get()
    if session is None:
        _outside("report")
        return
    session.report({**(metrics or {}), **values}, checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """Return the trial's newest checkpoint, the one to go on from, or None at its very beginning.

    Outside a trial it is None, and the log says so.
    """
    session = current.get()
    if session is None:
        _outside("get_checkpoint")
        return None
    return session.latest()


def should_checkpoint() -> bool:
    """Tell whether somebody asked the trial for a checkpoint now, as `%ckpt checkpoint` and `pause` do.

    It is true from then on until the next report, which is to have the checkpoint; outside a trial it
    never is. On Ray it becomes true with the report after somebody asked.
    """
    session = current.get()
    return session is not None and session.should_checkpoint()


@contextmanager
def checkpoint_dir(step: int) -> Iterator[Path]:
    """Lend a new folder whose files become the checkpoint of *step*, with the next report.

    A block that ends in an exception leaves no checkpoint. Outside a trial the folder is a temporary
    one and goes at the end of the block, and the log says so.
    """
    session = current.get()
    if session is None:
        _outside("checkpoint_dir")
        with TemporaryDirectory(prefix="nbckpt-") as place:
            yield Path(place)
    else:
        with session.checkpoint_dir(step) as folder:
            yield folder


def _outside(name: str) -> None:
    """Say it once in each context: a function that is tried out reports often, and a thread may have none."""
    if name in (told := _told.get()):
        return
    _told.set(told | {name})
    _log.warning("nbckpt.%s() does nothing here: no trial is running (start one with nbckpt.run)", name)
