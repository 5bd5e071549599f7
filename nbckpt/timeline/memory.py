"""Memory: which variables' large memory may have been written, whatever the names in the code say.

See docs/decisions/0103.
"""

from __future__ import annotations

import ctypes
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from sys import modules
from typing import Any

from nbckpt.core.memory.pages import Look, page_record
from nbckpt.core.memory.userfault import PAGE
from nbckpt.core.packs.pools import others_run
from nbckpt.core.reducers import byte_range
from nbckpt.core.values.variables import Print

_Mark = tuple[object, ...]
"""Everything about an array but the bytes of its whole pages."""


@dataclass(frozen=True)
class Glance:
    """What one look at the large memory of all variables found.

    Attributes:
        written: The variables whose memory may have been written since the kept glance.
        proven: The arrays that are the same objects with the same bytes as at the kept glance, by name.
    """

    written: frozenset[str] = frozenset()
    proven: Mapping[str, Any] = field(default_factory=dict)
    _looks: Mapping[tuple[int, int], Look] = field(default_factory=dict)
    _marks: Mapping[str, _Mark] = field(default_factory=dict)


class Watch:
    """Looks at the large memory of all variables after each cell."""

    def __init__(self) -> None:
        self._kept = Glance()

    def look(self, variables: Mapping[str, Any], prints: Mapping[str, Print]) -> Glance:
        """Return what may have been written since the glance that was kept last.

        Where Linux's record of written pages proves nothing, this is all large memory. A plain array is
        proven or written: nothing else tells where its memory is now.
        """
        array = getattr(modules.get("numpy"), "ndarray", ())
        large = {name: mark.memory for name, mark in prints.items() if mark.memory and name in variables}
        arrays = {name: variables[name] for name in large if isinstance(variables[name], array)}
        kept, written = self._kept, set[str]()
        looks: dict[tuple[int, int], Look] = {}
        with page_record().round() as page_round:
            for name, spans in large.items():
                for span in spans:
                    if span not in looks:
                        looks[span] = page_round.at(*span, since=kept._looks.get(span))
                    if not all(_is_edge(*part, span[1]) for part in looks[span].dirty):
                        written.add(name)
        written = written if page_round.is_sound else {*large}
        marks = {} if others_run() else _marks(arrays, large)
        proven = {name for name in marks.keys() - written if kept._marks.get(name) == marks[name]}
        return Glance(
            frozenset(written | (arrays.keys() - proven)),
            {name: arrays[name] for name in proven},
            looks,
            marks,
        )

    def keep(self, glance: Glance, names: Container[str] | None = None) -> None:
        """Count the next look from this glance. What it found written is saved, or looked at again.

        Args:
            glance: The glance.
            names: The variables that were looked at, and whose earlier looks count no more; None for all.
        """
        if names is not None:
            kept = self._kept
            marks = {name: mark for name, mark in kept._marks.items() if name not in names}
            glance = replace(
                glance, _looks={**kept._looks, **glance._looks}, _marks={**marks, **glance._marks}
            )
        self._kept = glance


def _is_edge(low: int, high: int, size: int) -> bool:
    """Tell whether a range is in a part of a page that other objects use too, so that it is always dirty."""
    return (low == 0 and high < PAGE) or (high == size and size - low < PAGE)


def _marks(arrays: Mapping[str, Any], large: Mapping[str, tuple[tuple[int, int], ...]]) -> dict[str, _Mark]:
    """Return a mark of each plain array that has just the memory that is looked at."""
    plain = getattr(modules.get("numpy"), "ndarray", None)
    marks = {}
    for name, value in arrays.items():
        low, high = byte_range(value)
        place = low, high - low
        if type(value) is plain and large[name] == (place,) and value.dtype.isbuiltin:
            marks[name] = (*place, id(value), *_form(value), *_edges(*place))
    return marks


def _form(array: Any) -> tuple[object, ...]:
    return array.shape, array.strides, array.dtype, array.flags.num, id(array.base)


def _edges(address: int, size: int) -> tuple[bytes, bytes]:
    """Return the first and the last bytes of memory that is alive: other objects may use their pages too."""
    return ctypes.string_at(address, PAGE), ctypes.string_at(address + size - PAGE, PAGE)
