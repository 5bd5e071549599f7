"""Patches: the lines of a patch of git, the cut of a patch that is too long, and lines that were masked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from nbckpt.core.masking import MASK, Masker

_SECTION = re.compile(rb"^diff --git ", re.MULTILINE)
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_CODE = (".py", ".pyx", ".pyi", ".ipynb", ".js", ".ts", ".c", ".h", ".cc", ".cpp", ".cu", ".rs", ".go", ".jl")


class Line(NamedTuple):
    """A line of a patch.

    Attributes:
        text: The line.
        kind: `+` for an added line, `-` for a removed line, a space for a line that stays; empty for others.
        path: The file.
        old: Its number in the file before the change.
        new: Its number in the file after the change.
    """

    text: str
    kind: str
    path: str
    old: int
    new: int


def lines_of(patch: str) -> Iterator[Line]:
    """Yield the lines of a patch. Only the counts in the heads of hunks say which lines are contents."""
    path, old, new, old_left, new_left = "", 0, 0, 0, 0
    for text in patch.split("\n"):
        kind = text[:1] or " "
        if (old_left or new_left) and kind in "+- ":
            yield Line(text, kind, path, old, new)
            old, old_left = (old, old_left) if kind == "+" else (old + 1, old_left - 1)
            new, new_left = (new, new_left) if kind == "-" else (new + 1, new_left - 1)
            continue
        if text.startswith("diff --git "):
            path = _path(text)
        elif head := _HUNK.match(text):
            old, new = int(head[1]), int(head[3])
            old_left, new_left = int(head[2] or 1), int(head[4] or 1)
            text = head[0]  # after it git repeats a line of the file
        yield Line(text, "", path, old, new)


def _path(header: str) -> str:
    """Return the path in `diff --git a/PATH b/PATH`."""
    names = header.removeprefix("diff --git ").replace('"', "")
    return names[len(names) // 2 + 1 :].removeprefix("b/")


@lru_cache(4)
def masked_patch(patch: bytes) -> bytes:
    """Return a patch without secrets; see masking.py. It has the same lines, so it stays a patch."""
    lines: list[str] = []
    path, masker = "", Masker()
    for line in lines_of(patch.decode("utf-8", "surrogateescape")):
        if line.path != path:
            path, masker = line.path, Masker(is_code=line.path.endswith(_CODE))
        lines.append(line.kind + masker.line(line.text[1:]) if line.kind and line.text else line.text)
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def masked_places(patch: bytes) -> list[str]:
    """Return `file:line` for each added line of a masked patch that lost a secret."""
    lines = lines_of(patch.decode("utf-8", "surrogateescape"))
    return [f"{line.path}:{line.new}" for line in lines if line.kind == "+" and MASK in line.text]


def unmasked(patch: bytes, lines_at: Callable[[str], Sequence[str]]) -> bytes:
    """Return a masked patch whose lines before the change are those of the commit again, so that it applies.

    Args:
        patch: The patch.
        lines_at: Returns the lines of a file of the commit.
    """
    lines: list[str] = []
    for line in lines_of(patch.decode("utf-8", "surrogateescape")):
        text = line.text
        if line.kind in {"-", " "} and MASK in text:
            before = lines_at(line.path)
            text = line.kind + before[line.old - 1] if 0 < line.old <= len(before) else text
        lines.append(text)
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def cut(patch: bytes, most: int) -> tuple[bytes, set[str]]:
    """Return the whole files of a patch that fit into *most* bytes, and their paths."""
    starts = [match.start() for match in _SECTION.finditer(patch)]
    ends = [*starts[1:], *([len(patch)] if len(patch) <= most else [])]
    kept, paths = b"", set()
    for start, end in zip(starts, ends, strict=False):
        if len(kept) + end - start <= most:
            kept += patch[start:end]
            paths.add(_path(patch[start:end].split(b"\n", 1)[0].decode("utf-8", "replace")))
    return kept, paths
