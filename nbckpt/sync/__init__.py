"""Sync: folders and whole stores to any storage and back, in the background, and never half."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbckpt.sync.background import BackgroundSyncer as BackgroundSyncer
    from nbckpt.sync.background import DefaultSyncer as DefaultSyncer
    from nbckpt.sync.config import SyncConfig as SyncConfig
    from nbckpt.sync.config import get_node_to_storage_syncer as get_node_to_storage_syncer
    from nbckpt.sync.syncer import Syncer as Syncer

_HOMES = {
    "BackgroundSyncer": "nbckpt.sync.background",
    "DefaultSyncer": "nbckpt.sync.background",
    "SyncConfig": "nbckpt.sync.config",
    "get_node_to_storage_syncer": "nbckpt.sync.config",
    "Syncer": "nbckpt.sync.syncer",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
