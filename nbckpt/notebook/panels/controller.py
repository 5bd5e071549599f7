"""Controller: run the same commands that users type, and show their results in the panel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from typing import Any

import ipywidgets as widgets

from nbckpt.commands import Session
from nbckpt.errors import NbckptError
from nbckpt.notebook.panels.parts import Region, line, sentence, wide
from nbckpt.notebook.runner import CommandRunner
from nbckpt.notebook.static_copy import StaticOutput
from nbckpt.render import Result, html_of
from nbckpt.render.output import current_shell

PAGE = 100
"""The number of rows on one page of a table."""


class Controller(CommandRunner):
    """Run commands one at a time, and show a message about each. Any thread may use it.

    Args:
        open_session: Returns the session for the notebook's store.
        is_busy: Tells whether a cell runs in another thread than the caller.
        then: Called after each press of a button and each choice: the panel may change by itself afterwards.

    Attributes:
        static_copy: The static copy of the tab in front, which lasts when the kernel is gone.
        message: The widget of the message.
        said: The text of the message.
        detail: The widget that shows the result of the last command.
        context: What sends to the front end runs in a copy of it. It is that of the newest action, at first
            of the cell: without it, some kernels refuse output of a thread. See also `heard`.
    """

    def __init__(
        self, open_session: Callable[[], Session], is_busy: Callable[[], bool], then: Callable[[], object]
    ) -> None:
        super().__init__(open_session, is_busy)
        self._then = then
        self.static_copy = StaticOutput()
        self.said = ""
        self.context = copy_context()
        self._inputs: list[widgets.Widget] = []
        self._way: object = None
        self._followed: tuple[str, ...] = ()
        self._questions: list[Confirmation] = []
        self._shown = Region("details", height="")
        self.message = widgets.HTML()
        self.detail = widgets.VBox([line(self.button("Hide details", self.hide)), self._shown.widget])
        self.hide()

    def button(self, text: str, then: Callable[[], object], hint: str = "") -> widgets.Button:
        """Return a button that calls *then* once no other action of the panel runs."""

        def pressed() -> None:
            self.say("")  # the former message belongs to another action
            then()

        made = widgets.Button(description=text, tooltip=hint or text, layout=wide("auto"))
        made.on_click(self._alone(pressed))
        self._inputs.append(made)
        return made

    def on_change(self, then: Callable[[], object], *inputs: widgets.Widget) -> None:
        """Call *then* at each change of a value in *inputs*, once no other action of the panel runs."""
        for widget in inputs:
            widget.observe(self._alone(then), "value")
            self._inputs.append(widget)

    def _alone(self, then: Callable[[], object]) -> Callable[[object], None]:
        def do(_: object) -> None:
            with self.turn:
                try:
                    self.heard()
                    then()
                    self._then()
                    self.static_copy.tick()
                except BaseException as error:
                    self._say_that(error)  # an exception raised here only reaches a log
                    raise

        return do

    def heard(self) -> None:
        """Let what the front end sends next come the way that the present message came.

        A kernel hears each widget in the thread that last heard it or sent to it (ipykernel 7.4). If a choice
        and a press come two ways, the press may overtake the choice. See docs/decisions/0173.
        """
        header = _header()
        if header.get("msg_type") != "comm_msg":
            return  # a value that the panel itself has set
        self.context = copy_context()
        way, self._way = self._way, header.get("subshell_id")
        if way != self._way:
            for widget in self._inputs:
                widget.send_state("disabled")

    @contextmanager
    def saying(self) -> Iterator[None]:
        """Show an exception of the block as a message and continue: the next attempt may succeed."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the message shows it
            self._say_that(error)

    def ask(self, *words: str) -> Result | None:
        """Run one command and return its result. On an error, show the error and return None."""
        try:
            return self.run(*words)
        except NbckptError as error:
            self.say(str(error), is_error=True)
            return None

    def show(self, *words: str, follow: bool = False) -> Result | None:
        """Run one command and show its result as the detail. With *follow*, each `refresh` repeats this."""
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
        """Run the followed command again and update the detail."""
        if self._followed and (result := self.ask(*self._followed)) is not None:
            self._shown.value = html_of(result)

    def question(self) -> Confirmation:
        """Return a widget for questions. Any other action withdraws an open question."""
        self._questions.append(Confirmation(self))
        return self._questions[-1]

    def ask_nothing(self) -> None:
        """Withdraw all open questions: they belong to another action."""
        for question in self._questions:
            question.dismiss()

    def hide(self) -> None:
        """Hide the detail."""
        self._followed = ()
        self._shown.value = ""
        self.detail.layout.display = "none"

    def _say_that(self, error: BaseException) -> None:
        kind = "" if isinstance(error, NbckptError) else type(error).__name__
        self.say(": ".join(filter(None, (kind, str(error)))), is_error=True)

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show a message of one line. The words alone carry the meaning, and screen readers read them."""
        self.said = text
        said = f"error: {text}" if is_error and text else text
        shown = f'<p role="status" style="margin:.3em 0;font-weight:600;">{escape(said)}</p>' if said else ""
        if shown != self.message.value:
            self.message.value = shown


def _header() -> Mapping[str, Any]:
    """Return the header of the message that the kernel handles now; empty if the kernel does not tell it."""
    kernel: Any = getattr(current_shell(), "kernel", None)
    parent = kernel.get_parent() if hasattr(kernel, "get_parent") else {}
    header: Mapping[str, Any] = parent.get("header", {})
    return header


class Confirmation:
    """A question and a second button, shown before an action runs.

    Args:
        controller: Makes the buttons.

    Attributes:
        widget: The widget to place; it is hidden while there is no question.
    """

    def __init__(self, controller: Controller) -> None:
        self._question = widgets.HTML()
        self._do: Callable[[], object] = lambda: None
        self._yes = controller.button("Yes", self._confirmed)
        self.widget = line(self._question, self._yes, controller.button("Cancel", self.dismiss))
        self.dismiss()

    def propose(self, question: str, yes: str, do: Callable[[], object]) -> None:
        """Ask a question, with a button *yes* that calls *do*."""
        self._question.value = sentence(question)
        self._yes.description, self._do = yes, do
        self.widget.layout.display = None

    def dismiss(self) -> None:
        """Withdraw the question."""
        self.widget.layout.display = "none"

    def _confirmed(self) -> None:
        self.dismiss()
        self._do()


class Pager:
    """Buttons for the pages of a long table; they are hidden if there is one page.

    Args:
        controller: Makes the buttons.
        then: Called to show another page.
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
        """The options of a command for the current page: the number of rows and the page."""
        page = ("--page", str(self._page)) if self._pages > 1 else ()
        return ("-n", str(PAGE), *page)

    def update(self, total: int) -> None:
        """Set the number of rows."""
        self._pages = max(1, -(-total // PAGE))
        self._page = min(self._page, self._pages)
        self._where.value = sentence(f"page {self._page} of {self._pages}")
        self.widget.layout.display = None if self._pages > 1 else "none"

    def rewind(self) -> bool:
        """Go to the first page with the next command; tell whether another page was shown."""
        was, self._page, self._pages = self._page, 1, 1
        return was > 1

    def _go(self, page: int) -> None:
        self._page = max(1, min(page, self._pages))
        self._then()
