"""CommandRunner: run the commands that users type, for a panel. Both panels use it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nbckpt.commands import TABLE, HelpRequest, Session, parse
from nbckpt.commands.about import Help
from nbckpt.commands.table import Bar
from nbckpt.errors import UsageError
from nbckpt.notebook.figures import let_figures_show
from nbckpt.render import Result

# Commands that use variables: a running cell may change the same variables in another thread.
ON_VARIABLES = frozenset({"save", "restore", "undo", "redo", "checkout", "diff"})


class CommandRunner:
    """Run commands one at a time, for a panel. Any thread may use it.

    Args:
        open_session: Returns the session for the notebook's store.
        is_busy: Tells whether a cell runs in another thread than the caller.

    Attributes:
        turn: The lock to hold while changing the panel; one thread at a time changes it.
    """

    def __init__(self, open_session: Callable[[], Session], is_busy: Callable[[], bool]) -> None:
        self._open_session = open_session
        self._is_busy = is_busy
        self.turn = threading.RLock()

    def session(self) -> Session:
        """Return the session for commands of the panel. It belongs to no cell and writes to no cell."""
        return replace(self._open_session(), where={}, watch=None, insert=None, panel=None)

    def is_busy(self) -> bool:
        """Tell whether a cell runs in another thread than the caller."""
        return self._is_busy()

    def cell(self) -> Mapping[str, Any]:
        """Return the number and the source of the cell that ran or began last."""
        cell: Mapping[str, Any] = self._open_session().where.get("cell", {})
        return cell

    def run(self, *words: str, progress: Bar | None = None) -> Result:
        """Run one command and return its result.

        Args:
            words: The command, as it is typed.
            progress: Called with the progress.

        Raises:
            NbckptError: The command failed, a running cell uses its variables, or only a cell can run it.
        """
        if words[0] in ON_VARIABLES and self._is_busy():
            text = f"A cell is running. Press again when it has ended: {words[0]} uses its variables."
            raise UsageError(text)
        with self.turn:
            session = self.session()
            try:  # every button runs a command: see docs/decisions/0100
                result = parse(TABLE, words, "%ckpt").run(
                    session if progress is None else replace(session, progress=progress)
                )
                let_figures_show()
            except HelpRequest as request:
                return Help("%ckpt", usage=request.text)
        if result is None:
            raise UsageError(f"{words[0]} works only in a cell")
        return result
