"""Share: how much of an attack runs with other tests. With NBCKPT_ATTACK=full, as in CI, all of it runs."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")


def of(everything: T, part: T) -> T:
    """Return what to use now: *everything* in a full attack, otherwise *part*."""
    return everything if os.environ.get("NBCKPT_ATTACK") == "full" else part
