"""Trials side by side, as they are shown and as frames of pandas; differences.py says in what they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nbckpt.render import Cell, Column, Hint, Page, Picture, Result, Table, count, duration
from nbckpt.trials.model.frame import pandas_for
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.formats import shown_value
from nbckpt.trials.views.media import MediaPage, media_page, newest_media
from nbckpt.trials.views.statuses import states_of

if TYPE_CHECKING:
    import pandas

_MOST_PARTS = 40
_HEIGHT = 190
"""How high pictures are that stand side by side."""

_Row = tuple[Cell | str, ...]


@dataclass(frozen=True)
class Side:
    """One trial of a comparison.

    Attributes:
        experiment: Its experiment.
        trial: The trial.
        name: Its name in the comparison: `t3`, or `EXP/t3` if the trials are of several experiments.
    """

    experiment: ExperimentView
    trial: Trial
    name: str


@dataclass(frozen=True)
class ComparedValues:
    """A row of a comparison.

    Attributes:
        name: What is compared.
        values: Its value in each trial; null if the trial has none.
    """

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class ComparedMetric:
    """A metric of the compared trials.

    Attributes:
        name: The metric.
        mode: Whether its `min` or `max` is best; empty if nothing says so.
        last: The last value of each trial; null if it reported none.
        best: The best value of each trial; null also if nothing says which is best.
    """

    name: str
    mode: str
    last: tuple[float | None, ...]
    best: tuple[float | None, ...]


@dataclass(frozen=True, repr=False)
class TrialsCompared(Result):
    """Trials side by side.

    Attributes:
        trials: The names of the trials.
        parameters: The parameters that differ; `a/b` means b in the dict a.
        metrics: The metrics.
        provenance: The parts of the code, the packages, the machine and the data that differ.
        same: The number of parameters that are the same.
        curves: The curves over each other; null without matplotlib, or if there is nothing to draw.
        notes: Further sentences.
    """

    trials: tuple[str, ...]
    parameters: tuple[ComparedValues, ...]
    metrics: tuple[ComparedMetric, ...]
    provenance: tuple[ComparedValues, ...]
    same: int
    curves: Picture | None = None
    notes: tuple[str, ...] = ()
    _sides: tuple[Side, ...] = field(default=(), compare=False)

    def page(self) -> Page:
        """See `Result.page`."""
        media = _media(self._sides)
        notes = [f"{count(self.same, 'parameter is', 'parameters are')} the same."] if self.same else []
        experiments = list(dict.fromkeys(side.experiment.name for side in self._sides))
        where = f" of {experiments[0]}" if len(experiments) == 1 else ""
        first = self._sides[0]
        return Page(
            f"{', '.join(self.trials[:-1])} and {self.trials[-1]}{where}",
            (self._values(), self._provenance()),
            (*notes, *self.notes, *media.notes),
            (),
            (*filter(None, (self.curves,)), *media.pictures),
            (Hint("Details", f"%ckpt show {first.experiment.name}/{first.trial.id}"),),
            beside=tuple(media.rows),
        )

    def _values(self) -> Table:
        ranked = [row for row in self.metrics if row.mode]
        rows: tuple[_Row, ...] = (
            *self._overview(),
            *_section("parameters", [(row.name, map(_value, row.values)) for row in self.parameters]),
            *_section("last", [(row.name, _numbers(row.last, row.mode)) for row in self.metrics]),
            *_section("best", [(f"{row.name} ({row.mode})", _numbers(row.best, row.mode)) for row in ranked]),
        )
        against = f"the difference to {self.trials[0]} in brackets, ★ the best"
        return Table(against if self.metrics else "side by side", self._columns("trial"), rows)

    def _overview(self) -> Iterator[_Row]:
        yield "status", *(states_of(side.experiment)[side.trial.id] for side in self._sides)
        yield "results", *(str(side.trial.iteration) for side in self._sides)
        yield "time", *(duration(side.trial.elapsed_s) for side in self._sides)

    def _provenance(self) -> Table:
        total, rows = len(self.provenance), self.provenance[:_MOST_PARTS]
        shown: list[_Row] = [(row.name, *map(Cell, row.values)) for row in rows]
        more = f", {_MOST_PARTS} of {total}" if total > _MOST_PARTS else ""
        return Table(f"code, packages and data that differ{more}", self._columns("part"), tuple(shown))

    def _columns(self, name: str) -> tuple[Column, ...]:
        return Column(name, code=True), *(Column(trial) for trial in self.trials)

    def parameters_frame(self) -> pandas.DataFrame:
        """Return the parameters that differ, with a column for each trial.

        Raises:
            UsageError: pandas is not installed.
        """
        return self._frame(self.parameters)

    def provenance_frame(self) -> pandas.DataFrame:
        """Return the parts of code, packages, machine and data that differ, with a column for each trial.

        Raises:
            UsageError: pandas is not installed.
        """
        return self._frame(self.provenance)

    def _frame(self, rows: Sequence[ComparedValues]) -> pandas.DataFrame:
        values = {row.name: row.values for row in rows}
        return pandas_for("compare()").DataFrame.from_dict(values, orient="index", columns=list(self.trials))

    def metrics_frame(self) -> pandas.DataFrame:
        """Return the last and the best values of the metrics, with a column for each trial.

        Raises:
            UsageError: pandas is not installed.
        """
        pandas = pandas_for("compare()")
        rows = {
            (row.name, kind): values
            for row in self.metrics
            for kind, values in (("last", row.last), ("best", row.best))
        }
        index = pandas.MultiIndex.from_tuples(list(rows), names=["metric", "value"])
        return pandas.DataFrame(list(rows.values()), index=index, columns=list(self.trials))

    def curves_frame(self) -> pandas.DataFrame:
        """Return every result as a row, with the trial's name.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = [{"trial": side.name, **result} for side in self._sides for result in list(side.trial.results)]
        return pandas_for("compare()").DataFrame(rows)


@dataclass
class _Media:
    """The media of the compared trials.

    Attributes:
        pictures: The pictures, those of the same name one after the other.
        rows: Tables, texts and HTML: a row for each name, with a part for each trial.
        notes: Further sentences.
    """

    pictures: list[Picture] = field(default_factory=list)
    rows: list[tuple[Page, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _media(sides: Sequence[Side]) -> _Media:
    """Return the media of trials, those of the same name side by side."""
    media = _Media()
    names = {side: {stored.name for stored in newest_media(side.trial)} for side in sides}
    for name in sorted(set().union(*names.values())):
        parts = [media_page(side.trial, None, name) if name in names[side] else MediaPage() for side in sides]
        for side, part in zip(sides, parts, strict=True):
            for picture in part.pictures:
                title = f"{side.name}: {picture.alt}"
                media.pictures.append(replace(picture, alt=title, caption=title, height=_HEIGHT))
            media.notes += [f"{side.name}: {note}" for note in part.notes]
        if any(part.tables[1:] or part.frames or part.folds for part in parts):
            media.rows.append(tuple(_side(side.name, part) for side, part in zip(sides, parts, strict=True)))
    return media


def _side(name: str, part: MediaPage) -> Page:
    """Return the media of the trial *name*. The first table is an overview, which is left out."""
    return Page(
        "",
        tuple(replace(table, caption=f"{name}: {table.caption}") for table in part.tables[1:]),
        folds=tuple(replace(fold, summary=f"{name}: {fold.summary}", open=True) for fold in part.folds),
        frames=tuple(replace(frame, title=f"{name}: {frame.title}") for frame in part.frames),
    )


def _section(heading: str, rows: Sequence[tuple[str, Iterable[Cell]]]) -> Iterator[_Row]:
    """Yield a heading and the rows below it; nothing without rows."""
    if rows:
        yield (heading,)
    for name, cells in rows:
        yield name, *cells


def _value(value: Any) -> Cell:
    return Cell("") if value is None else shown_value(value)


def _numbers(values: Sequence[float | None], mode: str) -> Iterator[Cell]:
    """Yield the cells of numbers, each with its difference to the first; the best has a star."""
    finite = [value for value in values if value is not None and math.isfinite(as_float(value))]
    best = (min if mode == "min" else max)(finite) if mode and len(set(finite)) > 1 else None
    first = values[0]
    for value in values:
        if value is None:
            yield Cell("")
            continue
        differs = value != first and math.isfinite(as_float(value)) and math.isfinite(as_float(first))
        difference = f" ({value - first:+.3g})" if differs and first is not None else ""
        yield Cell(f"{shown_value(value).text}{difference}{' ★' * (value == best)}", repr(value))
