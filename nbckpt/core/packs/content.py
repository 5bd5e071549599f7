"""Content: where some bytes are, in stretches of blobs."""

from __future__ import annotations

from dataclasses import dataclass

Run = tuple[str, int, int]
"""A pack's id, the place of the first blob in it, and how many follow: a stretch of blobs."""


@dataclass(frozen=True, slots=True)
class Content:
    """Where some bytes are: their number, and the stretches of blobs that they are."""

    size: int
    runs: tuple[Run, ...] = ()
