"""Removals: notes of which checkpoints one `rm` removed, so that another process can undo it.

    removals/<moment>-<crc32>    the time and the ids, one per line; the CRC-32 covers these bytes

A note is put before its checkpoints are removed. It has no effect for checkpoints that are not in the trash.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from nbckpt.core import trash
from nbckpt.core.history import History
from nbckpt.core.references import SHORT, Entry, Ref
from nbckpt.errors import CorruptError, NotFoundError, StoreError
from nbckpt.render import listed
from nbckpt.store import Store

FOLDER = "removals/"
_MOST = 16 << 20  # the most bytes of a note
_KEY = re.compile(rf"{FOLDER}([0-9]{{8}}T[0-9]{{12}}Z-[0-9a-f]{{8}})")


@dataclass(frozen=True)
class Removal:
    """The checkpoints that one `rm` removed and that are still in the trash.

    The note does not tell two copies of one checkpoint apart. If both are in the trash, both belong to the
    last removal; see `trash.names_of`.

    Attributes:
        stamp: The time of the removal and the note's CRC-32. Stamps sort by time.
        checkpoints: The checkpoints, each with its names.
        is_whole: Whether the note is undamaged. If not, the trash may hold more of its checkpoints.
    """

    stamp: str
    checkpoints: tuple[tuple[Entry, list[Ref]], ...]
    is_whole: bool = True

    def __str__(self) -> str:
        ids = listed([*dict.fromkeys(entry.id[:SHORT] for entry, _ in self.checkpoints)])
        return f"removal of {ids}{'' if self.is_whole else ' (its note is damaged and may name only a part)'}"

    def bring_back(self, history: History) -> None:
        """Undo the removal; see `trash.bring_back`."""
        for entry, refs in self.checkpoints:
            trash.bring_back(history, entry, refs)


def note(store: Store, entries: Iterable[Entry]) -> None:
    """Write a note that these checkpoints are about to be removed together.

    On a full disk no note is written. The removal continues, and only this process can undo it.
    """
    now = datetime.now(UTC)
    text = "\n".join([now.isoformat(), *(entry.id for entry in entries)]).encode()
    with suppress(StoreError):
        store.put(f"{FOLDER}{now:%Y%m%dT%H%M%S%f}Z-{zlib.crc32(text):08x}", text)


def last_removal(history: History) -> Removal | None:
    """Return the last removal that can be undone, or None if the trash holds no checkpoint with a note.

    Raises:
        CorruptError: Its note is damaged, and names no checkpoint in the trash.
    """
    removed = trash.contents(history)
    if not removed:
        return None
    for key in sorted(filter(_KEY.fullmatch, history.store.keys(FOLDER)), reverse=True):
        with suppress(NotFoundError):  # another process deleted it meanwhile
            text = history.store.get(key, 0, _MOST)
            is_whole = key.endswith(f"-{zlib.crc32(text):08x}")
            if checkpoints := tuple(copy for name in _ids(text) for copy in removed.get(name, ())):
                return Removal(key.removeprefix(FOLDER), checkpoints, is_whole)
            if not is_whole:
                raise CorruptError(
                    f"{key} is damaged, so the last removal cannot be undone. Delete this file to undo the "
                    "removal before it"
                )
    return None


def noted(store: Store, key: str) -> list[str]:
    """Return the ids in a note, or an empty list if another process deleted the note meanwhile."""
    try:
        return _ids(store.get(key, 0, _MOST))
    except NotFoundError:
        return []


def _ids(text: bytes) -> list[str]:
    return list(dict.fromkeys(text.decode("ascii", "replace").split()[1:]))
