"""A value that tells when it is loaded."""

from __future__ import annotations

from typing import Any


class Loud:
    """Counts how often any of its kind was loaded."""

    loaded = 0

    def __setstate__(self, state: Any) -> None:
        type(self).loaded += 1

    def __getstate__(self) -> str:
        return "loud"
