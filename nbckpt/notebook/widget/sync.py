"""SyncWire: whether the store is safe elsewhere, and the deeds that make it so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from nbckpt.commands import Session
from nbckpt.core.history import History
from nbckpt.core.manifest import now
from nbckpt.errors import UsageError
from nbckpt.mirror import PERIOD_S, AutoStatus
from nbckpt.mirror.pending import Waiting
from nbckpt.notebook.widget.wires import (
    Commands,
    Message,
    Pace,
    answer,
    cut,
    plain,
    plain_html,
    said,
    text_of,
)
from nbckpt.render import count
from nbckpt.store import is_far, open_store

PERIODS = {"never": 0.0, "minute": 60.0, "five": PERIOD_S, "half": 1800.0}
"""How often to push by time: the words of the browser, and seconds."""


class SyncWire:
    """The pane of the sync. Any thread may use it.

    Args:
        commands: Runs commands.
        pace: Tells when to count the store's checkpoints again.
    """

    OF: ClassVar = frozenset({"settings"})
    VERBS: ClassVar = frozenset({"sync", "sync_set", "sync_off", "sync_cancel", "pull"})
    NEEDS_VARIABLES: ClassVar = frozenset[str]()
    SLOW: ClassVar = frozenset[str]()

    def __init__(self, commands: Commands, pace: Pace | None = None) -> None:
        self._commands = commands
        self._pace = pace or Pace()
        self._lock = threading.RLock()
        self._sent: Message = {}
        self._counted: tuple[int, int] = (0, 0)
        self._waiting = Waiting()
        self._failed = ("", "")
        self._there: tuple[str | None, int] = ("", 0)
        self._is_stale = True
        self._deeds: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
            "sync": self._now,
            "sync_set": self._set,
            "sync_off": self._off,
            "sync_cancel": self._cancel,
            "pull": self._pull,
        }

    def tab(self) -> str:
        """Return nothing: the browser makes the sign of the state."""
        return ""

    def token(self) -> object:
        """Return a value that differs once the state may differ."""
        with self._lock:
            return repr(self._state(self._commands.session(), anew=self._is_stale))

    def is_alive(self) -> bool:
        """Tell whether a push runs or is about to begin."""
        return self._commands.session().auto.is_busy

    def full(self) -> Iterator[Message]:
        """Yield the state of the sync."""
        with self._lock:
            self._sent = self._state(self._commands.session(), anew=True)
            yield self._sent

    def renew(self) -> None:
        """Note that the number of checkpoints may have changed."""
        self._is_stale = True

    def changes(self) -> list[Message]:
        """Return the state if it changed since the last call; else an empty list."""
        with self._lock:
            session = self._commands.session()
            state = self._state(session, anew=self._pace.is_due() or self._is_stale)
            if state == self._sent:
                return []
            self._sent = state
            return [state]

    def detail(self, of: str, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Return all settings, also those of experiments that upload their trials themselves."""
        del of, ids, options
        return {"html": plain_html(self._commands.run("sync", "--status")), "data": {}}

    def act(self, verb: str, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Do one thing, or with `dry` tell what it would do.

        Raises:
            NbckptError: It failed.
        """
        del ids
        try:
            return self._deeds[verb](options)
        finally:
            self.renew()

    def _state(self, session: Session, *, anew: bool) -> Message:
        """Return the state. With *anew*, the checkpoints here and those that wait are counted again."""
        if anew:
            self._count(session)
        status = session.auto.status
        message: Message = {"kind": "sync", "here": [*self._counted], "where": session.tracker.store.url}
        if status is None:
            return {**message, "state": "off"}
        failure = plain(status.failure)
        if failure != self._failed[0]:
            self._failed = failure, now() if failure else ""
        progress = status.progress
        return {
            **message,
            "state": self._word(session, failure),
            "url": cut(status.url, 500),
            "period": status.period,
            "after_saves": status.after_saves,
            "background": status.is_running,
            "pushed_at": status.pushed_at or "",
            "waiting": [self._waiting.checkpoints, self._waiting.trials],
            "waiting_size": self._waiting.size,
            "failure": failure,
            "failed_at": self._failed[1],
            "there": self._only_there(status),
            "progress": [progress.done, progress.size, progress.seconds_left] if progress else None,
        }

    def _word(self, session: Session, failure: str) -> str:
        """Return the word for the state of a sync that is on."""
        status = session.auto.status
        if session.auto.is_busy or (status is not None and status.progress is not None):
            return "sending"
        if failure:
            return "failed"
        if any(self._waiting) or status is None or status.pushed_at is None:
            return "waiting"
        return "there" if self._only_there(status) else "synced"

    def _only_there(self, status: AutoStatus) -> int:
        """Return how many checkpoints only the other place has, as the last push or a later look saw it."""
        pushed_at, number = self._there
        last = status.last.checkpoints.only_there if status.last else 0
        return number if pushed_at == status.pushed_at else last

    def _count(self, session: Session) -> None:
        """Count checkpoints and experiments, and what is not there yet. List a far store only if asked."""
        session.auto.follow()
        began, was_stale = self._pace.now(), self._is_stale
        self._is_stale = False
        self._waiting = session.auto.waiting()
        if was_stale or not is_far(session.tracker.store):
            signer = session.tracker.history.signer
            listed = History(session.tracker.store, lambda: signer).listed()
            self._counted = len(listed.entries()), len(session.library.names())
        self._pace.looked(began)

    def _now(self, options: Mapping[str, Any]) -> Message:
        """Push in the background, or at once where no thread can start."""
        del options
        session = self._commands.session()
        if session.auto.in_background:
            self._commands.run("sync", "--soon")
            return answer("Sending what is new.")
        return said(self._commands.run("sync", "--now"))

    def _set(self, options: Mapping[str, Any]) -> Message:
        """Turn the sync on, or change its place or how often it pushes."""
        url = text_of(options, "url", "a place: s3://bucket/folder, or a folder")
        period = options.get("period")
        seconds = PERIODS.get(period, PERIOD_S) if isinstance(period, str) else PERIOD_S
        saves = ["--no-saves"] if options.get("after_saves") is False else []
        self._commands.run("sync", url, "--period", f"{seconds:g}", *saves)
        self._there = "", 0
        status = self._commands.session().auto.status
        doing = "Sending" if status is None or status.by_itself else "Sync now sends"
        return answer(f"Sync is on. {doing} to {self._commands.session().auto.url}.")

    def _off(self, options: Mapping[str, Any]) -> Message:
        """Turn the sync off."""
        url = self._commands.session().auto.url
        if options.get("dry"):
            return answer(
                f"Turn sync off? Nothing in {url} is deleted, and nothing new is sent.", confirm="Turn off"
            )
        self._commands.run("sync", "off")
        return answer(f"Sync is off. Nothing in {url} was deleted.")

    def _cancel(self, options: Mapping[str, Any]) -> Message:
        """Cancel the push that runs."""
        del options
        self._commands.run("sync", "--cancel")
        return answer("Cancelled. It is tried again later.")

    def _pull(self, options: Mapping[str, Any]) -> Message:
        """Bring here what is there and not here. With `dry`, count it."""
        session = self._commands.session()
        if not session.auto.url:
            raise UsageError("this store is not synced. First write a place, and press Turn on")
        if options.get("dry"):
            number = self._lacking(session)
            self._look(session, number)
            if not number:
                text = f"All checkpoints of {session.auto.url} are here. Trials may have changed there."
                return answer(text, confirm="Bring changes of trials")
            text = f"{count(number, 'checkpoint')} there {'is' if number == 1 else 'are'} not here."
            return answer(text, confirm=f"Bring {number} here")
        result = self._commands.run("pull")
        self._look(session, 0)
        return said(result)

    def _look(self, session: Session, number: int) -> None:
        """Note how many checkpoints only the other place has, until the next push sees it."""
        self._there = session.auto.status.pushed_at if session.auto.status else "", number

    def _lacking(self, session: Session) -> int:
        """Return the number of checkpoints that the other place has and this store does not."""
        signer = session.tracker.history.signer
        there = History(open_store(session.auto.url), lambda: signer).listed()
        here = {entry.id for entry in session.tracker.history.entries()}
        return sum(entry.id not in here for entry in there.entries())
