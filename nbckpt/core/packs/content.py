"""Content: where bytes are stored, as runs of blobs, and bytes on their way there."""

from __future__ import annotations

from dataclasses import dataclass, field

Run = tuple[str, int, int]
"""A run of blobs: a pack's id, the position of the first blob in it, and the number of blobs."""


@dataclass(frozen=True, slots=True)
class Content:
    """Where bytes are stored: their number, and their runs of blobs."""

    size: int
    runs: tuple[Run, ...] = ()


@dataclass(slots=True)
class Stored:
    """Bytes handed to a packer. Their digests are complete when the packer has finished.

    Attributes:
        size: The number of bytes.
        digests: The digests of the blobs.
        changed: Whether the bytes changed during the save, so that the blobs may mix several states.
    """

    size: int
    digests: list[bytes] = field(default_factory=list)
    changed: bool = False


def parts(view: memoryview, size: int) -> list[memoryview]:
    """Return the parts of this size of a range of memory, in order. The last one may be shorter."""
    return [view[at : at + size] for at in range(0, len(view), size)]
