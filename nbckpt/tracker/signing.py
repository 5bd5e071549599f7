"""Signing checkpoints with the user's key, which says that the user trusts them."""

from __future__ import annotations

from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.errors import NbckptError


def sign(history: History, manifest: Manifest) -> bool:
    """Sign a checkpoint; return False if it was trusted already."""
    if history.trusted(manifest):
        return False
    history.trust(manifest)
    return True


def sign_all(history: History) -> tuple[list[Manifest], dict[str, str]]:
    """Sign every checkpoint that can be read; see `Tracker.trust_all`."""
    signed, unread = [], {}
    for entry in history.living():
        try:
            manifest = history.read(entry)
        except NbckptError as error:
            unread[entry.id] = str(error)
            continue
        if sign(history, manifest):
            signed.append(manifest)
    return signed, unread
