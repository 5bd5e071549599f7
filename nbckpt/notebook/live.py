"""Live: results that follow an experiment. Each has one output in its cell, which is updated in place."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING

from IPython.core.formatters import IPythonDisplayFormatter
from IPython.core.interactiveshell import InteractiveShell

from nbckpt.render.output import Output, is_kernel

if TYPE_CHECKING:
    from nbckpt.render import Result
    from nbckpt.trials.engine.experiment import Experiment

_PERIOD_S = 0.25
_MOST_LIVE = 4
_EXPERIMENT = "nbckpt.trials.engine.experiment", "Experiment"
_TABLE = "nbckpt.trials.views.table", "TrialTable"


class View:
    """One output in one cell; the first `refresh` creates it.

    Attributes:
        version: The experiment's version that is shown; -1 before the first `refresh`.
    """

    def __init__(self, result: Result, experiment: Experiment) -> None:
        from nbckpt.trials.model.view import internals  # an experiment is there, so trials are imported

        self._result = result
        self._internals = internals(experiment)
        self._output = Output()
        self._lock = threading.Lock()
        self.version = -1

    def refresh(self) -> None:
        """Update the output if the experiment changed. After the return the current version is shown."""
        with self._lock:
            shown, self.version = self.version, self._internals.version
            if shown != self.version:
                self._output.put(self._result._repr_mimebundle_())


class Live:
    """Show experiments in the cells of one shell, and follow those that run.

    One thread follows each experiment and ends with it. In a terminal an output cannot be updated in place:
    there a result is printed once, like any other result.

    Args:
        shell: The shell.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._shown: tuple[int, Result] | None = None
        self._views: dict[Experiment, list[View]] = {}
        self._lock = threading.Lock()

    def register(self) -> None:
        """Make each experiment or trial table at the end of a cell live, regardless of how it was made."""
        if is_kernel(self._shell):
            formatter = self._formatter()
            # By name, so that nbckpt.trials is imported only when it is used.
            formatter.for_type_by_name(*_EXPERIMENT, lambda experiment: self.show(experiment, experiment))
            formatter.for_type_by_name(*_TABLE, lambda table: self.show(table, table.experiment))

    def unregister(self) -> None:
        """Show experiments and trial tables without updates again."""
        for module, name in (_EXPERIMENT, _TABLE):
            self._formatter().pop(f"{module}.{name}", None)

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
                # With the context of this cell: without it, some kernels refuse output of a thread.
                work, arguments = copy_context().run, (self._follow, experiment)
                threading.Thread(target=work, args=arguments, name="nbckpt-live", daemon=True).start()
        view.refresh()  # last: after an interrupt at this output, the thread already follows it

    def _follow(self, experiment: Experiment) -> None:
        """Update the views of an experiment until it ends."""
        views = self._views[experiment]
        while True:
            ended = experiment.wait(_PERIOD_S)
            # A cell that runs again loses its former output without notice. So update only the newest views.
            for view in views[-_MOST_LIVE:]:
                view.refresh()
            with self._lock:
                if ended and not experiment.running:
                    for view in self._views.pop(experiment):
                        view.refresh()
                    return
