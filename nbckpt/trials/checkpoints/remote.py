"""Checkpoints that are kept on remote storage too: what holds for every way to reach that storage."""

from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nbckpt.errors import CorruptError, NotFoundError, StoreError, UsageError
from nbckpt.trials.checkpoints.folder import CheckpointFolder, find
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX, Record

_log = logging.getLogger("nbckpt")


class NotDurableError(StoreError):
    """A checkpoint is complete on the local disk, but could not be committed on remote storage."""


class RemoteFolder(CheckpointFolder):
    """The checkpoints in one trial's folder, which remote storage keeps too. Subclasses reach the storage.

    Args:
        folder: The trial's folder.
        url: The place on the storage for this trial's checkpoints, and nothing else.
    """

    def __init__(self, folder: str | os.PathLike[str], url: str) -> None:
        super().__init__(folder)
        self.url = url

    def upload(self, record: Record) -> None:
        """Commit a checkpoint of the folder on the storage.

        Raises:
            NotDurableError: The storage failed. Its readers see nothing of the checkpoint, and its other
                checkpoints are unchanged.
        """
        try:
            self._put(record)
        except Exception as error:
            _log.error("%s: %s", record.name, error)
            raise NotDurableError(
                f"{record.name} is whole in {self.folder} and is not in {self.url}: {error}. "
                "Save again when the storage is back"
            ) from error

    @abstractmethod
    def _put(self, record: Record) -> None:
        """Commit a checkpoint of the folder on the storage. The record goes last."""

    @abstractmethod
    def fetch(self, name: str) -> Record:
        """Download a checkpoint from the storage and commit it in the folder.

        Raises:
            NotFoundError: The storage has no such checkpoint.
            CorruptError: Its files differ from those that were saved; the folder is unchanged.
            StoreError: The storage or the disk failed; the folder is unchanged.
        """

    def delete(self, record: Record) -> None:
        """Remove a checkpoint from the storage, then from the folder. It may be missing in either place.

        Raises:
            StoreError: The storage failed; the folder is unchanged.
        """
        self._remove(record.name)
        super().delete(record)

    @abstractmethod
    def _remove(self, name: str) -> None:
        """Remove a checkpoint from the storage, the record first."""

    def sweep(self) -> None:
        """See `CheckpointFolder.sweep`; a crash leaves nothing to sweep on the storage."""
        CheckpointFolder(self.folder).sweep()

    def recover(self, newest: str) -> list[str]:
        """See `CheckpointFolder.recover`: download the newest checkpoint that is complete on the storage."""
        with suppress(NotFoundError, CorruptError):
            self.check(self.read(newest))
            return []
        notes = []
        for record in reversed(self.kept()):
            try:
                self.fetch(record.name)
                break
            except (NotFoundError, CorruptError) as error:
                notes.append(f"{error}; going on from an older checkpoint")
        return notes

    def kept(self) -> list[Record]:
        """Return the checkpoints on the storage, the oldest iteration first; damaged records are skipped.

        Raises:
            StoreError: The storage failed.
        """
        return sorted(self._records(), key=lambda record: (record.iteration, record.created_at))

    @abstractmethod
    def _records(self) -> Iterator[Record]:
        """Yield the checkpoints on the storage, in any order."""

    def name_of(self, path: str | os.PathLike[str]) -> str:
        """Return the name of the checkpoint whose folder is *path* or contains it, on any machine.

        Raises:
            NotFoundError: The checkpoint exists neither here nor on the storage.
            UsageError: The checkpoint belongs to another trial.
        """
        inside = Path(path).absolute()
        with suppress(NotFoundError, CorruptError):
            folder, record = find(inside)
            if folder.folder.resolve() != self.folder.resolve() and not self._has(record):
                raise UsageError(f"{str(path)!r} is a checkpoint of another trial than {self.url}")
            return record.name
        for name in (candidate.name for candidate in (inside, *inside.parents)):
            if name.startswith(PREFIX) and (self._has_files(name) or self._is_there(name)):
                return name
        raise NotFoundError(f"{str(path)!r} is not a checkpoint, neither in {self.folder} nor in {self.url}")

    @abstractmethod
    def _has(self, record: Record) -> bool:
        """Return whether the storage has the same checkpoint."""

    def _has_files(self, name: str) -> bool:
        """Return whether the folder has any part of a checkpoint."""
        return any(path.exists() for path in (self.folder / name, self.folder / (name + SUFFIX)))

    @abstractmethod
    def _is_there(self, name: str) -> bool:
        """Return whether the storage has any part of a checkpoint."""
