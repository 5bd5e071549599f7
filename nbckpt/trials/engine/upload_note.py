"""Upload notes: what a run tells at a URL about the trials that it sends there. See docs/decisions/0090."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from nbckpt.store import Store, open_store
from nbckpt.trials.engine.sheets import note_change, renew_sheets, summary_of
from nbckpt.trials.model.trial import Trial

MOST_TRIALS = 1_000
"""How many trials one note tells of. Then another one begins."""


class UploadNote:
    """The notes of one run at one URL. Any thread may call it.

    Args:
        url: The `upload_dir`.
        folder: The local folder of the experiment.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._told: dict[str, Any] = {}
        self._notes: list[str] = []
        """The newest two: a reader may have listed the former one."""
        self._has_begun = False
        self._turn = threading.Lock()

    def tell(self, trial: Trial) -> None:
        """Tell how a trial is, before its files are sent: so no file there is newer than the note.

        Raises:
            StoreError: The storage failed.
        """
        with self._turn:
            store = open_store(self._url)
            if not self._has_begun:
                self._renew(store, begins=True)
                self._has_begun = True
            self._told[trial.id] = summary_of(trial)
            self._put(store)

    def settle(self) -> None:
        """Move what was told into the catalogue, after the last upload. A failure is logged.

        Raises:
            StoreError: The storage failed. The notes stay.
        """
        with self._turn:
            if self._has_begun:
                store = open_store(self._url)
                self._put(store)  # another process may have settled the notes before the last upload
                self._renew(store)

    def _put(self, store: Store) -> None:
        self._notes.append(note_change(store, self._folder.name, self._told))
        is_full = len(self._told) >= MOST_TRIALS
        while len(self._notes) > (1 if is_full else 2):
            store.delete(self._notes.pop(0))
        if is_full:
            self._told, self._notes = {}, []

    def _renew(self, store: Store, *, begins: bool = False) -> None:
        renew_sheets(store, {self._folder.name: self._folder}.get, begins=begins)
