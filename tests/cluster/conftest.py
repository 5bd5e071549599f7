"""A callback that calls a function, and a real Ray cluster of two nodes with their own disks and secrets."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest

from nbckpt.trials import Callback, Trial
from ports import free_ports

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the callbacks of a notebook


class Hook(Callback):
    """Calls a function with each result, and keeps the errors."""

    def __init__(self, function: Callable[[Trial, Mapping[str, Any]], object] = lambda *_: None) -> None:
        self.function = function
        self.errors: list[BaseException] = []

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        self.function(trial, result)

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        self.errors.append(error)

    def __reduce__(self) -> Any:
        return Hook, ()


@cache
def imported_ray() -> Any:
    """Ray, also while a test hides it."""
    return pytest.importorskip("ray", reason="needs Ray")


def agent_ports() -> dict[str, int]:
    """Return ports for a node's agents: Ray waits 15 s only for agents that choose their own."""
    agents = ("metrics_agent", "metrics_export", "dashboard_agent_listen", "runtime_env_agent")
    return {f"{agent}_port": port for agent, port in zip(agents, free_ports(len(agents)), strict=True)}


class Nodes:
    """A cluster whose nodes have names, disks of their own and secrets of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = pytest.importorskip("ray.cluster_utils", reason="needs Ray").Cluster()
        self.nodes: dict[str, Any] = {}

    def add(self, name: str, **options: Any) -> None:
        """Add a node. Ray gives it 30 s to start, which a busy machine may not: then again."""
        here = psutil.Process()
        others = {*here.children(recursive=True)}
        for _ in range(3):
            try:
                return self._start(name, **options)
            except Exception as error:
                if "timed out during startup" not in str(error):
                    raise
                for process in {*here.children(recursive=True)} - others:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
        return self._start(name, **options)

    def _start(self, name: str, **options: Any) -> None:
        disk = self.folder / name
        disk.mkdir(exist_ok=True)
        self.nodes[name] = self.cluster.add_node(
            num_cpus=1,
            num_gpus=1,
            resources={name: 1},
            object_store_memory=80 << 20,
            env_vars={"TMPDIR": str(disk), "NBCKPT_SECRET_FILE": str(disk / "secret")},
            **agent_ports(),
            **options,
        )

    def remove(self, name: str) -> None:
        """Remove a node as a power cut does."""
        self.cluster.remove_node(self.nodes.pop(name), allow_graceful=False)

    def left(self) -> list[Path]:
        """What trials left on the disks."""
        return [path for path in self.folder.glob("*/nbckpt-*/*") if path.is_dir()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    ray = imported_ray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", "/tmp")
        nodes = Nodes(tmp_path_factory.mktemp("nodes"))
        nodes.add("first", include_dashboard=False)
        ray.init(nodes.cluster.address)
        yield nodes
        ray.shutdown()
        nodes.cluster.shutdown()


@pytest.fixture(autouse=True)
def nodes(cluster: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """Two nodes with empty disks, and no actor left on them at the end."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    for place in cluster.left():
        shutil.rmtree(place)
    if "second" not in cluster.nodes:
        cluster.add("second")
    until(lambda: living_nodes() == len(cluster.nodes))  # Ray misses a removed node some 17 s later
    yield cluster
    until(lambda: not living_actors())


def living_nodes() -> int:
    """How many nodes Ray takes for alive."""
    return sum(node["Alive"] for node in imported_ray().nodes())


def living_actors() -> list[str]:
    actors = imported_ray()._private.state.actors().values()
    return [actor["ActorID"] for actor in actors if actor["State"] != "DEAD"]


def until(condition: Callable[[], bool]) -> None:
    """Wait for what Ray does in the background and tells nobody."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
