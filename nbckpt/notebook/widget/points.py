"""Points: the curve of one metric of a trial, read from the trial's journal piece by piece."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nbckpt.store.files import only_files
from nbckpt.store.scan import link_outside
from nbckpt.trials.model import journal
from nbckpt.trials.model.metrics import ITERATION, as_float, is_number, lookup

MOST_POINTS = 500
PIECE = 1 << 18
"""The number of bytes that are read at once."""

_MOST_BUCKETS = MOST_POINTS // 2 - 1
_LONGEST_LINE = 1 << 24
_EVENTS = (b'"result"', b'"start"', b'"decision"')


class Point(NamedTuple):
    """One number that a trial reported, with its step and the seconds of training before it."""

    step: float
    seconds: float
    value: float


class Thinned:
    """At most 500 of many points: the lowest and the highest of each part of the curve, and the last."""

    def __init__(self) -> None:
        self._stride = 1
        self._room = 0
        self._buckets: list[tuple[Point, Point]] = []
        self._last: Point | None = None

    def add(self, point: Point) -> None:
        """Add the next point."""
        self._last = point
        if self._room:
            self._room -= 1
            self._buckets[-1] = _both(self._buckets[-1], (point, point))
            return
        if len(self._buckets) == _MOST_BUCKETS:
            pairs = zip(self._buckets[::2], [*self._buckets[1::2], self._buckets[-1]], strict=False)
            self._buckets, self._stride = [_both(*pair) for pair in pairs], self._stride * 2
        self._buckets.append((point, point))
        self._room = self._stride - 1

    def cut(self, step: int) -> None:
        """Drop the points after a step: they are going to be repeated."""
        kept = [tuple(point for point in bucket if point.step <= step) for bucket in self._buckets]
        self._buckets = [(points[0], points[-1]) for points in kept if points]
        self._last, self._room = next(iter(self._buckets[-1:]), (None, None))[1], 0

    def __iter__(self) -> Iterator[Point]:
        points = {point.step: point for bucket in self._buckets for point in bucket}
        if self._last is not None:
            points[self._last.step] = self._last
        yield from (points[step] for step in sorted(points))


def _both(one: tuple[Point, Point], other: tuple[Point, Point]) -> tuple[Point, Point]:
    """Return the lowest and the highest of some points; NaN only if all are NaN."""
    points = [*one, *other]
    sound = [point for point in points if not math.isnan(point.value)] or points
    return min(sound, key=lambda point: point.value), max(sound, key=lambda point: point.value)


class Tail:
    """Reads one metric of a trial's journal, and continues where it has stopped.

    What cannot be read is left out: the trial's page says what is damaged.

    Args:
        folder: The trial's folder.
        metric: The name of the metric.

    Attributes:
        compared: After which result a scheduler compared the trial, by its rungs.
    """

    def __init__(self, folder: Path, metric: str) -> None:
        self._file, self._metric = folder / journal.FILE, metric
        self._link = link_outside(folder.parent, f"{folder.name}/{journal.FILE}")
        self._start()

    def _start(self) -> None:
        self._at = 0
        self._inode = -1
        self._rest = b""
        self._points = Thinned()
        self._iteration = 0
        self.compared: dict[int, int] = {}

    def read(self) -> int:
        """Read the next piece, and return its size; 0 if there is none yet."""
        stamp = None if self._link else journal.stamp(self._file)
        if stamp is None:
            return 0
        if stamp[0] != self._inode or stamp[1] < self._at:
            self._start()
            self._inode = stamp[0]
        if stamp[1] == self._at:
            return 0
        try:
            with open(self._file, "rb", opener=only_files) as file:
                file.seek(self._at)
                piece = file.read(PIECE)
        except OSError:
            return 0
        self._at += len(piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        for line in lines:
            self._take(line)
        return len(piece)

    def packed(self) -> tuple[array[float], array[float], array[float]]:
        """Return the steps, the seconds and the values of the points."""
        points = list(self._points)
        return (
            array("d", [point.step for point in points]),
            array("d", [point.seconds for point in points]),
            array("d", [point.value for point in points]),
        )

    def _take(self, line: bytes) -> None:
        if not any(event in line for event in _EVENTS):
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # torn or damaged
            return
        match event:
            case {"event": "start", "iteration": int(iteration)}:
                self._points.cut(iteration)
            case {"event": "decision", "rung": int(rung), "value": _}:
                # The first counts: see docs/decisions/0105.
                self.compared.setdefault(rung, self._iteration)
            case {"event": "result", "result": {"training_iteration": int(_)} as result}:
                self._take_result(result)

    def _take_result(self, result: dict[str, Any]) -> None:
        self._iteration = result[ITERATION]
        value, seconds = lookup(result, self._metric), result.get("time_total_s")
        if is_number(value):
            spent = as_float(seconds) if is_number(seconds) else math.nan
            self._points.add(Point(as_float(result[ITERATION]), spent, as_float(value)))
