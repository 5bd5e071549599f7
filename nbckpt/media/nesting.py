"""Nesting: how deep the tags of a page stand in each other, because a browser can crash on some thousands.

This reads tags roughly, because that is fast. It prevents accidents and simple attacks. What a page may do
is up to the sandbox alone.
"""

from __future__ import annotations

import re

MOST_TAGS = 50_000
DEEPEST = 500
_COMMENT = re.compile("<!--.*?(?:-->|$)", re.DOTALL)
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]{0,20})")
_EMPTY = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
        "path",
        "use",
    ]
)
_ENDS_BEFORE_ITSELF = frozenset(["p", "li", "dt", "dd", "td", "th", "tr", "option"])
"""Elements that end where the next one of the same name begins."""


def is_flat(markup: str) -> bool:
    """Return whether a page has few enough tags, and no tag nested too deeply, to be shown."""
    above: list[str] = []
    counts: dict[str, int] = {}
    for number, match in enumerate(_TAG.finditer(_COMMENT.sub("", markup)), 1):
        name = match[2].lower()
        if number > MOST_TAGS:
            return False
        if name in _EMPTY:
            continue
        if match[1]:
            while counts.get(name):
                last = above.pop()
                counts[last] -= 1
                if last == name:
                    break
        elif not (above and above[-1] == name and name in _ENDS_BEFORE_ITSELF):
            above.append(name)
            counts[name] = counts.get(name, 0) + 1
        if len(above) > DEEPEST:
            return False
    return True
