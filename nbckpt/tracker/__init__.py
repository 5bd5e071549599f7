"""Tracker: one object that opens a store and saves, lists, compares and restores checkpoints."""

from nbckpt.tracker.results import Compared, Restored, Saved
from nbckpt.tracker.tracker import Tracker

__all__ = ["Compared", "Restored", "Saved", "Tracker"]
