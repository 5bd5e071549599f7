"""Suggestion: the question that follows a misspelt name."""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(name: str, names: Iterable[str], likeness: float = 0.6) -> str:
    """Return a question that suggests the closest of *names*, with a space behind it, or "".

    Args:
        name: A name that does not exist.
        names: Those that do.
        likeness: How alike two names must be, from 0 to 1.

    Examples:
        >>> suggestion("vrify", ["verify", "ls"]), suggestion("x", ["verify"])
        ("Did you mean 'verify'? ", '')
    """
    from difflib import get_close_matches  # only an error needs it

    close = get_close_matches(name, list(names), n=1, cutoff=likeness)
    return f"Did you mean {close[0]!r}? " if close else ""
