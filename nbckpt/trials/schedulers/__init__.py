"""Schedulers: which trials go on, and when."""

from nbckpt.trials.schedulers.asha import ASHA
from nbckpt.trials.schedulers.base import Scheduler

__all__ = ["ASHA", "Scheduler"]
