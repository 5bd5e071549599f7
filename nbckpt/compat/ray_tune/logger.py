"""Loggers by Ray's names: files of results in each trial's folder."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import IO, Any

from nbckpt.compat.arguments import refused_names
from nbckpt.errors import UsageError
from nbckpt.store.files import explained
from nbckpt.trials.model.callback import Callback
from nbckpt.trials.model.metrics import flat, plain
from nbckpt.trials.model.trial import Trial


class _FileLogger(Callback, ABC):
    """Writes a trial's results to a file when the trial ends, fails or rests."""

    _file: str

    def on_trial_complete(self, trial: Trial) -> None:
        """See `Callback.on_trial_complete`."""
        file = trial.folder / self._file
        with explained("write", file), file.open("w", encoding="utf-8", newline="") as opened:
            self._write([plain(result) for result in trial.results], opened)

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """See `Callback.on_trial_error`."""
        del error
        self.on_trial_complete(trial)

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """See `Callback.on_experiment_end`."""
        for trial in trials:
            if not trial.finished:
                self.on_trial_complete(trial)

    @abstractmethod
    def _write(self, results: list[dict[str, Any]], file: IO[str]) -> None:
        """Write all results to a file."""


class JsonLoggerCallback(_FileLogger):
    """Writes `result.json`: a line of JSON for each result."""

    _file = "result.json"

    def _write(self, results: list[dict[str, Any]], file: IO[str]) -> None:
        file.writelines(f"{json.dumps(result)}\n" for result in results)


class CSVLoggerCallback(_FileLogger):
    """Writes `progress.csv`: a row for each result, with `a/b` for b in the dict a."""

    _file = "progress.csv"

    def _write(self, results: list[dict[str, Any]], file: IO[str]) -> None:
        rows = [dict(flat(result)) for result in results]
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


JsonLogger = JsonLoggerCallback
CSVLogger = CSVLoggerCallback
DEFAULT_LOGGERS = (JsonLogger, CSVLogger)


def loggers(given: Iterable[Any]) -> list[Callback]:
    """Return the callbacks for the logger classes of `loggers=`.

    Raises:
        UsageError: It is another class.
    """
    made: list[Callback] = []
    for kind in given:
        if not (isinstance(kind, type) and issubclass(kind, _FileLogger)):
            raise UsageError(f"loggers={kind!r} is not available here: use callbacks=[…]. {_TENSORBOARD}")
        made.append(kind())
    return made


_TENSORBOARD = (
    "For TensorBoard: nbckpt.integrations.tensorboard.TensorBoardCallback(folder), for MLflow: "
    "nbckpt.integrations.mlflow.MLflowCallback()"
)
_OWN = "subclass ray_tune.Callback, and give callbacks=[…]"

__getattr__ = refused_names(
    __name__,
    dict.fromkeys(("TBXLogger", "TBXLoggerCallback", "MLFLowLogger", "MLflowLoggerCallback"), _TENSORBOARD)
    | dict.fromkeys(("Logger", "LoggerCallback", "UnifiedLogger", "NoopLogger", "pretty_print"), _OWN),
)
