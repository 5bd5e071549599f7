"""Mounted: the widget of the panel. It is never displayed: the browser mounts it in its place in the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import traitlets

from nbckpt._private_apis import free_comm
from nbckpt.notebook.widget.parts import front_parts, loader, version

Heard = Callable[[Any, Sequence[memoryview]], object]


class Mounted(anywidget.AnyWidget):  # see docs/decisions/0100
    """The panel or the live table in the browser. Only choices are synced: rows and points come by messages.

    Any thread may make one, and send. What the browser sends is handled in a thread that the kernel chooses.

    Args:
        hear: Called with each message of the browser and its buffers.
        place: The name of the place in the page; see `Place`.
        choices: The first values of the synced choices.
    """

    _esm = loader()
    layout = traitlets.Any()  # none: it would be a widget of its own, of 1 kB, and this one is not displayed
    place = traitlets.Unicode().tag(sync=True)
    version = traitlets.Unicode().tag(sync=True)
    form = traitlets.Unicode("panel").tag(sync=True)
    pane = traitlets.Unicode().tag(sync=True)
    sort = traitlets.Dict().tag(sync=True)
    filter = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)

    def __init__(self, hear: Heard, place: str, **choices: Any) -> None:
        self._hear = hear
        super().__init__(place=place, version=version(), **choices)
        self.on_msg(self._heard)
        free_comm(self.comm)

    def choices(self) -> dict[str, Any]:
        """Return what was chosen in the browser: sort, filters, columns, pictures."""
        return {name: getattr(self, name) for name in ("sort", "filter", "chosen")}

    def _heard(self, _: object, content: Any, buffers: Sequence[memoryview]) -> None:
        name = content.get("name") if isinstance(content, dict) and content.get("kind") == "part" else None
        if isinstance(name, str) and name in front_parts():
            self.send({"kind": "part", "name": name}, [front_parts()[name]])
        else:
            self._hear(content, buffers)

    def _send(self, *message: Any, **more: Any) -> None:
        super()._send(*message, **more)
        free_comm(self.comm)
