"""Orphans: notes about packs and claims that nothing uses. A running save may still be about to use them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from nbckpt.core.manifest import now
from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import Store

FOLDER = "orphans/"
ORPHAN_AGE = timedelta(hours=1)
"""By then, a save has ended or died."""


class Orphans:
    """Notes when a collection first found something unused.

    Args:
        store: The store.
        dry_run: Whether nothing is noted.
    """

    def __init__(self, store: Store, *, dry_run: bool) -> None:
        self._store = store
        self._dry_run = dry_run

    def is_old(self, name: str) -> bool:
        """Return whether a collection over an hour ago found this unused. If none did, note it."""
        note = f"{FOLDER}{name}"
        if not self._dry_run and not self._store.exists(note):
            with suppress(StoreError):  # on a full disk, a later collection makes the note
                self._store.put(note, now().encode())
        return is_old(self._store, note)


def is_old(store: Store, note: str) -> bool:
    """Return whether a key that begins with a time was written over an hour ago."""
    try:
        since = datetime.fromisoformat(store.get(note).decode().split()[0])
        return datetime.now(UTC) - since > ORPHAN_AGE
    except (NotFoundError, ValueError, IndexError, TypeError):
        return False
