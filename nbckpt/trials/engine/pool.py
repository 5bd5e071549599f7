"""Pool: the worker threads of an experiment. They take trials from a line until the line is empty."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

from nbckpt.core.interrupts import uninterrupted
from nbckpt.core.packs.pools import starts
from nbckpt.render import error_text
from nbckpt.trials.engine.attempt import Attempt
from nbckpt.trials.engine.guarded import SafeScheduler
from nbckpt.trials.engine.open_attempt import OpenAttempt
from nbckpt.trials.engine.run_settings import RunSettings
from nbckpt.trials.executors import InlineExecutor, ThreadExecutor
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.trial import Status, Trial, is_held

_log = logging.getLogger("nbckpt")
_working: contextvars.ContextVar[WorkerPool | None] = contextvars.ContextVar("nbckpt_pool", default=None)
"""The pool whose worker runs this code."""
_NO_THREADS = "threads cannot start here: trials run one after the other in the cell"


class PoolClient(Protocol):
    """An experiment, as the pool that runs its trials knows it."""

    @property
    def to_suggest(self) -> int:
        """The number of trials that can still be made when the line is empty."""

    def suggest(self) -> Trial | None:
        """Make the next trial. Return None if there is none now."""

    def on_begin(self) -> None:
        """Called before the first worker thread starts. The pool's lock is held."""

    def on_idle(self) -> None:
        """Called by the last worker thread when no trial runs."""

    def on_end(self) -> None:
        """Called after `on_idle`, unless new work came in between. The pool's lock is held."""

    def pause(self) -> None:
        """Pause all trials. Called after an interrupt."""


class WorkerPool:
    """The worker threads, and the line of trials that wait for them. Any thread may call it.

    Attributes:
        changed: Held while the line or the running attempts change.
        line: The trials that wait for their turn.
        running: The attempts under way, by their trials' names.
        workers: The number of worker threads.
        ending: Whether no trial runs and only the last worker thread is left.
        run_settings: The settings for every trial; None before the first work.
        notes: Problems outside the trials, one sentence each.
    """

    _client: PoolClient

    def __init__(self, name: str) -> None:
        self.changed = threading.Condition()
        self.line: deque[Trial] = deque()
        self.running: dict[str, Attempt] = {}
        self.workers = 0
        self.ending = False
        self.run_settings: RunSettings | None = None
        self.notes: list[str] = []
        self._name = name
        self._unanswered: set[str] = set()

    def begin(self, run_settings: RunSettings, client: PoolClient) -> None:
        """Use these settings and this client from now on. Call it only while there is no worker thread."""
        self.run_settings, self._client = run_settings, client
        run_settings.scheduler.others_wait = lambda: bool(self.line or client.to_suggest)

    @property
    def is_here(self) -> bool:
        """Whether a worker runs this code, in a trial or a callback. It would wait for itself without end."""
        return _working.get() is self

    def has(self, trial: Trial) -> bool:
        """Return whether a trial runs or waits for its turn."""
        return trial.id in self.running or trial in self.line

    @property
    def is_pausing(self) -> bool:
        """Whether a trial that has paused still counts as running, until its worker lets it go."""
        return any(attempt.trial.status == Status.PAUSED for attempt in self.running.values())

    def finish_pauses(self) -> None:
        """Wait while `is_pausing`: until then nobody can resume or stop the trial. A worker does not wait."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_here or not self.is_pausing)

    def wait(self, timeout: float | None) -> bool:
        """Wait until there is no worker thread. Return whether that happened within *timeout* seconds."""
        with self.changed:
            return self.changed.wait_for(lambda: not self.workers, timeout)

    def work(self, trials: Sequence[Trial], most: int, starting: ExitStack) -> None:
        """Put *trials* in the line. Start as many worker threads as there is work for, at most *most*.

        If threads cannot start, the trials run in this thread, and the call returns at their end.

        Args:
            trials: Trials that neither run nor wait.
            most: The most worker threads.
            starting: The locks under which the trials were chosen; released before a trial runs here.
        """
        assert self.run_settings is not None
        concurrent, scheduler = self.run_settings.executor.concurrent, self.run_settings.scheduler
        with starting:
            with self._lined_up(trials, scheduler):
                starting.enter_context(uninterrupted())  # a counted worker that does not work never ends
                with self.changed:
                    waiting = len(self.line) + self._client.to_suggest + len(scheduler.held)
                    wanted = min(most, len(self.running) + waiting)
                    missing = max(wanted, 1) - self.workers if concurrent else 1 - self.workers
                    if not self.workers:
                        self._client.on_begin()
                    self.workers += max(missing, 0)
            if not concurrent:
                if missing > 0:  # else another thread works, and takes them from the line
                    self._run_trials(starting.close)
                return
            for at in range(missing):
                # In a copy of the cell's context, so that the trial's output appears below that cell.
                run = contextvars.copy_context().run
                thread = threading.Thread(
                    target=run, args=(self._run_trials,), name="nbckpt-trial", daemon=True
                )
                if not starts(thread):
                    self._go_on_inline(missing - at - 1, starting.close)
                    return

    @contextmanager
    def _lined_up(self, trials: Sequence[Trial], scheduler: SafeScheduler) -> Iterator[None]:
        """Put *trials* in the line, and take them out again if the block fails: nobody would run them."""
        try:
            with self.changed:
                for trial in trials:
                    if trial.status != Status.PENDING or trial.attempts:
                        with TrialRecorder(trial) as recorder:
                            scheduler.resume(trial, recorder)
                            recorder.queue()
                    self.line.append(trial)
            yield
        except BaseException:
            with self.changed:
                for trial in set(trials).intersection(self.line):
                    self.line.remove(trial)
            raise

    def open(self, trial: Trial) -> OpenAttempt:
        """Start a trial whose code runs outside. `close` ends it.

        Raises:
            NbckptError: It cannot start; the trial has failed.
        """
        assert self.run_settings is not None
        attempt = OpenAttempt(self.run_settings, trial, f"{self._name}/{trial.id}")
        with self.changed:
            if not self.workers:
                self._client.on_begin()
            self.workers += 1
            self.running[trial.id] = attempt
        try:
            attempt.open()
        except BaseException:
            self.forget(attempt)
            self._work_off()
            raise
        with self.changed:
            self.changed.notify_all()  # see finish_pauses
        return attempt

    def close(self, attempt: OpenAttempt, error: BaseException | None = None) -> None:
        """End a trial whose code runs outside. If it was the last one, a thread does what follows the end."""
        try:
            attempt.close(error)
        finally:
            self.forget(attempt)
            self._work_off()

    def _work_off(self) -> None:
        """Do in a thread what a worker does when its trial has ended."""
        thread = threading.Thread(target=self._run_trials, name="nbckpt-trial", daemon=True)
        if not starts(thread):
            self._run_trials()

    def _go_on_inline(self, missing: int, is_started: Callable[[], object]) -> None:
        """Continue without threads: *missing* further worker threads do not start."""
        assert self.run_settings is not None
        with self.changed:
            self.workers -= missing
            if self.run_settings.executor.name == ThreadExecutor.name and self.workers == 1:
                self.run_settings = replace(self.run_settings, executor=InlineExecutor())
                self.notes.append(_NO_THREADS)
        self._run_trials(is_started)

    def _run_trials(self, is_started: Callable[[], object] = lambda: None) -> None:
        """Run attempts, one after the other, until no trial is left. This is a worker thread's function."""
        token = _working.set(self)
        try:
            is_started()
            while True:
                attempt = self._next()
                if attempt is not None:
                    self._run(attempt)
                elif self._left():
                    return
        except KeyboardInterrupt:  # only if trials run in the caller's thread
            self._interrupted()
            raise
        except BaseException as error:  # noqa: BLE001  waiting threads must hear of the end, whatever it is
            _log.exception("%s: nbckpt itself failed", self._name)
            self.notes.append(f"a worker thread ended: {error_text(error)}")
            self._rest()
            self._gone()
        finally:
            _working.reset(token)

    def _run(self, attempt: Attempt) -> None:
        assert self.run_settings is not None
        trial = attempt.trial
        try:
            attempt.run()
            if trial.finished:
                self.run_settings.tell_end(trial)
        finally:
            self.forget(attempt)

    def forget(self, attempt: Attempt) -> None:
        """Take in that an attempt has ended."""
        trial = attempt.trial
        with self.changed:
            self.running.pop(trial.id, None)
            if is_held(trial):
                attempt.scheduler.hold(trial)
            if trial.status == Status.PENDING:
                self.line.append(trial)
                if attempt.saves:  # the next attempt answers the request for a checkpoint
                    self._unanswered.add(trial.id)
            self.changed.notify_all()  # see finish_pauses

    def _next(self) -> Attempt | None:
        assert self.run_settings is not None
        with self.changed:
            sources = [self._promote, self._new]
            if self.run_settings.scheduler.takes_turns:
                sources.reverse()
            trial = sources[0]() or sources[1]()
            if trial is None:
                return None
            attempt = self.running[trial.id] = Attempt(self.run_settings, trial, f"{self._name}/{trial.id}")
            if trial.id in self._unanswered:
                self._unanswered.remove(trial.id)
                attempt.ask_for_checkpoint()
            return attempt

    def _new(self) -> Trial | None:
        """Return the next trial of the line, or one that the search suggests now; None if there is none."""
        return self.line.popleft() if self.line else self._client.suggest()

    def _promote(self, *, last: bool = False) -> Trial | None:
        """See `SafeScheduler.promote`. A trial that failed there has ended, and the next one is asked for."""
        assert self.run_settings is not None
        while trial := self.run_settings.scheduler.promote(last=last):
            if not trial.finished:
                return trial
            self.run_settings.tell_end(trial)
        return None

    def _left(self) -> bool:
        """End a worker thread, unless new work came. The last one calls `PoolClient.on_idle` first."""
        with self.changed:
            if self.line:
                return False
            if self.workers > 1:
                self.workers -= 1
                return True
            if trial := self._promote(last=True):
                self.line.append(trial)
                return False
        self._idle()
        with self.changed:
            if self.line:
                return False
            self._gone()
            return True

    def _idle(self) -> None:
        """Call `PoolClient.on_idle`, when no trial runs."""
        self.ending = True
        try:
            self._rest()
            self._client.on_idle()
        finally:
            self.ending = False

    def _rest(self) -> None:
        """Tell the executor that no trial runs. If it fails, that is a note."""
        assert self.run_settings is not None
        try:
            self.run_settings.executor.idle()
        except Exception as error:  # noqa: BLE001  an executor of the user's may raise anything
            self.notes.append(f"the executor failed after the trials: {error_text(error)}")

    def _interrupted(self) -> None:
        """Pause the trials that wait for their turn, and end the work."""
        try:
            self.running.clear()
            self._client.pause()
            self._idle()
        finally:
            self._gone()

    def _gone(self) -> None:
        """Count a worker thread as ended. After the last one nothing runs, and waiting threads continue."""
        with self.changed:
            self.workers = max(0, self.workers - 1)  # an interrupt in here leads here once more
            try:
                if not self.workers:
                    self.line.clear()  # not empty only if the last worker thread failed
                    self._client.on_end()
            finally:
                self.changed.notify_all()
