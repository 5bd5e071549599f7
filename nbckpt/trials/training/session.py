"""The session: the functions that user code calls while it runs as a trial.

A context variable holds the current trial, so two trials in one process never see each other. A thread
that the function starts with a copy of its context belongs to the same trial. Another context variable holds
the trial that `nbckpt.track` opened last in this context. Code without either reports to the only trial that
is open in this process.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import UsageError
from nbckpt.provenance import inputs

CheckpointLike = Checkpoint | Mapping[Any, Any] | str | os.PathLike[str]
"""A checkpoint that can be reported: a Checkpoint, a dict, or the path of a folder or a file."""

_log = logging.getLogger("nbckpt")
_NOT_KEPT = (
    "nbckpt: this report is not kept, because no trial is open. Open one before the loop: "
    'run = nbckpt.track("NAME"), or run a function as trials: nbckpt.run(FUNCTION, CONFIG)\n'
)


class StopTrial(SystemExit):  # see docs/decisions/0017
    """Raised by `report` in a stopped trial, so that the function's `finally` blocks run.

    It is not a `StopIteration`: `except Exception` would catch that, and Python turns it into a
    `RuntimeError` inside generators and coroutines. It is a `SystemExit`, so a thread of the function that
    meets it ends silently. A function that raises `StopIteration` itself ends normally.

    Examples:
        >>> def train(config):
        ...     try:
        ...         for step in range(3):
        ...             nbckpt.report(step=step)  # raises StopTrial in a stopped trial
        ...     finally:
        ...         print("closed")
        >>> nbckpt.run(train).wait()
        closed
        True
    """


class Session(Protocol):
    """The object behind the functions below while a trial runs.

    Attributes:
        trial_name: The trial's full name, for people.
        trial_id: Its short name in its experiment.
        logdir: The trial's folder.
        config: The trial's configuration.
    """

    trial_name: str
    trial_id: str
    logdir: str
    config: Mapping[str, Any]

    def report(self, metrics: dict[str, Any], checkpoint: CheckpointLike | None) -> None:
        """Hand over a result. Return when the trial may continue."""

    def latest(self) -> Checkpoint | None:
        """Return the newest checkpoint of the trial."""

    def checkpoint_dir(self, step: int) -> AbstractContextManager[Path]:
        """Lend a folder that becomes a checkpoint."""

    def should_checkpoint(self) -> bool:
        """Return whether somebody asked for a checkpoint."""


current: ContextVar[Session | None] = ContextVar("nbckpt_session", default=None)
"""The trial whose function runs this code."""

in_trial: ContextVar[bool] = ContextVar("nbckpt_in_trial", default=False)
"""Whether this process belongs to one trial. The steps of a Trainable have no session there."""

tracked: ContextVar[Session | None] = ContextVar("nbckpt_tracked", default=None)
"""The trial that `nbckpt.track` opened last in this context; it may have ended."""

open_sessions: list[Session] = []
"""The tracked trials that are open in this process."""

_logged: ContextVar[frozenset[str]] = ContextVar("nbckpt_logged", default=frozenset())


def active() -> Session | None:
    """Return the trial that this code belongs to, or None.

    Raises:
        UsageError: Several trials are open, and this context opened none of them.
    """
    session = current.get()
    if session is not None or not open_sessions:
        return session
    session = tracked.get()
    if session in open_sessions:
        return session
    sessions = list(open_sessions)  # another thread may close one
    if len(sessions) > 1:
        names = ", ".join(each.trial_name for each in sessions)
        raise UsageError(
            f"several trials are open: {names}. Name one: run = nbckpt.track(…), then run.report(…)"
        )
    return sessions[0] if sessions else None


def _folder() -> Path | None:
    try:
        session = active()
    except UsageError:  # several trials are open: the input belongs to the cell
        return None
    return None if session is None or not session.logdir else Path(session.logdir)


inputs.trial_folder.function = _folder


def report(
    metrics: Mapping[str, Any] | None = None, *, checkpoint: CheckpointLike | None = None, **values: Any
) -> None:
    """Report a result of the current trial, optionally with a checkpoint.

    When the call returns, the result is in the trial's journal and the checkpoint is committed. Both
    survive the death of the kernel. If no trial is open, the call does nothing and says once how to open one.

    Args:
        metrics: The result; a copy is taken. Figures, images of PIL, frames, long texts and objects of
            `nbckpt.media` are stored beside the numbers. Other values that are not numbers become text.
        checkpoint: The checkpoint to resume from after this result: a dict, a Checkpoint, or the path of
            a folder, whose files are copied.
        values: Further metrics.

    Raises:
        StopTrial: The trial was stopped or paused. Do not catch it.
        UsageError: The metrics are not a dict; or their `done`, which ends the trial, is neither True nor
            False; or the trial's folder is in the checkpoint; or several tracked trials are open, and this
            context opened none of them; or this is a fork of the process of the function.
        NotFoundError: There is no such folder.
        CodecError: The dict cannot be pickled.

    Examples:
        >>> with nbckpt.track("baseline", lr=0.1) as run:
        ...     for step in range(3):
        ...         nbckpt.report(loss=0.5 / (step + 1), checkpoint={"step": step})
        >>> run.trial.iteration
        3
    """
    named = named_metrics(metrics, values)
    session = active()
    if session is None:
        _outside("report")
        return
    session.report(named, checkpoint)


def named_metrics(metrics: Mapping[str, Any] | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the metrics of a report.

    Raises:
        UsageError: The metrics are not a dict.
    """
    if type(metrics) is not dict and metrics is not None and not isinstance(metrics, Mapping):
        raise UsageError(f"report({metrics!r}) has no name for it: write report(loss={metrics!r})")
    return {**(metrics or {}), **values}


def get_checkpoint() -> Checkpoint | None:
    """Return the trial's newest checkpoint, to continue from, or None if there is none yet.

    Outside a trial, return None and log that.

    Examples:
        >>> def train(config):
        ...     checkpoint = nbckpt.get_checkpoint()
        ...     start = checkpoint.to_dict()["step"] + 1 if checkpoint else 0
        ...     for step in range(start, 3):
        ...         nbckpt.report(step=step, checkpoint={"step": step})
        >>> nbckpt.run(train).wait()
        True
    """
    session = active()
    if session is None:
        _outside("get_checkpoint")
        return None
    return session.latest()


@dataclass(frozen=True)
class TrialContext:
    """The trial that runs the current code.

    Attributes:
        id: The trial's short name in its experiment, such as t3.
        name: Its full name, for people.
        folder: Its folder.
        config: Its configuration.
    """

    id: str
    name: str
    folder: Path
    config: Mapping[str, Any]


def get_context() -> TrialContext:
    """Return the trial that runs the current code.

    Outside a trial, return one without a name, in the working folder, and log that.

    Examples:
        >>> with nbckpt.track("baseline"):
        ...     nbckpt.get_context().id
        't0'
    """
    session = active()
    if session is None:
        _outside("get_context")
        return TrialContext("", "", Path.cwd(), {})
    return TrialContext(session.trial_id, session.trial_name, Path(session.logdir), session.config)


def should_checkpoint() -> bool:
    """Return whether somebody asked the trial for a checkpoint, as `%ckpt checkpoint` and `pause` do.

    It stays true until the next report, which should carry the checkpoint. Outside a trial it is always
    False. On Ray it becomes true with the first report after the request.

    Examples:
        >>> def train(config):
        ...     for step in range(3):
        ...         checkpoint = {"step": step} if nbckpt.should_checkpoint() else None
        ...         nbckpt.report(step=step, checkpoint=checkpoint)
        >>> nbckpt.run(train).wait()
        True
    """
    session = active()
    return session is not None and session.should_checkpoint()


@contextmanager
def checkpoint_dir(step: int) -> Iterator[Path]:
    """Lend a new folder. Its files become the checkpoint of *step* with the next report.

    A block that raises an exception leaves no checkpoint. Outside a trial the folder is temporary: it is
    removed at the end of the block, and the log says so.
    """
    session = active()
    if session is None:
        _outside("checkpoint_dir")
        with TemporaryDirectory(prefix="nbckpt-") as name:
            yield Path(name)
    else:
        with session.checkpoint_dir(step) as folder:
            yield folder


def _outside(name: str) -> None:
    """Say it once per context: a function that is tried out reports often, and a thread may have no trial.

    A report that is lost is said in the cell, which a user reads, and not in the log.
    """
    if name in (logged := _logged.get()):
        return
    _logged.set(logged | {name})
    if name != "report":
        _log.warning("nbckpt.%s() does nothing here: no trial is running (start one with nbckpt.run)", name)
        return
    with suppress(OSError, ValueError, AttributeError):  # nobody can read it: the stream is gone
        sys.stderr.write(_NOT_KEPT)
