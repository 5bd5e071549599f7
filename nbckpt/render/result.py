"""What shows itself: anything with a page, and the results of commands, which read like theirs."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

from nbckpt.render.html import html
from nbckpt.render.page import Page
from nbckpt.render.text import text


class Rich:
    """What shows its `repr` where there is only text, and its page as HTML.

    The HTML is made by the template `_page.html.j2`; or by one of the user's own, in the folder that
    `NBCKPT_TEMPLATES` names: `trial_shown.html.j2` for the class `TrialShown` and those derived from it.
    """

    def page(self) -> Page:
        """Return what there is to show."""
        raise NotImplementedError(f"{type(self).__name__} must define page()")  # no ABC: users subclass

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the text and the HTML; a front end shows the best that it can."""
        del include, exclude
        return {"text/plain": repr(self), "text/html": html_of(self)}


class Result(Rich, ABC):
    """What a command returns: data, that reads like its page."""

    @abstractmethod
    def page(self) -> Page:
        """Return what there is to show."""

    @property
    def exit_status(self) -> int:
        """With which status a shell's command ends that returns it."""
        return 0

    @property
    def warns(self) -> bool:
        """Whether something is not as it was asked for, which a notebook shows in any case."""
        return False

    def __str__(self) -> str:
        return text(self.page())

    __repr__ = __str__


def html_of(shown: Rich, page: Page | None = None) -> str:
    """Return the HTML of what shows itself; with *page* instead of its own."""
    return html(_templates(type(shown)), shown, page or shown.page())


def _templates(kind: type) -> list[str]:
    """Return the names of the templates for a class, the narrowest first."""
    names = [it.__name__ for it in kind.__mro__ if issubclass(it, Rich)]
    return [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", it).lower() + ".html.j2" for it in names] + ["_page.html.j2"]
