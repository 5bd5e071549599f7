"""Controller: how a panel asks for something, by the commands that people type, and shows what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape

import ipywidgets as widgets

from nbckpt.commands import TABLE, HelpRequest, Session, parse
from nbckpt.commands.about import Help
from nbckpt.errors import NbckptError
from nbckpt.notebook.panel.parts import Region, line, sentence, wide
from nbckpt.notebook.static_copy import Outlet
from nbckpt.render import Result, html_of

PAGE = 100
"""How many rows a table shows at once."""

# A cell that runs may be changing the same variables at this moment, in another thread.
_ON_VARIABLES = frozenset({"save", "restore", "undo", "diff"})


class Controller:
    """Runs commands one at a time, and has a line that says how they went. Any thread may use it.

    Args:
        open_session: Returns what commands work on, of the notebook's own store.
        is_busy: Tells whether a cell runs in another thread than the caller's.
        then: Called after each press and choice: something may change by itself from there on.

    Attributes:
        standing: Where the tab in front puts what it shows, to be readable when the kernel is gone.
        turn: Held by whoever changes what is shown; one at a time does.
        message: The line.
        said: What is in it.
        detail: Where the answer to what was asked last is shown.
    """

    def __init__(
        self, open_session: Callable[[], Session], is_busy: Callable[[], bool], then: Callable[[], object]
    ) -> None:
        self._open_session = open_session
        self._is_busy = is_busy
        self._then = then
        self.standing = Outlet()
        self.turn = threading.RLock()
        self.said = ""
        self._followed: tuple[str, ...] = ()
        self._questions: list[Confirmation] = []
        self._shown = Region("details", height="")
        self.message = widgets.HTML()
        self.detail = widgets.VBox([line(self.button("Hide details", self.hide)), self._shown.widget])
        self.hide()

    def session(self) -> Session:
        """Return what commands work on; what they are given here comes from no cell and goes to none."""
        return replace(self._open_session(), where={}, watch=None, insert=None, panel=None)

    def button(self, text: str, then: Callable[[], object], hint: str = "") -> widgets.Button:
        """Return a button that does something, when nothing else is being done here."""

        def pressed() -> None:
            self.say("")  # what was said before was about something else
            then()

        made = widgets.Button(description=text, tooltip=hint or text, layout=wide("auto"))
        made.on_click(self._alone(pressed))
        return made

    def on_change(self, then: Callable[[], object], *inputs: widgets.Widget) -> None:
        """Do something whenever one of *inputs* has another value, when nothing else is being done here."""
        for it in inputs:
            it.observe(self._alone(then), "value")

    def _alone(self, then: Callable[[], object]) -> Callable[[object], None]:
        def do(_: object) -> None:
            with self.turn:
                try:
                    then()
                    self._then()
                    self.standing.tick()
                except BaseException as error:
                    self._say_that(error)  # what is raised here only gets into a log
                    raise

        return do

    @contextmanager
    def saying(self) -> Iterator[None]:
        """Say what goes wrong in the block, and go on after it: it may be well the next time."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  it is said
            self._say_that(error)

    def ask(self, *words: str) -> Result | None:
        """Run one command and return its result; its error is shown instead, and nothing returned."""
        if words[0] in _ON_VARIABLES and self._is_busy():
            self.say(f"a cell is running, so {words[0]} must wait: press again when it ended", is_error=True)
            return None
        with self.turn:
            try:  # whatever a button does is a command: see docs/decisions/0037
                return parse(TABLE, words, "%ckpt").run(self.session())
            except HelpRequest as request:
                return Help("%ckpt", usage=request.text)
            except NbckptError as error:
                self.say(str(error), is_error=True)
                return None

    def show(self, *words: str, follow: bool = False) -> Result | None:
        """Run one command and show its result as the detail; with *follow* again whenever things changed."""
        self.ask_nothing()
        self.say(f"{words[0]} …")
        result = self.ask(*words)
        if result is not None:
            self.say("")
            self._followed = words if follow else ()
            self._shown.value = html_of(result)
            self.detail.layout.display = None
        return result

    def refresh(self) -> None:
        """Show again what is followed."""
        if self._followed and (result := self.ask(*self._followed)) is not None:
            self._shown.value = html_of(result)

    def question(self) -> Confirmation:
        """Return a place for questions, which are withdrawn when something else is asked for."""
        self._questions.append(Confirmation(self))
        return self._questions[-1]

    def ask_nothing(self) -> None:
        """Withdraw whatever is to be confirmed: it was about something else."""
        for it in self._questions:
            it.dismiss()

    def hide(self) -> None:
        """Show no detail."""
        self._followed = ()
        self._shown.value = ""
        self.detail.layout.display = "none"

    def _say_that(self, error: BaseException) -> None:
        kind = "" if isinstance(error, NbckptError) else type(error).__name__
        self.say(": ".join(filter(None, (kind, str(error)))), is_error=True)

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show one line, in words that colour only supports; screen readers say it."""
        self.said = text
        said = f"error: {text}" if is_error and text else text
        shown = f'<p role="status" style="margin:.3em 0;font-weight:600;">{escape(said)}</p>' if said else ""
        if shown != self.message.value:
            self.message.value = shown


class Confirmation:
    """A step between a button and what it does: a question, and a second button.

    Args:
        controller: Makes the buttons.

    Attributes:
        widget: What to place; it is empty until something is to be confirmed.
    """

    def __init__(self, controller: Controller) -> None:
        self._question = widgets.HTML()
        self._do: Callable[[], object] = lambda: None
        self._yes = controller.button("Yes", self._confirmed)
        self.widget = line(self._question, self._yes, controller.button("Cancel", self.dismiss))
        self.dismiss()

    def propose(self, question: str, yes: str, do: Callable[[], object]) -> None:
        """Ask a question, with a button that does it."""
        self._question.value = sentence(question)
        self._yes.description, self._do = yes, do
        self.widget.layout.display = None

    def dismiss(self) -> None:
        """Propose nothing any more."""
        self.widget.layout.display = "none"

    def _confirmed(self) -> None:
        self.dismiss()
        self._do()


class Pager:
    """Goes through the pages of a long table; there is nothing to see of it where one page is enough.

    Args:
        controller: Makes the buttons.
        then: Called when another page is to be shown.
    """

    def __init__(self, controller: Controller, then: Callable[[], object]) -> None:
        self._then = then
        self._page, self._pages = 1, 1
        self._where = widgets.HTML()
        previous = controller.button("Previous", lambda: self._go(self._page - 1))
        following = controller.button("Next", lambda: self._go(self._page + 1))
        self.widget = line(previous, self._where, following)
        self.update(0)

    @property
    def words(self) -> tuple[str, ...]:
        """What a command is told: how many rows, and from which page on."""
        page = ("--page", str(self._page)) if self._pages > 1 else ()
        return ("-n", str(PAGE), *page)

    def update(self, total: int) -> None:
        """Take in how many rows there are."""
        self._pages = max(1, -(-total // PAGE))
        self._page = min(self._page, self._pages)
        self._where.value = sentence(f"page {self._page} of {self._pages}")
        self.widget.layout.display = None if self._pages > 1 else "none"

    def rewind(self) -> bool:
        """Go to the first page with the next command; tell whether it was another one."""
        was, self._page, self._pages = self._page, 1, 1
        return was > 1

    def _go(self, page: int) -> None:
        self._page = max(1, min(page, self._pages))
        self._then()
