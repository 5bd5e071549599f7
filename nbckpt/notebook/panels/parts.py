"""Parts: the widgets that tabs consist of, and how to close them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import ipywidgets as widgets

from nbckpt.render import Rich, html_of

_HEIGHT = "28em"


class Region:
    """HTML in a box that scrolls, also with the keyboard.

    Args:
        label: The name of the region for screen readers.
        height: The maximum height of the box; longer contents scroll. Empty for no limit.
    """

    def __init__(self, label: str, height: str = _HEIGHT) -> None:
        self._label = label
        self._value = ""
        # The widget scrolls, not its contents: new contents would scroll back to the top.
        layout = widgets.Layout(width="auto", max_height=height or None, overflow="auto")
        self.widget = widgets.HTML(layout=layout).add_class("nbckpt-region")
        if self.widget.has_trait("tabbable"):  # since ipywidgets 8
            self.widget.tabbable = True

    @property
    def value(self) -> str:
        """The HTML that is shown."""
        return self._value

    @value.setter
    def value(self, value: str) -> None:
        if value == self._value:
            return
        self._value = value
        self.widget.value = value and f'<div role="region" aria-label="{escape(self._label)}">{value}</div>'


def line(*parts: widgets.Widget) -> widgets.HBox:
    """Return a row of widgets that wraps to further lines."""
    layout = widgets.Layout(flex_flow="row wrap", align_items="center", overflow="visible")
    return widgets.HBox(list(parts), layout=layout)


def wide(width: str) -> widgets.Layout:
    """Return a layout with this width."""
    return widgets.Layout(width=width)


SNUG = {"description_width": "initial"}
"""The style of an input that follows another one: its label is close to it."""


def sentence(text: str) -> str:
    """Return a sentence as HTML."""
    return f'<span style="margin:0 .6em 0 .2em;">{escape(text)}</span>'


def marked(result: Rich, is_chosen: Callable[[int, str], bool]) -> str:
    """Return the HTML of a result. Mark a row of its first table if `is_chosen(index, first cell)` holds."""
    page = result.page()
    if not page.tables:
        return html_of(result, page)
    first, *others = page.tables
    names = (str(getattr(row[0], "text", row[0])) for row in first.rows)
    chosen = frozenset(at for at, name in enumerate(names) if is_chosen(at, name))
    return html_of(result, replace(page, tables=(replace(first, marked=chosen), *others)))


def offer(choice: Any, options: Sequence[tuple[str, str]]) -> None:
    """Set the options of a choice. Keep the chosen values that are still among the options.

    Args:
        choice: A Dropdown, which falls back to the first option; or a SelectMultiple, which falls back to
            no option.
        options: Labels and values.
    """
    if tuple(options) == choice.options:
        return
    values, former = [value for _, value in options], choice.value
    choice.options = tuple(options)
    if isinstance(choice, widgets.SelectMultiple):
        choice.value = tuple(value for value in former if value in values)
    else:
        choice.value = former if former in values else next(iter(values), None)


def close(widget: widgets.Widget) -> None:
    """Close a widget and all its children. Otherwise they would stay in the front end and in memory."""
    parts = (getattr(widget, "layout", None), getattr(widget, "style", None))
    for child in (*getattr(widget, "children", ()), *parts):
        if isinstance(child, widgets.Widget):
            close(child)
    widget.close()
