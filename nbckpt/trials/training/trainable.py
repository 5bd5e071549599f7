"""Trainable: an object that trains step by step. It can be saved and restored between steps."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import CorruptError, NotFoundError, TrialError, UsageError
from nbckpt.media.base import Encoded
from nbckpt.media.intake import Intake
from nbckpt.render import error_text
from nbckpt.trials.checkpoints.folder import CheckpointFolder, find
from nbckpt.trials.checkpoints.packing import pack
from nbckpt.trials.checkpoints.record import PREFIX, TEMPORARY, Record
from nbckpt.trials.model.metrics import DONE, Counts, OnResult, Result, all_numbers, check_counts

SHOULD_CHECKPOINT = "should_checkpoint"
"""Marks a result of `Trainable.train` with which the trainable wants to be saved."""

_log = logging.getLogger("nbckpt")


class Trainable:
    """The base class of everything that trials run. Override `step`, and other methods as needed.

    Only one thread at a time may use a trainable. You override the methods above the line; worker threads
    call the methods below it.

    Args:
        config: The configuration of the trial.
        logdir: The trial's folder, which holds its checkpoints. By default a new temporary folder, which
            is not removed, because it holds the checkpoints.
        trial_name: The trial's full name, for people.
        trial_id: Its short name in its experiment.

    Examples:
        >>> class Steps(nbckpt.trials.Trainable):
        ...     def setup(self, config):
        ...         self.count = 0
        ...     def step(self):
        ...         self.count += 1
        ...         return {"count": self.count, "done": self.count == 3}
        >>> trials = nbckpt.run(Steps)
        >>> trials.wait(), trials.trials[0].metric("count")
        (True, [1, 2, 3])
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        logdir: str | os.PathLike[str] | None = None,
        *,
        trial_name: str = "",
        trial_id: str = "",
    ) -> None:
        self.config = own_config(config or {})
        self.trial_id = trial_id
        self.trial_name = trial_name or trial_id or type(self).__name__
        self._checkpoints = CheckpointFolder(logdir or tempfile.mkdtemp(prefix="nbckpt-trial-"))
        self._counts = Counts()
        self._intake = Intake(self.trial_name)
        self._temporary: list[Record] = []
        self._stopped = False
        self.setup(self.config)

    # Methods for the user to override.

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare for training. Called once, with the configuration."""

    def step(self) -> Mapping[str, Any]:
        """Train for a while and return the metrics. `done: True` in the metrics ends the trial."""
        # Not abstract, nor are the next two: a trainable that is never saved defines only `step`.
        raise NotImplementedError(f"{type(self).__name__} must define step()")

    def save_checkpoint(self, checkpoint_dir: str) -> Mapping[str, Any] | str | os.PathLike[str] | None:
        """Save the state: return a dict, or fill *checkpoint_dir* and return it or a path in it."""
        raise NotImplementedError(f"{type(self).__name__} must define save_checkpoint() to be saved")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Load the state. *checkpoint* is the dict or the path that `save_checkpoint` returned."""
        raise NotImplementedError(f"{type(self).__name__} must define load_checkpoint() to be restored")

    def cleanup(self) -> None:
        """Release the resources of `setup`. Called once, by `stop`."""

    # ----------------------------------------------------------------- Methods for the worker thread.

    @property
    def logdir(self) -> str:
        """The trial's folder."""
        return str(self._checkpoints.folder)

    @property
    def iteration(self) -> int:
        """The number of results, including those before a restore."""
        return self._counts.iteration

    training_iteration = iteration

    @classmethod
    def tells_when_to_save(cls) -> bool:
        """Return whether the trainable says itself with which results it is to be saved."""
        return False

    def ask_for_checkpoint(self) -> None:
        """Ask for a checkpoint, if the trainable decides itself when to save. Any thread may call this."""

    @classmethod
    def checkpoints_in(cls, folder: Path, trial_name: str) -> CheckpointFolder:
        """Return a trial's checkpoint folder, in which the experiment finds and removes checkpoints."""
        del trial_name
        return CheckpointFolder(folder)

    def train(self) -> dict[str, Any]:
        """Do one step and return its result: the metrics, and the counts that nbckpt adds.

        `training_iteration` counts results from 1. `time_this_iter_s` and `time_total_s` are seconds.
        `timestamp` is the time of the result, in seconds since 1970. `timesteps_total` and `episodes_total`
        are present if the metrics have `timesteps_this_iter` and `episodes_this_iter`. Media are encoded.

        Raises:
            TrialError: The user's code failed; its exception is the cause. The trainable can only be stopped.
        """
        started = time.perf_counter()
        try:
            metrics = self.step()
        except TrialError:
            raise
        except (Exception, SystemExit) as error:
            raise failure(error) from error
        if not isinstance(metrics, (dict, Mapping)):  # dict first: it is the fast check
            raise TrialError(f"step() must return a dict of metrics, not {type(metrics).__name__}")
        check_counts(metrics)
        elapsed_s = time.perf_counter() - started
        result, media = (dict(metrics), {}) if all_numbers(metrics) else self._intake.take(metrics)
        self._counts.add(result, elapsed_s)
        return {**result, **media} if media else result

    def next_result(self) -> Result:
        """Do one step and return its result; `should_checkpoint` in the metrics asks for a save."""
        metrics, media = self.train(), None
        if not all_numbers(metrics):
            media = {name: value for name, value in metrics.items() if isinstance(value, Encoded)}
            metrics = {name: value for name, value in metrics.items() if name not in media}
        given = bool(metrics.pop(SHOULD_CHECKPOINT, False))
        return Result(metrics, "given" if given else "", done=bool(metrics.get(DONE)), media=media)

    def push_results(self, on_result: OnResult, *, in_thread: bool = False) -> None:
        """Train, and push each result, until *on_result* returns False or a result is the last.

        During each call of *on_result* the trainable is idle: it can be saved. With *in_thread* a function
        gets its own thread, whose end is not waited for.
        """
        del in_thread
        while on_result(result := self.next_result()) and not result.done:
            pass

    def save(self, checkpoint_dir: str | os.PathLike[str] | None = None) -> str:
        """Save a checkpoint and return the path of its folder. It is committed when the call returns.

        Args:
            checkpoint_dir: A folder directly in the trial's folder; by default `checkpoint_` and the
                iteration.

        Raises:
            UsageError: The folder is outside the trial's folder.
            TrialError: The user's code failed; nothing was saved.
            StoreError: The disk failed; older checkpoints are unchanged.
        """
        record = self._commit(self._own_name(checkpoint_dir))
        self._committed(record)
        return str(self._checkpoints.folder / record.name)

    def restore(self, checkpoint_path: str | os.PathLike[str], *, fallback_to_latest: bool = False) -> None:
        """Restore a checkpoint.

        Args:
            checkpoint_path: The path that `save` returned, or a path inside it.
            fallback_to_latest: If the checkpoint is missing or damaged, restore the newest whole one of the
                same trial, and log a warning.

        Raises:
            NotFoundError: There is no such checkpoint.
            CorruptError: Its files differ from those that were saved; nothing was restored.
        """
        try:
            folder, record = self._whole(checkpoint_path)
        except (NotFoundError, CorruptError) as error:
            folder = self._beside(checkpoint_path)
            newest = folder.newest_whole(_name_in(checkpoint_path))[0] if fallback_to_latest else None
            if newest is None:
                raise
            record = newest
            _log.warning("%s; %s is restored, the newest whole one", error, folder.folder / record.name)
        self._restore_record(folder, record)

    def save_to_object(self) -> bytes:
        """Return a checkpoint as bytes. It is not kept anywhere else.

        Raises:
            TrialError: The user's code failed.
            StoreError: The disk failed.
        """
        with self._checkpoints.staged() as stage:
            return pack(stage, self._fill(stage, None))

    def restore_from_object(self, obj: bytes) -> None:
        """Restore the bytes that `save_to_object` of this or another trainable returned.

        The files stay in a temporary checkpoint until the next restore or `stop`.

        Raises:
            CorruptError: The bytes are not a checkpoint; nothing changed.
            TrialError: The user's code failed.
        """
        record = self._checkpoints.unpack(obj, temporary=True)
        self._temporary.append(record)
        self._restore_record(self._checkpoints, record)

    def delete_checkpoint(self, checkpoint_path: str | os.PathLike[str]) -> None:
        """Remove a checkpoint. If it does not exist, log a warning."""
        try:
            folder, record = find(checkpoint_path)
        except FileNotFoundError:
            _log.warning("there is no checkpoint %s to delete", os.fspath(checkpoint_path))
        else:
            folder.delete(record)

    def stop(self) -> None:
        """Run `cleanup` and remove temporary checkpoints. Stopping again is harmless."""
        if self._stopped:
            return
        self._stopped = True
        try:
            self.cleanup()
        finally:
            self._drop_temporary(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Internals.

    def _own_name(self, checkpoint_dir: str | os.PathLike[str] | None) -> str | None:
        """Return the name of the checkpoint folder that the caller chose, or None."""
        if checkpoint_dir is None:
            return None
        folder, own = Path(checkpoint_dir).resolve(), self._checkpoints.folder.resolve()
        if folder.parent != own or not folder.name.startswith(PREFIX) or folder.name.startswith(TEMPORARY):
            raise UsageError(
                f"checkpoint_dir={str(checkpoint_dir)!r} is not in the trial's folder {self.logdir!r}, or "
                f"not named `{PREFIX}…`: leave it out, or give such a folder"
            )
        return folder.name

    def _commit(self, name: str | None) -> Record:
        """Save a checkpoint in the trial's folder."""
        with self._checkpoints.staged() as stage:
            return self._checkpoints.commit(stage, self._fill(stage, name))

    def _fill(self, stage: Path, name: str | None) -> Record:
        """Let the user's code save into *stage*. Return the record of the checkpoint."""
        try:
            given = self.save_checkpoint(str(stage))
        except Exception as error:
            raise failure(error) from error
        if isinstance(given, Mapping):
            Checkpoint.from_dict(given).to_directory(stage, overwrite=True)
            return self._counts.record(name, "fields")
        return self._counts.record(name, "files", _inside(stage, given))

    def _committed(self, record: Record) -> None:
        """Do further work after a checkpoint is saved; for subclasses."""

    def _whole(self, path: str | os.PathLike[str]) -> tuple[CheckpointFolder, Record]:
        """Return the checkpoint at a path after a check of its files."""
        folder, record = find(path)
        folder.check(record)
        return folder, record

    def _beside(self, path: str | os.PathLike[str]) -> CheckpointFolder:
        """Return the folder of the trial that a checkpoint's path belongs to; by default this trial's."""
        whole = Path(path).absolute()
        named = (place for place in (whole, *whole.parents) if place.name.startswith(PREFIX))
        return next((CheckpointFolder(place.parent) for place in named), self._checkpoints)

    def _restore_record(self, folder: CheckpointFolder, record: Record) -> None:
        self._load(folder, record)
        self._counts = Counts.of(record)
        self._drop_temporary({record.name})

    def _drop_temporary(self, needed: Collection[str]) -> None:
        """Remove the temporary checkpoints that are no longer needed."""
        for record in self._temporary:
            if record.name not in needed:
                self._checkpoints.delete(record)
        self._temporary = [record for record in self._temporary if record.name in needed]

    def _load(self, folder: CheckpointFolder, record: Record) -> None:
        given: Any = str(folder.path(record))
        if record.kind == "fields":
            given = Checkpoint.from_directory(folder.folder / record.name).to_dict()
        try:
            self.load_checkpoint(given)
        except Exception as error:
            raise failure(error) from error


def own_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration whose dicts and lists are copies; the values in them are shared."""
    return {key: _own(value) for key, value in config.items()}


def _own(value: Any) -> Any:
    if type(value) is dict:
        return own_config(value)
    return [_own(item) for item in value] if type(value) is list else value


def failure(error: BaseException) -> TrialError:
    """Return the TrialError for an exception of the user's code, which is its cause."""
    raised = TrialError(error_text(error))
    raised.__cause__ = error
    return raised


def _name_in(path: str | os.PathLike[str]) -> str:
    """Return the name of the checkpoint in a path, or ""."""
    return next((part for part in reversed(Path(path).parts) if part.startswith(PREFIX)), "")


def _inside(stage: Path, given: Any) -> str:
    """Return the path that `save_checkpoint` returned, relative to the folder that it was given."""
    if not isinstance(given, str | os.PathLike | None):
        raise UsageError(
            f"save_checkpoint returned {given!r}: return a dict, a path in the given folder, or None"
        )
    path = stage if given is None else Path(given)
    path = path if path.is_absolute() else stage / path
    try:
        return "" if path == stage else path.resolve().relative_to(stage.resolve()).as_posix()
    except ValueError:
        raise UsageError(
            f"save_checkpoint returned {str(given)!r}, which is outside the folder that it was given"
        ) from None
