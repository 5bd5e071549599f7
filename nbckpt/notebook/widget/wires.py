"""Wires: what the panes have in common. A wire makes the messages of one pane and does its deeds."""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from nbckpt.commands import Session
from nbckpt.commands.table import Bar
from nbckpt.errors import UsageError
from nbckpt.render import Page, Result, Rich, html_of
from nbckpt.store import is_far

Message = dict[str, Any]
"""One message to the browser: plain data for JSON."""

PAGE = 500
"""The number of rows in one message."""

_PERIOD_S = 1.0
_SHARE = 20
"""After a look at the store, wait at least this many times as long as the look took."""
_MOST_TEXT = 2000
_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_ADVICE = re.compile(r"[:,][^:,]*%ckpt.*", re.DOTALL)


class Commands(Protocol):
    """The commands of the notebook, as the panel runs them."""

    def session(self) -> Session:
        """Return a session that belongs to no cell."""

    def run(self, *words: str, progress: Bar | None = None) -> Result:
        """Run one command, alone.

        Args:
            words: The command, as it is typed.
            progress: Called with the progress.

        Raises:
            NbckptError: The command failed, or a cell that runs uses the same variables.
        """

    def is_busy(self) -> bool:
        """Tell whether a cell runs in another thread than the caller."""

    def cell(self) -> Mapping[str, Any]:
        """Return the number and the source of the cell that ran or began last."""


class Pace:
    """Tells when to look at the store again: at least a second after the last look, later if looks are slow.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0

    def is_due(self) -> bool:
        """Tell whether it is time."""
        return self._clock() >= self._next

    def looked(self, began: float) -> None:
        """Note a look that began at this time of the clock and has ended just now."""
        now = self._clock()
        self._next = now + max(_PERIOD_S, _SHARE * (now - began))

    def now(self) -> float:
        """Return the time of the clock."""
        return self._clock()


class StoreWire(ABC):
    """A pane that lists what is in the store. Any thread may use it.

    A store over a network is listed when the pane is opened and after `renew`, never by itself.

    Args:
        commands: Runs commands.
        pace: Tells when to look at the store again.
    """

    def __init__(self, commands: Commands, pace: Pace | None = None) -> None:
        self._commands = commands
        self._pace = pace or Pace()
        self._lock = threading.RLock()
        self._sent: dict[str, Message] = {}
        self._head: Message = {}
        self._seen: object = None
        self._counted: tuple[object, str] = (None, "")
        self._is_stale = False

    def renew(self) -> None:
        """Note that the list may have changed, for example by a command that was typed."""
        self._is_stale = True

    def full(self) -> Iterator[Message]:
        """Yield the whole list in pages, newest first."""
        with self._lock:
            session = self._commands.session()
            self._is_stale, self._seen = False, self._token(session)
            self._look(session)
            rows, head = [*self._sent.values()], self._head
        for first, page in pages(rows):
            yield {**head, "from": first, "rows": [*page], "gone": [], "reset": True}

    def changes(self) -> list[Message]:
        """Return what changed since the last call; an empty list if nothing did."""
        with self._lock:
            session = self._commands.session()
            if not (self._is_stale or (self._pace.is_due() and not is_far(session.tracker.store))):
                return []
            began = self._pace.now()
            was_stale, self._is_stale = self._is_stale, False
            token, former = self._token(session), self._seen
            self._seen = token
            news = self._differing(session) if was_stale or token != former else []
            self._pace.looked(began)
            return news

    def tab(self) -> str:
        """Return the number of rows; empty if counting them would ask a network or read many files."""
        session = self._commands.session()
        if is_far(session.tracker.store):
            return ""
        with self._lock:
            token = self._token(session)
            if token != self._counted[0]:
                self._counted = token, self._number(session)
            return self._counted[1]

    def token(self) -> object:
        """Return a value that differs once the list may have changed. It lists no store."""
        return self._token(self._commands.session())

    def is_alive(self) -> bool:
        """Tell whether the list changes by itself: it changes by commands and cells."""
        return False

    def _differing(self, session: Session) -> list[Message]:
        """Return the rows that differ from those that were sent, and the head if only that differs."""
        former, head = self._sent, self._head
        self._look(session)
        changed = [row for ref, row in self._sent.items() if former.get(ref) != row]
        gone = [ref for ref in former if ref not in self._sent]
        is_same = not changed and not gone and head == self._head
        return [] if is_same else [*self._news(changed, gone)]

    def _news(self, rows: Sequence[Message], gone: Sequence[str], **more: Any) -> Iterator[Message]:
        """Yield rows that changed, in pages, with the head."""
        for first, page in pages(rows):
            news = {"from": 0, "rows": [*page], "gone": [] if first else [*gone], "reset": False}
            yield {**self._head, **more, **news}

    @abstractmethod
    def _token(self, session: Session) -> object:
        """Return a value that differs once the list may have changed."""

    @abstractmethod
    def _number(self, session: Session) -> str:
        """Return the number of rows; empty if counting them is not cheap."""

    @abstractmethod
    def _look(self, session: Session) -> None:
        """Look at the store: put the rows, newest first, into `_sent`, and the heading into `_head`."""


def pages(rows: Sequence[Message], most: int = PAGE) -> Iterator[tuple[int, Sequence[Message]]]:
    """Yield the rows in pages, each with the index of its first row. Without rows, yield one empty page."""
    for first in range(0, max(1, len(rows)), most):
        yield first, rows[first : first + most]


def plain(text: str) -> str:
    """Return a message as sentences, without those that advise to type a command: the panel has buttons."""
    left = cut(_without_commands(text) or _ADVICE.sub("", text))
    return left[:1].upper() + left[1:]


def plain_notes(page: Page) -> list[str]:
    """Return the notes of a page, without sentences that advise to type a command."""
    return [note for note in map(_without_commands, page.notes) if note]


def plain_html(result: Rich) -> str:
    """Return the HTML of a result without what advises to type a command: the panel has buttons."""
    return html_of(result, _plain_page(result.page()))


def _plain_page(page: Page) -> Page:
    headline = plain(page.headline) if "%ckpt" in page.headline else page.headline
    beside = tuple(tuple(map(_plain_page, pages)) for pages in page.beside)
    return replace(page, headline=headline, notes=tuple(plain_notes(page)), hints=(), beside=beside)


def _without_commands(text: str) -> str:
    """Return the sentences of a text that name no command."""
    if "%ckpt" not in text:
        return text
    return " ".join(sentence for sentence in _SENTENCE.split(text) if "%ckpt" not in sentence)


def cut(text: object, most: int = _MOST_TEXT) -> str:
    """Return a text of at most this length: a manifest may come from a stranger."""
    said = str(text)
    return said if len(said) <= most else said[: most - 1] + "…"


def answer(text: str, *, undo: bool = False, html: str = "", confirm: str = "", **data: Any) -> Message:
    """Return the answer to a deed that succeeded, or to the question what it would do."""
    return {"ok": True, "text": cut(text), "undo": undo, "html": html, "confirm": confirm, "data": data}


def said(result: Result, *, undo: bool = False) -> Message:
    """Return the answer that shows a result: its headline, and the page if it has more to say."""
    page = result.page()
    more = plain_html(result) if result.warns or page.tables else ""
    notes = " ".join(plain_notes(page)) if result.warns else ""
    return answer(" ".join(filter(None, (plain(page.headline), notes))), undo=undo, html=more)


def text_of(options: Mapping[str, Any], name: str, noun: str) -> str:
    """Return the text that the browser sent under a name.

    Raises:
        UsageError: There is none, or it would be read as an option.
    """
    value = options.get(name)
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise UsageError(f"first write {noun}")
    if text.startswith("-"):
        raise UsageError(f"{text!r} begins with '-', so it cannot be {noun}")
    return text


def refs_of(ids: Sequence[object]) -> list[str]:
    """Return the references that the browser sent.

    Raises:
        UsageError: There is none, or one is not a reference.
    """
    refs = [ref for ref in ids if isinstance(ref, str) and ref and not ref.startswith("-")]
    if not refs or len(refs) < len(ids):
        raise UsageError("first choose a row")
    return refs


def names_of(options: Mapping[str, Any]) -> list[str]:
    """Return the names of variables that the browser sent."""
    names = options.get("names")
    return [str(name) for name in names if str(name)[:1] != "-"] if isinstance(names, list) else []


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as a part of a sentence: `a, b and c`, or the first ones and how many more there are."""
    shown = [cut(name, 60) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
