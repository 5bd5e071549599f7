"""Stop, pressed while trials begin or end: nothing waits for ever, and the cell can run again."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lines import at_line
from trials.conftest import SECONDS

import nbckpt
from nbckpt.trials import Status
from nbckpt.trials.engine import claim, pool, trial_source


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def train(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_stop_at_any_line_leaves_no_worker_behind(executor: str, experiments: Path) -> None:
    for at in itertools.count(1, 2):
        given: dict[str, Any] = {"name": f"e{at}", "folder": experiments, "executor": executor}
        with at_line(at, interrupt, pool, claim, trial_source) as line, suppress(KeyboardInterrupt):
            nbckpt.run(train, num_samples=2, **given)
        again = nbckpt.run(train, num_samples=2, **given)
        assert again.wait(SECONDS), line.where
        assert [trial.status for trial in again.trials] == [Status.TERMINATED] * 2, line.where
        if not line.where:
            break
    assert at > 80
