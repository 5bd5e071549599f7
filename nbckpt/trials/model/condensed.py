"""Condensed: what tables and pages need of all results of a trial, in little memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from nbckpt.trials.model.curve import Curve
from nbckpt.trials.model.metrics import ITERATION, flat, is_automatic

MOST_NAMES = 1_000
"""How many names have a curve, and how many a text: those that came first."""

_NUMBERS = frozenset({int, float})
_EMPTY = Curve()

Row = Mapping[str, Any]
_Column = tuple[str, Sequence[Any], set[type]]
"""A name, its values, and their types."""


@dataclass(frozen=True)
class Condensed:
    """What is kept of results, in plain JSON. It is the same whether they come one by one or all at once.

    Attributes:
        curves: A curve for each metric that had a number, in the order in which these came first. The counts
            that nbckpt adds have none.
        texts: The newest text of each name that had one, with the iteration of its result.
    """

    curves: Mapping[str, Curve] = field(default_factory=dict)
    texts: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def extended(self, results: Sequence[Row]) -> Condensed:
        """Return this with further results."""
        curves, texts = dict(self.curves), dict(self.texts)
        for steps, columns in _blocks(results):
            numbers, written = [], []
            for name, column, kinds in columns:
                if kinds & _NUMBERS and not is_automatic(name):
                    known = range(len(column)) if kinds <= _NUMBERS else _places(column, _NUMBERS)
                    values = column if kinds <= _NUMBERS else [column[at] for at in known]
                    numbers.append((known[0], name, values))
                if str in kinds and (known := [at for at in _places(column, {str}) if column[at]]):
                    written.append((known[0], name, (steps[known[-1]], column[known[-1]])))
            for _, name, values in sorted(numbers, key=itemgetter(0)):
                if name in curves or len(curves) < MOST_NAMES:
                    curves[name] = curves.get(name, _EMPTY).extended(values)
            for _, name, text in sorted(written, key=itemgetter(0)):
                if name in texts or len(texts) < MOST_NAMES:
                    texts[name] = text
        return Condensed(curves, texts)


def _places(column: Sequence[Any], kinds: Collection[type]) -> list[int]:
    return [at for at, value in enumerate(column) if type(value) in kinds]


def _blocks(rows: Sequence[Row]) -> Iterator[tuple[Sequence[int], list[_Column]]]:
    """Yield the iterations of rows, and their columns.

    The rows of a block have the same names: columns take a tenth of the time of rows.
    """
    if not rows:
        return
    try:
        steps, columns = _turned(tuple(rows[0]), rows)
    except KeyError:
        columns = []
    if columns and set(map(len, rows)) == {len(columns)} and all(_is_plain(kinds) for _, _, kinds in columns):
        yield steps, columns
        return
    for names, block in groupby(map(_flat, rows), tuple):
        yield _turned(names, block)


def _turned(names: Sequence[str], rows: Iterable[Row]) -> tuple[Sequence[int], list[_Column]]:
    """Return the iterations of rows with these names, and their columns."""
    steps, *columns = zip(*map(itemgetter(ITERATION, *names), rows), strict=True)
    kinds = [set(map(type, column)) for column in columns]
    return steps, list(zip(names, columns, kinds, strict=True))


def _is_plain(kinds: set[type]) -> bool:
    """Return whether a column has no dicts, and no number beside other values."""
    return kinds <= _NUMBERS or (len(kinds) == 1 and dict not in kinds)


def _flat(result: Row) -> Row:
    """Return a result with the values of its dicts beside the others, by the names that `lookup` takes."""
    direct = {name: value for name, value in result.items() if not isinstance(value, dict)}
    return dict(flat(result)) | direct
