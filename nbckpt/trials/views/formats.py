"""Formats: how views write values and names."""

from __future__ import annotations

import json
from typing import Any

from nbckpt.render import Cell

_WIDEST = 20


def tail(text: str, most: int = _WIDEST) -> str:
    """Return the last *most* characters of *text*, because long names differ at their ends.

    >>> tail("encoder/layers/0/weight", 12)
    '...0/weight'
    """
    return text if len(text) <= most else "..." + text[3 - most :]


def shown_value(value: Any) -> Cell:
    """Return the cell of a value of a configuration or a result; long text is cut."""
    if isinstance(value, float):
        return Cell(f"{value:.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.4g}", repr(value))
    if isinstance(value, (int, type(None))):
        return Cell(str(value))
    text = value if isinstance(value, str) else json.dumps(value)
    return Cell(tail(text), text if len(text) > _WIDEST else "")
