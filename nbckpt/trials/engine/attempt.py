"""Attempt: run one trial from its checkpoint to its end, on any executor."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

from nbckpt.errors import NbckptError, StoreError, TrialError
from nbckpt.provenance.trial import of_worker
from nbckpt.trials.checkpoints.durable import NotDurableError
from nbckpt.trials.checkpoints.origin import lent
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.engine.guarded import SafeScheduler
from nbckpt.trials.engine.run_settings import RunSettings
from nbckpt.trials.engine.settling import missed
from nbckpt.trials.engine.system import SystemSampler
from nbckpt.trials.engine.takeover import take_over
from nbckpt.trials.engine.verdict import DONE, GOES_ON, Verdict, following, settled, verdict_on
from nbckpt.trials.executors import Job, Worker, WorkerEndedError, WorkerTimeUpError
from nbckpt.trials.executors.output import Speaker, listener, speaker, teeing
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.log import Log
from nbckpt.trials.model.metrics import FirstResult, Result
from nbckpt.trials.model.reading import complete
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.trial import STOPPED, Status, Trial, state_of

ControlSignal = Literal["", "pause", "stop"]
"""What a user asked a running trial to do; empty for nothing."""

NOT_SAVED = (
    "it was asked for a checkpoint and reported none: report(…, checkpoint=…) when nbckpt.should_checkpoint()"
)

_log = logging.getLogger("nbckpt")


class Attempt:
    """One attempt of one trial. A worker thread calls `run`; any thread may call `ask`.

    Attributes:
        trial: The trial.
        signal: The pause or stop that a user asked for; it takes effect after the next result.
        saves: Whether a user asked for a checkpoint; it is saved with the next result.
    """

    def __init__(self, settings: RunSettings, trial: Trial, name: str) -> None:
        self.trial = trial
        self._state = state_of(trial)
        self.signal: ControlSignal = ""
        self.saves = False
        self._settings = settings
        self._name = name
        self._worker: Worker | None = None
        self._origin: Record | None = None
        self._verdict, self._is_judged = GOES_ON, settings.judges
        self._warning, self._began_with = "", state_of(trial).checkpoint
        self._expects_decision = False
        self._saves_itself = settings.trainable.tells_when_to_save()
        self._saved_at = 0
        self._checkpoints = trial.checkpoints
        self._recorder = TrialRecorder(trial)
        self._sampler = SystemSampler() if settings.system_metrics else None

    @property
    def scheduler(self) -> SafeScheduler:
        """What decides whether the trial goes on."""
        return self._settings.scheduler

    def ask(self, signal: ControlSignal) -> None:
        """Ask for a pause or a stop after the next result. A stop overrides a pause.

        A pause asks for a checkpoint too, if the trainable has one: the trial resumes from it.
        """
        if self.signal != "stop":
            self.signal = signal
            if signal == "pause":
                self.ask_for_checkpoint()

    def ask_for_checkpoint(self) -> None:
        """Ask for a checkpoint with the next result. The trial then continues."""
        if not self.saves:
            self.saves = True
            if self._worker is not None:
                self._worker.ask_for_checkpoint()

    def kill(self) -> None:
        """End the attempt at once, if the executor can."""
        self.signal = "stop"
        if self._worker is not None:
            self._worker.kill()

    def run(self) -> None:
        """Run the trial until it ends, fails, or is paused or stopped; its journal says which.

        Raises:
            KeyboardInterrupt: The executor runs trials in the caller's thread, and Ctrl-C interrupted it. The
                trial is paused.
        """
        with self._recorded():
            try:
                with self._keeping_log(), ExitStack() as held:
                    self._train(held)
            except WorkerEndedError as error:  # such as a process that the kernel ends when it shuts down
                self.signal = self.signal or "pause"
                self._warn(error)
            except WorkerTimeUpError as error:
                if self._continues(error):
                    return
            self._finish()

    def _continues(self, error: WorkerTimeUpError) -> bool:
        """Let the trial wait for another worker, unless a user asked it to pause or to stop.

        Raises:
            TrialError: Another worker would only repeat what this one did.
        """
        if self.signal:
            return False
        if self._state.checkpoint == self._began_with:
            raise TrialError(
                f"{error}, and the trial saved no checkpoint in that time: report checkpoints more often, or "
                "give it more time"
            ) from error
        self._recorder.pause(str(error))
        self._recorder.queue()
        return True

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Record an error of the block, which ends the trial. After the block nobody writes the journal."""
        try:
            yield
        except BaseException as error:  # any error ends only this trial; the others continue
            if self._is_interrupt(error):
                self._rest()
                raise KeyboardInterrupt from error
            self._fail(error)
        finally:
            self._recorder.close()
            self._settings.experiment.version += 1

    def _is_interrupt(self, error: BaseException) -> bool:
        """Return whether an error is Ctrl-C, which reaches a trial only if it runs in the caller's thread."""
        interrupted = isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)
        return interrupted and not self._settings.executor.concurrent

    def _rest(self) -> None:
        """Pause the trial after an interrupt. It can resume from its last checkpoint."""
        self.signal = self.signal or "pause"
        try:
            if not self.trial.finished:
                self._finish()
        except NbckptError as error:
            self._fail(error)

    @contextmanager
    def _keeping_log(self) -> Iterator[None]:
        """Copy everything printed in this context, and in copies of it, to the trial's log."""
        log = Log(self.trial.folder, self._warn, is_new=not self.trial.attempts)
        by = Speaker(self.trial.id)
        tokens = listener.set(log.write), speaker.set(by)
        try:
            with teeing():
                yield
        finally:
            listener.reset(tokens[0])
            speaker.reset(tokens[1])
            log.close()
            by.ends()

    def _finish(self) -> None:
        verdict, hold = self._verdict, self._verdict.hold
        if hold is not None:
            self._recorder.pause(self._with_warning(hold.reason), by=hold)
        elif self.signal == "pause" and not verdict.ends:
            self._recorder.pause(self._with_warning("paused"))
        else:
            reason, early = (verdict.reason, verdict.early) if verdict.ends else (STOPPED, True)
            self._recorder.end(self._with_warning(reason), stopped_early=early)
            self._settings.callbacks.call("on_trial_complete", self.trial)

    def _train(self, held: ExitStack) -> None:
        notes = self._find_origin()
        if self._is_settled():
            return
        worker = self._start(held, notes)
        try:
            if self._origin is not None and not self.signal:
                worker.restore(self._origin)
            if not self.signal:
                worker.run(self.on_result)
        finally:
            self._put_away()

    def _find_origin(self) -> list[str]:
        """Find the checkpoint to start from. Return a note for each checkpoint that was passed over."""
        complete(self._state)
        self._checkpoints = self._settings.trainable.checkpoints_in(self.trial.folder, self._name)
        self._checkpoints.sweep()
        if self._state.scheduling.takeover is not None:
            take_over(self._recorder, self._checkpoints)
        self._began_with = self._state.checkpoint
        self._origin, notes = self._checkpoints.newest_whole(self._state.checkpoint or "")
        return notes

    def _is_settled(self) -> bool:
        """Do what the scheduler decided, if a crash was faster. Return whether the trial does not start."""
        decision, state = missed(self.scheduler, self.trial, self._origin), self._state
        if decision is None or self._origin is None:
            return False
        if state.checkpoint != self._origin.name:
            self._recorder.saved(self._origin)
        self._recorder.decided(decision)
        self._verdict = Verdict(hold=decision) if decision.do == "pause" else following(decision)
        return self._verdict is not GOES_ON

    def _start(self, held: ExitStack, notes: Sequence[str]) -> Worker:
        """Record the start, and start the worker. *held* keeps what the trial starts from."""
        settings, trial = self._settings, self.trial
        kept = settings.provenance
        if self._origin is None and settings.origin:
            self._recorder.start(settings.executor.name, None, settings.origin, provenance=kept)
            self._origin = held.enter_context(lent(trial.folder))  # see docs/decisions/0075
        else:
            self._recorder.start(settings.executor.name, self._origin, provenance=kept)
        self._state.note = note = "; ".join(notes)
        self._saved_at = self._state.iteration
        self._expect_decision()
        settings.callbacks.call("on_trial_start", trial)
        settings.experiment.version += 1
        job = Job(
            settings.trainable,
            self._state.config,
            trial.folder,
            trial.id,
            self._name,
            self._waits,
            settings.sync,
            self._warn,
            settings.resources,
            self.ask_for_checkpoint,
            bool(self.scheduler.held or self.scheduler.others_wait()),
        )
        self._worker = worker = settings.executor.start(job)
        self._state.note = note
        if self.saves:
            worker.ask_for_checkpoint()
        return worker

    def _put_away(self) -> None:
        """End the worker, also for a pause: see docs/decisions/0016."""
        assert self._worker is not None
        self._worker.stop()
        self._origin = None
        self._prune()

    def _waits(self, missing: str) -> bool:
        """Show the resources that the trial waits for. Return whether to continue waiting."""
        if missing and missing != self._state.note:
            self._state.note = missing
            self._settings.experiment.version += 1
        return not self.signal

    def on_result(self, result: Result) -> bool:
        """Take in one result. Return whether the trial may continue."""
        settings, trial, metrics = self._settings, self.trial, result.metrics
        verdict = DONE if result.done else GOES_ON
        if type(result) is FirstResult and settings.provenance:
            of_worker(trial.folder, result.origin)
        if self._sampler is not None and (load := self._sampler.sample()):
            self._recorder.load(load)
        if metrics:
            # Before the checkpoint: after a crash in between, this result is repeated, not lost.
            durable = result.checkpoint == "given"
            self._recorder.result(metrics, result.media, durable=durable, numbers=result.numbers)
            if self._is_judged:
                verdict = verdict_on(result, settings, self._recorder)
        if result.checkpoint == "given" or self._is_due(ends=verdict.ends):
            self._save()
        elif result.checkpoint == "missing":
            self.saves = False
            if not self._expects_decision:
                self._state.note = NOT_SAVED
        if verdict.hold is not None:
            verdict = self._hold(verdict, verdict.hold)
        if metrics and settings.callbacks.listed:
            settings.callbacks.call("on_trial_result", trial, metrics)
        if settings.scheduler.source is not None:
            self._expect_decision()
        settings.experiment.version += 1
        signal = self.signal  # read once: a signal from here on takes effect after the next result
        if signal == "pause" and self._is_due(ends=verdict.ends):
            self._save()
        if verdict is not GOES_ON:
            self._verdict = verdict
        return not (verdict.ends or signal)

    def _hold(self, verdict: Verdict, decision: Decision) -> Verdict:
        """Pause the trial for the scheduler, if it has a checkpoint of this result. Return what follows."""
        # see docs/decisions/0105
        if not self._state.checkpoint or self._state.checkpoint_iteration != self._state.iteration:
            return settled(self._settings.scheduler.unsaved(self.trial, decision), self._recorder)
        self._recorder.decided(decision)
        if self.signal:  # a user's pause or stop comes first
            return GOES_ON
        self.signal = "pause"
        return verdict

    def _expect_decision(self) -> None:
        """Ask for a checkpoint with the next result if the scheduler may pause the trial there."""
        self._expects_decision = not self.saves and self._settings.scheduler.wants_checkpoint(self.trial)
        if self._expects_decision:
            self.ask_for_checkpoint()

    def _is_due(self, *, ends: bool) -> bool:
        """Return whether a trainable that does not decide itself when to save should be saved now."""
        if self._saves_itself or self._state.iteration == self._saved_at:
            return False
        every = self._settings.checkpoint_every
        due = bool(every) and self._state.iteration % every == 0
        return due or self.saves or self.signal == "pause" or (ends and bool(every))

    def _save(self) -> None:
        settings, trial = self._settings, self.trial
        assert self._worker is not None
        self.saves = False
        try:
            record = self._worker.save()
        except NotDurableError as error:
            self._warn(error)
            return
        self._warning = ""
        if self._state.note == NOT_SAVED:
            self._state.note = ""
        self._saved_at = self._state.iteration
        if record is None:
            return
        self._recorder.saved(record)
        settings.callbacks.call("on_trial_checkpoint", trial, record)
        self._prune()

    def _prune(self) -> None:
        """Remove the checkpoints that exceed the retention policy, except those that are still needed."""
        settings, checkpoints = self._settings, self._checkpoints
        if settings.keep is not None:
            # A checkpoint saved after the journal's checkpoint may be complete only in this folder.
            needed = {self._state.checkpoint or "", self._origin.name if self._origin else ""}
            try:
                for old in settings.keep.superfluous(checkpoints.records(), needed):
                    checkpoints.delete(old)
            except StoreError as error:  # pruning is tried again after the next save
                self._warn(error)

    def _warn(self, error: Exception) -> None:
        """Put a problem into the trial's note and the log. The trial continues."""
        self._warning = self._state.note = str(error)
        _log.warning("%s: %s", self._name, error)

    def _with_warning(self, note: str) -> str:
        return f"{note}; {self._warning}" if self._warning else note

    def _fail(self, error: BaseException) -> None:
        settings, trial = self._settings, self.trial
        if not isinstance(error, NbckptError):
            _log.error("%s: nbckpt itself failed", self._name, exc_info=error)
        stopped = self.signal == "stop"
        retry = not stopped and isinstance(error, TrialError) and trial.failures < settings.max_failures
        try:
            if stopped:
                self._recorder.end(f"{STOPPED}; {error}", stopped_early=True)
            else:
                self._recorder.fail(error, retry=retry)
        except NbckptError as second:
            self._recorder.lose(f"{error}; and its journal cannot be written: {second}")
        settings.callbacks.call("on_trial_error", trial, error)
        if trial.status == Status.PENDING and self.signal:
            self._rest()
