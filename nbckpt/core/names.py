"""Names: which names checkpoints may have, and how a name is written in a key."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import quote, unquote

from nbckpt.errors import UsageError

CELL = "cell:"
"""Begins the names of kept results of cells."""

_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)


def composed(name: str) -> str:
    """Return a checkpoint's name in one spelling: an é can be one character or two."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def identifier(name: str) -> str:
    """Return a variable's name as Python spells it."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def check_name(name: str) -> str:
    """Return *name*, composed, if it is a valid name for a checkpoint.

    Raises:
        UsageError: It is not valid. The message says why.
    """
    if trouble := name_trouble(name):
        raise UsageError(f"{name!r} cannot be a checkpoint's name: {trouble}")
    return composed(name)


def name_trouble(name: str) -> str:
    """Return why *name* cannot be the name of a checkpoint, or "" if it can."""
    if not name or name != name.strip() or not name.isprintable():
        return "it is empty, or has spaces at an end or characters that cannot be seen"
    if name == "latest" or name.startswith("-") or "@" in name or "~" in name:
        return "'latest', a '-' in front, '@' and '~' have a meaning of their own"
    return "it is too long" if len(encode_name(name)) > 200 else ""


def encode_name(name: str) -> str:
    """Return *name* as a file name that is distinct on every system.

    Everything except lower-case letters, digits, `_`, `-` and inner dots is percent-encoded. This includes
    capitals, because some systems ignore case, and the first letter of names that Windows reserves.
    """
    text = "".join(c if c in "abcdefghijklmnopqrstuvwxyz0123456789_-." else _percent(c) for c in name)
    if text.startswith(".") or _RESERVED.match(text):
        text = _percent(text[0]) + text[1:]
    return text[:-1] + "%2E" if text.endswith(".") else text


@lru_cache(maxsize=1024)
def decode_name(text: str) -> str:
    """Return the name that `encode_name` turned into *text*, or "" if there is none."""
    name = unquote(text)
    return name if encode_name(name) == text and not name_trouble(name) else ""


def _percent(character: str) -> str:
    if character.isascii():
        return f"%{ord(character):02X}"
    return quote(character.encode("utf-8", "surrogatepass"), safe="")


_REF_OF_CELL = f"refs/{encode_name(CELL)}"


def is_ref_of_cell(key: str) -> bool:
    """Tell whether a ref gives a name to kept results of a cell, by its key."""
    return key.startswith(_REF_OF_CELL)
