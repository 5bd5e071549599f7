"""Functions as trainables: a function pushes its results, and waits in each report.

Meanwhile the trial takes in the result and saves the checkpoint. So a trial can be paused, stopped, saved
and restored between any two reports.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any, ClassVar

from nbckpt.errors import UsageError
from nbckpt.states import registry
from nbckpt.states.snapshot import CheckpointSource, snapshots
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.metrics import DONE, OnResult, Result
from nbckpt.trials.training.calling import Function, Style, call, style_of
from nbckpt.trials.training.handoff import Handoff
from nbckpt.trials.training.reporter import ResultChannel, StatusReporter
from nbckpt.trials.training.session import StopTrial, current
from nbckpt.trials.training.stager import CheckpointStager
from nbckpt.trials.training.trainable import SHOULD_CHECKPOINT, Trainable, failure, own_config

STOP_TIMEOUT_S = 10.0

_log = logging.getLogger("nbckpt")


class FunctionRunner(Trainable):
    """Runs a function as a trainable; `wrap_function` makes the class for a function.

    The function ends normally when it returns or raises `StopIteration`. Any other exception, `SystemExit`
    and `KeyboardInterrupt` too, becomes the cause of the `TrialError` that `train` raises after all
    results. In a stopped function, the next report raises `StopTrial`.
    """

    _function: ClassVar[Function]
    _style: ClassVar[Style]
    _states_every: ClassVar[int] = 0
    _stop_timeout: ClassVar[float] = STOP_TIMEOUT_S

    def setup(self, config: dict[str, Any]) -> None:
        """See `Trainable.setup`: nothing runs yet."""
        del config
        self._stager = CheckpointStager(self._checkpoints)
        self.request = self._stager.request
        self._rewind()

    def _rewind(self) -> None:
        """Prepare to run the function from its beginning."""
        self._thread: threading.Thread | None = None
        self._channel: ResultChannel = Handoff()

    @classmethod
    def tells_when_to_save(cls) -> bool:
        """Return True: a function reports its checkpoints itself."""
        return True

    def train(self) -> dict[str, Any]:
        """See `Trainable.train`; `should_checkpoint` marks a result with a new checkpoint to save.

        After the end of the function, return the last result again, with `done` and `__duplicate__`.
        """
        result = self.next_result()
        metrics = result.metrics or {**self._counts.last, DONE: True, "__duplicate__": True}
        # The result is taken. Python raises a Ctrl-C after a call, so none comes before the return.
        if result.media:
            metrics |= result.media
        if result.checkpoint == "given":
            metrics[SHOULD_CHECKPOINT] = True
        elif SHOULD_CHECKPOINT in metrics:
            del metrics[SHOULD_CHECKPOINT]
        return metrics

    def next_result(self) -> Result:
        """Let the function run to its next report, in its own thread. Return its result."""
        handoff = self._channel
        assert isinstance(handoff, Handoff), "the results are pushed"
        if not (self._thread and self._thread.ident) and not handoff.ended:
            self._start_thread()
        result = handoff.ask()
        if result is None and handoff.error is not None:
            raise handoff.error
        return result or self._last_result()

    def _last_result(self) -> Result:
        return Result({}, "given" if self._stager.new else "", done=True)

    def ask_for_checkpoint(self) -> None:
        """See `Trainable.ask_for_checkpoint`: `should_checkpoint()` returns True from now on."""
        self.request.ask()

    def push_results(self, on_result: OnResult, *, in_thread: bool = False) -> None:
        """See `Trainable.push_results`: each report calls *on_result* in the context of this call."""
        self._channel = channel = ResultChannel(on_result)
        if in_thread:
            self._start_thread()
            channel.over.wait()
        else:
            copy_context().run(self._run)
        if channel.error is not None:
            raise channel.error

    def _start_thread(self) -> None:
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="nbckpt-function", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        """Run the function to its end, in its own thread."""
        if self._channel.ended:
            return
        channel, reporter = self._channel, self._reporter()
        current.set(reporter)  # the context is a copy, which ends with the function
        registry.current.set(registry.Registry(origin=CheckpointSource(reporter.latest)))
        try:
            call(type(self)._function, type(self)._style, own_config(self.config), reporter)
        except (StopTrial, StopIteration):  # see docs/decisions/0017
            channel.close(self._last_result)
        except BaseException as error:  # noqa: BLE001  whatever ends the function is the trial's error
            if channel.ended:
                _log.warning("%s: %r was raised while the trial was stopped", self.trial_name, error)
            channel.close(failure(error))
        else:
            channel.close(self._last_result)

    def _reporter(self) -> StatusReporter:
        """Return a new connection from the function to its trial."""
        return StatusReporter(
            self._stager,
            self._channel,
            self._counts,
            self._states if type(self)._states_every else None,
            trial_name=self.trial_name,
            trial_id=self.trial_id,
            logdir=self.logdir,
            config=own_config(self.config),
        )

    def _states(self) -> Mapping[str, Any] | None:
        """Return the function's states if they are due with the current report."""
        is_due = (self.iteration + 1) % type(self)._states_every == 0
        return (snapshots() or None) if is_due else None

    def save(self, checkpoint_dir: str | os.PathLike[str] | None = None) -> str:
        """Save the checkpoint that the function reported last, with the counts of that moment.

        A saved checkpoint is not saved again. If the function has not reported one, the checkpoint is a null
        checkpoint, which restarts the function from its beginning. Its path names a record without a folder.

        Raises:
            UsageError: A folder was given, but the function chooses what it saves.
        """
        if checkpoint_dir is not None:
            raise UsageError("a function's checkpoints have their own folders: call save() without one")
        return super().save()

    def _commit(self, name: str | None) -> Record:
        return self._stager.save(self._counts.record(name))

    def save_to_object(self) -> bytes:
        """See `Trainable.save_to_object`: pack the checkpoint that `save` would save."""
        return self._stager.pack(self._counts.record())

    def _load(self, folder: CheckpointFolder, record: Record) -> None:
        self._end_thread()
        with self._channel.turn:  # as in cleanup
            self._stager.go_on_from(folder, record)
        self._rewind()

    def cleanup(self) -> None:
        """End the function: its next report raises, its `finally` blocks run, and its thread is joined."""
        self._end_thread()
        with self._channel.turn:  # a thread that the function started may be offering a checkpoint
            self._stager.drop()

    def _end_thread(self) -> None:
        self._channel.end()
        thread = self._thread
        # Without an identity it was not started: a Ctrl-C came between its making and its start.
        if thread is not None and thread.ident and thread is not threading.current_thread():
            thread.join(self._stop_timeout)
            if thread.is_alive():
                _log.warning(
                    "%s was asked to stop and still runs: a thread cannot be stopped before its next report",
                    self.trial_name,
                )


def wrap_function(
    function: Function, *, states_every: int = 0, stop_timeout: float = STOP_TIMEOUT_S
) -> type[FunctionRunner]:
    """Return a Trainable class that runs *function*.

    Args:
        function: `f(config)`, `f(config, checkpoint_dir=None)` or `f(config, reporter)`.
            `checkpoint_dir` is the path of the checkpoint to continue from. The function reports with
            `nbckpt.report`, or yields or returns a number or a dict.
        states_every: Save the function's states every N reports that carry no checkpoint; 0 for never.
        stop_timeout: Seconds that `stop` waits for the function's `finally` blocks.

    Raises:
        UsageError: The function takes other arguments; the message names them.

    Examples:
        >>> Train = nbckpt.trials.wrap_function(lambda config: {"loss": config["lr"]})
        >>> nbckpt.run(Train, {"lr": 0.1}).wait()
        True
    """
    name = getattr(function, "__name__", None) or type(function).__name__
    mixins = tuple(getattr(function, "__mixins__", ()))
    return type(
        name,
        (*mixins, FunctionRunner),
        {
            "_function": staticmethod(function),
            "_style": style_of(function),
            "_states_every": states_every,
            "_stop_timeout": stop_timeout,
            "__module__": __name__,
        },
    )


def trainable_class(given: Any, states_every: int = 0) -> type[Trainable]:
    """Return the class that runs the function or the Trainable class of a user.

    Args:
        given: A function, or a Trainable class.
        states_every: How often a function's states are saved, see `wrap_function`.

    Raises:
        UsageError: *given* is neither, or the function takes other arguments than a trial's.
    """
    if isinstance(given, type):
        if issubclass(given, Trainable):
            return given
        raise UsageError(
            f"{given.__name__} is not a Trainable: subclass nbckpt.trials.Trainable or give a function"
        )
    return wrap_function(given, states_every=states_every)
