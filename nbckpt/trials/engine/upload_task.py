"""Upload tasks: one folder of an experiment, its target, and the files that are left out."""

from __future__ import annotations

import glob
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nbckpt.provenance import trial as provenance
from nbckpt.provenance.inputs import FILE as INPUTS
from nbckpt.render import error_text
from nbckpt.store.base import CACHE, STAGING
from nbckpt.sync import BackgroundSyncer, DefaultSyncer
from nbckpt.sync.request import Request
from nbckpt.sync.transfer import TransferOptions
from nbckpt.trials.checkpoints.record import PREFIX, TEMPORARY
from nbckpt.trials.model import journal, log, spec_file
from nbckpt.trials.model.annotation import FILE as NOTES
from nbckpt.trials.model.params import FILE as PARAMS

EXCLUDE = (f"{TEMPORARY}*", f"*{STAGING}*", f"*{CACHE}*")
"""Patterns of temporary files in a trial's folder. Our own syncers exclude all but the first anyway."""

_OURS = {PARAMS, NOTES, journal.FILE, log.FILE, provenance.FILE, INPUTS}

_log = logging.getLogger("nbckpt")


class UploadTask:
    """The upload of one folder to its target.

    Attributes:
        syncer: The syncer that uploads the folder.
        remote: The target's URL.
        is_last: Whether the trial has ended, so that this upload is its last.
        failure: Why the syncer was not asked, or why the upload was given up.
        is_raised: Whether `wait_for_all` raised its trouble.
    """

    def __init__(
        self, syncer: BackgroundSyncer, local: Path, remote: str, left_out: Callable[[Path], Iterable[str]]
    ) -> None:
        self.syncer = syncer
        self.remote = remote
        self.is_last = False
        self.failure = ""
        self.is_raised = False
        self._local = local
        self._left_out = left_out

    def ask(self, *, forced: bool) -> None:
        """Ask the syncer to upload the folder if it is due, or in any case if *forced*."""
        self.failure, self.is_raised = "", False
        try:
            request = str(self._local), self.remote, list(self._left_out(self._local))
            if forced:
                self.syncer.reset()
            if not self.syncer.sync_up_if_needed(*request) and forced:
                self.syncer.sync_up(*request)
        except Exception as error:  # noqa: BLE001  the trial continues after any error
            self.failure = error_text(error)
            _log.warning("%s: %s", self.remote, self.failure)

    def wait(self, timeout: float) -> bool:
        """Wait *timeout* seconds at most. Return whether the uploads have ended; `trouble` says how."""
        with suppress(Exception):  # a user's syncer may raise anything
            return self.syncer.wait(max(0.0, timeout))
        return self.idle

    def give_up(self, why: str) -> None:
        """Cancel the uploads, and note why."""
        self.syncer.cancel()
        self.failure = why

    @property
    def idle(self) -> bool:
        """Whether no upload runs now."""
        return not self.syncer.status().running

    @property
    def trouble(self) -> str:
        """Why the target is not up to date; empty if it is."""
        return self.failure or "; ".join(self.syncer.status().failures)


class FileSyncer(BackgroundSyncer):
    """Puts the experiment's file beside the trials' targets; a reader gets it whole."""

    def __init__(self, syncer: DefaultSyncer) -> None:
        super().__init__(0, syncer.sync_timeout)
        self._syncer = syncer

    def carry_out(self, request: Request, options: TransferOptions) -> object:
        """See `BackgroundSyncer.carry_out`."""
        store = self._syncer.open_storage(request.remote)
        data = Path(request.local, spec_file.FILE).read_bytes()
        options = replace(options, attempts=self._syncer.attempts, backoff_s=self._syncer.backoff_s)
        return options.work(store.url).one(partial(store.put, spec_file.FILE, data))


def left_out(folder: Path, *, artifacts: bool) -> Iterator[str]:
    """Yield the patterns of the files in a trial's folder that are not uploaded."""
    yield from EXCLUDE
    if not artifacts:
        for name in sorted(entry.name for entry in folder.iterdir()):
            if name not in _OURS and not name.startswith(PREFIX):
                yield glob.escape(name)


def all_but_experiment(folder: Path) -> Iterable[str]:
    """Return the patterns of everything in an experiment's folder except the experiment's file."""
    return [*EXCLUDE, *(glob.escape(entry.name) for entry in sorted(folder.iterdir()) if entry.is_dir())]
