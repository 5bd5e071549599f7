"""Trials side by side: the parameters, metrics, curves, media and origins in which they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nbckpt.errors import NbckptError, UsageError
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.lines import differences
from nbckpt.provenance.trial import read_attempts
from nbckpt.render import Cell, Column, Hint, Page, Picture, Result, Table, count, duration
from nbckpt.trials.model.frame import pandas_for
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.formats import shown_value
from nbckpt.trials.views.media import MediaPage, media_page, newest_media
from nbckpt.trials.views.metrics import flat_config, inferred, likely_mode, value_of, varying
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.curves import curves
from nbckpt.trials.views.plots.request import PlotRequest
from nbckpt.trials.views.statuses import states_of

if TYPE_CHECKING:
    import pandas

MOST_TRIALS = 12
_MOST_DRAWN = 3
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


@dataclass(frozen=True)
class _Selection:
    """Some trials, as something to draw."""

    name: str
    spec: Spec
    trials: tuple[Trial, ...]

    def trial(self, name: str | Trial) -> Trial:
        """See `Drawable.trial`."""
        return next(trial for trial in self.trials if trial is name or trial.id == name)


def compared(sides: Sequence[Side], metrics: Sequence[str] = ()) -> TrialsCompared:
    """Return trials side by side.

    Args:
        sides: The trials.
        metrics: The metrics to draw; by default the first that the trials reported.

    Raises:
        UsageError: These are not between 2 and 12 trials; or no trial reported one of the metrics.
    """
    if not 2 <= len(sides) <= MOST_TRIALS:
        raise UsageError(
            f"compare shows 2 to {MOST_TRIALS} trials, and these are {len(sides)}: %ckpt compare t1 t2"
        )
    trials = [side.trial for side in sides]
    configs = [flat_config(trial) for trial in trials]
    keys = varying(trials)
    parameters = [
        ComparedValues(key, tuple(config[key][0] if key in config else None for config in configs))
        for key in keys
    ]
    same = len({key for config in configs for key in config}) - len(keys)
    known = [_metric(sides, name) for name in inferred(trials, sides[0].experiment.spec.metric, most=None)]
    rows = tuple(row for row in known if any(value is not None for value in row.last))
    picture, notes = _curves(sides, list(metrics), rows)
    return TrialsCompared(
        tuple(side.name for side in sides),
        tuple(parameters),
        rows,
        tuple(_provenance(trials)),
        same,
        picture,
        notes,
        tuple(sides),
    )


def _metric(sides: Sequence[Side], name: str) -> ComparedMetric:
    spec = sides[0].experiment.spec
    mode = spec.mode if name == spec.metric and spec.mode else likely_mode(name)
    last = tuple(side.trial.newest(name) for side in sides)
    best = tuple(value_of(side.trial, name, mode, "best") if mode else None for side in sides)
    return ComparedMetric(name, mode, last, best)


def _curves(
    sides: Sequence[Side], metrics: list[str], rows: Sequence[ComparedMetric]
) -> tuple[Picture | None, tuple[str, ...]]:
    """Return the curves over each other. If none was asked for, a sentence says why there are none."""
    trials = tuple(side.trial for side in sides)
    drawn = metrics or [row.name for row in rows][:_MOST_DRAWN]
    if not drawn:
        return None, ()
    experiments = dict.fromkeys(side.experiment.name for side in sides)
    selection = _Selection(", ".join(experiments), sides[0].experiment.spec, trials)
    try:
        names = {side.trial: side.name for side in sides}
        plot = curves(selection, PlotRequest(drawn, trials), names)
    except UsageError as error:
        if metrics:
            raise
        return None, (f"No curves: {error}",)
    return style.picture(plot.figure, plot.alt, plot.marks), plot.notes


def _provenance(trials: Sequence[Trial]) -> Iterator[ComparedValues]:
    """Yield the parts of what is needed to do trials again in which one of them differs from the first."""
    first, *others = (_newest_attempt(trial) for trial in trials)
    pairs = [differences(first, other) for other in others]
    for name, old in {name: old for pair in pairs for name, old, _ in pair}.items():
        new = ({part: value for part, _, value in pair}.get(name, old) for pair in pairs)
        yield ComparedValues(name, (old, *new))


def _newest_attempt(trial: Trial) -> Provenance | None:
    try:
        return read_attempts(trial.folder)[-1]
    except NbckptError:  # `show` says why
        return None


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
