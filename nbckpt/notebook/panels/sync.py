"""The sync tab: the remote location of the store, and the state of its sync."""

from __future__ import annotations

import ipywidgets as widgets

from nbckpt.commands.syncing import SyncShown
from nbckpt.mirror import PERIOD_S
from nbckpt.notebook.panels.controller import Controller
from nbckpt.notebook.panels.parts import SNUG, Region, line, wide
from nbckpt.render import html_of


class SyncTab:
    """The tab for the sync of the store.

    Args:
        controller: Runs commands and shows results.
    """

    title = "Sync"

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._status = Region("sync")
        self._bar = widgets.FloatProgress(min=0, max=1, layout=wide("16em"))
        cancel = controller.button("Cancel", lambda: self._do("sync", "--cancel"), "It is tried again later")
        self._progress = line(self._bar, cancel)
        self.url = widgets.Text(
            description="location",
            placeholder="s3://bucket/folder, or a folder",
            continuous_update=False,
            layout=wide("28em"),
        )
        self._period = widgets.BoundedFloatText(
            description="every, s", min=1, max=86_400, value=PERIOD_S, style=SNUG, layout=wide("10em")
        )
        form = line(
            self.url, self._period, controller.button("Set", self._set, "Sync in the background from now on")
        )
        actions = line(
            controller.button("Sync now", lambda: self._do("sync", "--soon"), "Push in the background"),
            controller.button(
                "Off",
                lambda: self._do("sync", "off"),
                "Nothing at the location is deleted",
            ),
            controller.button("Pull", lambda: self._do("pull"), "Copy what is new there to this store"),
            controller.button("Refresh", self.refresh, "Update the status"),
        )
        self.widget = widgets.VBox([self._status.widget, self._progress, form, actions])

    @property
    def is_alive(self) -> bool:
        """Whether the tab changes by itself: a push runs or is about to begin."""
        return self._controller.session().auto.is_busy

    def refresh(self) -> None:
        """Show the current state of the sync."""
        result = self._controller.ask("sync", "--status")
        if not isinstance(result, SyncShown):
            return
        self._status.value = html_of(result)
        progress = result.status and result.status.progress
        self._progress.layout.display = None if progress else "none"
        if progress:
            self._bar.value = progress.done / progress.size if progress.size else 0.0
        self._controller.static_copy.put(result)

    def _set(self) -> None:
        if not self.url.value:
            self._controller.say("First write a location: s3://bucket/folder, or a folder.", is_error=True)
            return
        self._do("sync", self.url.value, "--period", str(self._period.value))

    def _do(self, *words: str) -> None:
        if self._controller.show(*words) is not None and words[0] == "sync":
            self._controller.hide()  # the tab itself shows the state
        self.refresh()
