"""Static copy: HTML in a cell that follows a panel, and that lasts when the kernel and the panel are gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from nbckpt.render import Page, Result, Table, count, html_of, short
from nbckpt.render.output import Output

PERIOD_S = 2.0
"""How often a copy is renewed that nobody sees while its kernel lives."""

_MOST_ROWS = 10
_MOST_COLUMNS = 8
_MOST_NOTES = 2
_LONGEST_CELL = 30
_LONGEST_NOTE = 200


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


class CompactCopy(StaticCopy):
    """A copy that is small in the notebook: few rows, short texts, no pictures."""

    def page(self) -> Page:
        """See `Result.page`."""
        page = self.result.page()
        tables = tuple(map(_compact, page.tables[:1]))
        left_out = sum(len(table.rows) for table in page.tables[:1]) - sum(len(t.rows) for t in tables)
        notes = [short(note, _LONGEST_NOTE) for note in page.notes if "%ckpt" not in note][:_MOST_NOTES]
        notes += [f"{count(left_out, 'more row')} when this was seen last."] if left_out else []
        return Page(short(page.headline, _LONGEST_NOTE), tables, tuple(notes))


def _compact(table: Table) -> Table:
    rows = tuple(
        tuple(short(str(getattr(cell, "text", cell)), _LONGEST_CELL) for cell in row[:_MOST_COLUMNS])
        for row in table.rows[:_MOST_ROWS]
    )
    return Table(table.caption, table.columns[:_MOST_COLUMNS], rows)


class StaticOutput:
    """The output that shows the static copy of the newest result. Any thread may use it.

    Args:
        around: Puts HTML around that of the copy. The output is then HTML only, and small.
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
        if self.is_due():
            self.flush()

    def is_due(self) -> bool:
        """Tell whether the last update is two seconds ago or more."""
        return time.monotonic() - self._put_at >= PERIOD_S

    def flush(self) -> None:
        """Show the newest result at once, if it is not shown yet."""
        with self._lock:
            result, self._newest = self._newest, None
            if result is not None:
                moment = datetime.now().astimezone().strftime("%H:%M:%S")
                if self._around is None:
                    self._output.put(StaticCopy(result, moment)._repr_mimebundle_())
                else:
                    self._output.put({"text/html": self._around(html_of(CompactCopy(result, moment)))})
                self._put_at = time.monotonic()
