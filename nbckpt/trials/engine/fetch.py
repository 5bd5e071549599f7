"""Fetch: download an experiment from `upload_dir` to a machine that does not have it."""

from __future__ import annotations

import logging
import shutil
from functools import partial
from pathlib import Path

from nbckpt.errors import NbckptError, UsageError
from nbckpt.store import Store, open_store
from nbckpt.sync import DefaultSyncer, SyncConfig
from nbckpt.sync.adapter import background
from nbckpt.sync.config import AUTO, url_of
from nbckpt.sync.transfer import TransferOptions
from nbckpt.trials.model import spec_file

_log = logging.getLogger("nbckpt")


def is_there(config: SyncConfig | None, name: str) -> bool | None:
    """Return whether `upload_dir` has the experiment *name*; None if only a user's syncer can know.

    Raises:
        StoreError: The storage failed.
    """
    if config is None or config.syncer is None or not config.upload_dir:
        return False
    try:
        return bool(_url_there(config, name))
    except UsageError:
        if config.syncer == AUTO:
            raise
        return None


def _url_there(config: SyncConfig, name: str) -> str:
    """Return the URL of an experiment that a run synced or that was pushed; "" if there is none."""
    for url in (url_of(config, name), url_of(config, f"experiments/{name}")):
        store = _open(config, url)
        if TransferOptions(config.sync_timeout).work(store.url).one(partial(store.exists, spec_file.FILE)):
            return url
    return ""


def fetch(config: SyncConfig | None, name: str, folder: Path) -> bool:
    """Download an experiment into a folder that lacks it. Return whether it is there now.

    Raises:
        StoreError: The storage or the disk failed; the folder is as before.
        CorruptError: The experiment is damaged at `upload_dir`; the folder is as before.
    """
    known = is_there(config, name)
    if config is None or known is False:
        return False
    was_there, syncer = folder.exists(), background(config)
    try:
        url = _url_there(config, name) if known else url_of(config, name)
        syncer.sync_down(url, str(folder))
        syncer.wait()
    except BaseException as error:
        syncer.cancel()
        if not was_there:
            shutil.rmtree(folder, ignore_errors=True)
        if known or not isinstance(error, NbckptError):
            raise
        # Only the user's syncer could distinguish a failure from a new name.
        _log.warning("%s was not downloaded and starts as a new experiment: %s", name, error)
    return (folder / spec_file.FILE).is_file()


def _open(config: SyncConfig, url: str) -> Store:
    opens = config.syncer.open_storage if isinstance(config.syncer, DefaultSyncer) else open_store
    return opens(url)
