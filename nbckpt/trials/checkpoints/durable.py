"""Checkpoints that are kept on remote storage too, and the calls that bring them there and back.

    checkpoint_000010/model.bin     the files of a checkpoint, each under its own key
    checkpoint_000010.json          its record, put last: without it there is no checkpoint

Keys are below the trial's own URL, and are written with `/` on every system.
"""

from __future__ import annotations

import logging
import mmap
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import Buffer, Store
from nbckpt.sync.transfer import ATTEMPTS, TransferPool
from nbckpt.trials.checkpoints.contents import is_as_saved
from nbckpt.trials.checkpoints.folder import CheckpointFolder, find
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX, Record

TIMEOUT_S = 1800.0

_MAPPED = 1 << 20
_RANGE = 16 << 20

_log = logging.getLogger("nbckpt")


class NotDurableError(StoreError):
    """A checkpoint is whole on the local disk, and could not be committed on remote storage."""


class DurableFolder(CheckpointFolder):
    """The checkpoints in one trial's folder, which are kept in a store too.

    A reader of the store finds a checkpoint whole or not at all. No work goes on in the background after
    a method returns. A call that hangs is given up, and a file that it writes later is removed again.

    Args:
        folder: The trial's folder.
        store: The store that keeps this trial's checkpoints too, and nothing else.
        timeout: How many seconds an upload, a download or a removal may take; None for any number.
        attempts: How often each call of the store is tried.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        store: Store,
        *,
        timeout: float | None = TIMEOUT_S,
        attempts: int = ATTEMPTS,
    ) -> None:
        super().__init__(folder)
        if attempts < 1 or (timeout is not None and timeout < 0):
            raise UsageError(
                f"attempts={attempts}, timeout={timeout} cannot be: give at least 1, and seconds or None"
            )
        self.store = store
        self._timeout = timeout
        self._attempts = attempts

    def upload(self, record: Record) -> None:
        """Commit a checkpoint of the folder in the store, unless the store has the same one.

        Raises:
            NotDurableError: The storage failed. Readers see nothing of the checkpoint in the store, and
                the other checkpoints there are as before.
        """
        try:
            self._put(self._work(record.name), record)
        except Exception as error:
            _log.error("%s: %s", record.name, error)
            raise NotDurableError(
                f"{record.name} is whole in {self.folder} and is not in {self.store.url}: {error}. "
                "Save again when the storage is back"
            ) from error

    def _put(self, work: TransferPool, record: Record) -> None:
        if self._has(work, record):
            return
        self._remove(work, record.name)
        work.all(partial(self._put_file, work, f"{record.name}/{path}") for path in record.files)
        # The record goes last: whatever fails above this line leaves files that nothing names.
        work.one(partial(self._put_bytes, work, record.name + SUFFIX, record.encode()))

    def _put_file(self, work: TransferPool, key: str) -> None:
        self._put_bytes(work, key, _contents(self.folder.joinpath(*key.split("/"))))

    def _put_bytes(self, work: TransferPool, key: str, data: Buffer) -> None:
        self.store.put(key, data)
        if work.cancel.cancelled:  # see docs/decisions/0020: the caller was told that the key is not there
            self.store.delete(key)

    def fetch(self, name: str) -> Record:
        """Commit a checkpoint of the store in the folder.

        Raises:
            NotFoundError: The store has no such checkpoint.
            CorruptError: The files in the store are not those that were saved; the folder is as before.
            StoreError: The storage or the disk failed; the folder is as before.
        """
        work = self._work(name)
        record = self._kept(work, name)
        if record.kind == "null":
            return self.commit(None, record)
        with self.staged() as stage:
            folders = [stage.joinpath(*path.split("/")) for path in record.folders]
            work.all(partial(folder.mkdir, parents=True, exist_ok=True) for folder in folders)
            work.all(partial(self._get_file, work, record, path, stage) for path in record.files)
            return self.commit(stage, record)

    def _kept(self, work: TransferPool, name: str) -> Record:
        key = name + SUFFIX
        record = Record.decode(work.one(partial(self.store.get, key)), f"{key} in {self.store.url}")
        if record.name != name:
            raise CorruptError(f"{key} in {self.store.url} is the record of {record.name!r}")
        return record

    def _get_file(self, work: TransferPool, record: Record, path: str, stage: Path) -> None:
        key, target = f"{record.name}/{path}", stage.joinpath(*path.split("/"))
        size, checksum = record.files[path]
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:  # a retry writes the file from its start
            for start in range(0, size, _RANGE):
                work.cancel.check()
                try:
                    file.write(self.store.get(key, start, min(start + _RANGE, size)))
                except NotFoundError:
                    raise CorruptError(f"{path!r} of {record.name} is missing in {self.store.url}") from None
        if not is_as_saved(target, size, checksum):
            raise CorruptError(f"{path!r} of {record.name} in {self.store.url} is not what was saved")

    def delete(self, record: Record) -> None:
        """Remove a checkpoint from the store and then from the folder; one that is not there is fine.

        Raises:
            StoreError: The storage failed; the folder is as before.
        """
        self._remove(self._work(record.name), record.name)
        super().delete(record)

    def _remove(self, work: TransferPool, name: str) -> None:
        work.one(partial(self.store.delete, name + SUFFIX))
        keys = work.one(lambda: list(self.store.keys(f"{name}/")))
        work.all(partial(self.store.delete, key) for key in keys)

    def sweep(self) -> None:
        """See `CheckpointFolder.sweep`; a crash leaves nothing to sweep in the store."""
        CheckpointFolder(self.folder).sweep()

    def recover(self, newest: str) -> list[str]:
        """See `CheckpointFolder.recover`: fetch the newest checkpoint that is whole in the store."""
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
        work = self._work()
        for key in work.one(lambda: list(self.store.keys(PREFIX))):
            if "/" in key or not key.endswith(SUFFIX):
                continue
            try:
                records.append(self._kept(work, key.removesuffix(SUFFIX)))
            except (NotFoundError, CorruptError, FormatError) as error:
                _log.warning("%s in %s is skipped: %s", key, self.store.url, error)
        return sorted(records, key=lambda record: (record.iteration, record.created_at))

    def name_of(self, path: str | os.PathLike[str]) -> str:
        """Return the name of the checkpoint whose folder is *path* or contains it, on any machine.

        Raises:
            NotFoundError: There is no such checkpoint, neither here nor in the store.
            UsageError: The checkpoint belongs to another trial.
        """
        inside = Path(path).absolute()
        work = self._work()
        with suppress(NotFoundError, CorruptError):
            folder, record = find(inside)
            if folder.folder.resolve() != self.folder.resolve() and not self._has(work, record):
                raise UsageError(f"{str(path)!r} is a checkpoint of another trial than {self.store.url}")
            return record.name
        for name in (candidate.name for candidate in (inside, *inside.parents)):
            if name.startswith(PREFIX) and work.one(partial(self._is_there, name)):
                return name
        raise NotFoundError(
            f"{str(path)!r} is no checkpoint, neither in {self.folder} nor in {self.store.url}"
        )

    def _has(self, work: TransferPool, record: Record) -> bool:
        """Tell whether the store has the same checkpoint."""
        try:
            return self._kept(work, record.name).encode() == record.encode()
        except (NotFoundError, CorruptError, FormatError):
            return False

    def _is_there(self, name: str) -> bool:
        """Tell whether the folder or the store has anything of a checkpoint."""
        paths = (self.folder / name, self.folder / (name + SUFFIX))
        return (
            any(path.exists() for path in paths)
            or self.store.exists(name + SUFFIX)
            or any(True for _ in self.store.keys(f"{name}/"))
        )

    def _work(self, name: str = "") -> TransferPool:
        return TransferPool(f"{self.store.url}/{name}", self._timeout, self._attempts)


def _contents(file: Path) -> Buffer:
    """Return the bytes of a file; a large file is mapped, not read."""
    with file.open("rb") as opened:
        if os.fstat(opened.fileno()).st_size < _MAPPED:
            return opened.read()
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
