"""Removals: which checkpoints one `rm` took away, so that another process can take it back.

    removals/<moment>-<random>    the moment and the ids, a line each

A note is put before the checkpoints go, and means nothing for those that are not in the trash.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from nbckpt.core.history import SHORT, Entry, History, Ref
from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import Store

FOLDER = "removals/"
_KEY = re.compile(rf"{FOLDER}([0-9]{{8}}T[0-9]{{12}}Z-[0-9a-f]{{8}})")


@dataclass(frozen=True)
class Removal:
    """What one `rm` took away and is in the trash still.

    Attributes:
        stamp: When that was, and a random number; stamps order by time.
        checkpoints: The checkpoints, each with its names.
    """

    stamp: str
    checkpoints: tuple[tuple[Entry, list[Ref]], ...]

    def __str__(self) -> str:
        return f"removal of {', '.join(entry.id[:SHORT] for entry, _ in self.checkpoints)}"

    def bring_back(self, history: History) -> None:
        """Undo it; see `History.bring_back`."""
        for entry, refs in self.checkpoints:
            history.bring_back(entry, refs)


def note(store: Store, entries: Iterable[Entry]) -> None:
    """Note that these checkpoints are about to be removed together.

    On a full disk nothing is noted: the removal goes on, and only this process can undo it.
    """
    now = datetime.now(UTC)
    lines = [now.isoformat(), *(entry.id for entry in entries)]
    with suppress(StoreError):
        store.put(f"{FOLDER}{now:%Y%m%dT%H%M%S%f}Z-{secrets.token_hex(4)}", "\n".join(lines).encode())


def last_removal(history: History) -> Removal | None:
    """Return the last removal that can be undone; None if nothing noted is in the trash."""
    trash = history.trash()
    if not trash:
        return None
    for key in sorted(filter(_KEY.fullmatch, history.store.keys(FOLDER)), reverse=True):
        if found := tuple(trash[name] for name in noted(history.store, key) if name in trash):
            return Removal(key.removeprefix(FOLDER), found)
    return None


def noted(store: Store, key: str) -> list[str]:
    """Return the ids in a note; none if somebody deleted it meanwhile."""
    try:
        return list(dict.fromkeys(store.get(key).decode("ascii", "replace").split()[1:]))
    except NotFoundError:
        return []
