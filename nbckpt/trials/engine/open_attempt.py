"""OpenAttempt: an attempt whose code runs outside, between two calls. See `OpenTrial`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from contextvars import Context, copy_context
from typing import Any

from nbckpt.trials.engine.attempt import Attempt
from nbckpt.trials.engine.verdict import DONE
from nbckpt.trials.executors.cell import CellWorker
from nbckpt.trials.model import params
from nbckpt.trials.training.reporter import StatusReporter
from nbckpt.trials.training.session import CheckpointLike
from nbckpt.trials.training.trainable import failure


class OpenAttempt(Attempt):  # see docs/decisions/0082
    """An attempt that `open` starts and `close` ends. In between, the user's code reports.

    Attributes:
        reporter: The connection through which the code reports.
        context: The context in which the trial's output is kept.
    """

    reporter: StatusReporter
    context: Context

    def open(self) -> None:
        """Record the start, and restore the trial's newest checkpoint.

        Raises:
            NbckptError: It cannot start; the trial has failed.
        """
        self.context = copy_context()
        self.context.run(self._open)

    def _open(self) -> None:
        try:
            with ExitStack() as stack:
                stack.enter_context(self._keeping_log())
                worker = self._start(stack, self._find_origin())
                stack.callback(self._put_away)
                assert isinstance(worker, CellWorker)
                if self._origin is not None:
                    worker.restore(self._origin)
                self.reporter = worker.connect(self.on_result)
                self._stack = stack.pop_all()
        except BaseException as error:
            self._fail(error)
            self._recorder.close()
            raise

    def survive_interrupt(self) -> None:
        """Continue after Ctrl-C came while a result was taken in: the result may be in the journal."""
        with self.reporter.turn:
            self._recorder.read_again()
            self.reporter.reopen()

    def save(self, checkpoint: CheckpointLike) -> None:
        """Save a checkpoint now, after the last result.

        Raises:
            NotFoundError: There is nothing at the path.
            CodecError: The dict cannot be pickled.
            StoreError: The disk failed; the former checkpoint stays.
        """
        with self.reporter.turn:
            self.reporter.set_checkpoint(checkpoint)
            self._recorder.sync()  # a checkpoint must not outlive its results
            self.context.run(self._save)

    def update_config(self, values: Mapping[str, Any]) -> None:
        """See `OpenTrial.update_config`."""
        with self.reporter.turn:
            config = self.trial.config | dict(values)
            params.write({self.trial.folder: config})
            self._state.config = config
            self._settings.experiment.version += 1

    def close(self, error: BaseException | None = None) -> None:
        """End the trial: as failed with an *error*; as paused or stopped if it was asked to; else as done."""
        self.context.run(self._close, error)

    def _close(self, error: BaseException | None) -> None:
        with self._recorded():
            with self._stack:
                if error is not None:
                    raise failure(error)
            if not (self.signal or self._verdict.ends):
                self._verdict = DONE
            self._finish()
