"""Experiment: many trials of one function, run side by side in the background."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError, StoreError, UsageError
from nbckpt.render import Page, Result
from nbckpt.sync import SyncConfig
from nbckpt.sync.shutdown import before_the_end
from nbckpt.trials.engine import control, shutdown
from nbckpt.trials.engine.attempt import RunSettings
from nbckpt.trials.engine.callbacks import Callbacks
from nbckpt.trials.engine.claim import Claim
from nbckpt.trials.engine.pool import Orders, WorkerPool
from nbckpt.trials.engine.search import SafeSearch, Search
from nbckpt.trials.engine.upload import callbacks_of
from nbckpt.trials.executors import Executor, open_executor
from nbckpt.trials.model import journal, params
from nbckpt.trials.model import spec as spec_file
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.space import recalled
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.stopping import Stopper
from nbckpt.trials.model.trial import STOPPED, Status, Trial, bind, read_trials
from nbckpt.trials.model.trust import trust_trials
from nbckpt.trials.model.view import ControlSignal
from nbckpt.trials.training.function import trainable_class
from nbckpt.trials.views.curves import figure
from nbckpt.trials.views.frame import dataframe
from nbckpt.trials.views.metrics import inferred, metric_columns
from nbckpt.trials.views.table import MOST_ROWS, TrialTable
from nbckpt.trials.views.trial_page import TrialShown

_KILLED_S = 5.0
"""How many seconds an interrupt waits for the trials that it has killed."""

_log = logging.getLogger("nbckpt")

_live: weakref.WeakValueDictionary[Path, Any] = shutdown.live


class Experiment(Result):  # see docs/decisions/0019
    """Trials of one function, and their progress. Any thread may call every method.

    Its repr is its table; a notebook shows the table. One process at a time runs an experiment; any number
    of processes may look at it.

    Attributes:
        name: Its name, which is the name of its folder.
        folder: The folder that holds it.
        spec: Its specification.
        notes: Problems outside the trials, one sentence each.
    """

    def __init__(self, folder: Path, spec: Spec, trials: Iterable[Trial] = ()) -> None:
        self.folder = folder
        self.spec = spec
        self._trials = {trial.id: trial for trial in trials}
        self._pool = WorkerPool(folder.name)
        self.version = 0
        self._spec_at: Any = None
        self._search = SafeSearch()
        self._owner: control.Owner | None = None
        self._claim = Claim(folder, self._pool.changed)

    @classmethod
    def read(cls, folder: Path) -> Experiment:
        """Return the experiment in *folder*: the object of this process, or a new one read from the disk.

        A process has one object per experiment while any code holds it, so every holder sees what others
        start. Changes by another process are taken in, unless the experiment runs here.

        Raises:
            NotFoundError: There is no experiment in the folder.
            CorruptError: The experiment's file is damaged.
        """
        experiment: Experiment | None = _live.get(folder)
        if experiment is None:
            experiment = cls(folder, spec_file.read(folder).spec)
            experiment.refresh()
            _live[folder] = experiment
        else:
            experiment.refresh()
        return experiment

    @classmethod
    def at(cls, folder: Path, spec: Spec) -> Experiment:
        """Return this process's experiment in *folder*, or else a new experiment that is to do *spec*."""
        known: Experiment = _live.get(folder) or cls(folder, spec)
        return known if known.running or (folder / spec_file.FILE).exists() else cls(folder, spec)

    def refresh(self) -> None:
        """Take in the changes by another process. While the experiment runs here, nobody else writes it.

        Raises:
            CorruptError: The experiment's file is damaged.
        """
        with self._pool.changed:
            stamp = journal.stamp(self.folder / spec_file.FILE)
            if self.running or stamp is None:
                return
            if stamp != self._spec_at:
                spec = spec_file.read(self.folder).spec
                if spec.created_at != self.spec.created_at:  # another experiment with this name
                    self._trials.clear()
                self.spec, self._spec_at = spec, stamp
            for trial in read_trials(self.folder, self._trials):
                if self._trials.get(trial.id) is not trial:  # new, or written to since
                    known = self._trials.setdefault(trial.id, trial)
                    vars(known).update(vars(trial) | {"config": recalled(self.spec.config, trial.config)})
                    self.version += 1

    def write_spec(self, spec: Spec) -> None:
        """Replace the experiment's spec. The caller has claimed the experiment."""
        self.spec = spec
        spec_file.write(self.folder, spec, open_signer())
        self._spec_at = journal.stamp(self.folder / spec_file.FILE)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the folder's path only: a copy would miss later changes."""
        return read_experiment, (self.folder,)

    # State.

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.folder.name

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials, in the order in which they were made."""
        return tuple(self._trials.values())

    def trial(self, name: str | Trial) -> Trial:
        """Return a trial by its short name.

        Raises:
            UsageError: There is no such trial.
        """
        found = self._trials.get(name.id if isinstance(name, Trial) else name)
        if found is None:
            known = ", ".join(list(self._trials)[:8]) or "none yet"
            raise UsageError(f"{self.name!r} has no trial {name!r}: there are {known}")
        return found

    @property
    def running(self) -> bool:
        """Whether the experiment runs in this process, or waits to run."""
        return self._pool.drivers > 0

    @property
    def ending(self) -> bool:
        """Whether no trial runs, and only the callbacks still work."""
        return self._pool.ending

    @property
    def unfinished(self) -> int:
        """The number of trials that run or will run here and that nobody asked to pause or to stop."""
        pool = self._pool
        with pool.changed:
            waiting = len(pool.line) + self._to_suggest
            return waiting + sum(not it.signal for it in pool.running.values()) if pool.drivers else 0

    @property
    def notes(self) -> list[str]:
        """Problems outside the trials, one sentence each."""
        settings = self._pool.settings
        callbacks = settings.callbacks.notes if settings else []
        return [*self._pool.notes, *self._search.notes, *callbacks, *self._unknown_metrics()]

    def runs_elsewhere(self) -> bool:
        """Return whether another process runs the experiment."""
        return not self.running and self._claim.is_elsewhere()

    def cut(self, trial: Trial) -> bool:
        """Return whether a trial was interrupted: its journal says that it runs, but nobody runs it."""
        waits = trial.status in {Status.RUNNING, Status.PENDING}
        return waits and not self.running and not self.runs_elsewhere()

    def asked(self, trial: Trial) -> ControlSignal | Literal["checkpoint"]:
        """Return what a running trial was asked to do next: pause, stop, checkpoint, or "" for nothing."""
        attempt = self._pool.running.get(trial.id)
        return "" if attempt is None else attempt.signal or ("checkpoint" if attempt.saves else "")

    def best(self, metric: str = "", mode: str = "") -> Trial:
        """Return the trial with the best last value of a metric. Trials without a value are left out.

        Args:
            metric: Its name; `a/b` means the metric b in a dict a. By default the experiment's metric.
            mode: `min` or `max`; by default the experiment's mode.

        Raises:
            UsageError: No trial reported the metric, or the metric or the mode is missing.
        """
        self.refresh()
        metric, mode = metric or self.spec.metric, mode or self.spec.mode
        if not metric or mode not in {"min", "max"}:
            raise UsageError("say what is best: best(metric='loss', mode='min'), or mode='max'")
        values = [(trial.metric(metric)[-1:], trial) for trial in self.trials]
        found = [(value[0], trial) for value, trial in values if value and value[0] == value[0]]  # not NaN
        if not found:
            raise UsageError(f"no trial of {self.name!r} reported {metric!r}: there are {self._metrics()}")
        return (min if mode == "min" else max)(found, key=lambda pair: pair[0])[1]

    def dataframe(self) -> Any:
        """Return a pandas DataFrame with a row for each result, with its trial and configuration.

        Raises:
            UsageError: pandas is not installed.
        """
        self.refresh()
        return dataframe(self)

    def plot(self, metric: str = "", trials: Iterable[str | Trial] | None = None) -> Any:
        """Draw a metric over the iterations, a line for each trial. Return the matplotlib figure.

        Args:
            metric: Its name; `a/b` means the metric b in a dict a. By default the experiment's metric.
            trials: Which trials. By default at most 20: the best if a mode is known, else the first.

        Raises:
            UsageError: No trial reported the metric, there is no such trial, or matplotlib is not installed.
        """
        self.refresh()
        metric = metric or self.spec.metric
        if not metric:
            raise UsageError(f"say what to draw: plot('loss'), one of {self._metrics()}")
        return figure(self, metric, trials)

    @property
    def exit_status(self) -> int:
        """See `Result.exit_status`: 1 if a trial failed."""
        return int(any(trial.status == Status.ERROR for trial in self.trials))

    def page(self) -> Page:
        """See `Result.page`."""
        return self.table().page()

    def table(
        self,
        metrics: Sequence[str] | Mapping[str, str] | None = None,
        *,
        most: int = MOST_ROWS,
        sort: bool = False,
        page: int = 0,
        metric: str = "",
        mode: str = "",
    ) -> TrialTable:
        """Return its table with other columns or rows. It follows the experiment like the usual table.

        Args:
            metrics: Which metrics to show; `a/b` means the metric b in the dict a. A dict gives headings.
            most: The most rows to show, with a fair share for each status; 0 for all.
            sort: Whether the best trials come first; this needs a metric and a mode.
            page: The number of a page of *most* rows in order, from 1; 0 for the fair share.
            metric: The metric to sort by; by default the experiment's metric.
            mode: Whether `min` or `max` of the metric is best; by default the experiment's mode.

        Raises:
            UsageError: A metric is given twice, there is no such page, or the metric or mode is missing.
        """
        self.refresh()
        columns = None if metrics is None else metric_columns(metrics)
        return TrialTable(self, columns, most, sort, number=page, metric=metric, mode=mode)

    # Actions.

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no trial runs. Return whether that happened within *timeout* seconds.

        An interrupt ends only the waiting; the trials continue.
        """
        ended = self._pool.wait(timeout)
        if ended and self._owner is not None:
            self._owner.join()
        return ended

    def rest(self) -> None:
        """Pause all trials, and wait until none runs. An interrupt during the wait stops them instead."""
        try:
            self.pause()
            self.wait()
        except KeyboardInterrupt:
            self.stop()
            self.kill()
            self.wait(_KILLED_S)

    def pause(self, trial: str | Trial | None = None) -> None:
        """Pause one trial or all: a running trial after its next result, a waiting trial at once.

        Paused trials hold no thread and no memory; `resume` continues from their last checkpoint.

        If another process runs the experiment, that process is asked, and has answered when this returns.

        Raises:
            UsageError: There is no such trial.
            StoreError: The disk failed.
        """
        self._ask("pause", trial)

    def stop(self, trial: str | Trial | None = None) -> None:
        """Stop one trial or all, each after its next result. A stopped trial is finished.

        If another process runs the experiment, that process is asked, as by `pause`.

        Raises:
            UsageError: There is no such trial.
            StoreError: The disk failed.
        """
        self._ask("stop", trial)

    def checkpoint(self, trial: str | Trial | None = None) -> None:
        """Save a checkpoint of one running trial or of all, each with its next result. The trials continue.

        A Trainable class is saved. A function saves its states, or the checkpoint that it reports when
        `nbckpt.should_checkpoint()` is true. If there is no checkpoint in the end, the trial's note says so.

        If another process runs the experiment, that process is asked, as by `pause`.

        Raises:
            UsageError: There is no such trial.
            StoreError: The disk failed.
        """
        if self._hand_over("checkpoint", trial):
            return
        for it in self._chosen(trial):
            attempt = self._pool.running.get(it.id)
            if attempt is not None:
                attempt.ask_for_checkpoint()
        self.touch()

    def kill(self) -> None:
        """End running trials at once if the executor can: a process can be killed, a thread cannot.

        If only callbacks still work, for example at the last sync, that work is given up.
        """
        pool = self._pool
        for attempt in list(pool.running.values()):
            attempt.kill()
        if pool.settings is not None and pool.ending:
            pool.settings.callbacks.cancel()

    def resume(
        self, trial: str | Trial | None = None, *, errored: bool = False, trust: bool = False
    ) -> Experiment:
        """Resume paused and interrupted trials, each from its last checkpoint. Return at once.

        A search continues too, but only in its own kernel; in another kernel, pass it to `nbckpt.run` again.
        If another process runs the experiment, that process is asked, as by `pause`.

        Args:
            trial: Resume only this trial, whatever ended it.
            errored: Whether to resume failed trials too.
            trust: Whether to load a function that somebody else saved, and to sign the checkpoints.

        Raises:
            UsageError: There is nothing to resume.
            UntrustedError: Somebody else saved the function.
            NotFoundError: The function was not saved.
            CorruptError: A checkpoint to sign is damaged.
        """
        if self.runs_elsewhere():
            self._resumable(trial, errored=errored)
            if self._hand_over("resume", trial, errored=errored):
                return self
        with self.claimed():
            self._resume(trial, errored=errored, trust=trust)
        return self

    def _resume(self, trial: str | Trial | None, *, errored: bool, trust: bool) -> None:
        if trial is None:
            self._search.resume()
        wanted = self._resumable(trial, errored=errored)
        if self.spec.trainable is None:
            self.spec = spec_file.read(self.folder).load(open_signer(), trust=trust)
            self.recall_configs()
        trust_trials(wanted if trust else ())
        self.launch(wanted)

    def _resumable(self, trial: str | Trial | None, *, errored: bool) -> list[Trial]:
        """Return the trials that `resume` means. None of them runs.

        Raises:
            UsageError: There are no such trials, and the search makes no further ones.
        """
        self.refresh()
        elsewhere = self.runs_elsewhere()
        wanted = [
            it
            for it in self._chosen(trial)
            if (trial is not None or (errored if it.status == Status.ERROR else not it.finished))
            and not self._pool.has(it)
            and not (elsewhere and it.status in {Status.RUNNING, Status.PENDING})
        ]
        if bad := [it for it in wanted if it.status == Status.DAMAGED]:
            raise UsageError(f"{self.name}/{bad[0].id} cannot go on: {bad[0].damage}. Run it again")
        if not wanted and not self._to_suggest:
            failed = any(it.status == Status.ERROR for it in self.trials)
            hint = "; those that failed need --errored" if failed else ""
            raise UsageError(f"{self.name!r} has nothing to resume{hint}")
        return wanted

    # Internals.

    def launch(
        self, trials: Iterable[Trial], search: Search | None = None, executor: str | Executor | None = None
    ) -> None:
        """Put *trials* in the line, start to work through it, and continue with the suggestions of *search*.

        The caller has claimed the experiment.

        Raises:
            UsageError: The experiment's executor is not available.
        """
        spec = self.spec
        if not self.running:
            settings = RunSettings(
                trainable_class(spec.trainable, spec.checkpoint_every),
                open_executor(executor or spec.executor, spec.resources),
                Stopper(spec.stop, spec.metric, spec.mode),
                spec.keep,
                spec.checkpoint_every,
                spec.max_failures,
                Callbacks(callbacks_of(spec)),
                self._search if search is None else SafeSearch(search),
                self,
                spec.sync or SyncConfig(),
            )
            orders = Orders(
                lambda: self._to_suggest,
                self._suggested,
                self._begin,
                lambda: settings.callbacks.call("on_experiment_end", self.trials),
                self._over,
                self.pause,
            )
            self._pool.begin(settings, orders)
            self._search = settings.search
            _live[self.folder] = self
            before_the_end(shutdown.finish_all)
            self._search.setup(self)
            settings.callbacks.call("setup", self)
        try:
            self._pool.work(trials, self.spec.max_concurrent)
        finally:
            self.wait(0)  # if trials run in this thread, all of them have ended

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Claim the experiment during the block, and take in the changes by other processes first.

        Raises:
            UsageError: Another process runs the experiment.
            StoreError: The disk failed.
        """
        with self._pool.changed:
            self._claim.acquire()
        try:
            self.refresh()
            yield
        finally:
            with self._pool.changed:
                self._claim.release()

    def _suggested(self) -> Trial | None:
        """Make a trial of the next suggestion. A trial that cannot be made fails with the cause."""
        while self._to_suggest:
            config = self._search.suggest(self._new_id())
            if config is None:
                break
            try:
                return self.add(config)[0]
            except StoreError as error:
                lost = self._trials[self._new_id()] = Trial(self.folder / self._new_id(), config)
                TrialRecorder(lost).lose(str(error))
                self._search.ended(lost)
        return None

    @property
    def _to_suggest(self) -> int:
        """The number of trials that the search may still suggest."""
        return max(self.spec.num_samples - len(self._trials), 0) if self._search.open else 0

    def _over(self) -> None:
        if self._owner is not None:
            self._owner.end()
        self._claim.release()
        self.version += 1

    def add(self, *configs: Mapping[str, Any]) -> list[Trial]:
        """Make a new trial of each configuration, all in one step. None of them runs yet."""
        first = int(self._new_id()[1:])
        trials = [Trial(self.folder / f"t{number}", config) for number, config in enumerate(configs, first)]
        params.write({trial.folder: trial.config for trial in trials})
        self._trials |= {trial.id: trial for trial in trials}
        return trials

    def _new_id(self) -> str:
        # Not the number of trials: after the loss of a machine, some of them may be missing.
        newest = next(reversed(self._trials), "t-1")
        return f"t{int(newest[1:]) + 1}"

    def _chosen(self, trial: str | Trial | None) -> tuple[Trial, ...]:
        if not self.running:
            spec_file.check_there(self.folder)
        return self.trials if trial is None else (self.trial(trial),)

    def _hand_over(self, do: control.Verb, trial: str | Trial | None, *, errored: bool = False) -> bool:
        """If another process runs the experiment, ask that process. Return whether it was asked."""
        name = "" if trial is None else self.trial(trial).id
        if not self.runs_elsewhere():
            return False
        file = control.ask(self.folder, control.ControlRequest(do, name, errored=errored))
        answer = control.answered(file, self.runs_elsewhere)
        if answer is None:
            _log.warning(
                "the process that runs %s has not answered within %g s; it will %s when it can",
                *(self.name, control.ANSWER_S, do),
            )
        self.refresh()
        return answer is not False

    def _begin(self) -> None:
        """Claim the experiment while it runs, and answer the requests of other processes."""
        self._claim.acquire()
        self._owner = control.Owner(self.folder, self._do, self._note_refusal, self._pool.changed)

    def _do(self, request: control.ControlRequest) -> bool:
        """Do what another process asks for. Return False if nothing runs now. The pool's lock is held."""
        if self.running:
            _log.info("%s is asked to %s by %s", self.name, request.do, request.by)
            options = {"errored": request.errored} if request.do == "resume" else {}
            getattr(self, request.do)(request.trial or None, **options)
        return self.running

    def _note_refusal(self, error: Exception) -> None:
        self._pool.notes.append(f"a request of another process was refused: {error}")
        self.touch()

    def _ask(self, signal: Literal["pause", "stop"], trial: str | Trial | None) -> None:
        if not self._hand_over(signal, trial):
            with self.claimed(), self._pool.changed:
                self._signal(signal, trial)

    def _signal(self, signal: Literal["pause", "stop"], trial: str | Trial | None) -> None:
        """Ask running trials to pause or stop. Trials that do not run pause or stop at once."""
        pool = self._pool
        for it in self._chosen(trial):
            attempt = pool.running.get(it.id)
            if attempt is not None:
                attempt.ask(signal)
            elif it in pool.line or not it.finished:
                self._put_aside(it, signal)
                if it in pool.line:
                    pool.line.remove(it)
        if trial is None:
            self._search.open = False
        self.version += 1
        pool.changed.notify_all()

    def _put_aside(self, trial: Trial, signal: ControlSignal) -> None:
        """Stop or pause a trial that does not run."""
        with TrialRecorder(trial) as recorder:
            if signal == "stop":
                recorder.end(STOPPED, early=True)
                self._search.ended(trial)
            elif trial.status != Status.PAUSED:
                recorder.pause("paused")

    def touch(self) -> None:
        """Count a change, so that every view of the experiment is refreshed."""
        self.version += 1

    def recall_configs(self) -> None:
        """Give trials that were read from the disk the values that JSON cannot express."""
        for trial in self.trials:
            trial.config = recalled(self.spec.config, trial.config)

    def _metrics(self) -> str:
        return ", ".join(inferred(self.trials, most=None)) or "none yet"

    def _unknown_metrics(self) -> Iterator[str]:
        """Yield a sentence for each metric that a stop condition needs but no trial with results reports."""
        if self._pool.settings is None:
            return
        unknown = [set(self._pool.settings.stopper.unknown(trial)) for trial in self.trials if trial.results]
        for name in sorted(set.intersection(*unknown)) if unknown else ():
            yield f"stop waits for {name!r}, which no trial reports: there are {self._metrics()}"


def read_experiment(folder: Path) -> Experiment:
    """See `Experiment.read`. cloudpickle would pickle that method by value, like a notebook's function."""
    return Experiment.read(folder)


def read_trial(folder: Path) -> Trial:
    """Return the trial in *folder*: the object of its experiment if that is in this process."""
    return Experiment.read(folder.parent).trial(folder.name)


def _trial_page(trial: Trial) -> Page:
    try:
        experiment = Experiment.read(trial.folder.parent)
        experiment.trial(trial)
        return TrialShown(experiment, trial).page()
    except (NbckptError, OSError) as error:
        return Page(repr(trial), notes=(str(error), f"kept in {trial.folder}"))


bind(find=read_trial, page=_trial_page)
