"""Signals: on SIGTERM or SIGINT a job saves after the same step on every replica, and exits.

    with nbckpt.states.save_on_signal():
        for batch in data:
            train(batch)
            if nbckpt.states.should_stop(any_of_all):
                nbckpt.states.save_and_exit()

`any_of_all` is an all-reduce: it takes whether this replica was asked to stop, and returns whether any was.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from nbckpt.errors import Interrupted, UsageError
from nbckpt.states.maker import in_notebook
from nbckpt.states.registry import current
from nbckpt.states.saving import NO_FOLDER, save_all_states

EXIT_CODE = 143
"""The exit code of a job that was asked to stop: 128 + SIGTERM, as in AdaptDL."""


class save_on_signal:  # noqa: N801  used as a function
    """From now on SIGTERM and SIGINT only set a flag, which `should_stop` returns.

    A second signal calls the former handler. As a context manager it ends with its block. In a notebook use
    it as a context manager, since a kernel restores its own handlers at the end of each cell.

    Args:
        signals: The signals to handle; by default SIGTERM and SIGINT.

    Raises:
        UsageError: This is not the main thread. Only the main thread can handle signals.
    """

    def __init__(self, *signals: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise UsageError("save_on_signal() handles signals: call it in the main thread")
        self.came: int | None = None
        self._outer = _innermost[0]
        numbers = signals or (signal.SIGTERM, signal.SIGINT)
        self._former = {number: signal.getsignal(number) for number in numbers}
        _innermost[0] = self
        for number in self._former:
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.came = number
        self.restore()

    def restore(self) -> None:
        """Restore the former handlers. Keep the flag of a signal that came."""
        for number, handler in self._former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        _innermost[0] = self._outer
        if self._outer is not None and self.came is not None:
            self._outer._set(self.came, None)  # the enclosing block must end too


_innermost: list[save_on_signal | None] = [None]
"""The innermost handler. Signals reach the whole process: every thread and every cell sees the same flag."""


def should_stop(reduce: Callable[[bool], Any] | None = None) -> bool:
    """Tell whether the job was asked to stop since `save_on_signal`.

    Args:
        reduce: An all-reduce: it takes whether this replica was asked, and returns whether any was. With it
            all replicas get the same answer for the same step. Then every replica must call this function
            after each step.

    Examples:
        >>> nbckpt.states.should_stop()
        False
    """
    flag = _innermost[0]
    asked = flag is not None and flag.came is not None
    return asked if reduce is None else bool(reduce(asked))


def save_and_exit(**options: Any) -> NoReturn:
    """Save all states and end the process with exit code 143. In a notebook, end only the cell.

    If no folder is set, nothing is saved. Then the message says so, and the exit code is 1.

    Args:
        options: The arguments of `save_all_states`.

    Raises:
        SystemExit: Always, except in a notebook. Do not catch it.
        KeyboardInterrupt: In a notebook.
    """
    is_nowhere = options.get("checkpoint_dir") is None and current.get().is_nowhere
    if not is_nowhere:
        save_all_states(**options)
    if in_notebook():
        raise Interrupted(f"interrupted: {NO_FOLDER if is_nowhere else 'all states are saved'}")
    sys.exit(f"nbckpt: {NO_FOLDER}" if is_nowhere else EXIT_CODE)
