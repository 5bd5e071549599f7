"""Artifacts: the files that a trial on another machine writes beside its checkpoints.

They are copied to the trial's folder on the machine that runs the experiment, or uploaded directly to
`upload_dir`. There each trial's artifacts have a separate target, because the machine that runs the
experiment writes the trial's own target.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from nbckpt.errors import NbckptError, NotFoundError, UsageError
from nbckpt.store import Pieces, check_key
from nbckpt.store.base import PIECE
from nbckpt.store.files import explained, write_file
from nbckpt.store.scan import link_outside
from nbckpt.sync import SyncConfig
from nbckpt.sync.adapter import background
from nbckpt.sync.config import url_of
from nbckpt.sync.exclude import excluding
from nbckpt.sync.files import FileStat, scan
from nbckpt.trials.checkpoints.record import PREFIX
from nbckpt.trials.checkpoints.transfer import Read
from nbckpt.trials.model import journal, log
from nbckpt.trials.model.params import FILE as PARAMS

OTHERS = (f"{PREFIX}*", PARAMS, journal.FILE, log.FILE)
"""The files in a trial's folder that are not artifacts."""
FOLDER = "artifacts"  # see docs/decisions/0032
"""The folder of artifacts below an experiment's URL."""


def changed_files(folder: Path, known: Mapping[str, FileStat]) -> dict[str, FileStat]:
    """Return the artifacts in a trial's folder that differ from the *known* ones."""
    files = scan(folder, excluding(OTHERS), {})
    return {path: stat for path, stat in files.items() if known.get(path) != stat}


class Sender:
    """Uploads a trial's artifacts directly to `upload_dir`, in the background.

    Args:
        config: Where and how to upload.
        name: The names of the experiment and the trial.
        folder: The trial's folder.
    """

    def __init__(self, config: SyncConfig, name: str, folder: Path) -> None:
        self._syncer = background(config)
        self._folder = str(folder)
        self._url = artifacts_url(config, name)

    def send(self, *, last: bool) -> str:
        """Upload if that is due; the *last* time upload in any case, and wait. Return the failure or ""."""
        request = self._folder, self._url, list(OTHERS)
        try:
            if not last:
                self._syncer.sync_up_if_needed(*request)
            else:
                self._syncer.sync_up(*request)
                self._syncer.close()
        except NbckptError as error:
            return str(error)
        return "; ".join(self._syncer.status().failures)


def artifacts_url(config: SyncConfig, name: str) -> str:
    """Return the URL of a trial's artifacts."""
    experiment, _, trial = name.rpartition("/")
    return f"{url_of(config, experiment)}/{FOLDER}/{trial}"


def take_in(folder: Path, changed: Mapping[str, FileStat], read: Read) -> None:
    """Write files from another machine into a trial's folder, each file whole or not at all.

    A file that is gone there by now is left out.

    Raises:
        StoreError: The disk failed.
        UsageError: A file is not an artifact, or its path leads outside the folder.
    """
    excluded = excluding(OTHERS)
    for path, stat in changed.items():
        if excluded(check_key(path)):
            raise UsageError(f"{path!r} is not an artifact")
        if link := link_outside(folder, path):
            raise UsageError(f"{link!r} in {str(folder)!r} is a link that leads outside: remove it")
        size = -(-stat.size // PIECE) * PIECE  # whole pieces, because the file may have grown meanwhile
        with explained("write", folder / path), suppress(NotFoundError):
            write_file(folder / path, Pieces(size, partial(read, path)))
