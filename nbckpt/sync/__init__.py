"""Sync: folders and whole stores to any storage and back, in the background, and never half."""

from nbckpt.sync.background import BackgroundSyncer, DefaultSyncer
from nbckpt.sync.config import SyncConfig, get_node_to_storage_syncer
from nbckpt.sync.syncer import Syncer

__all__ = ["BackgroundSyncer", "DefaultSyncer", "SyncConfig", "Syncer", "get_node_to_storage_syncer"]
