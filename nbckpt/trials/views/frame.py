"""Frame: every result of an experiment as a row of a pandas DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.trials.model.frame import beside, pandas_for, with_media
from nbckpt.trials.model.view import ExperimentView

if TYPE_CHECKING:
    import pandas


def dataframe(experiment: ExperimentView) -> pandas.DataFrame:
    """Return every result as a row, with the trial and its configuration.

    Raises:
        UsageError: pandas is not installed.
    """
    pandas = pandas_for("dataframe()")
    rows = []
    for trial in experiment.trials:
        own = {"trial": trial.id} | {f"config/{key}": value for key, value in trial.config.items()}
        rows += [own | beside(own, result) for result in with_media(trial.results, trial.media)]
    return pandas.DataFrame(rows)
