"""Worker: the machine and the seeds of the process that a trial runs in, if it has one of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nbckpt.provenance.machine import known_machine, machine
from nbckpt.provenance.seeds import read_seeds

_LONGEST_S = 5.0
"""How long a fork waits for the answer about the machine."""


@dataclass(frozen=True)
class WorkerOrigin:
    """The machine and the seeds of a trial's process. They come with the trial's first result.

    Attributes:
        machine: The machine, with its GPUs if they were known by then.
        seeds: The states of the random generators before the trial began.
    """

    machine: Mapping[str, Any] = field(default_factory=known_machine)
    seeds: Mapping[str, Any] = field(default_factory=dict)


def seeds_now() -> Mapping[str, Any]:
    """Return the states of the generators, and begin to ask for the GPUs. It raises nothing."""
    with suppress(Exception):  # other libraries are asked; and no thread may start
        asking = threading.Thread(target=machine, name="nbckpt-machine", daemon=True)
        asking.start()
        if hasattr(os, "register_at_fork"):  # a fork would keep the locks of the thread, such as an import's
            os.register_at_fork(before=lambda: _wait_for(asking))
        return read_seeds()
    return {}


def _wait_for(thread: threading.Thread) -> None:
    if threading.current_thread() is not thread:
        thread.join(_LONGEST_S)
