"""Panel: the tracker with buttons. It keeps nothing itself: what it shows and does are commands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Protocol

import ipywidgets as widgets

from nbckpt.commands import Session
from nbckpt.errors import UsageError
from nbckpt.notebook.panel.checkpoints import CheckpointsTab
from nbckpt.notebook.panel.desk import Desk, close
from nbckpt.notebook.panel.sync import SyncTab
from nbckpt.notebook.panel.trials import TrialsTab

TABS = ("checkpoints", "trials", "sync")

_PERIOD_S = 0.25


class Tab(Protocol):
    """One tab.

    Attributes:
        title: What is written on it.
        widget: What is in it.
        is_alive: Whether it changes by itself.
    """

    title: str
    widget: widgets.Widget

    @property
    def is_alive(self) -> bool:
        """See the class."""

    def refresh(self) -> None:
        """Show what there is now."""


class Panel:
    """Three tabs over one store, kept up to date while something changes by itself.

    Args:
        open_session: Returns what commands work on.
        tab: Which tab is in front.

    Raises:
        UsageError: There is no such tab.
    """

    def __init__(self, open_session: Callable[[], Session], tab: str = TABS[0]) -> None:
        if tab not in TABS:
            raise UsageError(f"there is no tab {tab!r}: there are {', '.join(TABS)}")
        self._closed = threading.Event()
        self._ticker: threading.Thread | None = None
        self._lock = threading.Lock()
        self._desk = Desk(open_session, self._tick)
        self._tabs: list[Tab] = [CheckpointsTab(self._desk), TrialsTab(self._desk), SyncTab(self._desk)]
        self._front = widgets.Tab([it.widget for it in self._tabs], selected_index=TABS.index(tab))
        for at, tab_ in enumerate(self._tabs):
            self._front.set_title(at, tab_.title)
        self.widget = widgets.VBox([self._front, self._desk.message, self._desk.detail])
        self.widget.add_class("jp-RenderedHTMLCommon")
        self._front.observe(lambda _: self.refresh(), "selected_index")
        self.refresh()

    def refresh(self) -> None:
        """Show what there is now in the tab that is in front."""
        self._tabs[self._front.selected_index or 0].refresh()
        self._tick()

    def close(self) -> None:
        """Take the panel away, with all that it has in the front end."""
        self._closed.set()
        if self._ticker is not None and self._ticker is not threading.current_thread():
            self._ticker.join()
        close(self.widget)

    def _tick(self) -> None:
        """Follow what changes by itself, in a thread that ends with it."""
        with self._lock:
            if self._closed.is_set() or self._ticker is not None or not self._is_alive():
                return
            # With the context of the cell: without it, some kernels refuse what a thread shows.
            self._ticker = threading.Thread(
                target=copy_context().run, args=(self._follow,), name="nbckpt-panel", daemon=True
            )
            self._ticker.start()

    def _is_alive(self) -> bool:
        return self._tabs[self._front.selected_index or 0].is_alive

    def _follow(self) -> None:
        while not self._closed.wait(_PERIOD_S):
            is_alive = self._is_alive()
            self._tabs[self._front.selected_index or 0].refresh()
            if not is_alive:
                break
        with self._lock:
            self._ticker = None

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)
