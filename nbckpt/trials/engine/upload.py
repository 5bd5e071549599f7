"""Syncing: an experiment on remote storage while it runs, and back on a machine that has nothing of it.

    <upload_dir>/<experiment>/experiment.json    what it is to do, put last when it begins and when it ends
    <upload_dir>/<experiment>/<trial>/…          a target of its own for each trial, with an index

`nbckpt.sync.folders.download` reads a trial's folder, and the experiment's as a whole.
"""

from __future__ import annotations

import glob
import logging
import math
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nbckpt.errors import NbckptError, StoreError, UsageError
from nbckpt.render import size
from nbckpt.settings import sync_thresholds
from nbckpt.store import STAGING, Store, open_store
from nbckpt.sync import BackgroundSyncer, DefaultSyncer, SyncConfig, get_node_to_storage_syncer
from nbckpt.sync.adapter import background
from nbckpt.sync.config import AUTO, url_of
from nbckpt.sync.queue import Request
from nbckpt.sync.syncer import TIMEOUT_S
from nbckpt.sync.transfer import TransferOptions
from nbckpt.trials.checkpoints.record import PREFIX, TEMPORARY, Record
from nbckpt.trials.model import journal, log, spec
from nbckpt.trials.model.callback import BackgroundCallback, Callback
from nbckpt.trials.model.params import FILE as PARAMS
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.training.durable import DurableTrainable

EXCLUDE = (f"{TEMPORARY}*", f"*{STAGING}*")
"""What is in a trial's folder for a moment only. Our syncers know the second; a user's must be told."""

_LOOK_S = 0.25
_MOST_AT_ONCE = 16
"""How many trials are sent at once after their ends."""
_OURS = {PARAMS, journal.FILE, log.FILE}

_log = logging.getLogger("nbckpt")


class SyncerCallback(BackgroundCallback):
    """Brings each trial's folder to `upload_dir` while it runs, in the background.

    A trial is sent after a result, once it has run for 2 iterations or 10 s
    (`NBCKPT_SYNC_MIN_ITERATIONS`, `NBCKPT_SYNC_MIN_SECONDS`) and a period has passed since the last time
    that went well; at once after each checkpoint and at its end. Before the experiment ends, everything is
    there, or its notes say what is not. A trial never fails or waits for ever because of it. Durable
    trainables are left alone.

    Args:
        enabled: Whether it does anything.
        sync_period: How many seconds pass between two times; by default the config's, which is 300.
        config: Where to, and how; without an `upload_dir` nothing is sent.
        clock: Tells seconds that only grow.

    Raises:
        UsageError: The config cannot be, or a threshold in the environment is no number.
    """

    def __init__(
        self,
        enabled: bool = True,  # noqa: FBT001, FBT002  as people call it already
        sync_period: float | None = None,
        config: SyncConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        config = config or SyncConfig()
        self.config = config if sync_period is None else replace(config, sync_period=sync_period)
        self.enabled = enabled
        self.config.validate_upload_dir()
        get_node_to_storage_syncer(self.config)
        self._begin(clock)

    def _begin(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._thresholds = sync_thresholds()
        self._url = ""
        self._tasks: dict[str, UploadTask] = {}
        self._untold: dict[str, str] = {}
        self._done: set[str] = set()
        """The trials that ended and are where they should be."""
        self._changed: Callable[[], object] = lambda: None
        self._is_ending = self._is_given_up = False
        self._lock = threading.RLock()
        """Held while what is sent is changed, never while something is waited for."""

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self.config, "enabled": self.enabled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def trouble(self) -> list[str]:
        """Return what is not where it should be, and at the experiment's end what is still being sent."""
        tasks = list(self._tasks.items())
        found = [f"{name} is not up to date at {it.remote}: {it.trouble}" for name, it in tasks if it.trouble]
        if self._is_ending:
            found += [f"sending {name}{_so_far(it.syncer)}" for name, it in tasks if not it.idle]
        return found

    def setup(self, experiment: ExperimentView) -> None:
        """See `Callback.setup`."""
        self._tasks.clear()
        self._untold.clear()
        self._done.clear()
        self._is_given_up = False
        self._changed = experiment.touch
        self._url = ""
        trainable = experiment.spec.trainable
        is_durable = isinstance(trainable, type) and issubclass(trainable, DurableTrainable)
        if self.enabled and self.config.upload_dir and self.config.syncer is not None and not is_durable:
            self._url = url_of(self.config, experiment.name)
            self._send_file(experiment.folder)

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """See `Callback.on_trial_result`."""
        least_iterations, least_s = self._thresholds
        iterations, seconds = (result.get(it, math.inf) for it in ("training_iteration", "time_total_s"))
        if self._url and (iterations >= least_iterations or seconds >= least_s):
            self._send(trial, forced=False)

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        """See `Callback.on_trial_checkpoint`."""
        if self._url and self.config.sync_on_checkpoint:
            self._send(trial)
            self._await([trial.id])

    def on_trial_complete(self, trial: Trial) -> None:
        """See `Callback.on_trial_complete`."""
        if self._url:
            with self._lock:
                self._send(trial)
                self._tasks[trial.id].is_last = True
                self._forget()
                under_way = [name for name, task in self._tasks.items() if task.is_last and not task.idle]
            if len(under_way) >= _MOST_AT_ONCE:
                self._await(under_way[:1])

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """See `Callback.on_trial_error`: what is under way goes on."""
        if trial.finished:
            self.on_trial_complete(trial)

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """See `Callback.on_experiment_end`: everything is sent and awaited."""
        if not self._url:
            return
        self._is_ending = True
        try:
            self._await(list(self._tasks))
            self._forget()
            left = deque(trial for trial in trials if trial.id not in self._done)
            while left:
                some = [left.popleft() for _ in range(min(_MOST_AT_ONCE, len(left)))]
                for trial in some:
                    self._send(trial)
                self._await([trial.id for trial in some])
            if trials:
                self._send_file(trials[0].folder.parent)
                self._await([spec.FILE])
        finally:
            self._is_ending = False
        self._tasks = {name: task for name, task in self._tasks.items() if task.trouble}
        self._done.clear()

    def wait_for_all(self) -> None:
        """Wait for what is being sent, and tell what failed.

        Raises:
            StoreError: Something failed since the last call; a line `trial: error` for each.
        """
        self._await(list(self._tasks))
        untold, self._untold = self._untold, {}
        if untold:
            lines = (f"  {name}: {error}" for name, error in untold.items())
            raise StoreError("\n".join((f"{len(untold)} syncs failed:", *lines)))

    def cancel(self) -> None:
        """See `Callback.cancel`: nothing more is sent."""
        self._is_given_up = True
        for task in list(self._tasks.values()):
            task.syncer.cancel()

    def _send(self, trial: Trial, *, forced: bool = True) -> None:
        """Send a trial's folder where that is due, or in any case."""
        with self._lock:
            task = self._tasks.get(trial.id)
            if task is None:
                left_out = partial(_left_out, artifacts=self.config.sync_artifacts)
                task = UploadTask(self._syncer(), trial.folder, f"{self._url}/{trial.id}", left_out)
                self._tasks[trial.id] = task
            task.is_last = False
        self._ask(trial.id, forced=forced)

    def _ask(self, name: str, *, forced: bool) -> None:
        task = self._tasks[name]
        if self._is_given_up:
            task.failure = "it was given up"
        else:
            task.ask(forced=forced)
        if task.failure:
            self._untold[name] = task.failure

    def _syncer(self) -> BackgroundSyncer:
        return background(self.config, self._clock)

    def _send_file(self, folder: Path) -> None:
        """Send the experiment's own file."""
        syncer = self._syncer()
        if isinstance(syncer, DefaultSyncer):
            syncer = _FileSyncer(syncer.open_storage, self.config.sync_timeout)
        self._tasks.setdefault(spec.FILE, UploadTask(syncer, folder, self._url, _trials))
        self._ask(spec.FILE, forced=True)

    def _await(self, names: Sequence[str]) -> None:
        """Wait for some ways, which are cancelled when that takes too long."""
        limit = 2 * (self.config.sync_timeout or TIMEOUT_S) + 1  # for what is under way, and what waits
        for name in names:
            deadline, task = time.monotonic() + limit, self._tasks.get(name)
            while task and not self._rests(name, task, max(0.0, min(_LOOK_S, deadline - time.monotonic()))):
                self._changed()
                if time.monotonic() >= deadline:
                    task.syncer.cancel()
                    self._untold[name] = task.failure = f"it did not end within {limit:g} s"
                    break
        self._changed()

    def _rests(self, name: str, task: UploadTask, timeout: float) -> bool:
        """Tell whether nothing is sent for *name* after a while; keep why it failed, if it did."""
        try:
            ended = task.syncer.wait(timeout)
        except Exception as error:  # noqa: BLE001  a user's syncer may raise anything
            self._untold[name] = str(error)
            return task.idle
        return ended

    def _forget(self) -> None:
        """Let go of the trials that are where they should be and have ended."""
        with self._lock:
            for name, task in list(self._tasks.items()):
                if task.is_last and self._rests(name, task, 0) and not task.trouble:
                    del self._tasks[name]
                    self._done.add(name)


class UploadTask:
    """What brings one folder to its target.

    Attributes:
        syncer: Does it.
        remote: The target's URL.
        is_last: Whether nothing more is to come.
        failure: Why it could not be asked to, or was given up.
    """

    def __init__(
        self, syncer: BackgroundSyncer, local: Path, remote: str, left_out: Callable[[Path], Iterable[str]]
    ) -> None:
        self.syncer = syncer
        self.remote = remote
        self.is_last = False
        self.failure = ""
        self._local = local
        self._left_out = left_out

    def ask(self, *, forced: bool) -> None:
        """Have it done: where it is due, or in any case."""
        self.failure = ""
        try:
            request = str(self._local), self.remote, list(self._left_out(self._local))
            if forced:
                self.syncer.reset()
            if not self.syncer.sync_up_if_needed(*request) and forced:
                self.syncer.sync_up(*request)
        except Exception as error:  # noqa: BLE001  whatever it is, the trial goes on
            self.failure = f"{type(error).__name__}: {error}"
            _log.warning("%s: %s", self.remote, self.failure)

    @property
    def idle(self) -> bool:
        """Whether nothing is being sent."""
        return not self.syncer.status().running

    @property
    def trouble(self) -> str:
        """Why the target is not what it should be; empty where it is."""
        return self.failure or "; ".join(self.syncer.status().failures)


def callbacks_of(experiment: spec.Spec) -> Iterator[Callback]:
    """Yield what follows an experiment; last what sends it, with all that the others write."""
    yield from experiment.callbacks
    if experiment.sync is not None and not any(isinstance(it, SyncerCallback) for it in experiment.callbacks):
        yield SyncerCallback(config=experiment.sync)


def is_there(config: SyncConfig | None, name: str) -> bool | None:
    """Tell whether `upload_dir` has an experiment of that name; None where only a user's syncer knows.

    Raises:
        StoreError: The storage failed.
    """
    if config is None or config.syncer is None or not config.upload_dir:
        return False
    try:
        return bool(_place_there(config, name))
    except UsageError:
        if config.syncer == AUTO:
            raise
        return None


def _place_there(config: SyncConfig, name: str) -> str:
    """Return where an experiment is: where a run syncs it, or where a push brings it; "" for nowhere."""
    for where in (url_of(config, name), url_of(config, f"experiments/{name}")):
        store = _store(config, where)
        if TransferOptions(config.sync_timeout).work(store.url).one(partial(store.exists, spec.FILE)):
            return where
    return ""


def fetch(config: SyncConfig | None, name: str, folder: Path) -> bool:
    """Bring an experiment into a folder that has nothing of it; tell whether there was one.

    Raises:
        StoreError: The storage or the disk failed; the folder is as it was.
        CorruptError: It is damaged there; the folder is as it was.
    """
    known = is_there(config, name)
    if config is None or known is False:
        return False
    was_there, syncer = folder.exists(), background(config)
    try:
        where = _place_there(config, name) if known else url_of(config, name)
        syncer.sync_down(where, str(folder))
        syncer.wait()
    except BaseException as error:
        syncer.cancel()
        if not was_there:
            shutil.rmtree(folder, ignore_errors=True)
        if known or not isinstance(error, NbckptError):
            raise
        # Nobody but the user's syncer could tell a failure from a new name.
        _log.warning("nothing was fetched, so %s begins anew: %s", name, error)
    return (folder / spec.FILE).is_file()


def _store(config: SyncConfig, where: str) -> Store:
    opens = config.syncer.open_storage if isinstance(config.syncer, DefaultSyncer) else open_store
    return opens(where)


class _FileSyncer(BackgroundSyncer):
    """Puts the experiment's own file beside the trials' targets; whoever reads it has it whole."""

    def __init__(self, opens: Callable[[str], Store], timeout: float | None) -> None:
        super().__init__(0, timeout)
        self._opens = opens

    def carry_out(self, request: Request, options: TransferOptions) -> object:
        """See `BackgroundSyncer.carry_out`."""
        store, data = self._opens(request.remote), Path(request.local, spec.FILE).read_bytes()
        return options.work(store.url).one(partial(store.put, spec.FILE, data))


def _left_out(folder: Path, *, artifacts: bool) -> Iterator[str]:
    """Yield the patterns of what is not to be sent of a trial's folder."""
    yield from EXCLUDE
    if not artifacts:
        for name in sorted(it.name for it in folder.iterdir()):
            if name not in _OURS and not name.startswith(PREFIX):
                yield glob.escape(name)


def _trials(folder: Path) -> Iterable[str]:
    """Return the patterns of all but an experiment's own file."""
    return [*EXCLUDE, *(glob.escape(it.name) for it in sorted(folder.iterdir()) if it.is_dir())]


def _so_far(syncer: BackgroundSyncer) -> str:
    at = syncer.progress
    return "" if at is None or not at.size else f": {size(at.done)} of {size(at.size)}"
