"""Summary file: the summary of a trial in its folder, so that a table need not read its journal.

It names the journal and the configuration that it is of, by size and time. It is left out of every copy.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbckpt.core.schema import OneOf, check
from nbckpt.errors import CorruptError, NbckptError
from nbckpt.store.base import CACHE
from nbckpt.store.files import only_files, write_cache
from nbckpt.store.scan import is_link
from nbckpt.trials.model import annotation, journal, params
from nbckpt.trials.model.journal import Stamp
from nbckpt.trials.model.summary import VERSION, Summary
from nbckpt.trials.model.trial import Trial, state_of

FILE = f"{CACHE}.json"
_MOST_BYTES = 1 << 20
_FORM = {"notes": OneOf(None, (int, int, int)), "summary": dict}


def read(folder: Path) -> Trial | None:
    """Return the trial in *folder* from its summary; None if that is missing, damaged or of other files."""
    if is_link(folder):
        return None
    try:
        journal_at, params_at = _stamp(folder, journal.FILE), _stamp(folder, params.FILE)
        if _stamp(folder, FILE) is None:
            return None
        with open(f"{folder}/{FILE}", "rb", opener=only_files) as file:
            data = file.read(_MOST_BYTES + 1)
        document = journal.event_of(data, FILE) if len(data) <= _MOST_BYTES else {}
        if document | _about(folder, journal_at, params_at) != document:
            return None
        check(document, _FORM, FILE)
        summary = Summary.from_json(document["summary"], folder)
    except (OSError, CorruptError):
        return None
    state = state_of(summary.trial)
    state.read_at = journal_at
    state.annotated = document["notes"] and tuple(document["notes"]), summary.annotation
    return summary.trial


def write(trial: Trial) -> None:
    """Write the summary of a trial that was read whole. If that fails, the next reader reads the journal."""
    state, folder = state_of(trial), trial.folder
    if state.is_partial or state.is_cut or state.damage or is_link(folder):
        return
    with suppress(OSError, NbckptError):
        params_at, notes_at = _stamp(folder, params.FILE), _stamp(folder, annotation.FILE)
        summary = Summary(trial, annotation.read(folder))  # both after their stamps
        if summary.annotation.damage:
            return
        config = {} if state.scheduling.donor else {"config": params.read(folder)}
        document = {
            **_about(folder, state.read_at, params_at),
            "notes": notes_at,
            "summary": summary.to_json() | config,
        }
        data = journal.line_of(document)
        if len(data) <= _MOST_BYTES:
            write_cache(folder / FILE, data)


def _stamp(folder: Path, name: str) -> Stamp:
    """Return the stamp of a file.

    Raises:
        CorruptError: It is a link or a folder.
    """
    try:
        status = os.lstat(f"{folder}/{name}")
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise CorruptError(f"{name} is not a file")
    return status.st_ino, status.st_size, status.st_mtime_ns


def _about(folder: Path, journal_at: Stamp, params_at: Stamp) -> dict[str, Any]:
    """Return what a summary says about itself: whose it is, and of which files."""
    journal_, params_ = (stamp and [*stamp[1:]] for stamp in (journal_at, params_at))
    return {"version": VERSION, "trial": folder.name, "journal": journal_, "params": params_}
