"""Exclude: patterns of files to leave out, with the same rules for uploads, downloads and retries.

A pattern is tested against a file's path and against the paths of the folders above it. All paths are
relative to the top folder, use `/` on every system, and do not begin with `/`. `*` matches `/` too, so
`*.tmp` matches such files at all levels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate

from nbckpt.errors import UsageError
from nbckpt.store.base import CACHE, STAGING

OWN = ".nbckpt-sync"
"""The folder in a target that holds the index."""

_ALWAYS = (f"*{STAGING}*", f"*{CACHE}*", OWN)


def excluding(patterns: Iterable[str] | None) -> Callable[[str], bool]:
    """Return a function that tells whether a path is left out.

    Raises:
        UsageError: *patterns* is a single string; each of its letters would be a pattern.
    """
    if isinstance(patterns, str):
        raise UsageError(f"exclude={patterns!r} is one pattern: write exclude=[{patterns!r}]")
    every = [pattern.removeprefix("./").removesuffix("/") for pattern in patterns or ()] + [*_ALWAYS]
    matches = re.compile("|".join(map(translate, every))).match
    return lambda path: any(matches(part) for part in (path, *parents(path)))


def parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, nearest first."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)
