"""Schedulers: which trials go on, and when."""

from nbckpt.trials.schedulers.asha import ASHA
from nbckpt.trials.schedulers.base import Scheduler
from nbckpt.trials.schedulers.median import MedianStopping
from nbckpt.trials.schedulers.pbt import PBT
from nbckpt.trials.schedulers.pruner import OptunaPruner

__all__ = ["ASHA", "PBT", "MedianStopping", "OptunaPruner", "Scheduler"]
