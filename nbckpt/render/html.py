"""Pages as HTML, by the package's template or by the user's own. Everything is escaped."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from nbckpt.errors import visible
from nbckpt.render import sparkline
from nbckpt.render.page import Page
from nbckpt.settings import Settings

_MOST_UNBROKEN = 32
_LONGEST_WORD = 48
_POLICY = (
    '<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "img-src data:; font-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">"
    '<meta charset="utf-8"><meta http-equiv="x-dns-prefetch-control" content="off">'
    '<meta name="referrer" content="no-referrer">'
)


def html(templates: Sequence[str], result: object, page: Page) -> str:
    """Return the HTML of a page and its result, made by the first of *templates* that exists."""
    template = _environment(Settings.load().templates).select_template(templates)
    return str(template.render(result=result, page=page))


def template_folders(own: Path | None = None) -> list[Path]:
    """Return the folders to search for templates: the user's, the package's, the checkout's.

    A wheel has the templates inside the package. An editable install has them beside the package.
    """
    package = Path(__file__).parents[1]
    folders = [own, package / "templates", package.parent / "templates"]
    return [folder for folder in folders if folder is not None and folder.is_dir()]


@lru_cache(maxsize=4)
def _environment(own: Path | None) -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folders(own)),
        # Not select_autoescape(): it does not recognise `.html.j2` and would leave these templates unescaped.
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["base64"] = lambda data: base64.b64encode(data).decode()
    environment.filters["cell"] = lambda cell: str(getattr(cell, "text", cell))
    environment.filters["course"] = lambda cell: getattr(cell, "course", ())
    environment.filters["picture"] = sparkline.svg
    environment.filters["words"] = sparkline.words
    environment.filters["sandboxed"] = sandboxed
    environment.filters["hint"] = lambda cell: str(getattr(cell, "hint", ""))
    environment.filters["wrapping"] = lambda cell: wrapping(str(getattr(cell, "text", cell)))
    return environment


def sandboxed(html: str) -> str:
    """Return the document that a sandboxed `<iframe>` shows: *html*, behind a policy that allows no request.

    The sandbox forbids scripts, forms, pop-ups and a change of the page around it. The policy comes first, so
    nothing in *html* can precede it. see docs/decisions/0079
    """
    return f"{_POLICY}{html}"


def _visible(value: object) -> object:
    """Return a value for a template, without control characters that change the order of the text."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "\n".join(map(visible, value.split("\n")))


def wrapping(text: str) -> str:
    """Return the CSS style that wraps a cell's text so that it is easy to read.

    Short text stays on one line, so that only long text shares the remaining width. A word is broken only if
    it would push the other columns out of sight.
    """
    if len(text) <= _MOST_UNBROKEN:
        return "white-space:nowrap;"
    longest = max(map(len, text.split()), default=0)
    return "min-width:18em;" + ("overflow-wrap:anywhere;" if longest > _LONGEST_WORD else "")
