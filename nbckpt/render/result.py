"""Results: what commands return; each shows itself as text and as HTML."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

from nbckpt.render.html import html
from nbckpt.render.page import Page
from nbckpt.render.text import text


class Result(ABC):
    """What a command returns: data, that shows itself as text and as HTML."""

    @abstractmethod
    def page(self) -> Page:
        """Return what there is to show."""

    @classmethod
    def template(cls) -> str:
        """Return the file name of the class's template."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower() + ".html.j2"

    def __str__(self) -> str:
        return text(self.page())

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the text and the HTML; a front end shows the best that it can."""
        del include, exclude
        return {"text/plain": str(self), "text/html": html(self.template(), self, self.page())}
