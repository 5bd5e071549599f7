"""CheckpointsWire: the list of checkpoints for the browser, first in full and then what changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from nbckpt.commands import Session
from nbckpt.core.selection import Selection
from nbckpt.core.values.members import rough_size
from nbckpt.notebook.widget import checkpoint_actions, checkpoint_details
from nbckpt.notebook.widget.checkpoint_rows import CheckpointRows, folder_times
from nbckpt.notebook.widget.wires import Commands, Message, Pace, pages
from nbckpt.store import is_far


class CheckpointsWire:
    """The pane of checkpoints. Any thread may use it.

    A store over a network is listed when the pane is opened and after `renew`, never by itself.

    Args:
        commands: Runs commands.
        pace: Tells when to look at the store again.
    """

    OF: ClassVar = frozenset({"checkpoint", "compare"})
    VERBS: ClassVar = frozenset(checkpoint_actions.DEEDS)
    NEEDS_VARIABLES: ClassVar = frozenset({"save", "restore", "undo"})

    def __init__(self, commands: Commands, pace: Pace | None = None) -> None:
        self._commands = commands
        self._pace = pace or Pace()
        self._lock = threading.RLock()
        self._rows = CheckpointRows()
        self._sent: dict[str, Message] = {}
        self._head: Message = {}
        self._seen: object = None
        self._is_stale = False
        self._saving: Message | None = None

    def full(self) -> Iterator[Message]:
        """Yield the whole list in pages, newest first."""
        with self._lock:
            session = self._commands.session()
            self._is_stale, self._seen = False, _token(session)
            rows = self._rows.all(session)
            self._sent, self._head = {row["ref"]: row for row in rows}, _about(session, rows)
            head = self._head
        for first, page in pages(rows):
            yield {**head, "from": first, "rows": [*page], "gone": [], "reset": True}

    def renew(self) -> None:
        """Note that the list may have changed, for example by a command that was typed."""
        self._is_stale = True

    def changes(self) -> list[Message]:
        """Return what changed since the last call; an empty list if nothing did."""
        saving = self._saving
        if saving is not None:
            return [*_news([], [], {**self._head, "saving": saving})]
        with self._lock:
            session = self._commands.session()
            if not (self._is_stale or (self._pace.is_due() and not is_far(session.tracker.store))):
                return []
            began = self._pace.now()
            was_stale, self._is_stale = self._is_stale, False
            token, former = _token(session), self._seen
            self._seen = token
            news = self._differing(session) if was_stale or token != former else []
            self._pace.looked(began)
            return news

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
        try:
            return checkpoint_actions.DEEDS[verb](self._commands, ids, options, self._show)
        finally:
            self._saving = None
            self.renew()

    def _show(self, name: str, done: int, total: int) -> None:
        """Note the progress of a save."""
        self._saving = {"name": name, "done": done, "total": total}

    def _differing(self, session: Session) -> list[Message]:
        """Return the rows that differ from those that were sent, and the head if only that differs."""
        rows = self._rows.all(session)
        head, present = _about(session, rows), {row["ref"]: row for row in rows}
        changed = [row for row in rows if self._sent.get(row["ref"]) != row]
        gone = [ref for ref in self._sent if ref not in present]
        is_same = not changed and not gone and head == self._head
        self._sent, self._head = present, head
        return [] if is_same else [*_news(changed, gone, head)]


def _news(rows: Sequence[Message], gone: Sequence[str], head: Message) -> Iterator[Message]:
    for first, page in pages(rows):
        yield {**head, "from": 0, "rows": [*page], "gone": [] if first else [*gone], "reset": False}


def _token(session: Session) -> object:
    """Return a value that differs once the list may have changed. Folders tell it, without a listing."""
    before = session.tracker.before
    return before and before.id, session.tracker.undoable, *folder_times(session.tracker.store.url)


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
