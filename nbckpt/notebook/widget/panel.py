"""WidgetPanel: the panel as one widget, below a static copy of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbckpt.commands import Session
from nbckpt.errors import UsageError
from nbckpt.notebook.runner import CommandRunner
from nbckpt.notebook.widget.channel import Channel, Wire
from nbckpt.notebook.widget.checkpoints import CheckpointsWire
from nbckpt.notebook.widget.history import HistoryWire
from nbckpt.notebook.widget.mounted import Mounted
from nbckpt.notebook.widget.pane_copy import PaneCopy
from nbckpt.notebook.widget.place import Place
from nbckpt.notebook.widget.sync import SyncWire
from nbckpt.notebook.widget.trials import TrialsWire
from nbckpt.notebook.widget.wires import Commands, Message

PANES = ("checkpoints", "trials", "history", "sync")


class WidgetPanel:
    """The panel of one shell, as one widget. Any thread may use it.

    Args:
        open_session: Returns the session for commands.
        is_busy: Tells whether a cell runs in another thread than the caller.
        tab: The pane in front; empty for trials if there are some, else checkpoints.
        is_running: Tells whether a cell runs in any thread.
        former: The panel before. If it shows the same store, its choices are taken over.

    Raises:
        UsageError: There is no such pane.
    """

    def __init__(
        self,
        open_session: Callable[[], Session],
        is_busy: Callable[[], bool],
        tab: str = "",
        is_running: Callable[[], bool] = lambda: False,
        former: WidgetPanel | None = None,
    ) -> None:
        if tab and tab not in PANES:
            raise UsageError(f"there is no tab {tab!r}: there are {', '.join(PANES)}")
        self._runner = CommandRunner(open_session, is_busy)
        self._wires = wires_of(self._runner, self._chosen)
        self._tab = tab or ("trials" if self._wires["trials"].tab() else "checkpoints")
        self._place = Place()
        choices = former.widget.choices() if former and former.store_url() == self.store_url() else {}
        self.widget: Mounted = Mounted(self._heard, self._place.name, pane=self._tab, **choices)
        self._copy = PaneCopy(self._runner, self._wires, self._front, self._place.copied)
        self.channel = Channel(self._runner, self._send, self._wires, is_running, copy=self._copy)

    def store_url(self) -> str:
        """Return the URL of the store that the panel shows."""
        return self._runner.session().tracker.store.url

    def show(self) -> None:
        """Show the static copy below the running cell, and the place of the panel below it."""
        self._copy.create()
        self._place.show()
        self._runner.session().auto.began = self.channel.push

    def refresh(self) -> None:
        """Show what a command has changed."""
        self.channel.renew()
        self._copy.renew()

    def look_again(self) -> None:
        """Show what a cell has changed. A store over a network is not listed for that."""
        if self._copy.is_cheap():
            self.refresh()

    def close(self) -> None:
        """Close the panel in the browser, where its static copy is shown again, in its last state."""
        auto = self._runner.session().auto
        if auto.began == self.channel.push:  # otherwise another panel is registered
            auto.began = lambda: None
        self.channel.close()
        self._copy.renew()
        self.widget.close()

    def _front(self) -> str:
        """Return the pane that is in sight, or was last."""
        return self.channel.front or self._tab

    def _chosen(self) -> Sequence[str]:
        """Return the trials that are selected in the browser."""
        ids = self.widget.chosen.get("trials", {})
        ids = ids.get("ids") if isinstance(ids, dict) else None
        return [name for name in ids if isinstance(name, str)] if isinstance(ids, list) else []

    def _heard(self, content: Any, buffers: Sequence[memoryview]) -> None:
        self.channel.hear(content, buffers)

    def _send(self, message: Message, buffers: Sequence[bytes]) -> None:
        self.widget.send(message, list(buffers))


def wires_of(commands: Commands, chosen: Callable[[], Sequence[str]]) -> dict[str, Wire]:
    """Return the panes by their names."""
    return {
        "trials": TrialsWire(commands, chosen),
        "checkpoints": CheckpointsWire(commands),
        "history": HistoryWire(commands),
        "sync": SyncWire(commands),
    }
