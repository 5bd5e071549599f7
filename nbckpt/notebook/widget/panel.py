"""WidgetPanel: the panel as one widget, and its static copy, which lasts when the kernel is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbckpt.commands import Session
from nbckpt.errors import NbckptError, UsageError
from nbckpt.notebook.runner import CommandRunner
from nbckpt.notebook.static_copy import StaticOutput
from nbckpt.notebook.widget.channel import Channel, Wire
from nbckpt.notebook.widget.checkpoints import CheckpointsWire
from nbckpt.notebook.widget.experiments import best_of
from nbckpt.notebook.widget.history import HistoryWire
from nbckpt.notebook.widget.mounted import Mounted
from nbckpt.notebook.widget.place import Place
from nbckpt.notebook.widget.sync import SyncWire
from nbckpt.notebook.widget.trials import TrialsWire
from nbckpt.notebook.widget.wires import Commands, Message
from nbckpt.render import Page, Result
from nbckpt.store import is_far
from nbckpt.trials.views.table import TrialTable

PANES = ("checkpoints", "trials", "history", "sync")

_COPIED: Mapping[str, Sequence[str]] = {
    "trials": ("trials", "-n", "10"),
    "checkpoints": ("ls", "-n", "10"),
    "history": ("history", "-n", "10"),
    "sync": ("sync", "--status"),
}
"""The command whose result is the static copy of a pane."""


class WidgetPanel:
    """The panel of one shell, as one widget. Any thread may use it.

    Args:
        open_session: Returns the session for commands.
        is_busy: Tells whether a cell runs in another thread than the caller.
        tab: The pane in front; empty for trials if there are some, else checkpoints.
        is_running: Tells whether a cell runs in any thread.

    Raises:
        UsageError: There is no such pane.
    """

    def __init__(
        self,
        open_session: Callable[[], Session],
        is_busy: Callable[[], bool],
        tab: str = "",
        is_running: Callable[[], bool] = lambda: False,
    ) -> None:
        if tab and tab not in PANES:
            raise UsageError(f"there is no tab {tab!r}: there are {', '.join(PANES)}")
        self._runner = CommandRunner(open_session, is_busy)
        self._wires = wires_of(self._runner, self._chosen)
        self._tab = tab or ("trials" if self._wires["trials"].tab() else "checkpoints")
        self._place = Place()
        self.widget = Mounted(self._heard, self._place.name, pane=self._tab)
        self.channel = Channel(self._runner, self._send, self._wires, is_running, self._copy)
        self._static = StaticOutput(self._place.copied)
        self._copied: object = None

    def show(self) -> None:
        """Show the static copy below the running cell, and the place of the panel below it."""
        self._copy()
        self._static.create()
        self._place.show()
        self._runner.session().auto.began = self.channel.push

    def refresh(self) -> None:
        """Show what a command has changed."""
        self.channel.renew()
        self._copy()

    def look_again(self) -> None:
        """Show what a cell has changed. A store over a network is not listed for that."""
        if (self.channel.pane or self._tab) == "trials" or not is_far(self._runner.session().tracker.store):
            self.refresh()

    def close(self) -> None:
        """Close the panel in the browser, where its static copy is shown again, in its last state."""
        auto = self._runner.session().auto
        if auto.began == self.channel.push:  # otherwise another panel is registered
            auto.began = lambda: None
        self.channel.close()
        self._copy()
        self.widget.close()

    def _chosen(self) -> Sequence[str]:
        """Return the trials that are selected in the browser."""
        ids = self.widget.chosen.get("trials", {})
        ids = ids.get("ids") if isinstance(ids, dict) else None
        return [name for name in ids if isinstance(name, str)] if isinstance(ids, list) else []

    def _heard(self, content: Any, buffers: Sequence[memoryview]) -> None:
        self.channel.hear(content, buffers)

    def _send(self, message: Message, buffers: Sequence[bytes]) -> None:
        self.widget.send(message, list(buffers))

    def _copy(self) -> None:
        """Renew the static copy of the pane that is in sight, if that may show something else now."""
        pane = self.channel.pane or self._tab
        pane = pane if pane in _COPIED else self._tab
        try:
            token = pane, self._wires[pane].token()
            if token == self._copied or (pane == "trials" and not self._wires[pane].tab()):
                return
            result = self._runner.run(*_COPIED[pane])
        except NbckptError:
            return  # the former copy stays: there is no experiment yet, or the store cannot be read now
        self._copied = token
        self._static.put(WithBest(result) if isinstance(result, TrialTable) else result)
        self._static.flush()


@dataclass(frozen=True, repr=False)
class WithBest(Result):  # see docs/decisions/0113
    """A table of trials whose headline names the best trial.

    Attributes:
        table: The table.
    """

    table: TrialTable

    def page(self) -> Page:
        """See `Result.page`."""
        page = self.table.page()
        best = best_of(self.table.experiment)
        return replace(page, headline=f"{page.headline}. Best: {best}") if best else page


def wires_of(commands: Commands, chosen: Callable[[], Sequence[str]]) -> dict[str, Wire]:
    """Return the panes by their names."""
    return {
        "trials": TrialsWire(commands, chosen),
        "checkpoints": CheckpointsWire(commands),
        "history": HistoryWire(commands),
        "sync": SyncWire(commands),
    }
