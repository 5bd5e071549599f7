"""Rich and Result: objects with a page that display themselves, in the same style as results of commands."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

from nbckpt.render.html import html
from nbckpt.render.page import Page
from nbckpt.render.text import text


class Rich:
    """An object that shows its `repr` where only text is possible, and its page as HTML.

    The template `_page.html.j2` makes the HTML. The user's own templates, in the folder that
    `NBCKPT_TEMPLATES` names, come first: `trial_shown.html.j2` for the class `TrialShown` and its subclasses.
    """

    def page(self) -> Page:
        """Return the page to show."""
        # Not an ABC: users subclass it.
        raise NotImplementedError(f"{type(self).__name__} must define page()")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the text and the HTML. A front end shows the richest form that it supports."""
        del include, exclude
        return {"text/plain": repr(self), "text/html": html_of(self)}


class Result(Rich, ABC):
    """The return value of a command: data whose `str` and `repr` are its page as text."""

    @abstractmethod
    def page(self) -> Page:
        """Return the page to show."""

    @property
    def exit_status(self) -> int:
        """The exit status of a shell command that returns this result."""
        return 0

    @property
    def warns(self) -> bool:
        """Whether something was not done as requested. A notebook then always shows the result."""
        return False

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        page = self.page()
        return {"text/plain": text(page), "text/html": html_of(self, page)}

    def __str__(self) -> str:
        return text(self.page())

    __repr__ = __str__


def html_of(shown: Rich, page: Page | None = None) -> str:
    """Return the HTML of an object, or of *page* in its place."""
    return html(_templates(type(shown)), shown, page or shown.page())


def _templates(kind: type) -> list[str]:
    """Return the names of the templates for a class, the most specific first."""
    names = [base.__name__ for base in kind.__mro__ if issubclass(base, Rich)]
    return [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() + ".html.j2" for name in names] + [
        "_page.html.j2"
    ]
