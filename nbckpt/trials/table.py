"""The table of an experiment's trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbckpt.render import Column, Page, Table, count

if TYPE_CHECKING:
    from nbckpt.trials.experiment import Experiment


def trials_page(experiment: Experiment) -> Page:
    """Return what there is to see of an experiment."""
    rows = tuple((trial.id, str(trial.status), str(trial.iteration)) for trial in experiment.trials)
    columns = (Column("trial"), Column("status"), Column("iteration", number=True))
    headline = f"{experiment.name}: {count(len(rows), 'trial')}"
    return Page(headline, (Table("trials", columns, rows),), tuple(experiment.notes))


def plot(experiment: Experiment, metric: str) -> Any:
    """Draw a metric's course, a line for each trial."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    for trial in experiment.trials:
        if values := trial.metric(metric):
            axes.plot(range(1, len(values) + 1), values, label=trial.id)
    axes.set_xlabel("iteration")
    axes.set_ylabel(metric)
    axes.legend()
    return figure
