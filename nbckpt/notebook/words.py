"""Words: what a line that people type consists of."""

from __future__ import annotations

import re
import shlex

from nbckpt.errors import UsageError

# A word with its quotes, which may hold spaces, and with brackets inside, which may do so too.
_WORD = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\[({][^\])}]*[\])}]|[^\s"'])+|["'].*""")
_VALUE = re.compile(r"[A-Za-z_][\w/.-]*=")


def split(line: str) -> list[str]:
    """Return the words of a line as a shell would, but for values in `k=v`, which keep their quotes.

    Raises:
        UsageError: A quotation mark is missing.
    """
    try:
        if not line.lstrip().startswith("run "):
            return shlex.split(line)
        return [word if _VALUE.match(word) else "".join(shlex.split(word)) for word in _WORD.findall(line)]
    except ValueError as error:
        raise UsageError(f"cannot read {line!r}: {error}. Close the quotation marks") from error
