"""Documents: many pages as one file that needs nothing else, as HTML or as Markdown.

See docs/decisions/0081.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nbckpt.render.html import html
from nbckpt.render.markdown import markdown, plain
from nbckpt.render.page import Page
from nbckpt.render.values import count, size

Form = Literal["html", "md"]


@dataclass(frozen=True)
class Section:
    """A part of a document.

    Attributes:
        title: Its heading.
        page: Its content.
        folded: Whether a click opens it. It is open in print and in Markdown.
        lighter: What is shown if the page is too large for the document; None to leave the section out then.
    """

    title: str
    page: Page
    folded: bool = False
    lighter: Page | None = None


@dataclass(frozen=True)
class Part:
    """A section of a document, as HTML or Markdown."""

    title: str
    text: str
    folded: bool


def document(form: Form, title: str, sections: Iterable[Section], most: int | None) -> bytes:
    """Return a document of at most about *most* bytes. Its end says what is left out.

    An HTML document has no script and makes no request, which its policy forbids too.

    Args:
        form: `html` or `md`.
        title: The heading.
        sections: The sections, the most important first.
        most: The largest size in bytes; None for any size.
    """
    parts, notes = _fitting(sections, _fragment if form == "html" else markdown, most)
    if form == "html":
        return _whole(title, parts, notes).encode()
    texts = [f"# {plain(title)}\n", *(f"## {plain(part.title)}\n\n{part.text}" for part in parts)]
    return "\n".join([*texts, *(f"{plain(note)}\n" for note in notes)]).encode()


def _fitting(
    sections: Iterable[Section], render: Callable[[Page], str], most: int | None
) -> tuple[list[Part], list[str]]:
    """Return the sections for which there is room, and a sentence about the others."""
    parts: list[Part] = []
    used = lighter = left_out = 0
    for section in sections:
        for page in (section.page, section.lighter):
            text = "" if page is None else render(page)
            if page is not None and (most is None or used + len(text.encode()) <= most):
                used += len(text.encode())
                lighter += page is not section.page
                parts.append(Part(section.title, text, section.folded))
                break
        else:
            left_out += 1
    said = [f"{count(lighter, 'section is', 'sections are')} shown without pictures"] if lighter else []
    said += [f"{count(left_out, 'section is', 'sections are')} left out"] if left_out else []
    why = f", because this file would be larger than {size(most or 0)}."
    return parts, [f"{' and '.join(said)}{why}"] if said else []


def _fragment(page: Page) -> str:
    return html(["_page.html.j2"], None, page)


def _whole(title: str, parts: Sequence[Part], notes: Sequence[str]) -> str:
    contents = {"title": title, "parts": parts}
    return html(["document.html.j2"], contents, Page(title, notes=tuple(notes)))
