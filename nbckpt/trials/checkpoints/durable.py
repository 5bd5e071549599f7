"""Checkpoints that are also kept on remote storage, and the calls that upload and download them.

    checkpoint_000010/model.bin     the files of a checkpoint, each under its own key
    checkpoint_000010.json          its record, put last: without it there is no checkpoint

Keys are below the trial's own URL, and use `/` on every system.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import partial

from nbckpt.errors import CorruptError, FormatError, NotFoundError, UsageError
from nbckpt.store import Data, Store
from nbckpt.store.files import explained
from nbckpt.sync.budget import MemoryBudget
from nbckpt.sync.files import contents
from nbckpt.sync.transfer import ATTEMPTS, BACKOFF_S, TransferPool
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX, Record
from nbckpt.trials.checkpoints.remote import NotDurableError as NotDurableError
from nbckpt.trials.checkpoints.remote import RemoteFolder
from nbckpt.trials.checkpoints.transfer import CheckpointTransfer, TransferManifest

TIMEOUT_S = 1800.0

_log = logging.getLogger("nbckpt")


class DurableFolder(RemoteFolder):
    """The checkpoints in one trial's folder, which a store keeps too.

    A reader of the store finds a checkpoint whole or not at all. No work continues in the background after
    a method returns. A call that hangs is given up; if it writes a file later, the file is removed again.

    Args:
        folder: The trial's folder.
        store: The store for this trial's checkpoints, and nothing else.
        timeout: How many seconds an upload, a download or a removal may take; None for no limit.
        attempts: How often each call of the store is tried.
        backoff_s: See `TransferOptions`.

    Attributes:
        timeout: See the argument. A new value holds from the next call on.
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
        super().__init__(folder, store.url)
        if attempts < 1 or (timeout is not None and timeout < 0):
            raise UsageError(
                f"attempts={attempts}, timeout={timeout} cannot be: give at least 1, and seconds or None"
            )
        self.store = store
        self.timeout = timeout
        self._attempts = attempts
        self._backoff_s = backoff_s

    def _put(self, record: Record) -> None:
        """Commit a checkpoint in the store, unless the store already has the same one."""
        pool = self._pool(record.name)
        if self._same(pool, record):
            return
        self._remove_from(pool, record.name)
        sizes = {f"{record.name}/{path}": size for path, (size, _) in record.files.items()}
        budget = MemoryBudget()
        pool.all(partial(self._put_file, pool, budget, key, size) for key, size in sizes.items())
        # The record goes last: a failure above this line leaves files that no record names.
        pool.one(partial(self._put_data, pool, record.name + SUFFIX, record.encode()))

    def _put_file(self, pool: TransferPool, budget: MemoryBudget, key: str, size: int) -> None:
        with budget.holding(size, pool.cancel):
            with explained("read", self.folder / key):
                data = contents(self.folder / key, size)
            self._put_data(pool, key, data)

    def _put_data(self, pool: TransferPool, key: str, data: Data) -> None:
        self.store.put(key, data)
        if pool.cancel.cancelled:  # see docs/decisions/0020: the caller was told that the key is absent
            self.store.delete(key)

    def fetch(self, name: str) -> Record:
        """See `RemoteFolder.fetch`."""
        pool = self._pool(name)
        manifest = TransferManifest(self._kept(pool, name).encode())
        return CheckpointTransfer(self, self.store.url).fetch(manifest, self.store.get, pool.all)

    def _kept(self, pool: TransferPool, name: str) -> Record:
        key = name + SUFFIX
        record = Record.decode(pool.one(partial(self.store.get, key)), f"{key} in {self.store.url}")
        if record.name != name:
            raise CorruptError(f"{key} in {self.store.url} is the record of {record.name!r}")
        return record

    def _remove(self, name: str) -> None:
        self._remove_from(self._pool(name), name)

    def _remove_from(self, pool: TransferPool, name: str) -> None:
        pool.one(partial(self.store.delete, name + SUFFIX))
        keys = pool.one(lambda: list(self.store.keys(f"{name}/")))
        pool.all(partial(self.store.delete, key) for key in keys)

    def _records(self) -> Iterator[Record]:
        pool = self._pool()
        for key in pool.one(lambda: list(self.store.keys(PREFIX))):
            if "/" in key or not key.endswith(SUFFIX):
                continue
            try:
                yield self._kept(pool, key.removesuffix(SUFFIX))
            except (NotFoundError, CorruptError, FormatError) as error:
                _log.warning("%s in %s is skipped: %s", key, self.store.url, error)

    def _has(self, record: Record) -> bool:
        return self._same(self._pool(record.name), record)

    def _same(self, pool: TransferPool, record: Record) -> bool:
        try:
            return self._kept(pool, record.name).encode() == record.encode()
        except (NotFoundError, CorruptError, FormatError):
            return False

    def _is_there(self, name: str) -> bool:
        def look() -> bool:
            return self.store.exists(name + SUFFIX) or any(True for _ in self.store.keys(f"{name}/"))

        return self._pool(name).one(look)

    def _pool(self, name: str = "") -> TransferPool:
        return TransferPool(
            f"{self.store.url}/{name}", self.timeout, self._attempts, backoff_s=self._backoff_s
        )
