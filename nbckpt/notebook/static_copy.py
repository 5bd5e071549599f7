"""Static copy: HTML in a cell that follows a panel, and that lasts when the kernel and the panel are gone."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass
from datetime import datetime

from IPython.core.getipython import get_ipython
from IPython.display import display, update_display

from nbckpt.notebook.progress import is_kernel
from nbckpt.render import Page, Result

_PERIOD_S = 2.0


@dataclass(frozen=True, repr=False)
class Standing(Result):
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


class Outlet:
    """One output in a cell. The first result creates it, and later results replace it.

    In a terminal an output cannot be updated in place: there only the first result is shown.
    """

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._newest: Result | None = None
        self._put_at: float | None = None

    def take_place(self) -> None:
        """Create the output in the running cell, even if there is no result yet."""
        with self._lock:
            if self._put_at is None:
                display({"text/plain": ""}, raw=True, display_id=self._id)
                self._put_at = time.monotonic()

    def put(self, result: Result) -> None:
        """Set the result that the next `tick` or `flush` shows instead of the former one."""
        self._newest = result

    def tick(self) -> None:
        """Show the newest result if the last update is two seconds ago or more."""
        if self._put_at is None or time.monotonic() - self._put_at >= _PERIOD_S:
            self.flush()

    def flush(self) -> None:
        """Show the newest result at once, if it is not shown yet."""
        with self._lock:
            result, self._newest = self._newest, None
            if result is None:
                return
            standing = Standing(result, datetime.now().astimezone().strftime("%H:%M:%S"))
            if self._put_at is None:
                display(standing, display_id=self._id)
            elif is_kernel(get_ipython()):
                update_display(standing, display_id=self._id)
            self._put_at = time.monotonic()
