"""CheckpointsWire: the list of checkpoints for the browser, first in full and then what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from nbckpt.commands import Session
from nbckpt.core.selection import Selection
from nbckpt.core.values.sizes import rough_size
from nbckpt.errors import UsageError
from nbckpt.notebook.widget import checkpoint_actions, checkpoint_details
from nbckpt.notebook.widget.checkpoint_rows import CheckpointRows, folder_times, history_of
from nbckpt.notebook.widget.wires import Commands, Message, Pace, StoreWire, answer


class CheckpointsWire(StoreWire):
    """The pane of checkpoints. Any thread may use it.

    Args:
        commands: Runs commands.
        pace: Tells when to look at the store again.
    """

    OF: ClassVar = frozenset({"checkpoint", "compare"})
    VERBS: ClassVar = frozenset({*checkpoint_actions.DEEDS, "save_cancel"})
    NEEDS_VARIABLES: ClassVar = frozenset({"save", "restore", "undo"})
    SLOW: ClassVar = frozenset({"save"})

    def __init__(self, commands: Commands, pace: Pace | None = None) -> None:
        super().__init__(commands, pace)
        self._rows = CheckpointRows()
        self._saving: Message | None = None
        self._is_cancelled = False

    def changes(self) -> list[Message]:
        """Return what changed since the last call; while a save runs, its progress."""
        saving = self._saving
        return super().changes() if saving is None else [*self._news([], [], saving=saving)]

    def detail(self, of: str, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Return the details of a checkpoint, or a comparison.

        Raises:
            NbckptError: There is no such checkpoint.
        """
        return checkpoint_details.DETAILS[of](self._commands, ids, options)

    def act(self, verb: str, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Do one thing, or with `dry` tell what it would do.

        Raises:
            NbckptError: It failed.
        """
        if verb == "save_cancel":
            return self._cancel()
        self._is_cancelled = False
        try:
            return checkpoint_actions.DEEDS[verb](self._commands, ids, options, self.note_progress)
        except KeyboardInterrupt:
            if not self._is_cancelled:
                raise
            raise UsageError("the save was cancelled, and nothing of it is kept") from None
        finally:
            self._saving = None
            self.renew()

    def note_progress(self, name: str, done: int, total: int) -> None:
        """Note the progress of a save. A cancelled one ends as if the user had interrupted it."""
        if self._is_cancelled:
            raise KeyboardInterrupt
        self._saving = {"name": name, "done": done, "total": total}

    def _cancel(self) -> Message:
        """Cancel the save that runs."""
        if self._saving is None:
            return answer("No save runs.")
        self._is_cancelled = True
        return answer("Cancelling…")

    def _token(self, session: Session) -> object:
        before = session.tracker.before  # folders tell of changes, without a listing
        return before and before.id, session.tracker.undoable, *folder_times(session.tracker.store.url)

    def _number(self, session: Session) -> str:
        return f"{len(history_of(session).entries()):,}"

    def _look(self, session: Session) -> None:
        rows = self._rows.all(session)
        self._sent, self._head = {row["ref"]: row for row in rows}, _about(session, rows)


def _about(session: Session, rows: Sequence[Message]) -> Message:
    """Return what the heading of the list says."""
    tracker = session.tracker
    own = [row for row in rows if not row["trial"]]
    return {
        "kind": "checkpoints",
        "total": len(own),
        "of_trials": len(rows) - len(own),
        "size": sum(row["adds"] for row in rows),
        "here": tracker.before.id if tracker.before is not None else "",
        "undo": tracker.undoable,
        "where": tracker.store.url,
        "live": {} if own else live(session),
        "saving": None,
    }


def live(session: Session) -> Message:
    """Return the number of the user's variables and about how large they are."""
    if session.namespace is None:
        return {}
    variables = Selection(hidden=session.hidden).of(session.namespace)
    return {"count": len(variables), "size": sum(map(rough_size, variables.values()))}
