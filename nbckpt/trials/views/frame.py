"""Frame: every result of an experiment as a row of a pandas DataFrame."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from nbckpt.errors import UsageError
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
        config = {f"config/{key}": value for key, value in trial.config.items()}
        rows += [{"trial": trial.id, **config, **result} for result in list(trial.results)]
    return pandas.DataFrame(rows)


def pandas_for(function: str) -> ModuleType:
    """Return pandas, for a function of the user's.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError:
        raise UsageError(f"{function} needs pandas: pip install pandas") from None
