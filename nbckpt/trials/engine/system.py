"""System metrics: the load of the machine while a trial runs, where psutil or pynvml is installed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nbckpt.errors import UsageError

PERIOD_S = 5.0
"""A trial's load is sampled with a result, at most once in this many seconds."""

_MOST_GPUS = 16


def check_installed() -> None:
    """Refuse to sample without a library that knows the load.

    Raises:
        UsageError: Neither psutil nor pynvml is installed.
    """
    if find_spec("psutil") is None and find_spec("pynvml") is None:
        raise UsageError("system_metrics needs psutil, for GPUs pynvml: pip install psutil nvidia-ml-py")


class SystemSampler:
    """Samples the load of this machine. It raises nothing: a library that fails is not asked again.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = clock()
        self._sources: list[Callable[[], dict[str, float]]] = []
        for start in (_processor, _gpus):
            with suppress(Exception):  # it is not installed, or there is no driver
                self._sources.append(start())

    def sample(self) -> dict[str, float]:
        """Return the load now; nothing if the last sample is recent.

        `cpu_percent` and `memory_percent` are those of the machine, `process_bytes` is the memory of this
        process; `gpu0_percent` and `gpu0_memory_percent` are those of the first GPU.
        """
        if (at := self._clock()) < self._due:
            return {}
        self._due = at + PERIOD_S
        load: dict[str, float] = {}
        for source in list(self._sources):
            try:
                load |= source()
            except Exception:  # noqa: BLE001  a driver may raise anything, and the trial continues
                self._sources.remove(source)
        return load


def _processor() -> Callable[[], dict[str, float]]:
    psutil: Any = import_module("psutil")
    process = psutil.Process()
    psutil.cpu_percent()  # the share since the call before; the first one says nothing

    def load() -> dict[str, float]:
        return {
            "cpu_percent": float(psutil.cpu_percent()),
            "memory_percent": float(psutil.virtual_memory().percent),
            "process_bytes": float(process.memory_info().rss),
        }

    return load


def _gpus() -> Callable[[], dict[str, float]]:
    nvml: Any = import_module("pynvml")
    nvml.nvmlInit()
    handles = [
        nvml.nvmlDeviceGetHandleByIndex(at) for at in range(min(nvml.nvmlDeviceGetCount(), _MOST_GPUS))
    ]

    def load() -> dict[str, float]:
        shares: dict[str, float] = {}
        for at, handle in enumerate(handles):
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            shares[f"gpu{at}_percent"] = float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            shares[f"gpu{at}_memory_percent"] = 100 * memory.used / memory.total
        return shares

    return load
