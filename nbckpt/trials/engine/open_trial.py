"""OpenTrial: a trial whose code runs outside nbckpt, in a cell or a script. See `nbckpt.track`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from html import escape
from types import TracebackType
from typing import Any, Self

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import Interrupted, UsageError
from nbckpt.render import Page, Result
from nbckpt.render.output import Output, current_shell, is_kernel
from nbckpt.states.maker import Maker
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.engine.open_attempt import OpenAttempt
from nbckpt.trials.engine.runner import Runner
from nbckpt.trials.executors.output import listener
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.training.namespace import savable
from nbckpt.trials.training.reporter import StatusReporter
from nbckpt.trials.training.session import (
    CheckpointLike,
    StopTrial,
    named_metrics,
    open_sessions,
    tracked,
)
from nbckpt.trials.views.data import TrialData, trial_data
from nbckpt.trials.views.statuses import word
from nbckpt.trials.views.trial_line import trial_line

_PERIOD_S = 0.25

_open: list[OpenTrial] = []


class _OpenSession:
    """What `nbckpt.report` and the other functions of the session call while a trial is open."""

    def __init__(
        self,
        reporter: StatusReporter,
        report: Callable[[dict[str, Any], CheckpointLike | None], None],
    ) -> None:
        self.trial_name = reporter.trial_name
        self.trial_id = reporter.trial_id
        self.logdir = reporter.logdir
        self.config = reporter.config
        self.report = report
        self.latest = reporter.latest
        self.checkpoint_dir = reporter.checkpoint_dir
        self.should_checkpoint = reporter.should_checkpoint


class OpenTrial(Result):
    """A trial that this process opened, until it ends. Any thread may report to it.

    Attributes:
        trial: The trial, as tables and pages show it.
        experiment: The experiment that it belongs to.
        trial_id: Its short name in the experiment, such as t0.
        trial_name: Its full name, such as baseline/t0.
        logdir: Its folder.
        config: Its configuration.
        maker: The code that opened it.

    Examples:
        >>> run = nbckpt.track("baseline", lr=0.1)
        >>> run.report(loss=0.5, checkpoint={"step": 1})
        >>> run.update_config({"batch": 32})
        >>> run.save({"step": 2}).to_dict()
        {'step': 2}
        >>> run.finish()
        >>> run.trial.config
        {'lr': 0.1, 'batch': 32}
    """

    def __init__(self, experiment: Experiment, runner: Runner, attempt: OpenAttempt, maker: Maker) -> None:
        reporter = attempt.reporter
        self.trial: Trial = attempt.trial
        self.experiment = experiment
        self.trial_id = reporter.trial_id
        self.trial_name = reporter.trial_name
        self.logdir = reporter.logdir
        self.config: Mapping[str, Any] = reporter.config
        self.maker = maker
        self.thread = threading.get_ident()
        self._reporter = reporter
        self._session = _OpenSession(reporter, self._take)
        self._attempt = attempt
        self._runner = runner
        self._output = Output()
        self._due = 0.0
        self._shown = ""
        self._lock = threading.RLock()
        self._has_ended = False
        self._reported_by = self.thread
        """The thread that opened it or reported last in this cell; 0 if none did."""
        self._was_interrupted = False
        _open.append(self)
        open_sessions.append(self._session)
        tracked.set(self._session)
        self._show()  # before it listens: a terminal prints the line
        self._listen()

    # What the user's code calls.

    @property
    def iteration(self) -> int:
        """The number of results, those before a restart included."""
        return self.trial.iteration

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint, to continue from; None if there is none yet."""
        return self._reporter.latest()

    @property
    def is_current(self) -> bool:
        """Whether this context opened it last."""
        return tracked.get() is self._session

    @property
    def is_open(self) -> bool:
        """Whether it still takes reports."""
        return not self._has_ended

    def report(
        self,
        metrics: Mapping[str, Any] | None = None,
        checkpoint: CheckpointLike | None = None,
        **values: Any,
    ) -> None:
        """Report a result, optionally with a checkpoint. See `nbckpt.report`.

        Raises:
            Interrupted: Somebody paused or stopped the trial. The message says how to continue.
            UsageError: The trial has ended, or the metrics are not a dict.
            StoreError: The disk failed, and with it the trial.
        """
        self._check_open()
        self._take(named_metrics(metrics, values), checkpoint)

    def _take(self, metrics: dict[str, Any], checkpoint: CheckpointLike | None) -> None:
        """Take in a result, which changes and keeps *metrics*."""
        self._reported_by = threading.get_ident()
        self._was_interrupted = False
        try:
            self._reporter.report(metrics, checkpoint)
        except StopTrial:
            self._end_as_asked()
        if time.monotonic() >= self._due:
            self._show()

    def save(self, variables: CheckpointLike) -> Checkpoint:
        """Save a checkpoint now, after the last result.

        Args:
            variables: The values by name, as `globals()` gives them: modules, private names and values that
                cannot be saved are left out, and those values are named. Or a Checkpoint, or the path of a
                folder or a file.

        Returns:
            The checkpoint. `to_dict` returns its values.

        Raises:
            UsageError: The trial has ended.
            NotFoundError: There is nothing at the path.
            StoreError: The disk failed; the former checkpoint stays.
        """
        self._check_open()
        self._attempt.save(savable(variables, OpenTrial) if isinstance(variables, Mapping) else variables)
        self._show()
        saved = self.checkpoint
        assert saved is not None
        return saved

    def update_config(self, values: Mapping[str, Any]) -> None:
        """Add values to the configuration, or replace them, durably.

        Raises:
            UsageError: The trial has ended, or *values* is not a dict.
            StoreError: The disk failed; the configuration is unchanged.
        """
        self._check_open()
        if not isinstance(values, Mapping):
            raise UsageError(f"update_config({values!r}) takes a dict: give one such as {{'lr': 0.1}}")
        self._attempt.update_config(values)
        self.config = self._session.config = self.trial.config

    def finish(self) -> None:
        """End the trial as done. A trial that has ended stays as it is."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the trial: as done, also after `sys.exit(0)`; as failed by an error; as paused by Ctrl-C."""
        self.end_after(error)

    # Its life.

    def end_after(self, error: BaseException | None) -> None:
        """End the trial after the code that reported to it: as done, failed, or paused after an interrupt."""
        if _is_interrupt(error) or (error is None and self._was_interrupted):
            self.close(pause=True)
        else:
            self.close(None if _is_success(error) else error)

    def close(self, error: BaseException | None = None, *, pause: bool = False) -> None:
        """End the trial once: as failed with an *error*, as paused, or as done."""
        with self._lock:
            if self._has_ended:
                return
            self._has_ended = True
            _open.remove(self)
            open_sessions.remove(self._session)
            if listener.get() is self._attempt.context.get(listener):
                listener.set(None)
            if pause:
                self._attempt.signal = "pause"
            self._runner.close(self._attempt, error)
            self._show()

    def _end_as_asked(self) -> None:
        """End the trial, because its last report was told to. Return if that report itself ended it."""
        error, signal = self._reporter.error, self._attempt.signal
        if isinstance(error, KeyboardInterrupt):  # the cell ends, and the trial stays open
            self._attempt.survive_interrupt()
            raise error
        self.close(error)
        if error is not None:
            raise error
        if signal:
            raise Interrupted(
                f"{self.trial_name} was {'paused' if signal == 'pause' else 'stopped'}. To continue it: "
                f"nbckpt.track({self.experiment.name!r}, resume={self._resume_as(signal)})"
            )

    def _resume_as(self, signal: str) -> str:
        return "True" if signal == "pause" else repr(self.trial_id)

    def _check_open(self) -> None:
        if self._has_ended:
            raise UsageError(
                f"{self.trial_name} has ended. Open a new trial: nbckpt.track({self.experiment.name!r}), or "
                f"continue this one: nbckpt.track({self.experiment.name!r}, resume={self.trial_id!r})"
            )

    # Cells.

    def on_cell_begin(self) -> None:
        """A cell begins: what it prints goes to the log, if no other trial is open."""
        self._reported_by = 0
        if len(_open) == 1:
            self._listen()

    def on_cell_end(self, error: BaseException | None) -> None:
        """A cell has ended. If it failed after a report from the cell itself, the trial fails."""
        if error is not None and self._reported_by == threading.get_ident():
            if _is_interrupt(error):
                self._was_interrupted = True  # the next cell may continue the loop
            else:
                self.end_after(error)
                return
        self._show()

    def _listen(self) -> None:
        """Keep what this context prints in the trial's log."""
        listener.set(self._attempt.context.get(listener))

    def _show(self) -> None:
        """Show the state in one line below the cell that opened the trial."""
        self._due = time.monotonic() + _PERIOD_S
        line = "" if current_shell() is None else trial_line(self.trial, self.trial_name)
        if line != self._shown:
            self._shown = line
            self._output.put({"text/plain": line, "text/html": f"<small>{escape(line)}</small>"})

    def _ipython_display_(self) -> None:
        """Show nothing more: the line below the cell that opened the trial is there."""
        self._show()

    def page(self) -> Page:
        """See `Result.page`: the line below the cell."""
        return Page(trial_line(self.trial, self.trial_name))

    def for_json(self) -> TrialData:
        """Return the trial for other programs; see render/json.py."""
        return trial_data(self.trial, word(self.trial))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the trial: a copy takes no reports."""
        return self.trial.__reduce__()


def open_trials() -> tuple[OpenTrial, ...]:
    """Return the trials that are open in this process, in the order in which they were opened."""
    return tuple(_open)


def end_all() -> None:
    """End the open trials at the end of the process.

    A script ends them as done, or as failed after an uncaught error. A kernel ends them as done, or as paused
    if the cell that reported last was interrupted.
    """
    error = None if is_kernel(current_shell()) else getattr(sys, "last_value", None)
    for trial in open_trials():
        trial.end_after(error)


def follow_cells() -> None:
    """Follow the cells of a notebook from now on, if this is one."""
    shell = current_shell()
    if shell is not None and _on_cell_end not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("pre_run_cell", _on_cell_begin)
        shell.events.register("post_run_cell", _on_cell_end)


def _on_cell_begin(_: object) -> None:
    for trial in open_trials():
        trial.on_cell_begin()


def _on_cell_end(result: Any) -> None:
    for trial in open_trials():
        trial.on_cell_end(result and result.error_in_exec)  # None: the cell was interrupted before it ran


def _is_interrupt(error: BaseException | None) -> bool:
    """Tell whether an error is an interrupt. Where a cell or a program awaits something, it cancels that."""
    if error is None:
        return False
    from asyncio import CancelledError  # here, since scripts start sooner without it

    return isinstance(error, KeyboardInterrupt | CancelledError)


def _is_success(error: BaseException | None) -> bool:
    """Tell whether an exception only ends the code: `sys.exit()` with status 0, or the end of a generator."""
    if isinstance(error, SystemExit):
        return error.code is None or (isinstance(error.code, int) and error.code == 0)
    return error is None or isinstance(error, GeneratorExit)


def _forget_all() -> None:
    """Forget the open trials in a fork: they belong to the parent process."""
    for trial in open_trials():
        trial._has_ended = True
    _open.clear()
    open_sessions.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
