"""Report: an experiment or a trial as the sections of a document for somebody who has no kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nbckpt.errors import NbckptError, UsageError
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.trial import read_attempts
from nbckpt.render import Column, Fold, Page, Table, moment, short
from nbckpt.render.document import Section
from nbckpt.trials.model.metrics import flat, plain
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.metrics import by_metric, inferred
from nbckpt.trials.views.plots.plot import plot
from nbckpt.trials.views.plots.request import PlotRequest, ranking
from nbckpt.trials.views.table import TrialTable
from nbckpt.trials.views.trial_page import TrialShown

_MOST_ROWS = 300
MOST_TRIALS = 50
_MOST_METRICS = 3
_MOST_NOTED = 1000
_LONGEST = 200
_MOST_CODE = 200_000
"""The most characters of each cell, and of the patch."""
_SPEC = ("num_samples", "seed", "stop", "executor", "resources", "max_concurrent")


def experiment_sections(experiment: ExperimentView) -> Iterator[Section]:
    """Yield the sections about an experiment, the most important first. Each is made when it is needed."""
    metric = experiment.spec.metric or next(iter(inferred(experiment.trials)), "")
    by, mode = ranking(experiment, metric)
    ranked = by_metric(experiment.trials, by, mode)
    sort = bool(by and mode and ranked and ranked[0].newest(by) is not None)
    first = (by, mode) if sort and not experiment.spec.others else ("", "")  # or the Pareto front
    table = TrialTable(experiment, most=_MOST_ROWS, sort=sort, metric=first[0], mode=first[1]).page()
    left_out = len(ranked) - MOST_TRIALS - sort
    details = (f"{left_out:,} of these trials have no details below.",) if left_out > 0 else ()
    yield Section("Trials", replace(table, notes=(*table.notes, *details), hints=()))
    if notes := _notes(experiment):
        yield Section("Notes and tags", Page("", (notes,)))
    yield from _plots(experiment, by, mode)
    yield Section("Configuration", Page("", (_configuration(experiment),)))
    if sort:
        best = ranked[0]
        page = _trial_page(experiment, best)
        yield Section(f"Best trial by {by} ({mode}): {best.id}", page, lighter=_lighter(page))
    if ranked:
        yield from _code(ranked[0])
    for trial in ranked[1 if sort else 0 :][:MOST_TRIALS]:
        page = _trial_page(experiment, trial)
        yield Section(page.headline, replace(page, headline=""), folded=True, lighter=_lighter(page))


def trial_sections(experiment: ExperimentView, trial: Trial) -> Iterator[Section]:
    """Yield the sections about a trial, the most important first."""
    page = _trial_page(experiment, trial)
    yield Section("Trial", page, lighter=_lighter(page))
    metrics = inferred([trial], experiment.spec.metric, most=_MOST_METRICS)
    yield from _plot(experiment, "Curves", PlotRequest(metrics, [trial]))
    yield from _code(trial)


def _plots(experiment: ExperimentView, metric: str, mode: str) -> Iterator[Section]:
    metrics = inferred(experiment.trials, metric, most=_MOST_METRICS)
    yield from _plot(experiment, "Curves", PlotRequest(metrics, mode=mode))
    if experiment.spec.others:
        yield from _plot(experiment, "Pareto front", PlotRequest(pareto=True))
    if len(experiment.trials) > 1:
        yield from _plot(experiment, "Parameters", PlotRequest([metric], mode=mode, parallel=True))


def _plot(experiment: ExperimentView, title: str, request: PlotRequest) -> Iterator[Section]:
    """Yield a section with a plot. If it cannot be drawn, the section says why."""
    try:
        page = plot(experiment, request).page()
    except UsageError as error:
        yield Section(title, Page("", notes=(str(error),)))
        return
    pictures = tuple(replace(picture, caption=picture.caption or page.headline) for picture in page.pictures)
    yield Section(title, replace(page, headline="", pictures=pictures, hints=()))


def _notes(experiment: ExperimentView) -> Table | None:
    """Return the notes and the tags of every trial that has some; None if no trial has."""
    annotations = [(trial.id, trial.annotation) for trial in experiment.trials]
    noted = [(name, kept) for name, kept in annotations if kept.note or kept.tags]
    rows = tuple((name, ", ".join(kept.tags), kept.note) for name, kept in noted[:_MOST_NOTED])
    more = f", {_MOST_NOTED} of {len(noted)}" if len(noted) > _MOST_NOTED else ""
    columns = Column("trial"), Column("tags"), Column("note")
    return Table(f"notes and tags{more}", columns, rows) if rows else None


def _configuration(experiment: ExperimentView) -> Table:
    spec = experiment.spec
    created = moment(spec.created_at)
    rows: dict[str, Any] = {"created": "" if created is None else f"{created:%Y-%m-%d %H:%M} UTC"}
    rows |= spec.comparison() | {name: getattr(spec, name) for name in _SPEC}
    space: Mapping[str, Any] = dict(flat(plain(spec.config)))
    rows |= {f"config/{name}": value for name, value in space.items()}
    shown = tuple(
        (name, short(str(value), _LONGEST)) for name, value in rows.items() if value not in (None, "", {})
    )
    return Table("the experiment", (Column("setting", code=True), Column("value")), shown)


def _trial_page(experiment: ExperimentView, trial: Trial) -> Page:
    """Return a trial's page without what only its owner can use: hints, and where its files are."""
    page = TrialShown(experiment, trial).page()
    notes = tuple(note for note in page.notes if str(trial.folder) not in note)
    return replace(page, notes=notes, hints=())


def _lighter(page: Page) -> Page:
    return replace(page, pictures=(), frames=(), folds=())


def _code(trial: Trial) -> Iterator[Section]:
    """Yield the code that a trial ran: the cells of its notebook, and the changes since its commit."""
    try:
        provenance = read_attempts(trial.folder)[-1]
        folds = tuple(_code_folds(provenance))
    except NbckptError:  # the trial's page says why
        return
    if folds:
        yield Section(f"Code of {trial.id}", Page("", folds=folds))


def _code_folds(provenance: Provenance) -> Iterator[Fold]:
    for number, source in enumerate(provenance.cells, 1):
        yield Fold(f"cell {number}", source[:_MOST_CODE], open=True)
    if provenance.patch:
        text = provenance.patch[:_MOST_CODE].decode("utf-8", "replace")
        yield Fold("changes that are not in the commit", text)
    if provenance.packages:
        packages = "  ".join(f"{name} {version}" for name, version in sorted(provenance.packages.items()))
        yield Fold("installed packages", packages)
