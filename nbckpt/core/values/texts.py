"""Texts: pickles one long text in pieces. Python's pickler encodes it as a whole. See docs/decisions/0061."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

_LONG = 1 << 20
_MOST_SHORT_SIZE = (1 << 32) - 1  # of the opcode X; beyond that it is \x8d


def is_long_text(values: Any) -> bool:
    """Tell whether *values* is a list of one long text, which nothing can change."""
    return type(values) is list and len(values) == 1 and type(values[0]) is str and len(values[0]) > _LONG


def pickled_text(text: str) -> Iterator[bytes]:
    """Yield the pickle of a list of one long text, in pieces. The bytes are those of Python's pickler."""
    size = len(text) if text.isascii() else sum(map(len, _encoded(text)))
    head = struct.pack("<cI", b"X", size) if size <= _MOST_SHORT_SIZE else struct.pack("<cQ", b"\x8d", size)
    yield b"\x80\x05]\x94" + head
    yield from _encoded(text)
    yield b"\x94a."


def _encoded(text: str) -> Iterator[bytes]:
    return (text[at : at + _LONG].encode("utf-8", "surrogatepass") for at in range(0, len(text), _LONG))
