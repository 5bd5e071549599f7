"""Checkpoints that are also kept on remote storage, and the calls that upload and download them.

    checkpoint_000010/model.bin     the files of a checkpoint, each under its own key
    checkpoint_000010.json          its record, put last: without it there is no checkpoint

Keys are below the trial's own URL, and use `/` on every system.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import Data, Store
from nbckpt.store.files import explained
from nbckpt.sync.files import contents
from nbckpt.sync.transfer import ATTEMPTS, BACKOFF_S, TransferPool
from nbckpt.trials.checkpoints.folder import CheckpointFolder, find
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX, Record
from nbckpt.trials.checkpoints.transfer import CheckpointTransfer, TransferManifest

TIMEOUT_S = 1800.0

_log = logging.getLogger("nbckpt")


class NotDurableError(StoreError):
    """A checkpoint is complete on the local disk, but could not be committed on remote storage."""


class DurableFolder(CheckpointFolder):
    """The checkpoints in one trial's folder, which a store keeps too.

    A reader of the store finds a checkpoint whole or not at all. No work continues in the background after
    a method returns. A call that hangs is given up; if it writes a file later, the file is removed again.

    Args:
        folder: The trial's folder.
        store: The store for this trial's checkpoints, and nothing else.
        timeout: How many seconds an upload, a download or a removal may take; None for no limit.
        attempts: How often each call of the store is tried.
        backoff_s: See `TransferOptions`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        store: Store,
        *,
        timeout: float | None = TIMEOUT_S,
        attempts: int = ATTEMPTS,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        super().__init__(folder)
        if attempts < 1 or (timeout is not None and timeout < 0):
            raise UsageError(
                f"attempts={attempts}, timeout={timeout} cannot be: give at least 1, and seconds or None"
            )
        self.store = store
        self._timeout = timeout
        self._attempts = attempts
        self._backoff_s = backoff_s

    def upload(self, record: Record) -> None:
        """Commit a checkpoint of the folder in the store, unless the store already has the same one.

        Raises:
            NotDurableError: The storage failed. Readers of the store see nothing of the checkpoint, and its
                other checkpoints are unchanged.
        """
        try:
            self._put(self._pool(record.name), record)
        except Exception as error:
            _log.error("%s: %s", record.name, error)
            raise NotDurableError(
                f"{record.name} is whole in {self.folder} and is not in {self.store.url}: {error}. "
                "Save again when the storage is back"
            ) from error

    def _put(self, pool: TransferPool, record: Record) -> None:
        if self._has(pool, record):
            return
        self._remove(pool, record.name)
        sizes = {f"{record.name}/{path}": size for path, (size, _) in record.files.items()}
        pool.all(partial(self._put_file, pool, key, size) for key, size in sizes.items())
        # The record goes last: a failure above this line leaves files that no record names.
        pool.one(partial(self._put_data, pool, record.name + SUFFIX, record.encode()))

    def _put_file(self, pool: TransferPool, key: str, size: int) -> None:
        with explained("read", self.folder / key):
            data = contents(self.folder / key, size)
        self._put_data(pool, key, data)

    def _put_data(self, pool: TransferPool, key: str, data: Data) -> None:
        self.store.put(key, data)
        if pool.cancel.cancelled:  # see docs/decisions/0020: the caller was told that the key is absent
            self.store.delete(key)

    def fetch(self, name: str) -> Record:
        """Download a checkpoint from the store and commit it in the folder.

        Raises:
            NotFoundError: The store has no such checkpoint.
            CorruptError: The files in the store differ from those that were saved; the folder is unchanged.
            StoreError: The storage or the disk failed; the folder is unchanged.
        """
        pool = self._pool(name)
        manifest = TransferManifest(self._kept(pool, name).encode())
        return CheckpointTransfer(self, self.store.url).fetch(manifest, self.store.get, pool.all)

    def _kept(self, pool: TransferPool, name: str) -> Record:
        key = name + SUFFIX
        record = Record.decode(pool.one(partial(self.store.get, key)), f"{key} in {self.store.url}")
        if record.name != name:
            raise CorruptError(f"{key} in {self.store.url} is the record of {record.name!r}")
        return record

    def delete(self, record: Record) -> None:
        """Remove a checkpoint from the store, then from the folder. It may be missing in either place.

        Raises:
            StoreError: The storage failed; the folder is unchanged.
        """
        self._remove(self._pool(record.name), record.name)
        super().delete(record)

    def _remove(self, pool: TransferPool, name: str) -> None:
        pool.one(partial(self.store.delete, name + SUFFIX))
        keys = pool.one(lambda: list(self.store.keys(f"{name}/")))
        pool.all(partial(self.store.delete, key) for key in keys)

    def sweep(self) -> None:
        """See `CheckpointFolder.sweep`; a crash leaves nothing to sweep in the store."""
        CheckpointFolder(self.folder).sweep()

    def recover(self, newest: str) -> list[str]:
        """See `CheckpointFolder.recover`: download the newest checkpoint that is complete in the store."""
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
        """Return the checkpoints in the store, the oldest iteration first; damaged records are skipped.

        Raises:
            StoreError: The storage failed.
        """
        records = []
        pool = self._pool()
        for key in pool.one(lambda: list(self.store.keys(PREFIX))):
            if "/" in key or not key.endswith(SUFFIX):
                continue
            try:
                records.append(self._kept(pool, key.removesuffix(SUFFIX)))
            except (NotFoundError, CorruptError, FormatError) as error:
                _log.warning("%s in %s is skipped: %s", key, self.store.url, error)
        return sorted(records, key=lambda record: (record.iteration, record.created_at))

    def name_of(self, path: str | os.PathLike[str]) -> str:
        """Return the name of the checkpoint whose folder is *path* or contains it, on any machine.

        Raises:
            NotFoundError: The checkpoint exists neither here nor in the store.
            UsageError: The checkpoint belongs to another trial.
        """
        inside = Path(path).absolute()
        pool = self._pool()
        with suppress(NotFoundError, CorruptError):
            folder, record = find(inside)
            if folder.folder.resolve() != self.folder.resolve() and not self._has(pool, record):
                raise UsageError(f"{str(path)!r} is a checkpoint of another trial than {self.store.url}")
            return record.name
        for name in (candidate.name for candidate in (inside, *inside.parents)):
            if name.startswith(PREFIX) and pool.one(partial(self._is_there, name)):
                return name
        raise NotFoundError(
            f"{str(path)!r} is not a checkpoint, neither in {self.folder} nor in {self.store.url}"
        )

    def _has(self, pool: TransferPool, record: Record) -> bool:
        """Return whether the store has the same checkpoint."""
        try:
            return self._kept(pool, record.name).encode() == record.encode()
        except (NotFoundError, CorruptError, FormatError):
            return False

    def _is_there(self, name: str) -> bool:
        """Return whether the folder or the store has any part of a checkpoint."""
        paths = (self.folder / name, self.folder / (name + SUFFIX))
        return (
            any(path.exists() for path in paths)
            or self.store.exists(name + SUFFIX)
            or any(True for _ in self.store.keys(f"{name}/"))
        )

    def _pool(self, name: str = "") -> TransferPool:
        return TransferPool(
            f"{self.store.url}/{name}", self._timeout, self._attempts, backoff_s=self._backoff_s
        )
