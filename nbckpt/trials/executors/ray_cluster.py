"""The Ray cluster: connect to a cluster or start one, and check whether a trial fits into it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from nbckpt.trials.executors.base import WorkerLostError

_connecting = threading.Lock()
_started: set[str] = set()


def connect() -> bool:
    """Connect to a cluster unless connected already. Return whether this process started the cluster."""
    import ray

    with _connecting:
        if not ray.is_initialized():
            address = os.environ.get("RAY_ADDRESS") or "local"
            connected: Future[None] = Future()
            threading.Thread(target=_init, args=(address, connected), name="ray-cluster", daemon=True).start()
            try:
                connected.result()
            except Exception as error:
                raise WorkerLostError(f"cannot connect to Ray at {address!r}: {error}") from error
            if address == "local":
                _started.add(ray.get_runtime_context().gcs_address)
        return ray.get_runtime_context().gcs_address in _started


def _init(address: str, connected: Future[None]) -> None:
    """Connect to a cluster. The thread stays: the processes of a local cluster would end with it."""
    import ray

    local = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, logging_level=logging.ERROR, **local)
    except BaseException as error:  # noqa: BLE001  raised by `connect`
        connected.set_exception(error)
    else:
        connected.set_result(None)
        threading.Event().wait()


def situation(resources: Mapping[str, float]) -> tuple[bool, str]:
    """Return whether an empty node could hold *resources*, and a description of request and cluster."""
    import ray

    total, free = ray.cluster_resources(), ray.available_resources()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fits = any(all(node.get(key, 0) >= amount for key, amount in resources.items()) for node in nodes)
    asked = ", ".join(f"{amount:g} {key}" for key, amount in resources.items())
    has = ", ".join(f"{total.get(key, 0):g} {key} ({free.get(key, 0):g} free)" for key in resources)
    end = "" if fits else ", and no node that could hold it"
    return fits, f"it asked for {asked}; the cluster has {has}{end}"
