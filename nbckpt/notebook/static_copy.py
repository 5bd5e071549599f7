"""Static copy: HTML in a cell that follows a panel, and that lasts when the kernel and the panel are gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from nbckpt.render import Page, Result
from nbckpt.render.output import Output

_PERIOD_S = 2.0


@dataclass(frozen=True, repr=False)
class StaticCopy(Result):
    """A result at one moment, shown as one line that expands.

    Attributes:
        result: The result.
        moment: The moment, as text.
    """

    result: Result
    moment: str

    def page(self) -> Page:
        """See `Result.page`."""
        return self.result.page()


class StaticOutput:
    """The output that shows the static copy of the newest result. Any thread may use it.

    Args:
        around: Puts HTML around that of the copy. The output is then HTML only.
    """

    def __init__(self, around: Callable[[str], str] | None = None) -> None:
        self._around = around
        self._output = Output()
        self._lock = threading.Lock()
        self._newest: Result | None = None
        self._put_at = float("-inf")

    def create(self) -> None:
        """Create the output in the running cell, even if there is no result yet."""
        if not self._output.is_shown:
            empty = {"text/plain": ""} if self._around is None else {"text/html": self._around("")}
            self._output.put(empty)

    def put(self, result: Result) -> None:
        """Set the result that the next `tick` or `flush` shows instead of the former one."""
        self._newest = result

    def tick(self) -> None:
        """Show the newest result if the last update is two seconds ago or more."""
        if time.monotonic() - self._put_at >= _PERIOD_S:
            self.flush()

    def flush(self) -> None:
        """Show the newest result at once, if it is not shown yet."""
        with self._lock:
            result, self._newest = self._newest, None
            if result is not None:
                moment = datetime.now().astimezone().strftime("%H:%M:%S")
                copy = StaticCopy(result, moment)
                shown = copy._repr_mimebundle_()
                self._output.put(
                    shown if self._around is None else {"text/html": self._around(shown["text/html"])}
                )
                self._put_at = time.monotonic()
