"""Callbacks: calls those that follow an experiment, and goes on without those that fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from nbckpt.trials.model.callback import BackgroundCallback, Callback

_log = logging.getLogger("nbckpt")


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
