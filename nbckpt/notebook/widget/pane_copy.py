"""PaneCopy: the static copy of the pane that is in sight, which lasts when the kernel is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nbckpt.errors import NbckptError
from nbckpt.notebook.static_copy import StaticOutput
from nbckpt.notebook.widget.channel import Wire
from nbckpt.notebook.widget.experiments import best_of, view_of
from nbckpt.notebook.widget.wires import Commands
from nbckpt.render import Page, Result
from nbckpt.store import is_far
from nbckpt.trials.views.table import TrialTable

_COPIED: Mapping[str, Sequence[str]] = {
    "trials": ("trials", "-n", "10"),
    "checkpoints": ("ls", "-n", "10"),
    "history": ("history", "-n", "10"),
    "sync": ("sync", "--status"),
}
"""The command whose result is the static copy of a pane."""


class PaneCopy:
    """The static copy of the pane that is in sight. Any thread may use it.

    Args:
        commands: Runs commands.
        wires: The panes by their names.
        front: Returns the pane that is in sight, or was last.
        around: Puts HTML around that of the copy.
    """

    def __init__(
        self,
        commands: Commands,
        wires: Mapping[str, Wire],
        front: Callable[[], str],
        around: Callable[[str], str],
    ) -> None:
        self._commands, self._wires, self._front = commands, wires, front
        self._output = StaticOutput(around)
        self._copied: object = None
        self._lock = threading.Lock()

    def create(self) -> None:
        """Create the output in the running cell."""
        self.renew()
        self._output.create()

    def is_alive(self) -> bool:
        """Tell whether the pane changes by itself now, by trials that run or a push."""
        with suppress(Exception):  # the store cannot be read now, and a later look may succeed
            return self._wires[self._front()].is_alive()
        return False

    def tick(self, *, is_last: bool) -> None:
        """Renew the copy if the last update is two seconds ago or more, or if no other call follows."""
        with suppress(Exception):  # the former copy stays, and a later look may succeed
            if (is_last or self._output.is_due()) and self.is_cheap():
                self.renew()

    def is_cheap(self) -> bool:
        """Tell whether the pane can be looked at without listing a store over a network."""
        return self._front() == "trials" or not is_far(self._commands.session().tracker.store)

    def renew(self) -> None:
        """Renew the copy at once, if the pane may show something else now."""
        pane = self._front()
        with self._lock:
            try:
                token = pane, self._wires[pane].token()
                if token == self._copied or (pane == "trials" and not self._wires[pane].tab()):
                    return
                result = self._commands.run(*_COPIED[pane])
            except NbckptError:
                return  # the former copy stays: no experiment exists yet, or the store cannot be read now
            self._copied = token
            self._output.put(WithBest(result) if isinstance(result, TrialTable) else result)
            self._output.flush()


@dataclass(frozen=True, repr=False)
class WithBest(Result):  # see docs/decisions/0113
    """A table of trials whose headline names the best trial. If not all trials fit, the best come first.

    Attributes:
        table: The table.
    """

    table: TrialTable

    def page(self) -> Page:
        """See `Result.page`."""
        experiment = self.table.experiment
        if not (best := best_of(experiment)):
            return self.table.page()
        likely = view_of(experiment, (), "")
        metric, mode = ("", "") if experiment.spec.mode else (likely.metric, likely.mode)
        page = replace(self.table, metric=metric, mode=mode).page()
        return replace(page, headline=f"{page.headline}. Best: {best}")
