"""Choice of the panel and the live table: one widget if the libraries for it are there, else simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from nbckpt.commands import Session
from nbckpt.settings import panel_kind

if TYPE_CHECKING:
    from nbckpt.notebook.widget.live_table import LiveTable
    from nbckpt.notebook.widget.place import Place
    from nbckpt.trials.engine.experiment import Experiment

_LEAST_IPYWIDGETS = 8


class ShownPanel(Protocol):
    """A panel of one shell. Any thread may use it."""

    def show(self) -> None:
        """Show the panel below the running cell."""

    def refresh(self) -> None:
        """Show what a command has changed."""

    def look_again(self) -> None:
        """Show what a cell has changed."""

    def close(self) -> None:
        """Close the panel. Its static copy stays, in its last state."""


def make_panel(
    open_session: Callable[[], Session],
    is_busy: Callable[[], bool],
    is_running: Callable[[], bool],
    tab: str,
    former: ShownPanel | None = None,
) -> ShownPanel:
    """Return the panel that works here; see docs/decisions/0100.

    Args:
        open_session: Returns the session for commands.
        is_busy: Tells whether a cell runs in another thread than the caller.
        is_running: Tells whether a cell runs in any thread.
        tab: The tab in front; empty for the usual one.
        former: The panel before, whose choices are taken over.

    Raises:
        UsageError: There is no such tab.
        ImportError: ipywidgets is not installed.
    """
    if panel_kind() != "core" and has_anywidget():
        from nbckpt.notebook.widget.panel import WidgetPanel

        former = former if isinstance(former, WidgetPanel) else None
        return WidgetPanel(open_session, is_busy, tab, is_running, former)
    from nbckpt.notebook.panels import Panel

    return Panel(open_session, is_busy, tab or "checkpoints")


def has_anywidget() -> bool:
    """Tell whether anywidget is installed, with a version of ipywidgets that the panel works with."""
    try:
        import anywidget  # noqa: F401
        import ipywidgets
    except ImportError:
        return False
    return int(ipywidgets.__version__.partition(".")[0]) >= _LEAST_IPYWIDGETS


class LiveTables:
    """The live tables of one shell; see docs/decisions/0107.

    Args:
        open_session: Returns the session for commands.
        is_busy: Tells whether a cell runs in another thread than the caller.
        is_running: Tells whether a cell runs in any thread.
    """

    def __init__(
        self, open_session: Callable[[], Session], is_busy: Callable[[], bool], is_running: Callable[[], bool]
    ) -> None:
        self._open_session, self._is_busy, self._is_running = open_session, is_busy, is_running

    def place(self) -> Place | None:
        """Return a place for a live table; None if the libraries are missing. It imports none of them."""
        if panel_kind() == "core" or not (find_spec("anywidget") and find_spec("ipywidgets")):
            return None
        from nbckpt.notebook.widget.place import Place

        return Place(line="")

    def mount(self, experiment: Experiment, place: Place, after: Callable[[], object]) -> LiveTable | None:
        """Mount the live table of an experiment in a place. If that fails, its HTML is all that is shown.

        Args:
            experiment: The experiment. If it belongs to another store, commands cannot reach it: no table.
            place: The place, which is shown already.
            after: Called after each action of the user.
        """
        if not has_anywidget() or self._open_session().library.folder != experiment.folder.parent:
            return None
        from nbckpt.notebook.widget.live_table import LiveTable

        return LiveTable(experiment, place, self._open_session, self._is_busy, self._is_running, after)
