"""Channel: takes the messages of the browser, answers them, and sends what changes in the pane in sight."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from itertools import chain
from typing import Any, ClassVar, Protocol

from nbckpt.core.packs.pools import starts
from nbckpt.errors import NbckptError
from nbckpt.notebook.widget.messages import Follow, Ping, Question, message_of
from nbckpt.notebook.widget.views import Views
from nbckpt.notebook.widget.wires import Commands, Message, plain

BUFFERS = "buffers"
"""The field of a message whose values are sent as bytes beside it."""
ON_TABS = ("sync",)
"""The panes that are followed beside the one in front: whether a sync has failed stands on its tab."""
PERIOD_S = 0.25
"""One message is pushed in this time at most."""

_SHARE = 4
"""After a look at the changes, wait at least this many times as long as the look took."""
_MOST_AT_ONCE = 8


class Wire(Protocol):
    """The data of one pane, and its actions. Any thread may use it."""

    OF: ClassVar[frozenset[str]]
    VERBS: ClassVar[frozenset[str]]
    NEEDS_VARIABLES: ClassVar[frozenset[str]]
    SLOW: ClassVar[frozenset[str]]
    """The verbs that are done in a thread, so that a message can cancel them."""

    def full(self) -> Iterable[Message]:
        """Return everything that the pane shows."""

    def changes(self) -> Iterable[Message]:
        """Return what changed since the last call; cheap if nothing did."""

    def renew(self) -> None:
        """Note that anything may have changed."""

    def tab(self) -> str:
        """Return what stands on the tab, such as a number; cheap, and asks no network. Empty if unknown."""

    def token(self) -> object:
        """Return a value that differs once the pane may show something else. It lists no store."""

    def is_alive(self) -> bool:
        """Tell whether the pane changes by itself now."""

    def detail(self, of: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
        """Return details of some rows.

        Raises:
            NbckptError: There is no such row.
        """

    def act(self, verb: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
        """Carry out an action; with `dry`, only tell what it would change.

        Raises:
            NbckptError: It failed.
        """


class Selective(Wire, Protocol):
    """A wire that shows one part of its data."""

    def choose(self, experiment: str, metric: str) -> None:
        """Show another experiment or metric from now on."""


class Copy(Protocol):
    """A copy of the pane in sight, for when the kernel is gone. Any thread may use it."""

    def is_alive(self) -> bool:
        """Tell whether it is renewed by itself now, also if no browser looks."""

    def tick(self, *, is_last: bool) -> None:
        """Renew it; seldom, unless this is the last call for now. An error must not leave this call."""

    def renew(self) -> None:
        """Renew it at once, if it would differ."""


class Channel:
    """The kernel's end of the panel. Any thread may use it.

    A thread pushes changes while a browser looks: one message in a quarter of a second at most. Where no
    thread can start, as in a browser, changes go out with the answers. Several views of the panel may be
    open, each with its own pane in sight. All of them hear all messages.

    Args:
        commands: Runs commands.
        send: Sends a message and its buffers to the browser.
        wires: The panes by their names.
        is_running: Tells whether a cell runs in any thread.
        after: Called after each deed.
        clock: Returns seconds.
        copy: The static copy, which the same thread renews.

    Attributes:
        front: The pane that came into sight last; empty if none did.
    """

    def __init__(
        self,
        commands: Commands,
        send: Callable[[Message, Sequence[bytes]], object],
        wires: Mapping[str, Wire],
        is_running: Callable[[], bool] = lambda: False,
        after: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        copy: Copy | None = None,
    ) -> None:
        self._copy = copy
        self._commands, self._send_it, self._wires = commands, send, wires
        self._is_running, self._after, self._clock = is_running, after, clock
        self._closed = threading.Event()
        self._lock = threading.RLock()
        self._ticker: threading.Thread | None = None
        self._changes: Iterator[Message] = iter(())
        self._views = Views(clock)
        self._whole: set[str] = set()
        self._said = ""
        self._tabs: Message = {}
        self._is_renewed = True
        self.front = ""
        # The context of the cell: without it, some kernels refuse messages of a thread.
        self._context = copy_context()

    def hear(self, content: object, buffers: Sequence[memoryview] = ()) -> None:
        """Answer one message of the browser. What cannot be read is refused."""
        del buffers
        message = message_of(content)
        if isinstance(message, (Ping, Follow)):
            self._views.hear(message.view, message.pane)
        if isinstance(message, Ping):
            self.send({"kind": "pong", "n": message.n, "time": time.time(), "busy": self._is_running()})
        elif isinstance(message, Follow):
            self._follow(message)
        elif isinstance(message, Question):
            self._reply(message)
        else:
            self.say("The panel sent a message that nbckpt cannot read.", "error")
        self.push()

    def send(self, message: Message) -> None:
        """Send a message, unless the channel is closed."""
        if not self._closed.is_set():
            buffers = message.get(BUFFERS, ())
            self._send_it({name: value for name, value in message.items() if name != BUFFERS}, buffers)

    def say(self, text: str, tone: str = "ok") -> None:
        """Show a sentence in the message line."""
        self.send({"kind": "said", "text": plain(text), "tone": tone, "undo": False})

    def renew(self) -> None:
        """Note that anything may have changed, for example by a command that was typed."""
        for wire in self._wires.values():
            wire.renew()
        self._is_renewed = True
        self.push()

    def push(self) -> None:
        """Push changes from now on, while a browser looks. This call waits for nothing."""
        if self._closed.is_set() or not self._is_needed():
            return
        with self._lock:
            if self._ticker is not None:
                return
            run = self._context.copy().run
            ticker = threading.Thread(target=run, args=(self._tick,), name="nbckpt-panel", daemon=True)
            if starts(ticker):
                self._ticker = ticker
                return
        for _ in range(_MOST_AT_ONCE):  # see docs/decisions/0039
            if not self.step():
                return

    def step(self) -> bool:
        """Push one message; tell whether there was one."""
        with self._lock:
            try:
                message = next(self._changes, None)
                if message is None:
                    news = chain.from_iterable(wire.changes() for wire in self._in_sight())
                    self._changes = chain(news, self._on_tabs())
                    message = next(self._changes, None)
            except Exception as error:  # noqa: BLE001  the message line shows it, and the next look may succeed
                self._changes, message = iter(()), self._trouble(error)
            if message is not None:
                self.send(message)
            return message is not None

    def _in_sight(self) -> Iterator[Wire]:
        """Yield the panes in sight, and those whose state stands on their tab."""
        panes = self._views.panes()
        names = dict.fromkeys((*panes, *ON_TABS)) if panes else ()
        yield from (self._wires[name] for name in names if name in self._wires)

    def _on_tabs(self) -> Iterator[Message]:
        """Yield what stands on the tabs, if that differs from what the browser knows."""
        if self._is_renewed:
            self._is_renewed = False
            tabs = {name: text for name, wire in self._wires.items() if (text := wire.tab())}
            if tabs != self._tabs:
                self._tabs = tabs
                yield {"kind": "tabs", **tabs}

    def close(self) -> None:
        """Send nothing from now on, and wait for the thread."""
        self._closed.set()
        if (ticker := self._ticker) is not None and ticker is not threading.current_thread():
            ticker.join()

    def _follow(self, message: Follow) -> None:
        """Send the pane that came into sight: all of it to a fresh view, otherwise what changed."""
        pane = message.pane or ""
        wire = self._wires.get(pane)
        if wire is None:
            return
        with self._lock:
            rest, self._changes = self._changes, iter(())
            self._send_each(lambda: rest)
            self.front, self._is_renewed = pane, True
            if (choose := getattr(wire, "choose", None)) is not None:
                choose(message.experiment, message.metric)
            if message.is_fresh or pane not in self._whole:
                self._tabs, self._said = {}, ""
                self._whole.discard(pane)
                if self._send_each(wire.full):
                    self._whole.add(pane)
            else:
                wire.renew()
                self._send_each(wire.changes)

    def _send_each(self, look: Callable[[], Iterable[Message]]) -> bool:
        """Send what a look finds; tell whether it succeeded. The message line shows an error."""
        try:
            for message in look():
                self.send(message)
        except Exception as error:  # noqa: BLE001  the message line shows it
            if (trouble := self._trouble(error)) is not None:
                self.send(trouble)
            return False
        return True

    def _reply(self, question: Question) -> None:
        """Answer a question; a slow one in a thread, if this thread hears the next messages meanwhile.

        The main thread runs cells. A deed stays in it, so that no cell changes variables at the same time.
        """
        wire = self._wire_for(question)
        is_slow = wire is not None and question.is_act and question.verb in wire.SLOW
        if is_slow and threading.current_thread() is not threading.main_thread():
            run = self._context.copy().run
            worker = threading.Thread(target=run, args=(self._reply_now, question), name="nbckpt-deed")
            if starts(worker):
                return
        self._reply_now(question)

    def _reply_now(self, question: Question) -> None:
        self.send(self._answer(question))

    def _answer(self, question: Question) -> Message:
        """Return the answer to a question; an error becomes a sentence."""
        head = {"kind": "answer" if question.is_act else "detail", "n": question.n}
        try:
            return head | self._answered(question)
        except NbckptError as error:
            said = plain(str(error))
        except Exception as error:  # noqa: BLE001  the answer says it
            said = plain(f"{type(error).__name__}: {error}")
        blank = {"undo": False, "html": "", "confirm": ""} if question.is_act else {"html": "", "data": {}}
        return head | {"ok": False, "text": said, **blank}

    def _answered(self, question: Question) -> Message:
        wire = self._wire_for(question)
        if wire is None:
            return {"ok": False, "text": "This panel cannot do that.", "html": "", "data": {}}
        if not question.is_act:
            return {"ok": True, "text": ""} | wire.detail(question.verb, question.ids, question.options)
        if question.verb in wire.NEEDS_VARIABLES and self._commands.is_busy():
            return {"ok": False, "busy": True, "text": "Waits for the running cell."}
        answer = wire.act(question.verb, question.ids, question.options)
        if not question.options.get("dry"):
            self.renew()
            self._after()
            if self._copy is not None:
                self._copy.renew()
        return answer

    def _wire_for(self, question: Question) -> Wire | None:
        """Return the wire that answers: the one in front, if several could."""
        front = [question.pane, self.front, *self._wires]
        wires = [self._wires[name] for name in front if name in self._wires]
        names = "VERBS" if question.is_act else "OF"
        return next((wire for wire in wires if question.verb in getattr(wire, names)), None)

    def _trouble(self, error: Exception) -> Message | None:
        """Return the sentence about an error in the background, once."""
        said = plain(str(error) if isinstance(error, NbckptError) else f"{type(error).__name__}: {error}")
        if said == self._said:
            return None
        self._said = said
        return {"kind": "said", "text": said, "tone": "error", "undo": False}

    def is_watched(self) -> bool:
        """Tell whether a view shows a pane, and was heard of in the last half minute."""
        return bool(self._views.panes())

    def _is_needed(self) -> bool:
        """Tell whether there is anything to push or to copy by itself."""
        return self.is_watched() or (self._copy is not None and self._copy.is_alive())

    def _tick(self) -> None:
        took, is_last = 0.0, False
        try:
            while not (is_last or self._closed.wait(max(PERIOD_S, _SHARE * took))):
                began = self._clock()
                is_last = not self._is_needed()
                if self.is_watched():
                    self.step()
                if self._copy is not None:
                    self._copy.tick(is_last=is_last)
                took = self._clock() - began
        finally:
            with self._lock:
                self._ticker = None
        self.push()  # a message that came meanwhile found this thread about to end
