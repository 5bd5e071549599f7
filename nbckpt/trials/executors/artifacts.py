"""Artifacts: what a trial writes beside its checkpoints on another machine than that which drives it.

They go to the trial's folder there, or straight to `upload_dir`, where each trial's have a target of
their own: the trial's own target is written by the machine that drives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from nbckpt.errors import NbckptError, UsageError
from nbckpt.store import check_key
from nbckpt.store.files import writing
from nbckpt.store.scan import link_outside
from nbckpt.sync import SyncConfig
from nbckpt.sync.adapter import background
from nbckpt.sync.config import url_of
from nbckpt.sync.exclude import excluding
from nbckpt.sync.files import FileStat, explained, scan
from nbckpt.trials.checkpoints.record import PREFIX
from nbckpt.trials.executors.transport import PIECE
from nbckpt.trials.model import journal, log
from nbckpt.trials.model.params import FILE as PARAMS

OTHERS = (f"{PREFIX}*", PARAMS, journal.FILE, log.FILE)
"""What is in a trial's folder and is none."""
FOLDER = "artifacts"  # see docs/decisions/0032
"""Where they are below an experiment's URL."""


class Artifacts:
    """Those in one trial's folder, on the machine that writes them.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._excluded = excluding(OTHERS)

    def changes(self, known: Mapping[str, FileStat]) -> dict[str, FileStat]:
        """Return the files that are not as they are known."""
        found = scan(self._folder, self._excluded, {})
        return {path: seen for path, seen in found.items() if known.get(path) != seen}

    def read(self, path: str, offset: int) -> bytes:
        """Return a piece of a file; nothing of one that is gone."""
        try:
            with self._folder.joinpath(*path.split("/")).open("rb") as file:
                file.seek(offset)
                return file.read(PIECE)
        except FileNotFoundError:
            return b""


class Sender:
    """Sends them straight to `upload_dir`, in the background.

    Args:
        config: Where to, and how.
        name: The experiment's and the trial's.
        folder: The trial's folder.
    """

    def __init__(self, config: SyncConfig, name: str, folder: Path) -> None:
        self._syncer = background(config)
        self._folder = str(folder)
        self._url = artifacts_url(config, name)

    def send(self, *, last: bool) -> str:
        """Send them where that is due; the *last* time in any case, and wait. Return why it failed."""
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


def take_in(folder: Path, changed: Mapping[str, FileStat], read: Callable[[str, int], bytes]) -> None:
    """Put files of another machine into a trial's folder, each whole or not at all.

    Raises:
        StoreError: The disk failed.
        UsageError: A file would come to lie elsewhere.
    """
    excluded = excluding(OTHERS)
    for path, seen in changed.items():
        if excluded(check_key(path)):
            raise UsageError(f"{path!r} is no artifact")
        first = read(path, 0)
        if first or not seen.size:  # else it is gone
            _put(folder, path, seen.size, first, partial(read, path))


def _put(folder: Path, path: str, size: int, first: bytes, read: Callable[[int], bytes]) -> None:
    target = folder / path
    with explained("write", target):
        if link := link_outside(folder, path):
            raise UsageError(f"{link!r} in {str(folder)!r} is a link that leads outside: remove it")
        with writing(target) as file:
            file.write(first)
            while file.tell() < size and (piece := read(file.tell())):
                file.write(piece)
