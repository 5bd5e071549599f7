"""Live: results that follow an experiment, each in one output of its cell, which is changed in place."""

from __future__ import annotations

import threading
import uuid
from contextvars import copy_context
from typing import TYPE_CHECKING

from IPython.core.formatters import IPythonDisplayFormatter
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import publish_display_data

from nbckpt.notebook.progress import is_kernel

if TYPE_CHECKING:
    from nbckpt.render import Result
    from nbckpt.trials.engine.experiment import Experiment

_PERIOD_S = 0.25
_MOST_LIVE = 4
_EXPERIMENT = "nbckpt.trials.engine.experiment", "Experiment"
_TABLE = "nbckpt.trials.views.table", "TrialTable"


class View:
    """One output, in one cell; there is none before the first `refresh`.

    Attributes:
        version: Of the experiment, when it was shown last; -1 before.
    """

    def __init__(self, result: Result, experiment: Experiment) -> None:
        self._result = result
        self._experiment = experiment
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self.version = -1

    def refresh(self) -> None:
        """Show what changed, if anything did; when it returns, it is shown."""
        with self._lock:
            shown, self.version = self.version, self._experiment.version
            if shown != self.version:
                self._put(update=shown >= 0)

    def _put(self, *, update: bool) -> None:
        data = self._result._repr_mimebundle_()
        publish_display_data(data, transient={"display_id": self._id}, update=update)


class Live:
    """Shows experiments in one shell's cells, and follows those that run.

    Each of them is followed by one thread, which ends with it. In a terminal an output cannot be changed
    in place: there a result is printed once, like every other.

    Args:
        shell: The shell.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._shown: tuple[int, Result] | None = None
        self._views: dict[Experiment, list[View]] = {}
        self._lock = threading.Lock()

    def register(self) -> None:
        """Let what ends a cell be live too, however it was made."""
        if is_kernel(self._shell):
            formatter = self._formatter()
            # By name, so that trials are not imported before there are any.
            formatter.for_type_by_name(*_EXPERIMENT, lambda experiment: self.show(experiment, experiment))
            formatter.for_type_by_name(*_TABLE, lambda table: self.show(table, table.experiment))

    def unregister(self) -> None:
        """Let them be shown as they are."""
        for module, name in (_EXPERIMENT, _TABLE):
            self._formatter().pop(f"{module}.{name}", None)

    def _formatter(self) -> IPythonDisplayFormatter:
        assert self._shell.display_formatter is not None
        formatter: IPythonDisplayFormatter = self._shell.display_formatter.ipython_display_formatter
        return formatter

    def show(self, result: Result, experiment: Experiment) -> None:
        """Show *result* below this cell, once, and again whenever the experiment changed, until it ends.

        Asked again in the same cell, it shows what changed at once: what runs a notebook without a
        window keeps nothing that comes after the cell.
        """
        if not is_kernel(self._shell):
            return
        here = self._shell.execution_count, result
        if here == self._shown:
            with self._lock:
                for view in self._views.get(experiment, ()):
                    view.refresh()
            return
        self._shown = here
        view = View(result, experiment)
        with self._lock:
            views = self._views.get(experiment)
            if views is not None:
                views.append(view)
            elif experiment.running:
                self._views[experiment] = [view]
                # With the context of this cell: without it, some kernels refuse what a thread shows.
                work, arguments = copy_context().run, (self._follow, experiment)
                threading.Thread(target=work, args=arguments, name="nbckpt-live", daemon=True).start()
        view.refresh()  # last: whoever interrupts the cell when they see it finds it followed

    def _follow(self, experiment: Experiment) -> None:
        """Keep the views of an experiment as it is, until it ends."""
        views = self._views[experiment]
        while True:
            ended = experiment.wait(_PERIOD_S)
            # Outputs of cells that ran again are gone, which nobody tells: only the newest are kept up.
            for view in views[-_MOST_LIVE:]:
                view.refresh()
            with self._lock:
                if ended and not experiment.running:
                    for view in self._views.pop(experiment):
                        view.refresh()
                    return
