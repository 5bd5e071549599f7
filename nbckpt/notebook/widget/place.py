"""Place: an output of a cell in which the browser mounts a widget, and the HTML that it hides meanwhile."""

from __future__ import annotations

import uuid

from nbckpt.render.output import Output

AGAIN = "Run this cell again for the buttons."


class Place:
    """A place in the page for one widget. It needs no widget yet: making one takes a while.

    Args:
        line: What stands there while no widget does; nothing if it is empty.

    Attributes:
        name: Its name, which the widget knows too.
    """

    def __init__(self, line: str = AGAIN) -> None:
        self.name = uuid.uuid4().hex
        self._line = f'<p style="margin:.2em 0;opacity:.75;">{line}</p>' if line else ""
        self._output = Output()

    def show(self) -> None:
        """Show the place below the running cell. It never changes: an update would drop the widget."""
        self._output.put({"text/html": f'<div data-nbckpt-place="{self.name}">{self._line}</div>'})

    def copied(self, html: str) -> str:
        """Return the HTML of a static copy, which the browser hides while the widget is there."""
        return f'<div data-nbckpt-copy="{self.name}">{html}</div>'
