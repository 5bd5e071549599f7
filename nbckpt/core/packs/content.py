"""Content: where bytes are stored, as runs of blobs."""

from __future__ import annotations

from dataclasses import dataclass

Run = tuple[str, int, int]
"""A run of blobs: a pack's id, the position of the first blob in it, and the number of blobs."""


@dataclass(frozen=True, slots=True)
class Content:
    """Where bytes are stored: their number, and their runs of blobs."""

    size: int
    runs: tuple[Run, ...] = ()
