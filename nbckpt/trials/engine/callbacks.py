"""Callbacks: call an experiment's callbacks, and continue without those that fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from nbckpt.render import error_text
from nbckpt.trials.model.callback import BackgroundCallback
from nbckpt.trials.model.spec import CallbackLike

_log = logging.getLogger("nbckpt")


class Callbacks:
    """Calls all callbacks, and continues without those that fail.

    Attributes:
        listed: The callbacks that have not failed, each with the lock for its calls.
    """

    def __init__(self, callbacks: Iterable[CallbackLike]) -> None:
        self._failures: list[str] = []
        self.listed = [(callback, _turns(callback)) for callback in callbacks]

    def __iter__(self) -> Iterator[CallbackLike]:
        return iter([callback for callback, _ in list(self.listed)])

    @property
    def notes(self) -> list[str]:
        """The failures, and the callbacks' own troubles, one sentence each."""
        return [*self._failures, *(note for callback in self._in_background() for note in callback.trouble())]

    def cancel(self) -> None:
        """Cancel the background work of the callbacks."""
        for callback in self._in_background():
            callback.cancel()

    def _in_background(self) -> list[BackgroundCallback]:
        return [callback for callback in self if isinstance(callback, BackgroundCallback)]

    def call(self, method: str, *arguments: Any) -> None:
        """Call one method of all callbacks."""
        for listed in list(self.listed):
            callback, turn = listed
            with turn:
                try:
                    if listed in self.listed:
                        getattr(callback, method)(*arguments)
                except Exception as error:  # noqa: BLE001  the trials continue without a failing callback
                    self._drop(listed, method, error)

    def _drop(self, listed: tuple[CallbackLike, Any], method: str, error: Exception) -> None:
        name = type(listed[0]).__name__
        _log.warning("%s.%s failed", name, method, exc_info=error)
        self._failures.append(f"{name} is off since {method} failed: {error_text(error)}")
        with suppress(ValueError):  # another thread was first
            self.listed.remove(listed)


def _turns(callback: CallbackLike) -> AbstractContextManager[object]:
    """Return the lock for calls; no lock if a call may wait, because one trial would block the others."""
    return nullcontext() if isinstance(callback, BackgroundCallback) else threading.RLock()
