"""The commands of a shell, as the panel runs them, for tests of its wires."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbckpt.commands import TABLE, Session, parse
from nbckpt.commands.table import Bar
from nbckpt.render import Result

if TYPE_CHECKING:
    from notebook.conftest import Notebook


class Typed:
    """Runs commands in a notebook's shell.

    Attributes:
        ran: The words of each command.
        busy: Whether a cell is to seem to run.
    """

    def __init__(self, notebook: Notebook) -> None:
        self._magics = notebook.magics
        self.ran: list[str] = []
        self.busy = False

    def session(self) -> Session:
        """Return a session that belongs to no cell."""
        made: Session = self._magics.session()
        return replace(made, where={}, watch=None, insert=None, panel=None)

    def run(self, *words: str, progress: Bar | None = None) -> Result:
        """Run one command."""
        self.ran.append(" ".join(words))
        result = parse(TABLE, words, "%ckpt").run(replace(self.session(), progress=progress))
        assert result is not None
        return result

    def cell(self) -> dict[str, Any]:
        """Return the cell that ran last."""
        cell: dict[str, Any] = self._magics.session().where.get("cell", {})
        return cell

    def is_busy(self) -> bool:
        """Tell whether a cell is to seem to run."""
        return self.busy


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.time


def rows_of(messages: Any) -> list[dict[str, Any]]:
    """Return the rows of messages, together."""
    return [row for message in messages for row in message["rows"]]
