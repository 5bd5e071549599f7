"""LiveTable: one experiment in the browser, small, below the cell that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbckpt.commands import Session
from nbckpt.notebook.runner import CommandRunner
from nbckpt.notebook.widget.channel import Channel
from nbckpt.notebook.widget.mounted import Mounted
from nbckpt.notebook.widget.place import Place
from nbckpt.notebook.widget.trials import TrialsWire
from nbckpt.trials.engine.experiment import Experiment


class LiveTable:  # see docs/decisions/0107
    """The live table of one experiment, as one widget. Any thread may make it and use it.

    It is the panel with one pane: the same messages, at the same pace, and every button runs a command.

    Args:
        experiment: The experiment, which belongs to the notebook's store.
        place: Where it is mounted; it is shown already.
        open_session: Returns the session for commands.
        is_busy: Tells whether a cell runs in another thread than the caller.
        is_running: Tells whether a cell runs in any thread.
        after: Called after each deed.
    """

    def __init__(
        self,
        experiment: Experiment,
        place: Place,
        open_session: Callable[[], Session],
        is_busy: Callable[[], bool],
        is_running: Callable[[], bool],
        after: Callable[[], object],
    ) -> None:
        runner = CommandRunner(open_session, is_busy)
        self.channel = Channel(
            runner, self._send, {"trials": TrialsWire(runner, only=experiment)}, is_running, after
        )
        self.widget = Mounted(self._heard, place.name, form="live", pane="trials")

    def is_watched(self) -> bool:
        """Tell whether a browser shows it now. Otherwise its static copy is what people see."""
        return self.channel.is_watched()

    def close(self) -> None:
        """Close it in the browser, where its static copy is shown again. Closing again is allowed."""
        self.channel.close()
        self.widget.close()

    def _heard(self, content: Any, buffers: Sequence[memoryview]) -> None:
        self.channel.hear(content, buffers)

    def _send(self, message: dict[str, Any], buffers: Sequence[bytes]) -> None:
        self.widget.send(message, list(buffers))
