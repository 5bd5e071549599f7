"""The stores that the commands of one shell have opened."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

from nbckpt.notebook.names import hidden_names

if TYPE_CHECKING:
    from nbckpt.mirror import AutoMirror
    from nbckpt.timeline.auto import Auto
    from nbckpt.tracker import Tracker


class OpenStores:
    """Opens each store of a shell once, on first use, also if two threads ask at the same time.

    Attributes:
        points: An `Auto` for each store in which points were wanted. The notebook's own store has the key
            None.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._opening = threading.Lock()
        self._opened: dict[str | None, tuple[Tracker, AutoMirror]] = {}
        self.points: dict[str | None, Auto] = {}

    def open(self, store: str | None) -> tuple[Tracker, AutoMirror]:
        """Return the tracker and the background sync of a store, by default the notebook's store."""
        with self._opening:  # the panel opens it in a thread
            if store not in self._opened:
                from nbckpt.mirror import AutoMirror
                from nbckpt.tracker import Tracker

                tracker = Tracker(store)
                self._opened[store] = tracker, AutoMirror(tracker.store)
            return self._opened[store]

    def points_of(self, store: str | None) -> Auto:
        """Return the `Auto` that makes points in a store, by default the notebook's store."""
        if store not in self.points:
            from nbckpt.timeline.auto import Auto
            from nbckpt.timeline.timeline import Timeline

            shell, tracker = self._shell, self.open(store)[0]
            timeline = Timeline(tracker, shell.user_ns, lambda: hidden_names(shell))
            self.points[store] = Auto(timeline, hears_cells=store is None)
        return self.points[store]

    def close(self) -> None:
        """Turn off what makes points, and close every tracker and its background sync."""
        for points in self.points.values():
            points.turn_off()
        for tracker, auto in self._opened.values():
            tracker.close()
            auto.close()
        self._opened.clear()
