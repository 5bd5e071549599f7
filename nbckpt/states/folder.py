"""A job's saved states on disk: numbered folders, each complete or absent.

    checkpoint-7/               one save; the newest complete save is loaded
        manifest.json           the names of the states, their files, sizes and digests
        model.state             the file that the state called `model` wrote

A save is made in a hidden folder beside the saves, synced to disk and renamed. Its number is one more than
the highest number there, regardless of restarts. A lock lets only one process write at a time. Readers need
no lock.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.states.save import PREFIX, Save, Writable, file_name, write_manifest, write_state
from nbckpt.store import STAGING
from nbckpt.store.files import commit, explained, make_folder, remove, staged_folder, sweep
from nbckpt.store.locks import Timeout, file_lock

_LOCK = f"{STAGING}.lock"
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)

_log = logging.getLogger("nbckpt")


class StateFolder:
    """The saves of a job in one folder.

    Args:
        folder: The folder; the first save makes it.
        patience_s: How many seconds a save waits while another process writes.

    Raises:
        UsageError: The folder is a URL.
    """

    def __init__(self, folder: str | os.PathLike[str], *, patience_s: float = 60.0) -> None:
        self.folder = local(folder)
        self._patience_s = patience_s

    def write(self, states: Iterable[tuple[str, Writable]], *, keep: int, replicas: int) -> Save:
        """Make a save of *states*, and remove all but the newest *keep* complete saves.

        After the return the save survives a crash of the machine. After any error the earlier saves are
        complete.

        Raises:
            StoreError: The disk failed, or another process writes here.
            Exception: Any error that a state's `save` raises.
        """
        with self._alone():
            with ExitStack() as staged:
                with explained("write", self.folder):
                    stage = staged.enter_context(staged_folder(self.folder))
                save = self._fill(stage, states, replicas)
            try:
                self._prune(save, keep)
            except OSError as error:
                _log.warning("%s is saved, but older saves cannot be removed: %s", save.folder, error)
        return save

    def _fill(self, stage: Path, states: Iterable[tuple[str, Writable]], replicas: int) -> Save:
        """Write the staged folder and rename it to its number."""
        files = {name: write_state(name, state, stage / file_name(name)) for name, state in states}
        with explained("write", self.folder):
            write_manifest(stage, files, replicas)
            folder = self.folder / f"{PREFIX}{max(self._numbers(), default=0) + 1}"
            commit(stage, folder)
        return Save(folder, files, replicas)

    def _prune(self, newest: Save, keep: int) -> None:
        """Remove the saves older than the newest *keep* complete ones, and the remains of crashes.

        Folders without a manifest of nbckpt stay: they belong to other programs. Links and saves of a newer
        nbckpt stay too.
        """
        complete = 1
        for number in sorted(self._numbers() - {newest.number}, reverse=True):
            folder = self.folder / f"{PREFIX}{number}"
            try:
                is_complete = Save.read(folder).seems_complete()
            except (NotFoundError, FormatError, StoreError):
                continue
            except CorruptError:
                is_complete = False
            if complete >= keep and not folder.is_symlink():
                remove(folder)
            complete += is_complete
        sweep(self.folder, older_s=0)  # no other process writes: the lock is held

    def newest(self) -> Save | None:
        """Return the newest complete save, after reading all its files. Log newer saves that are incomplete.

        Returns:
            The save, or None if there are no saves.

        Raises:
            CorruptError: There are saves, but all are incomplete.
            FormatError: There are saves, but a newer nbckpt wrote them.
            StoreError: The folder cannot be read.
        """
        errors: list[Exception] = []
        folders = self.folders()
        for folder in folders:
            try:
                save = Save.read(folder).check()
            except NotFoundError as error:
                _log.warning("%s is skipped: %s", folder.name, error)
            except (CorruptError, FormatError) as error:
                _log.warning("%s is skipped: %s", folder.name, error)
                errors.append(error)
            else:
                if errors:
                    _log.warning("loading the older save %s", save.folder)
                return save
        if set(self.folders()) - set(folders):
            return self.newest()  # another process saved and removed the earlier saves
        if errors:
            raise type(errors[0])(
                f"no save in {str(self.folder)!r} is complete: {errors[0]}. To start anew, move it away"
            )
        return None

    def folders(self) -> list[Path]:
        """Return the numbered folders, the highest number first. Some may belong to other programs.

        Raises:
            StoreError: The folder cannot be read.
        """
        return [
            self.folder / f"{PREFIX}{number}"
            for number in sorted(self._numbers(missing_ok=True), reverse=True)
        ]

    def _numbers(self, *, missing_ok: bool = False) -> set[int]:
        names: list[str] = []
        with explained("read", self.folder), suppress(*[FileNotFoundError] if missing_ok else []):
            names = [entry.name for entry in self.folder.iterdir()]
        ends = (name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))
        return {int(end) for end in ends if end.isascii() and end.isdecimal() and str(int(end)) == end}

    @contextmanager
    def _alone(self) -> Any:
        """Hold the lock that lets one process write."""
        with explained("write", self.folder):
            make_folder(self.folder)
        lock = file_lock(self.folder / _LOCK)
        with explained("lock", self.folder):
            try:
                lock.acquire(timeout=self._patience_s)
            except Timeout:
                raise StoreError(
                    f"another process has been writing to {str(self.folder)!r} for {self._patience_s:.0f} s. "
                    "Give each job its own folder"
                ) from None
        try:
            yield
        finally:
            lock.release()


def local(folder: str | os.PathLike[str]) -> Path:
    """Return a folder as an absolute path.

    Raises:
        UsageError: The folder is a URL.
    """
    if _URL.match(os.fspath(folder)):
        raise UsageError(
            f"{os.fspath(folder)!r} is a URL. States are saved in a folder that all replicas reach"
        )
    return Path(folder).absolute()


def at_least_one(keep: int) -> int:
    """Return *keep*, the number of saves to keep, if it is at least one.

    Raises:
        UsageError: It is below one.
    """
    if keep < 1:
        raise UsageError(f"keep={keep}: keep at least one save")
    return keep
