"""CheckpointRows: the checkpoints of a store and its trials, as rows for the browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from nbckpt.commands import Session
from nbckpt.core.history import History
from nbckpt.core.references import SHORT, Entry, Ref
from nbckpt.errors import NbckptError
from nbckpt.listing import Row, Rows
from nbckpt.notebook.widget.wires import Message, cut
from nbckpt.store import local_folder
from nbckpt.trials.checkpoint_index import TrialCheckpoint, find
from nbckpt.trials.home import experiments_folder

MOST_READ = 500
"""The number of the newest checkpoints of trials, which are read. Of others only name and time are sent."""

_MOST_NAMES = 100


class CheckpointRows:
    """Reads each manifest once. One thread at a time may use it."""

    def __init__(self) -> None:
        self._read: dict[str, Message] = {}

    def all(self, session: Session) -> list[Message]:
        """Return the rows of all checkpoints, newest first. A damaged one is a row that says so."""
        history = history_of(session)
        reader = Rows(history)
        names: dict[str, list[Ref]] = {}
        for ref in history.refs():
            names.setdefault(ref.id, []).append(ref)
        of_trials = sorted(_of_trials(session), key=lambda step: step.moment, reverse=True)
        unread = {step.ref for step in of_trials[MOST_READ:]}
        every: list[Entry | TrialCheckpoint] = [*history.entries(), *of_trials]
        every.sort(key=lambda checkpoint: checkpoint.moment, reverse=True)
        former, self._read = self._read, {}
        rows = []
        for checkpoint in every:
            key = f"{_ref(checkpoint)} {checkpoint.moment}"
            if _ref(checkpoint) in unread:
                facts: Message | None = _unread(checkpoint)
            else:
                facts = former.get(key) or _look(checkpoint, reader, history)
            if facts is not None:
                if facts["trusted"] and not facts["trouble"]:  # others may be mended or signed meanwhile
                    self._read[key] = facts
                rows.append(_named(facts, names.get(facts["ref"], [])))
        return rows


def history_of(session: Session) -> History:
    """Return the checkpoints of the store, for a look at them."""
    signer = session.tracker.history.signer
    return History(session.tracker.store, lambda: signer).listed()


def _look(checkpoint: Entry | TrialCheckpoint, reader: Rows, history: History) -> Message | None:
    """Return what the manifest of a checkpoint tells, or None if the checkpoint is gone."""
    row = reader.read(checkpoint)
    if row.manifest is None and isinstance(checkpoint, Entry) and not history.store.exists(checkpoint.key):
        return None
    return _facts(row, checkpoint)


def _facts(row: Row, checkpoint: Entry | TrialCheckpoint) -> Message:
    manifest = row.manifest
    if manifest is None:
        return {**_unread(checkpoint), "trouble": cut(row.trouble), "trusted": True}
    new = manifest.provenance.get("new_bytes")
    names = [*row.variables, *(f"{name} (state)" for name in row.states)] or sorted(manifest.files)
    return {
        **_unread(checkpoint),
        "message": cut(manifest.message, 300),
        "saved_at": manifest.created_at,
        "size": row.size,
        "adds": new if isinstance(new, int) else row.size,
        "trusted": row.trusted,
        "variables": [cut(name, 100) for name in names[:_MOST_NAMES]],
        "count": len(names),
    }


def _unread(checkpoint: Entry | TrialCheckpoint) -> Message:
    """Return the row of a checkpoint whose manifest was not read."""
    ref = _ref(checkpoint)
    return {
        "ref": ref,
        "label": ref if "/" in ref else ref[:SHORT],
        "names": [],
        "message": "",
        "saved_at": _time(checkpoint.moment),
        "size": 0,
        "adds": 0,
        "trial": ref.partition("@")[0] if "/" in ref else "",
        "trusted": True,
        "trouble": "",
        "variables": [],
        "count": 0,
    }


def _named(facts: Message, refs: list[Ref]) -> Message:
    """Return a row with the names that its checkpoint has now."""
    names = [{"name": ref.name, "version": ref.version} for ref in refs]
    return {**facts, "names": names, "label": ", ".join(map(str, refs)) or facts["label"]}


def _ref(checkpoint: Entry | TrialCheckpoint) -> str:
    return checkpoint.id if isinstance(checkpoint, Entry) else checkpoint.ref


def _time(moment: str) -> str:
    """Return the time in the key of a checkpoint as manifests write it; empty if it is none."""
    for form in ("%Y%m%dT%H%M%S%fZ", "%Y%m%dT%H%M%SZ"):
        with suppress(ValueError):
            return datetime.strptime(moment, form).replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")
    return ""


def _of_trials(session: Session) -> Iterator[TrialCheckpoint]:
    with suppress(NbckptError):  # its folder is a link out of the store: the trials pane says so
        yield from find(session.library)


def folder_times(url: str, *more: str) -> Iterator[tuple[str, int]]:
    """Yield the times of the folders that a save, a removal, a name, a signature or a trial changes.

    Args:
        url: The store; nothing is yielded for one that is not a folder.
        more: More folders in it.
    """
    folder = local_folder(url)  # see docs/decisions/0092
    if folder is None:
        return
    for below in ("", "checkpoints", "signatures", "trash", "refs", *more):
        yield from _changed(folder / below)
    experiments = experiments_folder(url)
    deep = chain(_folders(folder / "refs"), *map(_folders, _folders(experiments)))
    for path in deep:
        yield from _changed(path)


def _changed(path: Path) -> Iterator[tuple[str, int]]:
    with suppress(OSError):
        yield str(path), path.stat().st_mtime_ns


def _folders(path: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
