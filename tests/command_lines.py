"""Lines of commands, several in a row of a text: ", " separates them, since a word may have a comma."""

from __future__ import annotations


def command_lines(text: str) -> list[str]:
    """Return the commands of a text, in their order.

    >>> command_lines("ls, ls --all\\nrun train --grid lr=1,2")
    ['ls', 'ls --all', 'run train --grid lr=1,2']
    """
    return [line for row in text.strip().splitlines() for line in row.split(", ")]
