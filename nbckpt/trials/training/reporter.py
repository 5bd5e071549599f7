"""Reporter: a function's connection to its trial, and the checkpoints that the function reports."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.tree import INSIDE
from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.state.snapshot import snapshots
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.packing import pack
from nbckpt.trials.checkpoints.record import Kind, Record, name_of
from nbckpt.trials.model.metrics import all_plain, as_plain
from nbckpt.trials.training.handoff import Handoff
from nbckpt.trials.training.request import Request
from nbckpt.trials.training.session import CheckpointLike
from nbckpt.trials.training.trainable import check_done


@dataclass
class PendingCheckpoint:
    """A checkpoint that a function reported: a staged folder that will be moved into its place.

    Attributes:
        place: The staged folder.
        kind: The record's kind.
        inner: The record's path inside the folder.
        name: The name that the function chose for the checkpoint, if any.
        is_new: Whether the checkpoint is still to be saved, with the next result.
        counts: The trial's counts at that result.
    """

    place: Path
    kind: Kind = "files"
    inner: str = ""
    name: str = ""
    is_new: bool = True
    counts: Record | None = None

    def record(self, counts: Record) -> Record:
        """Return the record of the checkpoint. *counts* are the trial's counts now."""
        counts = self.counts or counts
        return replace(counts, name=self.name or counts.name, kind=self.kind, inner=self.inner)


class CheckpointStager:
    """The checkpoints that a running function offers, and the checkpoint that it continued from.

    Attributes:
        newest: The last offered checkpoint that is not saved yet.
        origin: The checkpoint that was saved or restored last; None if there is none yet.
    """

    def __init__(self, checkpoints: CheckpointFolder) -> None:
        self.newest: PendingCheckpoint | None = None
        self.origin: tuple[CheckpointFolder, Record] | None = None
        self._checkpoints = checkpoints
        self._lent: dict[Path, str] = {}

    # Methods for the function.

    def lend(self, step: int) -> Path:
        """Return a new folder for the checkpoint of *step*."""
        place = self._checkpoints.stage()
        self._lent[place] = name_of(step)
        return place

    def is_lent(self, place: Path) -> bool:
        """Return whether a folder was lent and is not offered yet."""
        return place in self._lent

    def take_back(self, place: Path) -> None:
        """Remove a lent folder, unless it was offered."""
        if self._lent.pop(place, None) is not None:
            shutil.rmtree(place, ignore_errors=True)

    def take(self, checkpoint: CheckpointLike, *, is_new: bool = True) -> None:
        """Take a checkpoint that the function offers, as it is now. It replaces the former offer.

        Raises:
            NotFoundError: There is nothing at the path.
            CodecError: The dict cannot be pickled.
            StoreError: The disk failed; the former offer stays.
        """
        former, pending = self.newest, self._pending(checkpoint)
        pending.is_new = is_new
        self.newest = pending
        if former is not None and former.place != pending.place:
            shutil.rmtree(former.place, ignore_errors=True)

    def _pending(self, checkpoint: CheckpointLike) -> PendingCheckpoint:
        if isinstance(checkpoint, Mapping):
            return replace(self._pending(Checkpoint.from_dict(checkpoint)), kind="fields")
        if isinstance(checkpoint, Checkpoint):
            with self._filled() as stage:
                checkpoint.to_directory(stage, overwrite=True)
            return PendingCheckpoint(stage, "fields" if (stage / INSIDE).exists() else "files")
        source = Path(checkpoint).absolute()
        if not source.exists():
            raise NotFoundError(f"there is no checkpoint at {str(source)!r}: write it before you report it")
        return self._own(source) or self._copy(source)

    def _own(self, source: Path) -> PendingCheckpoint | None:
        """Return the offer for a lent folder, or for a path in it; None for any other place."""
        for place in (source, *source.parents):
            inner = "" if place == source else source.relative_to(place).as_posix()
            if place in self._lent:
                return PendingCheckpoint(place, inner=inner, name=self._lent.pop(place))
            if self.newest is not None and self.newest.place == place:  # offered again
                return replace(self.newest, inner=inner, counts=None)
        return None

    def _copy(self, source: Path) -> PendingCheckpoint:
        with self._filled() as stage:
            if source.is_dir():
                shutil.copytree(source, stage, dirs_exist_ok=True)
                return PendingCheckpoint(stage)
            shutil.copy2(source, stage)
            return PendingCheckpoint(stage, inner=source.name)

    @contextmanager
    def _filled(self) -> Iterator[Path]:
        """Lend a staged folder during the block. Remove it if the block fails."""
        stage = self._checkpoints.stage()
        try:
            yield stage
        except BaseException as error:
            shutil.rmtree(stage, ignore_errors=True)
            if isinstance(error, OSError) and not isinstance(error, StoreError):
                raise StoreError(f"cannot copy the checkpoint to {str(stage)!r}: {error}") from error
            raise

    def place(self) -> tuple[Path, str] | None:
        """Return the newest checkpoint's folder and the path in it that was offered, or None."""
        if self.newest is not None:
            return self.newest.place, self.newest.inner
        if self.origin is None:
            return None
        folder, record = self.origin
        return folder.folder / record.name, record.inner

    # Methods for the runner.

    @property
    def has_new(self) -> bool:
        """Whether a checkpoint was offered and is still to be saved."""
        return self.newest is not None and self.newest.is_new

    def save(self, counts: Record) -> Record:
        """Commit the newest checkpoint in the trial's folder; commit a null checkpoint if there is none.

        If the newest checkpoint is already committed there, return its record unchanged.
        """
        own = self._checkpoints
        if self.newest is not None:
            record = own.commit(self.newest.place, self.newest.record(counts))
        elif self.origin is None:
            return own.commit(None, Record(f"checkpoint_null_{uuid.uuid4().hex[:8]}", "null", 0))
        elif self.origin[0].folder == own.folder and not self.origin[1].temporary:
            return self.origin[1]
        else:
            record = self._adopt(*self.origin)
        self.newest, self.origin = None, (own, record)
        return record

    def _adopt(self, folder: CheckpointFolder, record: Record) -> Record:
        """Commit a temporary checkpoint, or a checkpoint of another trial, in this trial's folder."""
        with self._checkpoints.staged() as stage:
            shutil.copytree(folder.folder / record.name, stage, dirs_exist_ok=True)
            return self._checkpoints.commit(stage, _permanent(record))

    def pack(self, counts: Record) -> bytes:
        """Return the checkpoint that `save` would commit, as bytes."""
        if self.newest is not None:
            return pack(self.newest.place, self.newest.record(counts))
        if self.origin is None:
            return pack(self._checkpoints.folder, Record("checkpoint_null", "null", 0))
        folder, record = self.origin
        folder.check(record)
        return pack(folder.folder / record.name, _permanent(record))

    def go_on_from(self, folder: CheckpointFolder, record: Record) -> None:
        """Continue from a saved checkpoint. A null checkpoint means from the beginning."""
        self.drop()
        self.origin = None if record.kind == "null" else (folder, record)

    def drop(self) -> None:
        """Remove the lent and offered folders that are not saved."""
        for place in [*self._lent, *([self.newest.place] if self.newest else [])]:
            shutil.rmtree(place, ignore_errors=True)
        self.newest = None
        self._lent.clear()


class StatusReporter:
    """A function's connection to its worker thread: `reporter(loss=0.1)` reports a result.

    The functions `nbckpt.report`, `get_checkpoint` and `checkpoint_dir` use it.

    Args:
        stager: Takes the function's checkpoints.
        handoff: Takes its results; None if the function was not started by a runner.
        states: Returns the states to save with a report that has no checkpoint, or None if they are not
            due; None if states are never saved.
        request: The request for a checkpoint. If there are states, they answer it.
        trial_name: The trial's full name, for people.
        trial_id: Its short name in its experiment.
        logdir: The trial's folder.
    """

    def __init__(
        self,
        stager: CheckpointStager,
        handoff: Handoff | None = None,
        states: Callable[[], CheckpointLike | None] | None = None,
        request: Request | None = None,
        *,
        trial_name: str = "",
        trial_id: str = "",
        logdir: str = "",
    ) -> None:
        self.trial_name = trial_name
        self.trial_id = trial_id
        self.logdir = logdir
        self._stager = stager
        self._handoff = handoff
        self._states = states
        self._request = request or Request()

    def __call__(self, **metrics: Any) -> None:
        """Report a result. Return when the worker thread asks for the next one.

        Raises:
            UsageError: The function was not started by a runner, or `done` is neither True nor False.
            StopTrial: The trial was stopped. Do not catch it.
        """
        self.report(metrics, None)

    def report(self, metrics: dict[str, Any], checkpoint: CheckpointLike | None) -> None:
        """See `nbckpt.report`."""
        handoff = self._handoff
        if handoff is None:
            raise UsageError("this reporter reports to nobody: let nbckpt.run start the function")
        check_done(metrics)
        result = metrics if all_plain(metrics) else {key: _copied(value) for key, value in metrics.items()}
        request = self._request
        if checkpoint is None and (self._states is not None or request.stands) and not self._stager.has_new:
            checkpoint = self._states() if self._states is not None else None
            if checkpoint is None and request.stands:
                checkpoint = snapshots() or None
        if checkpoint is None:
            if request.stands:
                request.answer(given=self._stager.has_new)
            handoff.give(result)
        else:
            with handoff.going_on():  # no other thread's result may come between checkpoint and result
                self._stager.take(checkpoint)
                request.answer(given=True)
                handoff.give(result)

    def make_checkpoint_dir(self, step: int) -> str:
        """Return a new empty folder for the checkpoint of *step*, for `set_checkpoint`.

        The folder gets the checkpoint's name only when the checkpoint is saved. So an exception before that
        leaves nothing that looks like a checkpoint.
        """
        return str(self._stager.lend(step))

    @contextmanager
    def checkpoint_dir(self, step: int) -> Iterator[Path]:
        """See `nbckpt.checkpoint_dir`."""
        place = self._stager.lend(step)
        try:
            yield place
            if self._stager.is_lent(place):
                self.set_checkpoint(place)
        finally:
            self._stager.take_back(place)

    def set_checkpoint(self, checkpoint: CheckpointLike, *, is_new: bool = True) -> None:
        """Offer a checkpoint. It is saved with the next result.

        Args:
            checkpoint: A dict, a Checkpoint, or the path of a folder or a file; a copy is taken.
            is_new: Whether the checkpoint is still to be saved.

        Raises:
            NotFoundError: There is nothing at the path.
            StopTrial: The trial was stopped. Do not catch it.
        """
        if self._handoff is None:
            self._stager.take(checkpoint, is_new=is_new)
        else:
            with self._handoff.going_on():  # not while the worker thread saves the former offer
                self._stager.take(checkpoint, is_new=is_new)

    def has_new_checkpoint(self) -> bool:
        """Return whether an offered checkpoint is not saved yet."""
        return self._stager.has_new

    def get_checkpoint(self) -> Path | None:
        """Return the path of the checkpoint that was offered or restored last; nothing changes."""
        found = self._stager.place()
        return None if found is None else found[0] / found[1]

    def should_checkpoint(self) -> bool:
        """See `nbckpt.should_checkpoint`."""
        return self._request.look()

    def latest(self) -> Checkpoint | None:
        """See `nbckpt.get_checkpoint`."""
        found = self._stager.place()
        return None if found is None else Checkpoint.from_directory(found[0])


def _permanent(record: Record) -> Record:
    return replace(record, name=name_of(record.step), temporary=False)


def _copied(value: Any) -> Any:
    """Return a copy of a metric, which later changes do not reach."""
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001  some objects cannot be copied, such as a tensor inside its graph
        return as_plain(value)
