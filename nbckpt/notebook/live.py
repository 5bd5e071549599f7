"""Live: results that follow an experiment. Each has one output in its cell, which is updated in place.

While an experiment runs, the same component as in the panel may be mounted below that output, which then is
hidden, and is its static copy. See docs/decisions/0107.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from IPython.core.formatters import IPythonDisplayFormatter
from IPython.core.interactiveshell import InteractiveShell

from nbckpt.render.output import Output, is_kernel

if TYPE_CHECKING:
    from nbckpt.notebook.widget.place import Place
    from nbckpt.render import Result
    from nbckpt.trials.engine.experiment import Experiment

_PERIOD_S = 0.25
_MOST_LIVE = 4
_EXPERIMENT = "nbckpt.trials.engine.experiment", "Experiment"
_TABLE = "nbckpt.trials.views.table", "TrialTable"

_log = logging.getLogger("nbckpt")


class Mounted(Protocol):
    """What is mounted below the output of an experiment. Any thread may use it."""

    def is_watched(self) -> bool:
        """Tell whether a browser shows it now."""

    def close(self) -> None:
        """Close it. Then the output above it is shown again."""


class Tables(Protocol):
    """The live tables of a shell."""

    def place(self) -> Place | None:
        """Return a place for a live table; None if there is none here."""

    def mount(self, experiment: Experiment, place: Place, after: Callable[[], object]) -> Mounted | None:
        """Mount a live table in its place. Call *after* after each action there. None if it cannot work."""


class View:
    """One output in one cell; the first `refresh` creates it.

    Args:
        result: What it shows.
        experiment: What it follows.
        place: Where the live table is mounted; None for an output alone.
        clock: Returns seconds.

    Attributes:
        version: The experiment's version that is shown; -1 before the first `refresh`.
        context: The context of the cell: without it, some kernels refuse output of a thread.
        cell: The id of the cell, which may be empty, and the number of its run.
        is_new: Whether the live table is still to be mounted.
        is_gone: Whether the cell was run again, so that the output is no longer on the page.
        mounted: The live table, which hides the output while a browser shows it; None if there is none.
    """

    def __init__(
        self,
        result: Result,
        experiment: Experiment,
        place: Place | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from nbckpt.notebook.static_copy import PERIOD_S
        from nbckpt.trials.model.view import internals  # an experiment is there, so trials are imported

        self._result = result
        self._hidden_period = PERIOD_S
        self._internals = internals(experiment)
        self._output = Output()
        self._clock = clock
        self._put_at = float("-inf")
        self._lock = threading.Lock()
        self.place = place
        self.version = -1
        self.context = copy_context()
        self.cell = "", 0
        self.is_new = place is not None
        self.is_gone = False
        self.mounted: Mounted | None = None

    def show(self) -> None:
        """Show the output below the running cell, and below it the place of the live table."""
        self.refresh()
        if self.place is not None:
            self.place.show()

    def tick(self) -> None:
        """Update the output; seldom, while the live table hides it."""
        is_hidden = self.mounted is not None and self.mounted.is_watched()
        if not is_hidden or self._clock() - self._put_at >= self._hidden_period:
            self.refresh()

    def refresh(self) -> None:
        """Update the output if the experiment changed. After the return the current version is shown."""
        with self._lock:
            shown, self.version = self.version, self._internals.version
            if shown != self.version:
                data: dict[str, Any] = dict(self._result._repr_mimebundle_())
                if self.place is not None:
                    data["text/html"] = self.place.copied(data["text/html"])
                self._output.put(data)
                self._put_at = self._clock()


class Live:
    """Show experiments in the cells of one shell, and follow those that run.

    One thread follows each experiment and ends with it. In a terminal an output cannot be updated in place:
    there a result is printed once, like any other result.

    Args:
        shell: The shell.
        tables: The live tables; by default none.

    Attributes:
        views: The outputs of each experiment that is followed, the oldest first.
        mounted: The outputs whose live table is open, the oldest first.
    """

    def __init__(self, shell: InteractiveShell, tables: Tables | None = None) -> None:
        self._shell = shell
        self._tables = tables
        self._shown: tuple[int, Result] | None = None
        self.views: dict[Experiment, list[View]] = {}
        self.mounted: list[View] = []
        self._is_over = False
        self._lock = threading.Lock()

    def register(self) -> None:
        """Make each experiment or trial table at the end of a cell live, regardless of how it was made."""
        if is_kernel(self._shell):
            formatter = self._formatter()
            # By name, so that nbckpt.trials is imported only when it is used.
            formatter.for_type_by_name(*_EXPERIMENT, lambda experiment: self.show(experiment, experiment))
            formatter.for_type_by_name(*_TABLE, lambda table: self.show(table, table.experiment))

    def unregister(self) -> None:
        """Show experiments and trial tables without updates again, and close the live tables."""
        for module, name in (_EXPERIMENT, _TABLE):
            self._formatter().pop(f"{module}.{name}", None)
        with self._lock:
            self._is_over = True
        self._close(self.mounted)

    def _formatter(self) -> IPythonDisplayFormatter:
        assert self._shell.display_formatter is not None
        formatter: IPythonDisplayFormatter = self._shell.display_formatter.ipython_display_formatter
        return formatter

    def show(self, result: Result, experiment: Experiment) -> None:
        """Show *result* below this cell, and update it at each change until the experiment ends.

        A second call in the same cell updates the output at once: tools that run a notebook without a
        window drop outputs that come after the cell.
        """
        if not is_kernel(self._shell):
            return
        here = self._shell.execution_count, result
        if here == self._shown:
            with self._lock:
                for view in self.views.get(experiment, ()):
                    view.refresh()
            return
        self._shown = here
        tables = self._tables if result is experiment and experiment.running else None
        view = View(result, experiment, None if tables is None else tables.place())
        view.cell = self._cell()
        self._leave(view.cell)
        self.start(experiment, view)
        view.show()  # last: after an interrupt at this output, the thread already follows it

    def _leave(self, cell: tuple[str, int]) -> None:
        """Close the live tables of former runs of a cell, and mount no more of them."""
        with self._lock:
            followed = [view for views in self.views.values() for view in views]
        gone = [view for view in (*followed, *self.mounted) if _is_again(view.cell, cell)]
        for view in gone:
            view.is_gone = True
        self._close(gone)

    def _cell(self) -> tuple[str, int]:
        """Return the id of the running cell, empty if the front end tells none, and the run's number."""
        parent = self._shell.get_parent() if hasattr(self._shell, "get_parent") else None
        return str((parent or {}).get("metadata", {}).get("cellId", "")), self._shell.execution_count

    def start(self, experiment: Experiment, view: View) -> None:
        """Update a view until its experiment ends. If it has ended already, update the view once."""
        with self._lock:
            views = self.views.get(experiment)
            is_over = views is None and not experiment.running
            if views is not None:
                views.extend([view] if view not in views else [])
            elif not is_over:
                self.views[experiment] = [view]
                work, arguments = view.context.copy().run, (self.follow, experiment)
                threading.Thread(target=work, args=arguments, name="nbckpt-live", daemon=True).start()
        if is_over:
            view.refresh()

    def follow(self, experiment: Experiment) -> None:
        """Update the views of an experiment until it ends."""
        views = self.views[experiment]
        while True:
            ended = experiment.wait(_PERIOD_S)
            # A cell that runs again loses its former output without notice. So update only the newest views.
            for view in views[-_MOST_LIVE:]:
                if view.is_new and not (ended or view.is_gone):
                    self._mount_in(view, experiment)
                view.tick()
            with self._lock:
                if ended and not experiment.running:
                    for view in self.views.pop(experiment):
                        view.refresh()
                    return

    def _mount_in(self, view: View, experiment: Experiment) -> None:
        """Mount the live table of a view, and close the oldest one if there are too many."""
        assert self._tables is not None
        assert view.place is not None
        view.is_new = False
        try:
            again = partial(self.start, experiment, view)
            view.mounted = self._tables.mount(experiment, view.place, again)
        except Exception as error:  # noqa: BLE001  the output is shown and followed without the table
            _log.warning("the live table of %s cannot be shown", experiment.name, exc_info=error)
        with self._lock:
            self.mounted += [view] if view.mounted is not None else []
            closed = self.mounted if self._is_over else self.mounted[:-_MOST_LIVE]
            closed = [*closed, *([view] if view.is_gone else [])]
        self._close(closed)

    def _close(self, views: Sequence[View]) -> None:
        """Close live tables. Their static copies are shown again."""
        with self._lock:
            closed = [view for view in views if view in self.mounted]
            self.mounted = [view for view in self.mounted if view not in closed]
        for view in closed:
            if view.mounted is not None:
                view.mounted.close()
                view.mounted = None
                view.refresh()


def _is_again(former: tuple[str, int], now: tuple[str, int]) -> bool:
    """Tell whether two runs are of the same cell."""
    return bool(now[0]) and former[0] == now[0] and former[1] != now[1]
