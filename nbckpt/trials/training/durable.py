"""Durable trainables: `save` returns only when the checkpoint is on remote storage."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.store import Store, check_key, local_folder, open_store, trimmed
from nbckpt.sync import SyncConfig, Syncer
from nbckpt.sync.transfer import ATTEMPTS, BACKOFF_S
from nbckpt.trials.checkpoints.durable import TIMEOUT_S, DurableFolder
from nbckpt.trials.checkpoints.folder import CheckpointFolder, find
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.checkpoints.remote import RemoteFolder
from nbckpt.trials.checkpoints.synced import SyncedFolder
from nbckpt.trials.training.trainable import Trainable

_log = logging.getLogger("nbckpt")


class DurableTrainable(Trainable):
    """A Trainable whose checkpoints are kept on remote storage too.

    Only the checkpoint that is saved or restored is transferred. `save_to_object` and `restore_from_object`
    never touch the remote storage. On another machine, a checkpoint that is a dict is loaded with the
    secret of the user who saved it (`NBCKPT_SECRET_FILE`).

    Args:
        remote_checkpoint_dir: The URL for this trial's checkpoints alone, such as
            `s3://bucket/experiment/trial`: any URL that fsspec knows, or a folder.
        args: As for `Trainable`.
        timeout: Give up an upload, a download or a removal after this many seconds; None for never.
        attempts: How often each storage call is tried.
        backoff_s: The longest pause before the second attempt in seconds; it doubles with each attempt.
        syncer: A `Syncer` of yours, which uploads, downloads and deletes everything. Then the URL is what
            the syncer understands, and *timeout* and *attempts* hold for each of its calls.
        kwargs: As for `Trainable`.

    Raises:
        UsageError: There is no such protocol, or its package is missing.
    """

    def __init__(
        self,
        remote_checkpoint_dir: str | os.PathLike[str],
        *args: Any,
        timeout: float | None = TIMEOUT_S,
        attempts: int = ATTEMPTS,
        backoff_s: float = BACKOFF_S,
        syncer: Syncer | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(remote_checkpoint_dir, (str, os.PathLike)):
            raise UsageError(
                f"{type(self).__name__} needs the URL of its remote storage first: for nbckpt.run give "
                f"nbckpt.trials.durable({type(self).__name__}, 's3://bucket/folder')"
            )
        opened = self._opened(
            os.fspath(remote_checkpoint_dir),
            timeout=timeout,
            attempts=attempts,
            backoff_s=backoff_s,
            syncer=syncer,
        )
        super().__init__(*args, **kwargs)
        self._durable = opened(self.logdir)

    @classmethod
    def _opened(
        cls, url: str, *, syncer: Syncer | None = None, **options: Any
    ) -> Callable[[str | os.PathLike[str]], RemoteFolder]:
        """Return a function that makes the folder of checkpoints for a trial's folder."""
        if syncer is not None:
            return lambda folder: SyncedFolder(folder, url, syncer, **options)
        store = cls.open_storage(url)
        return lambda folder: DurableFolder(folder, store, **options)

    @classmethod
    def open_storage(cls, url: str) -> Store:
        """Return the store for everything remote. Override this method to use your own store."""
        return open_store(url)

    def save(self, checkpoint_dir: str | os.PathLike[str] | None = None) -> str:
        """Save a checkpoint. Return the path of its folder once the checkpoint is committed remotely.

        The checkpoint is committed in the trial's folder first. It appears as a whole on the remote storage
        when its last key is put.

        Raises:
            UsageError: The folder is outside the trial's folder.
            TrialError: The user's code failed; nothing was saved.
            NotDurableError: The checkpoint is complete in the trial's folder, but invisible on the remote
                storage. Older checkpoints are unchanged. Training may continue.
            StoreError: The disk failed; older checkpoints are unchanged.
        """
        return super().save(checkpoint_dir)

    def _committed(self, record: Record) -> None:
        self._durable.upload(record)

    def restore(self, checkpoint_path: str | os.PathLike[str], *, fallback_to_latest: bool = False) -> None:
        """Restore a checkpoint. Download it first if the local copy is incomplete.

        Args:
            checkpoint_path: The path that `save` returned, here or on another machine, or a path inside it.
            fallback_to_latest: If the checkpoint is missing or damaged here and there, restore the newest
                whole one of the trial, and log a warning.

        Raises:
            NotFoundError: The checkpoint exists neither here nor on the remote storage.
            CorruptError: Its files differ from those that were saved; nothing was restored.
            StoreError: The storage failed; nothing was restored.
        """
        super().restore(checkpoint_path, fallback_to_latest=fallback_to_latest)

    def _whole(self, path: str | os.PathLike[str]) -> tuple[CheckpointFolder, Record]:
        try:
            return super()._whole(path)
        except (NotFoundError, CorruptError):
            return self._checkpoints, self._durable.fetch(self._durable.name_of(path))

    def _beside(self, path: str | os.PathLike[str]) -> CheckpointFolder:
        return self._durable

    def delete_checkpoint(self, checkpoint_path: str | os.PathLike[str]) -> None:
        """Remove a checkpoint from the remote storage, then here. If it exists nowhere, log a warning.

        Raises:
            UsageError: The checkpoint belongs to another trial.
            StoreError: The storage failed; the local copy stays.
        """
        try:
            name = self._durable.name_of(checkpoint_path)
        except NotFoundError as error:
            _log.warning("%s. Nothing was deleted", error)
        else:
            self._durable.delete(Record(name, "files", 0))
            with suppress(NotFoundError):  # a folder that the trial had before
                folder, record = find(checkpoint_path)
                folder.delete(record)


class _BelowUrl(DurableTrainable):
    """A durable trainable with the usual signature: its trial name sets its folder below one URL."""

    _url: ClassVar[str]
    _options: ClassVar[Mapping[str, Any]]

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        logdir: str | os.PathLike[str] | None = None,
        *,
        trial_name: str = "",
        trial_id: str = "",
    ) -> None:
        url = self._url_of(trial_name)
        super().__init__(url, config, logdir, trial_name=trial_name, trial_id=trial_id, **self._options)

    @classmethod
    def _url_of(cls, trial_name: str) -> str:
        if not trial_name:
            raise UsageError(f"{cls.__name__} needs a trial_name: it names the folder below {cls._url}")
        return f"{cls._url}/{check_key(trial_name)}"

    @classmethod
    def checkpoints_in(cls, folder: Path, trial_name: str) -> CheckpointFolder:
        """See `Trainable.checkpoints_in`."""
        return cls._opened(cls._url_of(trial_name), **cls._options)(folder)


def durable(
    trainable: Callable[..., Any] | type[Trainable],
    url: str | os.PathLike[str],
    *,
    timeout: float | None = TIMEOUT_S,
    attempts: int = ATTEMPTS,
    syncer: Syncer | None = None,
) -> type[DurableTrainable]:
    """Return the function or class *trainable* as a class that keeps its checkpoints at *url* too.

    `nbckpt.run(nbckpt.trials.durable(train, "s3://bucket/folder"))` keeps the checkpoints of each trial below
    `s3://bucket/folder/EXPERIMENT/TRIAL`. A checkpoint that cannot be committed there does not count as
    saved: the trial continues, and its note gives the reason.

    Args:
        trainable: As for `nbckpt.run`.
        url: Where all trials keep their checkpoints: any URL that fsspec knows, or a folder.
        timeout: Give up an upload, a download or a removal after this many seconds; None for never.
        attempts: How often each storage call is tried.
        syncer: A `Syncer` of yours, which uploads, downloads and deletes everything.

    Raises:
        UsageError: The syncer does not support the URL. Or *trainable* is neither a function nor a Trainable
            class, or the function takes other arguments than a trial's.

    Examples:
        >>> def train(config):
        ...     nbckpt.report(loss=0.5, checkpoint={"step": 0})
        >>> nbckpt.run(nbckpt.trials.durable(train, Path("kept").absolute().as_uri())).wait()
        True
    """
    from nbckpt.trials.training.function import trainable_class

    base = trainable_class(trainable)
    folder = local_folder(url)
    base_url = str(url) if folder is None or syncer is not None else str(folder.absolute())
    if syncer is not None:
        SyncConfig(base_url, syncer).validate_upload_dir()
    options = {"timeout": timeout, "attempts": attempts, "syncer": syncer}
    names = {
        "_url": trimmed(base_url),
        "_options": options,
        "__module__": __name__,
        "__doc__": base.__doc__,
    }
    return type(base.__name__, (_BelowUrl, base), names)
