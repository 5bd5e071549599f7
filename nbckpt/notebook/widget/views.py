"""Views: which panes are in sight, in all the views of one panel."""

from __future__ import annotations

import threading
from collections.abc import Callable

HEARD_S = 30.0
"""How long a view counts after its last message. A browser that shows it sends one every 10 seconds."""


class Views:
    """The views of one panel that were heard of lately. Any thread may use it.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard: dict[str, tuple[str, float]] = {}

    def hear(self, view: str, pane: str | None) -> None:
        """Note the pane that a view shows, or that it shows none. Forget the views that are silent."""
        with self._lock:
            others = {name: last for name, last in self._heard.items() if name != view}
            recent = {name: last for name, last in others.items() if self._is_recent(last)}
            self._heard = recent if pane is None else recent | {view: (pane, self._clock())}

    def panes(self) -> list[str]:
        """Return the panes in sight, each once."""
        return list(dict.fromkeys(last[0] for last in self._heard.values() if self._is_recent(last)))

    def _is_recent(self, last: tuple[str, float]) -> bool:
        return self._clock() - last[1] < HEARD_S
