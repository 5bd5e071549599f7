"""Panel: the tracker with buttons. It keeps nothing itself: what it shows and does are commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Protocol

import ipywidgets as widgets
from IPython.display import display

from nbckpt.commands import Session
from nbckpt.core.packs.pools import starts
from nbckpt.errors import UsageError
from nbckpt.notebook.panel.checkpoints import CheckpointsTab
from nbckpt.notebook.panel.controller import Controller
from nbckpt.notebook.panel.parts import close
from nbckpt.notebook.panel.sync import SyncTab
from nbckpt.notebook.panel.trials import TrialsTab

TABS = ("checkpoints", "trials", "sync")

_PERIOD_S = 0.25
# Labels of tabs that are not in front are too faint to read, by ipywidgets' own style.
_STYLE = (
    # A wide table is scrolled by the box that it is in, to which the keyboard leads.
    "<style>.nbckpt-panel .nbckpt { overflow-x: visible !important; }"
    ".nbckpt-panel .widget-tab .lm-TabBar .lm-TabBar-tab { color: var(--jp-ui-font-color1); }</style>"
)
_AGAIN = "for the buttons run this cell again, in a notebook"
_SHARE = 4
"""After showing what changed, wait at least so many times as long as that took."""


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
        """Show what changed, and let it stand above the panel."""


class Panel:
    """Three tabs over one store, kept up to date while something changes by itself.

    Above them stands what they show as HTML, which is readable when the kernel is gone. Any thread may
    use it; buttons may be pressed in whichever thread the kernel hears of them.

    Args:
        open_session: Returns what commands work on.
        is_busy: Tells whether a cell runs in another thread than the caller's.
        tab: Which tab is in front.

    Raises:
        UsageError: There is no such tab.
    """

    def __init__(
        self, open_session: Callable[[], Session], is_busy: Callable[[], bool], tab: str = TABS[0]
    ) -> None:
        if tab not in TABS:
            raise UsageError(f"there is no tab {tab!r}: there are {', '.join(TABS)}")
        self._closed = threading.Event()
        self._ticker: threading.Thread | None = None
        self._lock = threading.Lock()
        # That of the cell: without it, some kernels refuse what a thread shows.
        self._context = copy_context()
        self._controller = Controller(open_session, is_busy, self.follow)
        self._tabs: list[Tab] = [
            CheckpointsTab(self._controller),
            TrialsTab(self._controller),
            SyncTab(self._controller),
        ]
        self._front = widgets.Tab([it.widget for it in self._tabs], selected_index=TABS.index(tab))
        for at, tab_ in enumerate(self._tabs):
            self._front.set_title(at, tab_.title)
        style = widgets.HTML(_STYLE, layout=widgets.Layout(display="none"))
        self.widget = widgets.VBox([style, self._front, self._controller.message, self._controller.detail])
        self.widget.add_class("jp-RenderedHTMLCommon").add_class("nbckpt-panel")

    def show(self) -> None:
        """Show it below the cell that runs."""
        self.refresh()
        self._controller.standing.take_place()
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        display({"text/plain": _AGAIN, "application/vnd.jupyter.widget-view+json": view}, raw=True)
        self._controller.session().auto.began = self.follow
        self._front.observe(lambda _: self._turned(), "selected_index")

    def refresh(self) -> None:
        """Show what there is now in the tab that is in front, and go on while that changes by itself."""
        self._refresh()
        self._controller.standing.flush()
        self.follow()

    def _turned(self) -> None:
        """Show another tab: what was shown and asked belongs to the one before."""
        with self._controller.turn:
            self._controller.ask_nothing()
            self._controller.hide()
            self._controller.say("")
        self.refresh()

    def look_again(self) -> None:
        """Show what a cell may have begun that was not a command; what is far away is not asked for it."""
        if isinstance(self._tab, TrialsTab):
            self.refresh()

    def close(self) -> None:
        """Take the panel away, with all that it has in the front end; the HTML above it stays."""
        self._closed.set()
        auto = self._controller.session().auto
        if auto.began == self.follow:  # else another panel is told
            auto.began = lambda: None
        if self._ticker is not None and self._ticker is not threading.current_thread():
            self._ticker.join()
        self._controller.standing.flush()
        close(self.widget)

    def follow(self) -> None:
        """Follow what changes by itself, in a thread that ends with it. It never waits for a command."""
        is_alive = False
        with self._controller.saying():  # whoever calls this does not do it for the panel
            is_alive = self._tab.is_alive
        if not is_alive:
            return
        with self._lock:
            if self._closed.is_set() or self._ticker is not None:
                return
            ticker = threading.Thread(
                target=self._context.copy().run, args=(self._tick,), name="nbckpt-panel", daemon=True
            )
            if starts(ticker):
                self._ticker = ticker

    @property
    def _tab(self) -> Tab:
        return self._tabs[self._front.selected_index or 0]

    def _refresh(self) -> None:
        with self._controller.turn, self._controller.saying():
            if not self._closed.is_set():
                self._tab.refresh()
                self._controller.refresh()

    def _tick(self) -> None:
        took = 0.0
        is_alive = True
        try:
            while is_alive and not self._closed.wait(max(_PERIOD_S, _SHARE * took)):
                began = time.monotonic()
                with self._controller.saying():
                    is_alive = self._tab.is_alive
                self._refresh()
                self._controller.standing.tick()
                took = time.monotonic() - began
            self._controller.standing.flush()
        finally:
            with self._lock:
                self._ticker = None
        self.follow()  # what began meanwhile found a thread that was about to end
