"""Inputs: `nbckpt.data` notes which file, folder or URL was read, with a fingerprint of its contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def so_far() -> Sequence[Mapping[str, Any]]:
    """Return the inputs that this process noted outside of trials."""
    return ()
