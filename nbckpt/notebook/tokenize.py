"""Words: split a line that a user typed into words."""

from __future__ import annotations

import re
import shlex

from nbckpt.errors import UsageError

_VALUE = re.compile(r"(--[a-z]+=)?[A-Za-z_][\w/.-]*=")
_OPEN = "close the quotation marks"
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def split(line: str) -> list[str]:
    """Split a line into words as a shell would, except for values in `k=v`.

    Such a value is Python: it keeps its quotes, and spaces inside brackets and quotes belong to it.

    Raises:
        UsageError: A quotation mark or a bracket is not closed.
    """
    try:
        if not line.lstrip().startswith("run "):
            return _plain(line)
        return [word if _VALUE.match(word) else "".join(_plain(word)) for word in _words(line)]
    except ValueError as error:
        raise UsageError(f"cannot read {line!r}: {error}.") from error


def _plain(line: str) -> list[str]:
    """Split a line into words as a shell would."""
    try:
        return shlex.split(line)
    except ValueError:  # an open quotation mark, or a backslash at the end
        raise ValueError(_OPEN if {"'", '"'} & set(line) else "a backslash stands at its end") from None


def _words(line: str) -> list[str]:
    """Return the words with their quotes. Spaces in quotes or in a value's brackets do not separate words."""
    words: list[str] = []
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        end = _end(line, at)
        words.append(line[at:end])
        at = end
    return words


def _end(line: str, start: int) -> int:
    """Return the index after the word that begins at *start*."""
    open_brackets: list[str] = []
    at = start
    while at < len(line) and (open_brackets or not line[at].isspace()):
        character = line[at]
        if character in "'\"":
            at = _behind_quotes(line, at)
            continue
        if character in _CLOSING and _VALUE.match(line, start):
            open_brackets.append(_CLOSING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
        at += 1
    if open_brackets:
        raise ValueError(f"close the brackets, {open_brackets[-1]!r} is missing")
    return at


def _behind_quotes(line: str, at: int) -> int:
    """Return the index after the quoted text that begins at *at*; quotes may be tripled, as in Python."""
    quote = line[at] * 3 if line.startswith(line[at] * 3, at) else line[at]
    at += len(quote)
    while not line.startswith(quote, at):
        if at >= len(line):
            raise ValueError(_OPEN)
        at += 2 if line[at] == "\\" else 1
    return at + len(quote)
