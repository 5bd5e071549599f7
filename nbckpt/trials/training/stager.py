"""Stager: the checkpoints that a function offers, until they are saved, and requests for them."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.tree import INSIDE
from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.store.files import exists
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.packing import pack
from nbckpt.trials.checkpoints.record import Kind, Record, name_of
from nbckpt.trials.model.metrics import whole_number
from nbckpt.trials.training.session import CheckpointLike


@dataclass
class PendingCheckpoint:
    """A checkpoint that a function reported: a staged folder that is moved to its folder when it is saved.

    Attributes:
        stage: The staged folder.
        kind: The record's kind.
        inner: The record's path inside the folder.
        name: The name that the function chose for the checkpoint, if any.
        is_new: Whether the checkpoint is still to be saved, with the next result.
        counts: The trial's counts at that result.
    """

    stage: Path
    kind: Kind = "files"
    inner: str = ""
    name: str = ""
    is_new: bool = True
    counts: Record | None = None

    def record(self, counts: Record) -> Record:
        """Return the record of the checkpoint. *counts* are the trial's counts now."""
        counts = self.counts or counts
        return replace(counts, name=self.name or counts.name, kind=self.kind, inner=self.inner)


class Request:
    """A request for a checkpoint, open from the moment somebody asks until the function answers.

    A function that polls `should_checkpoint()` answers with its first report after True. A function that
    never polls answers with its next report. Any thread may ask.

    Attributes:
        is_open: Whether the request is open.
        listen: Called before the function polls. Takes in requests from another process.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.listen: Callable[[], object] = bool
        self._polls = self._seen = False

    def ask(self) -> None:
        """Ask for a checkpoint. Asking again while a request is open changes nothing."""
        if not self.is_open:
            self._seen, self.is_open = False, True

    def poll(self) -> bool:
        """Return whether a checkpoint is asked for. Called by the function."""
        self._polls = True
        self.listen()
        self._seen = self.is_open
        return self.is_open

    def answer(self, *, given: bool) -> bool:
        """Take in a report. Return whether it answers the request without a checkpoint.

        Without a *given* checkpoint, a report before the poll is not an answer.
        """
        # see docs/decisions/0038
        if not self.is_open or not (given or self._seen or not self._polls):
            return False
        self.is_open = False
        return not given


class CheckpointStager:
    """The checkpoints that a running function offers, and the checkpoint that it continued from.

    Attributes:
        request: The request for a checkpoint.
        newest: The last offered checkpoint that is not saved yet.
        origin: The checkpoint that was saved or restored last; None if there is none yet.
    """

    def __init__(self, checkpoints: CheckpointFolder) -> None:
        self.request = Request()
        self.newest: PendingCheckpoint | None = None
        self.origin: tuple[CheckpointFolder, Record] | None = None
        self._checkpoints = checkpoints
        self._lent: dict[Path, str] = {}

    # Methods for the function.

    def lend(self, step: int) -> Path:
        """Return a new folder for the checkpoint of *step*.

        Raises:
            UsageError: The step is not a whole number.
        """
        name = name_of(whole_number("step", step))
        stage = self._checkpoints.stage()
        self._lent[stage] = name
        return stage

    def is_lent(self, folder: Path) -> bool:
        """Return whether a folder was lent and is not offered yet."""
        return folder in self._lent

    def take_back(self, stage: Path) -> None:
        """Remove a lent folder, unless it was offered."""
        if self._lent.pop(stage, None) is not None:
            shutil.rmtree(stage, ignore_errors=True)

    def take(self, checkpoint: CheckpointLike, *, is_new: bool = True) -> None:
        """Take a checkpoint that the function offers, as it is now. It replaces the former offer.

        Raises:
            UsageError: It is neither a dict nor a Checkpoint nor a path, or the trial's folder is in it.
            NotFoundError: There is nothing at the path.
            CodecError: The dict cannot be pickled.
            StoreError: The disk failed; the former offer stays.
        """
        former, pending = self.newest, self._pending(checkpoint)
        pending.is_new = is_new
        self.newest = pending
        if former is not None and former.stage != pending.stage:
            shutil.rmtree(former.stage, ignore_errors=True)

    def _pending(self, checkpoint: Any) -> PendingCheckpoint:
        if isinstance(checkpoint, Mapping):
            return replace(self._pending(Checkpoint.from_dict(checkpoint)), kind="fields")
        if isinstance(checkpoint, Checkpoint):
            with self._filled() as stage:
                checkpoint.to_directory(stage, overwrite=True)
            return PendingCheckpoint(stage, "fields" if exists(stage / INSIDE) else "files")
        if not isinstance(checkpoint, str | os.PathLike):
            kind = type(checkpoint).__name__
            advice = f"give a dict such as {{{kind.lower()!r}: …}}, or the path of what you saved"
            raise UsageError(f"a checkpoint is a dict, a Checkpoint or a path, and not {kind}: {advice}")
        source = Path(checkpoint).absolute()
        if not source.exists():
            raise NotFoundError(f"there is no checkpoint at {str(source)!r}: write it before you report it")
        return self._own(source) or self._copy(source)

    def _own(self, source: Path) -> PendingCheckpoint | None:
        """Return the offer for a lent folder, or for a path in it; None for any other path."""
        for folder in (source, *source.parents):
            inner = "" if folder == source else source.relative_to(folder).as_posix()
            if folder in self._lent:
                return PendingCheckpoint(folder, inner=inner, name=self._lent.pop(folder))
            if self.newest is not None and self.newest.stage == folder:  # offered again
                return replace(self.newest, inner=inner, counts=None)
        return None

    def _copy(self, source: Path) -> PendingCheckpoint:
        if self._checkpoints.folder.resolve().is_relative_to(source.resolve()):
            raise UsageError(
                f"the checkpoint {str(source)!r} would hold the trial's folder with all earlier checkpoints: "
                "write what you save into a folder of its own, and report that folder"
            )
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

    def location(self) -> tuple[Path, str] | None:
        """Return the newest checkpoint's folder and the path in it that was offered, or None."""
        if self.newest is not None:
            return self.newest.stage, self.newest.inner
        if self.origin is None:
            return None
        folder, record = self.origin
        return folder.folder / record.name, record.inner

    # Methods for the runner.

    @property
    def new(self) -> PendingCheckpoint | None:
        """The last offered checkpoint, if it is still to be saved."""
        return self.newest if self.newest is not None and self.newest.is_new else None

    def save(self, counts: Record) -> Record:
        """Commit the newest checkpoint in the trial's folder; commit a null checkpoint if there is none.

        If the newest checkpoint is already committed there, return its record unchanged.
        """
        own = self._checkpoints
        if self.newest is not None:
            record = own.commit(self.newest.stage, self.newest.record(counts))
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
            return pack(self.newest.stage, self.newest.record(counts))
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
        for stage in [*self._lent, *([self.newest.stage] if self.newest else [])]:
            shutil.rmtree(stage, ignore_errors=True)
        self.newest = None
        self._lent.clear()


def _permanent(record: Record) -> Record:
    return replace(record, name=name_of(record.step), temporary=False)
