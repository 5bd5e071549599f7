"""Executors of other packages, registered by an entry point."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from trials.runs import ran

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.trials import Status
from nbckpt.trials.executors import NAMES, ThreadExecutor, open_executor, others


class Cloud(ThreadExecutor):
    """An executor of another package."""

    name = "cloud"

    def __init__(self, region: str = "here") -> None:
        self.region = region


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two packages: one with a good executor, and one with bad ones."""
    monkeypatch.setitem(sys.modules, "cloud_package", sys.modules[__name__])
    points = {"cloud": "cloud_package:Cloud", "broken": "no_such_package:Executor", "odd": "builtins:dict"}
    made = [EntryPoint(name, value, others.GROUP) for name, value in points.items()]
    monkeypatch.setattr(others, "entry_points", lambda group: made if group == others.GROUP else [])


def train(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1)


def test_a_registered_executor_is_found_by_its_name() -> None:
    experiment = ran(train, executor="cloud region=north", name="e")
    assert experiment.trials[0].status == Status.TERMINATED
    assert experiment.spec.executor == "cloud region=north"
    opened = open_executor("cloud region=2", {})
    assert isinstance(opened, Cloud)
    assert opened.region == 2


def test_a_bad_entry_point_gives_one_clear_error(store: Path, subtests: pytest.Subtests) -> None:
    for executor, message in [
        ("broken", "the executor 'broken' of an unknown package cannot be made: ModuleNotFoundError"),
        ("cloud size=3", "the executor 'cloud' of an unknown package cannot be made: TypeError"),
        ("odd", "the entry point 'odd' of an unknown package makes a dict, not an Executor"),
        ("cluod", f"there are {', '.join(NAMES)}, broken, cloud, odd. Did you mean 'cloud'?"),
        ("", "there is no executor ''"),
    ]:
        with subtests.test(executor):
            with pytest.raises(UsageError, match=re.escape(message)):
                nbckpt.run(train, executor=executor, name="e")
            assert not (store / "experiments" / "e").exists()


def test_a_bad_entry_point_does_not_break_the_others() -> None:
    for executor in ("thread", "inline", "process", "cloud"):
        assert open_executor(executor, {}).name == executor
