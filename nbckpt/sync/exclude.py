"""Exclude: which files of a folder are left out, the same way for uploads, downloads and retries.

A pattern is tested against a file's path and against the folders above it, all relative to the top, with
`/` on every system and nothing in front. `*` matches `/` too, so `*.tmp` means such files at all levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

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

    def is_excluded(path: str) -> bool:
        places = (path, *map(str, PurePosixPath(path).parents))
        return any(fnmatchcase(place, pattern) for place in places if place != "." for pattern in every)

    return is_excluded
