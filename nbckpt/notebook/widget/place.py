"""Place: an output of a cell in which the browser mounts a widget, and the HTML that it hides meanwhile."""

from __future__ import annotations

import uuid

from nbckpt.render.output import Output

AGAIN = "Run this cell again for the buttons."
SIMPLER = (  # see docs/decisions/0171
    "If none come, this page cannot load the panel. Its server may lack anywidget, or its "
    "Content-Security-Policy may forbid <code>blob:</code> scripts. Run <code>%env NBCKPT_PANEL=core</code> "
    "and then this cell, for a panel that needs neither."
)


class Place:
    """A place in the page for one widget. It needs no widget yet: making one takes a while.

    Args:
        line: The line that stands there while no widget does, which opens for more; nothing if it is empty.

    Attributes:
        name: Its name, which the widget knows too.
    """

    def __init__(self, line: str = AGAIN) -> None:
        self.name = uuid.uuid4().hex
        more = f"<summary>{line}</summary>{SIMPLER}"
        self._line = f'<details style="margin:.2em 0;opacity:.75;">{more}</details>' if line else ""
        self._output = Output()

    def show(self) -> None:
        """Show the place below the running cell. It never changes: an update would drop the widget."""
        self._output.put({"text/html": f'<div data-nbckpt-place="{self.name}">{self._line}</div>'})

    def copied(self, html: str) -> str:
        """Return the HTML of a static copy, which the browser hides while the widget is there."""
        return f'<div data-nbckpt-copy="{self.name}">{html}</div>'
