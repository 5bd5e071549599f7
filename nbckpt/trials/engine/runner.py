"""Runner: an experiment's trials in this process. It runs, pauses, stops and resumes them."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Literal

from nbckpt.core.trust import open_signer
from nbckpt.errors import UsageError
from nbckpt.sync import SyncConfig
from nbckpt.sync.shutdown import before_the_end
from nbckpt.trials.engine import shutdown
from nbckpt.trials.engine.callbacks import Callbacks
from nbckpt.trials.engine.control import ControlRequest, Owner
from nbckpt.trials.engine.guarded import SafeScheduler, SafeSearch
from nbckpt.trials.engine.open_attempt import OpenAttempt
from nbckpt.trials.engine.run_settings import RunSettings
from nbckpt.trials.engine.settling import settle
from nbckpt.trials.engine.trial_source import TrialSource
from nbckpt.trials.engine.upload import callbacks_of
from nbckpt.trials.executors import Executor, open_executor
from nbckpt.trials.executors.cell import CellExecutor, only_in_its_loop
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import STOPPED, Status, Trial, is_held
from nbckpt.trials.model.trust import trust_trials
from nbckpt.trials.model.view import ExperimentView, internals
from nbckpt.trials.search.base import Search
from nbckpt.trials.training.function import trainable_class
from nbckpt.trials.views.metrics import unknown_metrics
from nbckpt.trials.views.statuses import no_trials, nothing_to_resume

_log = logging.getLogger("nbckpt")


class Runner(TrialSource):
    """Runs and controls the trials of one experiment. Any thread may call it.

    It acts in this process only; an `Experiment` asks another process that runs the trials. While trials run
    here, it answers the requests of other processes.
    """

    def __init__(self, folder: Path, spec: Spec) -> None:
        super().__init__(folder, spec)
        self._scheduler = SafeScheduler()
        self._executor: str | Executor | None = None
        self._owner: Owner | None = None
        self._experiment: shutdown.Running | None = None
        self._start = threading.RLock()

    @contextmanager
    def starting(self) -> Iterator[ExitStack]:
        """Let one thread at a time choose the trials to run next, until `launch` has them in the line.

        While trials run, the pool's lock is held: no trial begins or ends meanwhile. Before the first one it
        is another lock, because code of the user's prepares the run and may wait for the pool's lock.
        """
        with ExitStack() as starting:
            starting.enter_context(self.pool.changed)
            if not self.pool.workers:
                starting.close()
                starting.enter_context(self._start)
                if not self.pool.wait(0):  # another thread was first
                    starting.enter_context(self.pool.changed)
            yield starting

    def launch(
        self,
        starting: ExitStack,
        experiment: shutdown.Running,
        trials: Iterable[Trial],
        search: Search | None = None,
        executor: str | Executor | None = None,
        *,
        alone: bool = False,
    ) -> None:
        """Put *trials* in the line, start to work through it, and continue with the suggestions of *search*.

        The caller has claimed the experiment.

        Args:
            starting: What `starting` yielded before the trials were chosen.
            experiment: The handle that callbacks and the search get.
            trials: The trials to run.
            search: The source of further configurations; by default the search so far.
            executor: Where the trials run; by default where they ran last.
            alone: Whether only these trials run, unless others run already.

        Raises:
            UsageError: The experiment's executor is not available.
        """
        is_first = self._prepare(experiment, search, executor)
        if alone and is_first:
            self._search.close()
            self._scheduler.close()
        trials = list(trials)
        if is_first:
            self._scheduler.interrupted = {trial.id for trial in trials if _is_interrupted(trial)}
        try:
            self.pool.work(trials, self.spec.max_concurrent, starting)
        finally:
            self.wait(0)  # if trials run in this thread, all of them have ended

    def open(self, experiment: shutdown.Running, trial: Trial) -> OpenAttempt:
        """See `WorkerPool.open`. The caller has claimed the experiment.

        Raises:
            UsageError: Another process has the trial open.
            NbckptError: It cannot start; the trial has failed.
        """
        self.opened.acquire(trial.id)
        try:
            self._prepare(experiment, None, CellExecutor())
            return self.pool.open(trial)
        except BaseException:
            self.opened.release(trial.id)
            raise

    def close(self, attempt: OpenAttempt, error: BaseException | None = None) -> None:
        """See `WorkerPool.close`. The lock of the last trial is held until the last sync has ended."""
        try:
            self.pool.close(attempt, error)
        finally:
            with self.pool.changed:
                if self.pool.running:
                    self.opened.release(attempt.trial.id)

    def _prepare(
        self, experiment: shutdown.Running, search: Search | None, executor: str | Executor | None
    ) -> bool:
        """Set up everything that the trials share, unless trials run already. Return whether it did."""
        if self.pool.workers:
            return False
        self._search = self._find_search() if search is None else SafeSearch(search)
        run_settings = self._run_settings(executor)
        self.pool.begin(run_settings, self)
        self._scheduler = run_settings.scheduler
        self._experiment = shutdown.live[self.folder] = experiment
        before_the_end(shutdown.finish_all, first=True)  # before the last syncs
        self._search.setup(experiment)
        self._scheduler.setup(experiment)
        run_settings.callbacks.call("setup", experiment)
        return True

    def _find_search(self) -> SafeSearch:
        """Return the search so far. In a new kernel, it is that of the spec."""
        kept = self.spec.search if self._search.source is None else None
        return self._search if kept is None else SafeSearch(copy.deepcopy(kept))

    def _run_settings(self, executor: str | Executor | None) -> RunSettings:
        spec, self._executor = self.spec, executor or self._executor
        last = self._executor  # the spec has only the name of an executor of the user's
        executor = last if isinstance(last, Executor) and last.name == spec.executor else spec.executor
        return RunSettings(
            trainable_class(spec.trainable, spec.checkpoint_every),
            open_executor(executor, spec.resources),
            spec.stopper,
            spec.keep,
            spec.checkpoint_every,
            spec.max_failures,
            Callbacks(callbacks_of(spec)),
            self._search,
            self,
            spec.sync or SyncConfig(),
            spec.origin,
            spec.provenance,
            spec.system_metrics,
            SafeScheduler(spec.scheduler),
            spec.resources,
        )

    def on_begin(self) -> None:
        """See `PoolClient.on_begin`: claim the experiment, and answer the requests of other processes."""
        super().on_begin()
        if self._owner is not None:
            self._owner.end()  # a run that was interrupted as it began has not done so
        self._owner = Owner(self.folder, self._answer, self._note_refusal, self.pool.changed)

    def on_end(self) -> None:
        """See `PoolClient.on_end`: release the experiment."""
        if self._owner is not None:
            self._owner.end()
        super().on_end()

    def wait(self, timeout: float | None = None) -> bool:
        """See `Experiment.wait`."""
        if timeout is None and self.pool.is_here:
            name = self.folder.name
            raise UsageError(
                f"a trial or a callback of {name!r} cannot wait for {name!r}: that includes its own end. "
                "Wait in a cell, or give a timeout"
            )
        if (ended := self.pool.wait(timeout)) and self._owner is not None:
            self._owner.join()
        return ended

    @property
    def ending(self) -> bool:
        """Whether no trial runs, and only the callbacks still work."""
        return self.pool.ending

    def asked(self, name: str) -> str:
        """Return what a running trial was asked to do next: pause, stop, checkpoint, or "" for nothing."""
        attempt = self.pool.running.get(name)
        return "" if attempt is None else attempt.signal or ("checkpoint" if attempt.saves else "")

    @property
    def unfinished(self) -> int:
        """The number of trials that run or will run here and that nobody asked to pause or to stop."""
        with self.pool.changed:
            waiting = len(self.pool.line) + self.to_suggest
            running = sum(not attempt.signal for attempt in self.pool.running.values())
            return waiting + running if self.pool.workers else 0

    @property
    def notes(self) -> list[str]:
        """Problems outside the trials, one sentence each."""
        run_settings, trials = self.pool.run_settings, list(self.trials.values())
        mine = [*self.pool.notes, *self._search.notes, *self._scheduler.notes]
        if run_settings is None:
            return mine
        unknown = unknown_metrics(trials, run_settings.stopper, self._scheduler.source)
        return [*mine, *run_settings.callbacks.notes, *unknown]

    def pause(self, name: str = "") -> None:
        """Pause a trial, or all if there is no name. See `Experiment.pause`."""
        self._signal("pause", name)

    def stop(self, name: str = "") -> None:
        """Stop a trial, or all if there is no name. See `Experiment.stop`."""
        self._signal("stop", name)

    def _signal(self, signal: Literal["pause", "stop"], name: str) -> None:
        """Ask running trials to pause or stop. Trials that do not run pause or stop at once."""
        pool = self.pool
        with nullcontext() if name in pool.running else self.claimed(), pool.changed:
            elsewhere = self.elsewhere() if self.is_tracked else []
            for trial in self._chosen(name):
                if attempt := pool.running.get(trial.id):
                    attempt.ask(signal)
                elif signal == "pause" and not name and is_held(trial):
                    continue  # it rests already, and `resume` lets the scheduler go on
                elif trial.id not in elsewhere and (trial in pool.line or not trial.finished):
                    self._put_aside(trial, signal)
                    if trial in pool.line:
                        pool.line.remove(trial)
            if not name:
                self._search.close()
                self._scheduler.close()
            self.touch()
            pool.changed.notify_all()

    def _chosen(self, name: str) -> tuple[Trial, ...]:
        """Return one trial, or all if there is no name."""
        if not self.pool.workers:
            spec_file.check_there(self.folder)
        return (self.trial(name),) if name else tuple(self.trials.values())

    def _put_aside(self, trial: Trial, signal: Literal["pause", "stop"]) -> None:
        """Stop or pause a trial that does not run."""
        self._scheduler.held.pop(trial.id, None)
        with TrialRecorder(trial) as recorder:
            if signal == "stop":
                recorder.end(STOPPED, stopped_early=True)
                self._search.ended(trial)
                self._scheduler.ended(trial)
            elif trial.status != Status.PAUSED or is_held(trial):
                recorder.pause("paused")

    def checkpoint(self, name: str = "") -> None:
        """Save a checkpoint of a trial, or of all if there is no name. See `Experiment.checkpoint`."""
        for trial in self._chosen(name):
            if attempt := self.pool.running.get(trial.id):
                attempt.ask_for_checkpoint()
        self.touch()

    def kill(self) -> None:
        """See `Experiment.kill`."""
        for attempt in list(self.pool.running.values()):
            attempt.kill()
        if self.pool.run_settings is not None and self.pool.ending:
            self.pool.run_settings.callbacks.cancel()

    def resume(
        self, experiment: shutdown.Running, name: str, *, errored: bool = False, trust: bool = False
    ) -> None:
        """Resume a trial, or all if there is no name. See `Experiment.resume`."""
        if self.spec.executor == CellExecutor.name:
            raise UsageError(only_in_its_loop(self.folder.name))
        with self.starting() as starting:
            if not name:
                self._search.reopen()
                self._scheduler.reopen()
            if not name and len(self.trials) < self.spec.num_samples:  # a search that the spec keeps goes on
                self._load(trust=trust)
                self._search = self._find_search()
            self.settle()
            self.resumable(name, errored=errored)  # nothing is loaded if there is nothing to resume
            self._load(trust=trust)
            # Again, since the scheduler, now loaded, keeps those that it holds.
            trials = self.resumable(name, errored=errored)
            if trust:
                trust_trials(self.folder, trials)
            self.launch(starting, experiment, trials, alone=bool(name))

    def settle(self) -> None:
        """Let decisions of a dead kernel take effect. The caller has claimed the experiment."""
        if not (self.pool.workers or self.is_tracked):
            settle(list(self.trials.values()))

    def _load(self, *, trust: bool) -> None:
        """Load the parts of the spec that are code, unless they are here. See `Experiment.resume`."""
        if self.spec.trainable is None:
            self.spec = spec_file.read(self.folder).load(open_signer(), trust=trust)
            self.recall_configs()

    def resumable(self, name: str, *, errored: bool, runs_elsewhere: bool = False) -> list[Trial]:
        """Return the trials that `resume` means. None of them runs.

        Raises:
            UsageError: The trial runs already, or all run or have ended and the search makes none.
        """
        self.refresh()
        chosen = self._chosen(name)
        trials = [
            trial
            for trial in chosen
            if (name or (errored if trial.status == Status.ERROR else not trial.finished))
            and not self.pool.has(trial)
            and (name or self.spec.scheduler is None or not is_held(trial))
            and not (runs_elsewhere and trial.status in {Status.RUNNING, Status.PENDING})
        ]
        if damaged := [trial for trial in trials if trial.status == Status.DAMAGED]:
            label = f"{self.folder.name}/{damaged[0].id}"
            raise UsageError(f"{label} cannot be resumed: {damaged[0].damage}. Run it again")
        continues = not name and (self.to_suggest or any(map(is_held, chosen)))
        if not (trials or continues):
            if not chosen:
                raise UsageError(no_trials(self.folder.name))
            label = f"{self.folder.name}/{name}" if name else self.folder.name
            raise UsageError(nothing_to_resume(label, chosen, self.asked))
        return trials

    def _answer(self, request: ControlRequest) -> bool:
        """Do what another process asks for. Return False if that must wait, or if nothing runs now.

        The pool's lock is held.
        """
        if not self.pool.workers or self._experiment is None or self.pool.is_pausing:
            return False
        if self.is_tracked and request.trial not in self.pool.running:  # another process has it open
            return False
        _log.info("%s is asked to %s by %s", self.folder.name, request.do, request.by)
        if request.do == "resume":
            with self.claimed():
                self.resume(self._experiment, request.trial, errored=request.errored)
        else:
            getattr(self, request.do)(request.trial)
        return True

    def _note_refusal(self, error: Exception) -> None:
        self.pool.notes.append(f"a request of another process was refused: {error}")
        self.touch()


def _is_interrupted(trial: Trial) -> bool:
    """Return whether the journal of a trial that nobody runs says that it runs, or is about to run again."""
    return trial.status in {Status.RUNNING, Status.PENDING} and trial.attempts > 0


def runner_of(experiment: ExperimentView) -> Runner:
    """Return what runs the trials of an experiment."""
    runner = internals(experiment)
    assert isinstance(runner, Runner)
    return runner
