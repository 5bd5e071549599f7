"""Desk: how a panel asks for something, by the commands that people type, and shows what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from html import escape

import ipywidgets as widgets

from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import NbckptError
from nbckpt.render import Result


class Desk:
    """Runs commands one at a time, and has a line that says how they went.

    Args:
        open_session: Returns what commands work on, of the notebook's own store.
        then: Called after each command that is shown: something may change by itself from there on.

    Attributes:
        message: The line.
        detail: Where the answer to what was asked last is shown.
    """

    def __init__(self, open_session: Callable[[], Session], then: Callable[[], object]) -> None:
        self._open_session = open_session
        self._then = then
        self._lock = threading.RLock()
        self.message = widgets.HTML()
        self.detail = widgets.HTML()

    def session(self) -> Session:
        """Return what commands work on."""
        return self._open_session()

    def ask(self, *words: str) -> Result | None:
        """Run one command and return its result; its error is shown instead, and nothing returned."""
        with self._lock:
            try:
                result = parse(TABLE, words, "%ckpt").run(self.session())
            except NbckptError as error:
                self.say(str(error), is_error=True)
                return None
        return result

    def show(self, *words: str) -> Result | None:
        """Run one command and show its result as the detail."""
        result = self.ask(*words)
        if result is not None:
            self.say("")
            self.detail.value = html_of(result)
            self._then()
        return result

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show one line, in words that colour only supports."""
        said = f"error: {text}" if is_error and text else text
        self.message.value = f'<p style="margin:.2em 0;font-weight:600;">{escape(said)}</p>' if said else ""


def html_of(result: Result) -> str:
    """Return a result as the HTML that a cell would show."""
    return result._repr_mimebundle_()["text/html"]


def button(text: str, then: Callable[[], object], hint: str = "") -> widgets.Button:
    """Return a button that does something."""
    made = widgets.Button(description=text, tooltip=hint or text, layout=widgets.Layout(width="auto"))
    made.on_click(lambda _: then())
    return made


def line(*parts: widgets.Widget) -> widgets.HBox:
    """Return widgets side by side, in as many lines as it takes."""
    return widgets.HBox(list(parts), layout=widgets.Layout(flex_flow="row wrap", align_items="center"))


def close(widget: widgets.Widget) -> None:
    """Close a widget and all that are in it, or they would stay in the front end, and in memory here."""
    for child in (
        *getattr(widget, "children", ()),
        getattr(widget, "layout", None),
        getattr(widget, "style", None),
    ):
        if isinstance(child, widgets.Widget):
            close(child)
    widget.close()


def offer(choice: widgets.Dropdown, options: Sequence[tuple[str, str]]) -> None:
    """Offer what there is now, labels and values; what was chosen stays so, as long as it is there."""
    if tuple(options) == choice.options:
        return
    values, former = [value for _, value in options], choice.value
    choice.options = tuple(options)
    choice.value = former if former in values else next(iter(values), None)


class Confirmation:
    """A step between a button and what it does: a preview, and a second button.

    Args:
        desk: The desk.

    Attributes:
        widget: What to place; it is empty until something is to be confirmed.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.widget = line()

    def propose(self, text: str, preview: tuple[str, ...], do: Callable[[], object]) -> None:
        """Show what a command would do, and a button that does it."""
        if self._desk.show(*preview) is None:
            return

        def done() -> None:
            self.dismiss()
            do()

        yes, no = button(text, done), button("Cancel", self.dismiss)
        self._replace([yes, no])

    def dismiss(self) -> None:
        """Propose nothing any more."""
        self._replace([])

    def _replace(self, children: list[widgets.Widget]) -> None:
        former, self.widget.children = self.widget.children, tuple(children)
        for child in former:
            close(child)
