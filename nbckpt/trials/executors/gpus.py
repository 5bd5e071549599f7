"""GPUs: those that trials on this machine may use, with the names by which all processes know them."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from nbckpt.settings import visible_gpus

_ASK = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
_ANSWER_S = 20.0


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        name: Its name in `CUDA_VISIBLE_DEVICES`: a number or a UUID.
        key: Its name for other processes: the UUID, or if that is not known, the machine and the number.
    """

    name: str
    key: str


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that trials may use: those in `CUDA_VISIBLE_DEVICES`, else all of the machine.

    As in CUDA, the list ends before its first entry that names no GPU.
    """
    uuids, visible = driver_uuids(), visible_gpus()
    if visible is None:
        return tuple(Gpu(str(at), uuid) for at, uuid in enumerate(uuids))
    listed: dict[str, Gpu] = {}
    for name in map(str.strip, visible.split(",")):
        if not name or name == "-1" or (uuids and name.isdecimal() and int(name) >= len(uuids)):
            break
        key = _key(name, uuids)
        listed.setdefault(key, Gpu(name, key))
    return tuple(listed.values())


def order_of(taken: Sequence[Gpu]) -> dict[str, str]:
    """Return the environment in which a program sees only these GPUs."""
    names = {"CUDA_VISIBLE_DEVICES": ",".join(gpu.name for gpu in taken)}
    # The driver numbers GPUs by their places on the bus, CUDA by their speed unless it is told.
    return names if visible_gpus() is not None else names | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def _key(name: str, uuids: Sequence[str]) -> str:
    if name.isdecimal():
        known = uuids[int(name)] if int(name) < len(uuids) else f"{socket.gethostname()}-{name}"
    else:  # CUDA takes the beginning of a UUID too
        same = [uuid for uuid in uuids if uuid.startswith(name)]
        known = same[0] if len(same) == 1 else name
    return re.sub(r"[^A-Za-z0-9._-]", "_", known)


@cache
def driver_uuids() -> tuple[str, ...]:
    """Return the UUIDs of the machine's GPUs, in the order of the driver; none without a driver."""
    for ask in (_ask_library, _ask_program):
        with suppress(Exception):  # it is not installed, or there is no driver
            return ask()
    return ()


def _ask_library() -> tuple[str, ...]:
    nvml: Any = import_module("pynvml")
    nvml.nvmlInit()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(at) for at in range(nvml.nvmlDeviceGetCount())]
        uuids = [nvml.nvmlDeviceGetUUID(handle) for handle in handles]
        return tuple(uuid.decode() if isinstance(uuid, bytes) else uuid for uuid in uuids)
    finally:
        nvml.nvmlShutdown()


def _ask_program() -> tuple[str, ...]:
    answer = subprocess.run(_ASK, capture_output=True, text=True, timeout=_ANSWER_S, check=True)
    return tuple(line.strip() for line in answer.stdout.splitlines() if line.strip())
