"""The sync's tab: where else the store is kept, and how that goes."""

from __future__ import annotations

import ipywidgets as widgets

from nbckpt.mirror import PERIOD_S
from nbckpt.notebook.panel.desk import Desk, button, html_of, line


class SyncTab:
    """Where the store is kept, too.

    Args:
        desk: Asks and shows.
    """

    title = "Sync"

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._status = widgets.HTML()
        self._url = widgets.Text(
            description="place", placeholder="s3://bucket/folder, or a folder", continuous_update=False
        )
        self._period = widgets.BoundedFloatText(description="every, s", min=1, max=86_400, value=PERIOD_S)
        self.widget = widgets.VBox(
            [
                self._status,
                line(self._url, self._period, button("Set", self._set, "in the background from here on")),
                line(
                    button("Sync now", lambda: self._do("sync", "--now")),
                    button("Cancel", self._cancel, "ends what is under way; it is tried again later"),
                    button("Off", lambda: self._do("sync", "off"), "what was sent stays"),
                    button("Pull", lambda: self._do("pull"), "brings here what the other place has"),
                ),
            ]
        )

    @property
    def is_alive(self) -> bool:
        """Whether it changes by itself: a transfer is under way."""
        status = self._desk.session().auto.status
        return status is not None and status.is_running

    def refresh(self) -> None:
        """Show how it goes now."""
        result = self._desk.ask("sync", "--status")
        if result is not None and (shown := html_of(result)) != self._status.value:
            self._status.value = shown

    def _set(self) -> None:
        if not self._url.value:
            self._desk.say("write the place first", is_error=True)
            return
        self._do("sync", self._url.value, "--period", str(self._period.value))

    def _cancel(self) -> None:
        self._desk.session().auto.cancel()
        self.refresh()

    def _do(self, *words: str) -> None:
        self._desk.show(*words)
        self.refresh()
