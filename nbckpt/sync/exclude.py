"""Exclude: which files of a folder are left out, the same way for uploads, downloads and retries.

A pattern is tested against a file's path and against the folders above it, all relative to the top, with
`/` on every system and nothing in front. `*` matches `/` too, so `*.tmp` means such files at all levels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate

from nbckpt.errors import UsageError
from nbckpt.store import STAGING

OWN = ".nbckpt-sync"
"""The folder in a target that holds the index."""

_ALWAYS = (f"*{STAGING}*", OWN)


def excluding(patterns: Iterable[str] | None) -> Callable[[str], bool]:
    """Return what tells whether a path is left out.

    Raises:
        UsageError: *patterns* is one text, of which each letter would be a pattern.
    """
    if isinstance(patterns, str):
        raise UsageError(f"exclude={patterns!r} is one pattern: write exclude=[{patterns!r}]")
    every = [pattern.removeprefix("./").removesuffix("/") for pattern in patterns or ()] + [*_ALWAYS]
    matches = re.compile("|".join(map(translate, every))).match
    return lambda path: any(matches(place) for place in (path, *parents(path)))


def parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)
