"""Callbacks: code of the user's, or of other trackers, that follows an experiment."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from nbckpt.trials.checkpoints.folder import Record
from nbckpt.trials.model.trial import Trial

if TYPE_CHECKING:
    from nbckpt.trials.engine.experiment import Experiment

_log = logging.getLogger("nbckpt")


class Callback:
    """Follows an experiment; override what you need.

    The methods of one callback are called one at a time, in the threads that drive the trials, so a slow
    one holds up the trials. One that raises is not called again; the trials go on, and the experiment's
    notes tell.
    """

    def setup(self, experiment: Experiment) -> None:
        """The experiment begins, or goes on."""

    def on_trial_start(self, trial: Trial) -> None:
        """A trial begins, or begins anew."""

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """A trial reported."""

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        """A trial saved a checkpoint."""

    def on_trial_complete(self, trial: Trial) -> None:
        """A trial ended well, or was stopped."""

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """A trial failed; its status tells whether it is tried again."""

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """No trial runs any more."""


class BackgroundCallback(Callback):
    """A callback whose work goes on beside its calls.

    Its methods may be called at any moment, by several threads at once. Those of one trial come one after
    the other, and none of a trial's comes during `setup` and `on_experiment_end`.
    """

    def trouble(self) -> Sequence[str]:
        """Return what the experiment's notes are to tell, a sentence each."""
        return ()

    def cancel(self) -> None:
        """End the work: nobody wants it any more."""


class Callbacks:
    """Calls many callbacks, and goes on without those that fail."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self._failures: list[str] = []
        self._callbacks = [(callback, _turns(callback)) for callback in callbacks]

    def __iter__(self) -> Any:
        return (callback for callback, _ in self._callbacks)

    @property
    def notes(self) -> list[str]:
        """What failed, and what they tell themselves, a sentence each."""
        return [*self._failures, *(note for it in self._in_background() for note in it.trouble())]

    def cancel(self) -> None:
        """End what goes on beside their calls."""
        for callback in self._in_background():
            callback.cancel()

    def _in_background(self) -> list[BackgroundCallback]:
        return [it for it, _ in list(self._callbacks) if isinstance(it, BackgroundCallback)]

    def call(self, method: str, *arguments: Any) -> None:
        """Call one method of all of them."""
        if not self._callbacks:
            return
        for listed in list(self._callbacks):
            callback, turn = listed
            with turn:
                try:
                    if listed in self._callbacks:
                        getattr(callback, method)(*arguments)
                except Exception as error:  # noqa: BLE001  the trials go on without a failing callback
                    self._drop(listed, method, error)

    def _drop(self, listed: tuple[Callback, Any], method: str, error: Exception) -> None:
        name = type(listed[0]).__name__
        _log.warning("%s.%s failed", name, method, exc_info=error)
        self._failures.append(f"{name} is off since {method} failed: {type(error).__name__}: {error}")
        with suppress(ValueError):  # another thread was first
            self._callbacks.remove(listed)


def _turns(callback: Callback) -> AbstractContextManager[object]:
    """Return what is held during a call: no lock for what may wait, or one trial would stop the others."""
    return nullcontext() if isinstance(callback, BackgroundCallback) else threading.RLock()
