"""Upload: upload an experiment to remote storage while it runs.

    <upload_dir>/<experiment>/experiment.json    its spec, put last when it begins and when it ends
    <upload_dir>/<experiment>/<trial>/…          a separate target for each trial, with an index
    <upload_dir>/<experiment>/provenance/…       a target for what the trials' provenance shares
    <upload_dir>/<experiment>/media/…            the media of all trials, in the same way

`nbckpt.sync.download` downloads a trial's folder, or the whole experiment.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nbckpt.errors import StoreError
from nbckpt.media.stored import FOLDER as MEDIA
from nbckpt.provenance.background import settle
from nbckpt.provenance.trial import OBJECTS
from nbckpt.render import count, size
from nbckpt.settings import sync_thresholds
from nbckpt.sync import BackgroundSyncer, DefaultSyncer, SyncConfig, get_node_to_storage_syncer
from nbckpt.sync.adapter import background
from nbckpt.sync.config import AUTO, url_of
from nbckpt.sync.syncer import TIMEOUT_S
from nbckpt.sync.transfer import TransferOptions
from nbckpt.trials.checkpoints.contents import incomplete
from nbckpt.trials.checkpoints.origin import FOLDER as ORIGIN
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.engine.upload_note import UploadNote
from nbckpt.trials.engine.upload_task import EXCLUDE, FileSyncer, UploadTask, all_but_experiment, left_out
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.callback import BackgroundCallback
from nbckpt.trials.model.spec import CallbackLike, Spec
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.model.view import ExperimentView, internals
from nbckpt.trials.training.durable import DurableTrainable

_LOOK_S = 0.25
PROVENANCE_S = 5.0
"""How long the last upload of a trial waits for its provenance."""

_MOST_AT_ONCE = 16
"""How many trials are uploaded at once after they end."""

_log = logging.getLogger("nbckpt")


class SyncerCallback(BackgroundCallback):
    """Uploads each trial's folder to `upload_dir` while the trial runs, in the background.

    A trial is uploaded after a result, once it has run for 2 iterations or 10 s
    (`NBCKPT_SYNC_MIN_ITERATIONS`, `NBCKPT_SYNC_MIN_SECONDS`) and a period has passed since the last
    successful upload. It is uploaded at once after each checkpoint and at its end. Before the experiment
    ends, all trials are uploaded, or its notes name those that are not. An upload never makes a trial fail
    or wait for ever. Durable trainables are not uploaded.

    Args:
        enabled: Whether to upload anything.
        sync_period: The seconds between two uploads; by default the config's period, which is 300.
        config: Where and how to upload; without an `upload_dir` nothing is uploaded.
        clock: Returns seconds that only grow.

    Attributes:
        tasks: The uploads of trials and of the experiment's own files, by name.

    Raises:
        UsageError: The config is not valid, or a threshold in the environment is not a number.
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
        self.tasks: dict[str, UploadTask] = {}
        self._done: set[str] = set()
        """The trials that ended and are up to date in `upload_dir`."""
        self._changed: Callable[[], object] = lambda: None
        self._is_ending = self._is_given_up = False
        self._note: UploadNote | None = None
        self._lock = threading.RLock()
        """Held while the tasks change, never while the callback waits."""

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self.config, "enabled": self.enabled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def trouble(self) -> list[str]:
        """Return a sentence for each target that is not up to date; at the end also for running uploads."""
        tasks = list(self.tasks.items())
        troubles = [
            f"{name} is not up to date at {task.remote}: {task.trouble}"
            for name, task in tasks
            if task.trouble
        ]
        if self._is_ending:
            troubles += [f"sending {name}{_sent(task.syncer)}" for name, task in tasks if not task.idle]
        return troubles

    def setup(self, experiment: ExperimentView) -> None:
        """See `Callback.setup`."""
        self.tasks.clear()
        self._done.clear()
        self._is_given_up = False
        self._note = None
        self._changed = internals(experiment).touch
        self._url = ""
        trainable = experiment.spec.trainable
        is_durable = isinstance(trainable, type) and issubclass(trainable, DurableTrainable)
        if self.enabled and self.config.upload_dir and self.config.syncer is not None and not is_durable:
            self._url = url_of(self.config, experiment.name)
            if self.config.syncer == AUTO:  # a user's syncer may know other URLs
                self._note = UploadNote(self.config.upload_dir, experiment.folder)
            self._send_experiment(experiment.folder)

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """See `Callback.on_trial_result`."""
        least_iterations, least_s = self._thresholds
        iterations, seconds = (result.get(key, math.inf) for key in ("training_iteration", "time_total_s"))
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
            self._send_last(trial)

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """See `Callback.on_trial_error`: running uploads continue."""
        if trial.finished:
            self.on_trial_complete(trial)

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """See `Callback.on_experiment_end`: upload everything and wait for it."""
        if not self._url:
            return
        self._is_ending = True
        try:
            self._await(list(self.tasks))
            self._forget()
            for trial in [trial for trial in trials if trial.id not in self._done]:
                self._send_last(trial)
            self._await(list(self.tasks))
            if trials:
                self._send_experiment(trials[0].folder.parent)
                self._await([OBJECTS, spec_file.FILE, ORIGIN])
                self._settle_note()
        finally:
            self._is_ending = False
        self.tasks = {name: task for name, task in self.tasks.items() if task.trouble}
        self._done.clear()

    def _settle_note(self) -> None:
        if self._note is not None:
            options = TransferOptions(timeout=self.config.sync_timeout or TIMEOUT_S)
            with suppress(StoreError):  # the note stays, and readers read it
                options.work(self._url).one(self._note.settle)

    def wait_for_all(self) -> None:
        """Wait for the running uploads. Raise an error if one failed.

        Raises:
            StoreError: A target is not up to date, and no call said so yet. The message names each trial with
                its error.
        """
        self._await(list(self.tasks))
        said = []
        for name, task in list(self.tasks.items()):
            if task.trouble and not task.is_raised:
                task.is_raised = True
                said.append(f"{name}: {task.trouble}")
        if said:
            raise StoreError(f"{count(len(said), 'sync')} failed: {'; '.join(said)}")

    def cancel(self) -> None:
        """See `Callback.cancel`: nothing further is uploaded."""
        self._is_given_up = True
        for task in list(self.tasks.values()):
            task.syncer.cancel()

    def _send(self, trial: Trial, *, forced: bool = True) -> None:
        """Upload a trial's folder and the media if they are due, or in any case if *forced*."""
        if state_of(trial).media:
            self._send_folder(trial.folder.parent / MEDIA, forced=forced)
        with self._lock:
            if (task := self.tasks.get(trial.id)) is None:
                syncer, remote = background(self.config, self._clock), f"{self._url}/{trial.id}"
                tell = partial(self._note.tell, trial) if self._note else (lambda: None)
                syncer.base_options = TransferOptions(incomplete=incomplete, before=tell)
                patterns = partial(left_out, artifacts=self.config.sync_artifacts)
                task = self.tasks[trial.id] = UploadTask(syncer, trial.folder, remote, patterns)
            task.is_last = False
        self._ask(task, forced=forced)

    def _send_last(self, trial: Trial) -> None:
        """Upload the folder of a trial that has ended. Wait only if too many of these uploads run."""
        settle(PROVENANCE_S)  # a trial may end before git has answered
        with self._lock:
            self._send(trial)
            self.tasks[trial.id].is_last = True
            self._forget()
            running = [name for name, task in self.tasks.items() if task.is_last and not task.idle]
        if len(running) >= _MOST_AT_ONCE:
            self._await(running[:1])

    def _ask(self, task: UploadTask, *, forced: bool) -> None:
        if self._is_given_up:
            task.give_up("it was given up")
        else:
            task.ask(forced=forced)

    def _send_experiment(self, folder: Path) -> None:
        """Upload the experiment's file, the checkpoint that trials start from, and what provenance shares."""
        for shared in (ORIGIN, OBJECTS):
            self._send_folder(folder / shared)
        syncer = background(self.config, self._clock)
        if isinstance(syncer, DefaultSyncer):
            syncer = FileSyncer(syncer)
        task = UploadTask(syncer, folder, self._url, all_but_experiment)
        self._ask(self.tasks.setdefault(spec_file.FILE, task), forced=True)

    def _send_folder(self, folder: Path, *, forced: bool = True) -> None:
        """Upload a folder of the experiment that is not a trial's, if it exists."""
        if folder.is_dir():
            syncer, remote = background(self.config, self._clock), f"{self._url}/{folder.name}"
            with self._lock:
                task = UploadTask(syncer, folder, remote, lambda _: EXCLUDE)
                task = self.tasks.setdefault(folder.name, task)
            self._ask(task, forced=forced)

    def _await(self, names: Sequence[str]) -> None:
        """Wait for the tasks with these names; cancel a task that takes too long."""
        limit = 2 * (self.config.sync_timeout or TIMEOUT_S) + 1  # for the running upload and the waiting one
        for task in [self.tasks[name] for name in names if name in self.tasks]:
            deadline = time.monotonic() + limit
            while not task.wait(min(_LOOK_S, deadline - time.monotonic())):
                self._changed()
                if time.monotonic() >= deadline:
                    task.give_up(f"it did not end within {limit:g} s")
                    break
        self._changed()

    def _forget(self) -> None:
        """Drop the tasks of trials that have ended and are up to date in `upload_dir`."""
        for name, task in list(self.tasks.items()):
            if task.is_last and task.wait(0) and not task.trouble:
                del self.tasks[name]
                self._done.add(name)


def callbacks_of(experiment: Spec) -> Iterator[CallbackLike]:
    """Yield an experiment's callbacks. The uploader is last, after all callbacks that write files."""
    yield from experiment.callbacks
    has_own = any(isinstance(callback, SyncerCallback) for callback in experiment.callbacks)
    if experiment.sync is not None and not has_own:
        yield SyncerCallback(config=experiment.sync)


def _sent(syncer: BackgroundSyncer) -> str:
    progress = syncer.progress
    if progress is None or not progress.size:
        return ""
    return f": {size(progress.done)} of {size(progress.size)}"
