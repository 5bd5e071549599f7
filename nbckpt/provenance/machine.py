"""Machine: Python, the system, the processor and the GPUs with their driver. Read once per process."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_LIMIT_S = 5.0
_MOST_GPUS = 64
_QUERY = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")


def known_machine() -> Mapping[str, Any]:
    """Return what is known of this machine, at once: without its GPUs if nobody asked for them yet."""
    return machine() if machine.cache_info().currsize else _facts()


@cache
def machine() -> Mapping[str, Any]:
    """Return what is known of this machine. It asks `nvidia-smi`, which may take seconds, or else pynvml."""
    gpus = _gpus() or _gpus_of_nvml()
    return {**_facts(), "gpus": gpus} if gpus else _facts()


@cache
def _facts() -> Mapping[str, Any]:
    known = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
        "platform": platform.platform()[:200],
        "cpu": _cpu()[:200],
        "cpus": os.cpu_count() or 0,
    }
    return {name: value for name, value in known.items() if value}


def _cpu() -> str:
    """Return the name of the processor; empty if the system does not tell."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() if sys.platform == "win32" else ""  # elsewhere it starts `uname`


def _gpus() -> list[dict[str, Any]]:
    """Return the name, the memory in MiB and the driver of each NVIDIA GPU; empty without a driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    flags: dict[str, Any] = {"creationflags": 0x08000000} if sys.platform == "win32" else {}
    try:
        asked = subprocess.run(
            [program, *_QUERY],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=True,
            **flags,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in asked.stdout.decode("utf-8", "replace").splitlines()]
    return [
        {"name": name[:100], "memory_mib": int(memory) if memory.isdigit() else 0, "driver": driver[:100]}
        for name, memory, driver in (row for row in rows[:_MOST_GPUS] if len(row) == 3)
    ]


def _gpus_of_nvml() -> list[dict[str, Any]]:
    """Return the same through pynvml; empty if that is not installed or finds no driver."""
    with suppress(Exception):  # a driver may raise anything
        nvml: Any = import_module("pynvml")
        nvml.nvmlInit()
        try:
            driver = _as_text(nvml.nvmlSystemGetDriverVersion())
            handles = map(nvml.nvmlDeviceGetHandleByIndex, range(min(nvml.nvmlDeviceGetCount(), _MOST_GPUS)))
            return [
                {
                    "name": _as_text(nvml.nvmlDeviceGetName(handle)),
                    "memory_mib": int(nvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20,
                    "driver": driver,
                }
                for handle in handles
            ]
        finally:
            nvml.nvmlShutdown()
    return []


def _as_text(name: str | bytes) -> str:
    return (name.decode("utf-8", "replace") if isinstance(name, bytes) else name)[:100]
