"""Signals: a job that is asked to end saves after the same step on every replica, and ends.

    with nbckpt.save_on_signal():
        for batch in data:
            train(batch)
            if nbckpt.should_stop(any_of_all):
                nbckpt.save_and_exit()

`any_of_all` is an all-reduce: given whether this replica was asked to end, it tells whether any was.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from nbckpt.errors import Interrupted, UsageError
from nbckpt.state.place import in_notebook
from nbckpt.state.registry import current
from nbckpt.state.saving import NO_FOLDER, save_all_states

EXIT_CODE = 143
"""With this a job ends that was asked to: 128 and SIGTERM, as in AdaptDL."""


class save_on_signal:  # noqa: N801  used as a function
    """From here on SIGTERM and SIGINT only set a flag, which `should_stop` tells.

    A second signal does what the signal did before. As a context manager it ends with its block; in a
    notebook use it so, since a kernel takes its own handlers back at the end of each cell.

    Args:
        signals: Which signals.

    Raises:
        UsageError: This is not the main thread, the only one that can handle signals.
    """

    def __init__(self, *signals: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise UsageError("save_on_signal() handles signals: call it in the main thread")
        self.came: int | None = None
        self._outer = _innermost[0]
        self._before = {it: signal.getsignal(it) for it in signals or (signal.SIGTERM, signal.SIGINT)}
        _innermost[0] = self
        for number in self._before:
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.came = number
        self.restore()

    def restore(self) -> None:
        """Have the signals do what they did before; whether one came is still known."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        _innermost[0] = self._outer
        if self._outer is not None and self.came is not None:
            self._outer._set(self.came, None)  # the block around this one is to end, too


_innermost: list[save_on_signal | None] = [None]
"""Signals reach the whole process: every thread and every cell sees the same flag."""


def should_stop(reduce: Callable[[bool], Any] | None = None) -> bool:
    """Tell whether the job was asked to end since `save_on_signal`.

    Args:
        reduce: Given whether this replica was asked, returns whether any was: an all-reduce. With it all
            replicas get the same answer for the same step; all call this then after each step.
    """
    flag = _innermost[0]
    asked = flag is not None and flag.came is not None
    return asked if reduce is None else bool(reduce(asked))


def save_and_exit(**options: Any) -> NoReturn:
    """Save all states and end: the process with exit code 143, in a notebook the cell only.

    Where no folder is set, nothing is saved; then the message says so, and the exit code is 1.

    Args:
        options: Those of `save_all_states`.

    Raises:
        SystemExit: Let it pass.
        KeyboardInterrupt: In a notebook.
    """
    is_nowhere = options.get("checkpoint_dir") is None and current.get().is_nowhere
    if not is_nowhere:
        save_all_states(**options)
    if in_notebook():
        raise Interrupted(f"interrupted: {NO_FOLDER if is_nowhere else 'all states are saved'}")
    sys.exit(f"nbckpt: {NO_FOLDER}" if is_nowhere else EXIT_CODE)
