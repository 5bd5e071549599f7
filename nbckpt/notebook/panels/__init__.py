"""Panel: the commands as buttons. The panel stores no data: it runs commands and shows their results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import ipywidgets as widgets
from IPython.display import display

from nbckpt.commands import Session
from nbckpt.core.packs.pools import starts
from nbckpt.errors import UsageError
from nbckpt.notebook.panels.checkpoints import CheckpointsTab
from nbckpt.notebook.panels.controller import Controller
from nbckpt.notebook.panels.parts import close
from nbckpt.notebook.panels.sync import SyncTab
from nbckpt.notebook.panels.trials import TrialsTab

TABS = ("checkpoints", "trials", "sync")

_PERIOD_S = 0.25
_AGAIN = "Run this cell again to show the controls."
_DEAD = "jupyter-widgets-disconnected"
# In ipywidgets' default style, labels of tabs in the background are too faint to read.
_STYLE = (
    # The region around a wide table scrolls, since the keyboard can focus the region.
    "<style>.nbckpt-panel .nbckpt { overflow-x: visible !important; }"
    # Text beside a wide table wraps at the region's width, not at the table's.
    ".nbckpt-region { container-type: inline-size; }"
    ".nbckpt-region .nbckpt > :is(p, ul) { max-width: 100cqw; box-sizing: border-box; }"
    ".nbckpt-panel .widget-tab .lm-TabBar .lm-TabBar-tab { color: var(--jp-ui-font-color1); }"
    # When the kernel is gone, JupyterLab puts a broken link before each widget: one line stands for all.
    f".nbckpt-panel.{_DEAD}::before {{ content: '{_AGAIN}'; padding: 0; font: inherit; color: inherit; }}"
    f".nbckpt-panel.{_DEAD} > * {{ display: none !important; }}</style>"
)
_TRIES = 20
"""How often an update that fails is tried when nothing changes any longer: the last one must be seen."""
_SHARE = 4
"""After an update, wait at least this many times as long as the update took."""


class Tab(Protocol):
    """One tab of the panel.

    Attributes:
        title: The label of the tab.
        widget: The contents of the tab.
        is_alive: Whether the contents change by themselves.
    """

    title: str
    widget: widgets.Widget

    @property
    def is_alive(self) -> bool:
        """See the class."""

    def refresh(self) -> None:
        """Show the changes in the tab and in the static copy above the panel."""


class Panel:
    """Three tabs for one store. The panel updates itself while data changes.

    A static copy above the tabs shows the same as HTML, which lasts when the kernel is gone. Any thread may
    use the panel: the kernel may deliver presses of buttons in any thread.

    Args:
        open_session: Returns the session for commands.
        is_busy: Tells whether a cell runs in another thread than the caller.
        tab: The tab in front.

    Raises:
        UsageError: There is no such tab.
    """

    def __init__(
        self, open_session: Callable[[], Session], is_busy: Callable[[], bool], tab: str = TABS[0]
    ) -> None:
        if tab not in TABS:
            raise UsageError(f"there is no tab {tab!r}: there are {', '.join(TABS)}")
        self.closed = threading.Event()
        self._ticker: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failures = 0
        self._is_behind = False
        """Whether the data may have changed since the tab last showed it."""
        self.controller = Controller(open_session, is_busy, self.follow)
        self.tabs: list[Tab] = [
            CheckpointsTab(self.controller),
            TrialsTab(self.controller),
            SyncTab(self.controller),
        ]
        self.front = widgets.Tab([part.widget for part in self.tabs], selected_index=TABS.index(tab))
        for at, tab_ in enumerate(self.tabs):
            self.front.set_title(at, tab_.title)
        style = widgets.HTML(_STYLE, layout=widgets.Layout(display="none"))
        self.widget = widgets.VBox([style, self.front, self.controller.message, self.controller.detail])
        self.widget.add_class("jp-RenderedHTMLCommon").add_class("nbckpt-panel")

    def show(self) -> None:
        """Show the panel below the running cell."""
        self.refresh()
        self.controller.static_copy.create()
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        display({"text/plain": _AGAIN, "application/vnd.jupyter.widget-view+json": view}, raw=True)
        self.controller.session().auto.began = self.follow
        self.front.observe(lambda _: self._turned(), "selected_index")

    def refresh(self) -> None:
        """Update the tab in front, and keep updating it while it changes by itself."""
        self._in_context(self._refresh)
        self._in_context(self.controller.static_copy.flush)
        self.follow()

    def _turned(self) -> None:
        """Show another tab. Hide details, questions and messages of the former tab."""
        with self.controller.turn:
            self.controller.heard()
            self.controller.ask_nothing()
            self.controller.hide()
            self.controller.say("")
        self.refresh()

    def look_again(self) -> None:
        """Update the trials tab after a cell, which may have started trials without a command.

        The other tabs are not updated: they may read a store over a network.
        """
        if isinstance(self.tab, TrialsTab):
            self.refresh()

    def close(self) -> None:
        """Close the panel and its widgets in the front end. The static copy above it stays."""
        self.closed.set()
        auto = self.controller.session().auto
        if auto.began == self.follow:  # otherwise another panel is registered
            auto.began = lambda: None
        if (ticker := self._ticker) is not None and ticker is not threading.current_thread():
            ticker.join()
        self.controller.static_copy.flush()
        close(self.widget)

    def follow(self) -> None:
        """Update the panel in a thread while data changes by itself. This call never waits for a command."""
        is_alive = self._is_behind and self._failures < _TRIES
        with self.controller.saying():  # an error must not reach a caller outside the panel
            is_alive = is_alive or self.tab.is_alive
        if not is_alive:
            return
        with self._lock:
            if self.closed.is_set() or self._ticker is not None:
                return
            ticker = threading.Thread(target=self.tick, name="nbckpt-panel", daemon=True)
            if starts(ticker):
                self._ticker = ticker

    @property
    def tab(self) -> Tab:
        """The tab in front."""
        return self.tabs[self.front.selected_index or 0]

    def _refresh(self) -> None:
        self._failures += 1  # until it has succeeded
        with self.controller.turn, self.controller.saying():
            if not self.closed.is_set():
                self._is_behind = True
                is_alive = self.tab.is_alive  # before it is shown: it may end meanwhile
                self.tab.refresh()
                self.controller.refresh()
                self._is_behind = is_alive
            self._failures = 0

    def tick(self) -> None:
        """Update the panel until its data no longer changes by itself."""
        took = 0.0
        is_alive = True
        try:
            while is_alive and not self.closed.wait(max(_PERIOD_S, _SHARE * took)):
                began = time.monotonic()
                self._in_context(self._refresh)
                is_alive = self._is_behind and self._failures < _TRIES
                self._in_context(self.controller.static_copy.tick)
                took = time.monotonic() - began
            self._in_context(self.controller.static_copy.flush)
        finally:
            with self._lock:
                self._ticker = None
        self._in_context(self.follow)  # changes that began meanwhile found this thread about to end

    def _in_context(self, work: Callable[[], object]) -> None:
        self.controller.context.copy().run(work)
