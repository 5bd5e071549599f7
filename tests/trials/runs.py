"""Runs that a test needs only after their end."""

from __future__ import annotations

from typing import Any

import nbckpt
from nbckpt.trials import Experiment

SECONDS = 60


def ran(trainable: Any, config: Any = None, **options: Any) -> Experiment:
    """Run trials, and return their experiment after the end of the last one."""
    experiment = nbckpt.run(trainable, config, **options)
    assert experiment.wait(SECONDS)
    return experiment
