"""Ports for servers that must be told one before they start."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

OWN = range(20_000, 32_000)
"""Systems choose ports above these by themselves, so nobody takes one of them before its server listens."""


def free_ports(count: int) -> list[int]:
    """Return ports at which nobody listens."""
    with ExitStack() as held:
        listeners: list[socket.socket] = []
        while len(listeners) < count:
            listener = held.enter_context(socket.socket())
            try:
                listener.bind(("", random.choice(OWN)))
            except OSError:  # it is taken
                continue
            listeners.append(listener)
        return [listener.getsockname()[1] for listener in listeners]
