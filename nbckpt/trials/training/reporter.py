"""Reporter: a function's connection to its trial."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from copy import deepcopy
from pathlib import Path
from typing import Any

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import UsageError
from nbckpt.media.intake import Intake
from nbckpt.states.snapshot import snapshots
from nbckpt.trials.model.metrics import (
    DONE,
    TOO_DEEP,
    Counts,
    OnResult,
    Result,
    all_numbers,
    all_plain,
    as_plain,
    check_counts,
)
from nbckpt.trials.training.session import CheckpointLike, StopTrial
from nbckpt.trials.training.stager import CheckpointStager

_IN_A_FORK = "a fork of a trial's process cannot report: return the values, and report them in the trial"


class ResultChannel:  # see docs/decisions/0064
    """Pushes a function's results to its trial, one at a time. A fork of the process pushes none.

    Args:
        on_result: Takes each result, in the context of this call. Returns whether the function may continue.

    Attributes:
        turn: Held while a result is pushed, because threads of the function may report too.
        ended: Whether the function has ended, or ends with its next report.
        process: The process of the function.
        over: Set when no further result will be pushed.
        error: The exception that ended the function, or that *on_result* raised; None if there was none.
    """

    def __init__(self, on_result: OnResult) -> None:
        self.turn = threading.RLock()
        self.ended = False
        self.process = os.getpid()
        self.over = threading.Event()
        self.error: BaseException | None = None
        self._on_result = on_result
        self._context = copy_context()

    def push(self, result: Result) -> None:
        """Push a result. Return when the function may continue or is ended. The caller holds the turn."""
        try:
            if not self._context.run(self._on_result, result):
                self.end()
        except BaseException as error:  # noqa: BLE001  it belongs to the trial; the function must not see it
            self.error = error
            self.end()

    def close(self, last: Callable[[], Result] | BaseException) -> None:
        """Mark the function as ended, and push its last result or keep its error. Called by its thread."""
        if os.getpid() != self.process:
            return
        with self.turn:
            if self.ended:
                return
            self.ended = True
            if isinstance(last, BaseException):
                self.error = last
            else:
                self.push(last())
            self.end()

    def end(self) -> None:
        """End the function with its next report."""
        self.ended = True
        self.over.set()


class StatusReporter:
    """A function's connection to its trial: `reporter(loss=0.1)` reports a result.

    The functions `nbckpt.report`, `get_checkpoint` and `checkpoint_dir` use it.

    Args:
        stager: Takes the function's checkpoints, and requests for them.
        channel: Takes its results; None if the function was not started by a runner.
        counts: The trial's counts.
        states: Returns the states to save with a report that has no checkpoint, or None if they are not
            due; None if states are never saved.
        trial_name: The trial's full name, for people.
        trial_id: Its short name in its experiment.
        logdir: The trial's folder.
        config: The trial's configuration.
    """

    def __init__(
        self,
        stager: CheckpointStager,
        channel: ResultChannel | None = None,
        counts: Counts | None = None,
        states: Callable[[], CheckpointLike | None] | None = None,
        *,
        trial_name: str = "",
        trial_id: str = "",
        logdir: str = "",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.trial_name = trial_name
        self.trial_id = trial_id
        self.logdir = logdir
        self.config = config or {}
        self._stager = stager
        self._channel = channel
        self._counts = counts or Counts()
        self._states = states
        self._intake = Intake(trial_name)
        self._went_on_at = time.perf_counter()

    def __call__(self, **metrics: Any) -> None:
        """Report a result. Return when the trial may continue.

        Raises:
            UsageError: The function was not started by a runner, this is a fork of its process, or
                `check_counts` refuses the metrics.
            StopTrial: The trial was stopped. Do not catch it.
        """
        self.report(metrics, None)

    def report(self, metrics: dict[str, Any], checkpoint: CheckpointLike | None) -> None:
        """See `nbckpt.report`. It keeps and changes *metrics*."""
        channel, stager, request = self._channel, self._stager, self._stager.request
        if channel is None:
            raise UsageError("this reporter belongs to no trial. Start the function with nbckpt.run().")
        if os.getpid() != channel.process:
            raise UsageError(_IN_A_FORK)
        check_counts(metrics)
        media, numbers = None, all_numbers(metrics)
        if not numbers:
            metrics, media = self._intake.take(metrics)
            if not all_plain(metrics):
                metrics = {key: self._copied(key, value) for key, value in metrics.items()}
        asked = request.is_open  # read once: the next report answers a request from here on
        if checkpoint is None and (asked or self._states is not None) and not stager.new:
            checkpoint = None if self._states is None else self._states()
            if checkpoint is None and asked:
                checkpoint = snapshots() or None
        with channel.turn:  # no other thread's result may come between checkpoint and result
            if channel.ended:
                raise StopTrial
            if checkpoint is not None:
                stager.take(checkpoint)
            self._counts.add(metrics, time.perf_counter() - self._went_on_at)
            if given := stager.newest and stager.new:
                given.counts = given.counts or self._counts.record()
            missing = (asked or given) and request.answer(given=bool(given))
            done = bool(metrics[DONE])
            channel.push(
                Result(metrics, "given" if given else "missing" if missing else "", done, media, numbers)
            )
            self._went_on_at = time.perf_counter()
            if channel.ended:
                raise StopTrial

    @property
    def turn(self) -> AbstractContextManager[object]:
        """Held by one thread at a time, to offer a checkpoint or to report."""
        return nullcontext() if self._channel is None else self._channel.turn

    @property
    def error(self) -> BaseException | None:
        """The error that ended the connection, such as a full disk."""
        return None if self._channel is None else self._channel.error

    def reopen(self) -> None:
        """Take results again after an error ended the connection."""
        if self._channel is not None:
            self._channel.error, self._channel.ended = None, False
            self._channel.over.clear()

    def make_checkpoint_dir(self, step: int) -> str:
        """Return a new empty folder for the checkpoint of *step*, for `set_checkpoint`.

        The folder gets the checkpoint's name only when the checkpoint is saved. So an exception before that
        leaves nothing that looks like a checkpoint.
        """
        return str(self._stager.lend(step))

    @contextmanager
    def checkpoint_dir(self, step: int) -> Iterator[Path]:
        """See `nbckpt.trials.checkpoint_dir`."""
        stage = self._stager.lend(step)
        try:
            yield stage
            if self._stager.is_lent(stage):
                self.set_checkpoint(stage)
        finally:
            self._stager.take_back(stage)

    def set_checkpoint(self, checkpoint: CheckpointLike, *, is_new: bool = True) -> None:
        """Offer a checkpoint. It is saved with the next result.

        Args:
            checkpoint: A dict, a Checkpoint, or the path of a folder or a file; a copy is taken.
            is_new: Whether the checkpoint is still to be saved.

        Raises:
            NotFoundError: There is nothing at the path.
            UsageError: This is a fork of the function's process.
            StopTrial: The trial was stopped. Do not catch it.
        """
        channel = self._channel
        if channel is not None and os.getpid() != channel.process:
            raise UsageError(_IN_A_FORK)
        with self.turn:  # not while the former offer is saved
            if channel is not None and channel.ended:
                raise StopTrial
            self._stager.take(checkpoint, is_new=is_new)

    def has_new_checkpoint(self) -> bool:
        """Return whether an offered checkpoint is not saved yet."""
        return self._stager.new is not None

    def get_checkpoint(self) -> Path | None:
        """Return the path of the checkpoint that was offered or restored last; nothing changes."""
        location = self._stager.location()
        return None if location is None else location[0] / location[1]

    def should_checkpoint(self) -> bool:
        """See `nbckpt.should_checkpoint`."""
        return self._stager.request.poll()

    def latest(self) -> Checkpoint | None:
        """See `nbckpt.get_checkpoint`."""
        location = self._stager.location()
        return None if location is None else Checkpoint.from_directory(location[0])

    def _copied(self, name: str, value: Any) -> Any:
        """Return a copy of a metric, which later changes do not reach."""
        try:
            return deepcopy(value)
        except RecursionError:
            self._intake.say_too_deep(str(name))
            return TOO_DEEP
        except Exception:  # noqa: BLE001  some objects cannot be copied, such as a tensor inside its graph
            return as_plain(value)
