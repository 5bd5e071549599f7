"""Durable checkpoints that a user's `Syncer` carries to its storage and back.

    checkpoint_000010/                                the files of a checkpoint
    records/checkpoint_000010/checkpoint_000010.json  its record, sent last: without it there is no checkpoint

A syncer moves whole folders, so the record has a folder of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError
from nbckpt.store import trimmed
from nbckpt.store.files import explained, only_files
from nbckpt.sync import SyncConfig, Syncer
from nbckpt.sync.adapter import background
from nbckpt.sync.transfer import ATTEMPTS, BACKOFF_S
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX, Record
from nbckpt.trials.checkpoints.remote import RemoteFolder
from nbckpt.trials.checkpoints.transfer import CheckpointTransfer, TransferManifest, read_piece

RECORDS = "records"

_log = logging.getLogger("nbckpt")


class SyncedFolder(RemoteFolder):
    """The checkpoints in one trial's folder, which a syncer carries to its storage.

    A reader of the storage finds a checkpoint whole or not at all. While a checkpoint is sent again, and its
    files changed, it does not exist for readers.

    Args:
        folder: The trial's folder.
        url: The place for this trial's checkpoints, as the syncer understands it.
        syncer: Moves the folders. One call at a time.
        timeout: How many seconds each of its calls may take; None for no limit.
        attempts: How often each call is tried.
        backoff_s: The minimum pause before the second attempt, in seconds.

    Raises:
        UsageError: The syncer does not support the URL.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        url: str,
        syncer: Syncer,
        *,
        timeout: float | None = None,
        attempts: int = ATTEMPTS,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        super().__init__(folder, trimmed(url))
        self._config = SyncConfig(self.url, syncer, sync_timeout=timeout)
        self._config.validate_upload_dir()
        self._attempts = attempts
        self._backoff_s = backoff_s

    def _put(self, record: Record) -> None:
        self._call("sync_up", str(self.folder / record.name), f"{self.url}/{record.name}")
        with self.staged() as stage:
            with explained("write", stage):
                (stage / (record.name + SUFFIX)).write_bytes(record.encode())
            self._call("sync_up", str(stage), f"{self.url}/{RECORDS}/{record.name}")

    def fetch(self, name: str) -> Record:
        """See `RemoteFolder.fetch`. Files that the record does not name are left out."""
        record = self._kept(name)
        with self.staged() as stage:
            (stage / name).mkdir()
            self._call("sync_down", f"{self.url}/{name}", str(stage / name))
            manifest = TransferManifest(record.encode())
            return CheckpointTransfer(self, self.url).fetch(manifest, partial(read_piece, stage))

    def _kept(self, name: str) -> Record:
        with self.staged() as stage:
            self._call("sync_down", f"{self.url}/{RECORDS}/{name}", str(stage))
            return _read(stage / (name + SUFFIX), self.url)

    def _remove(self, name: str) -> None:
        for place in (f"{RECORDS}/{name}", name):
            try:
                self._call("delete", f"{self.url}/{place}")
            except NotFoundError:
                continue

    def _records(self) -> Iterator[Record]:
        with self.staged() as stage:
            try:
                self._call("sync_down", f"{self.url}/{RECORDS}", str(stage))
            except NotFoundError:
                return
            for file in stage.glob(f"{PREFIX}*/{PREFIX}*{SUFFIX}"):
                try:
                    yield _read(file, self.url)
                except (NotFoundError, CorruptError, FormatError) as error:
                    _log.warning("%s in %s is skipped: %s", file.name, self.url, error)

    def _has(self, record: Record) -> bool:
        try:
            return self._kept(record.name).encode() == record.encode()
        except (NotFoundError, CorruptError, FormatError):
            return False

    def _is_there(self, name: str) -> bool:
        try:
            self._kept(name)
        except NotFoundError:
            return False
        except (CorruptError, FormatError):
            return True
        return True

    def _call(self, action: str, *folders: str) -> None:
        """Let the syncer carry out one request, and wait for it.

        Raises:
            NotFoundError: The remote folder does not exist.
            StoreError: Every attempt failed.
        """
        syncer = background(self._config)
        getattr(syncer, action)(*folders)
        try:
            syncer.wait_or_retry(self._attempts, self._backoff_s)
        except StoreError as error:
            if action != "sync_up" and _is_missing(error):
                raise NotFoundError(f"there is no {folders[0]}") from error
            raise
        finally:
            syncer.cancel()


def _is_missing(error: BaseException | None) -> bool:
    """Tell whether an error came about because a file does not exist."""
    while error is not None and not isinstance(error, FileNotFoundError):
        error = error.__cause__
    return error is not None


def _read(file: Path, url: str) -> Record:
    """Return a downloaded record."""
    try:
        with open(file, "rb", opener=only_files) as opened:
            record = Record.decode(opened.read(), f"{file.name} in {url}")
    except FileNotFoundError:
        raise NotFoundError(f"there is no {file.name} in {url}") from None
    except OSError as error:
        raise CorruptError(f"{file.name} in {url} cannot be read: {error}") from error
    if record.name + SUFFIX != file.name:
        raise CorruptError(f"{file.name} in {url} is the record of {record.name!r}")
    return record
