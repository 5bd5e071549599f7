"""Tracker: one object that opens a store and does what people ask of it."""

from nbckpt.tracker.results import Compared, Restored, Saved
from nbckpt.tracker.tracker import Tracker

__all__ = ["Compared", "Restored", "Saved", "Tracker"]
