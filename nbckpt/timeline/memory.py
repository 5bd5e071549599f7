"""Memory: which variables' large memory may have been written, whatever the names in the code say."""

from __future__ import annotations

from collections.abc import Mapping
from sys import modules
from typing import Any

from nbckpt.core.memory.pages import Look, page_record
from nbckpt.core.memory.userfault import PAGE
from nbckpt.core.values.variables import Print


class Watch:
    """Looks at the large memory of all variables after each cell."""

    def __init__(self) -> None:
        self._looks: dict[tuple[int, int], Look] = {}

    def written(self, variables: Mapping[str, Any], prints: Mapping[str, Print]) -> set[str]:
        """Return the variables whose memory may have been written since the last call.

        Where Linux's record of written pages proves nothing, these are all that have large memory. Arrays are
        always among them: they know where their memory is now, and it is looked at again when they are saved.
        """
        array = getattr(modules.get("numpy"), "ndarray", ())
        large = {name: mark.memory for name, mark in prints.items() if mark.memory and name in variables}
        names = {name for name in large if isinstance(variables[name], array)}
        looks: dict[tuple[int, int], Look] = {}
        with page_record().round() as page_round:
            for name in large.keys() - names:
                for span in large[name]:
                    looks[span] = page_round.at(*span, since=self._looks.get(span))
                    if not all(_is_edge(*part, span[1]) for part in looks[span].dirty):
                        names.add(name)
        self._looks = looks
        return names


def _is_edge(low: int, high: int, size: int) -> bool:
    """Tell whether a range is in a part of a page that other objects use too, so that it is always dirty."""
    return (low == 0 and high < PAGE) or (high == size and size - low < PAGE)
