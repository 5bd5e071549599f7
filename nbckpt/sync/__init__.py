"""Sync: copy folders and whole stores to any storage and back, in the background and atomically."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.lazy import attach

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

if not TYPE_CHECKING:  # with it, a type checker would accept every name
    __getattr__, __dir__, __all__ = attach(__name__, _HOMES)
