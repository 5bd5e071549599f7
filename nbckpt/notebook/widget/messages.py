"""Messages: those that the browser may send. Everything else is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_IDS = 20_000
_MOST_OPTIONS = 100
_MOST_ITEMS = 1_000
_LONGEST_NAME = 1_000
_LONGEST_TEXT = 100_000
_LARGEST = 1 << 53


@dataclass(frozen=True)
class Ping:
    """The browser asks whether the kernel answers.

    Attributes:
        n: The number that the answer repeats.
        view: Which of the views of the panel asks: a notebook may be open in two pages.
        pane: The pane that is in sight in this view; None if the panel is hidden there.
    """

    n: int
    view: str = ""
    pane: str | None = None


@dataclass(frozen=True)
class Follow:
    """What is in sight in a view: a pane, or None if the panel is hidden.

    Attributes:
        pane: The pane.
        experiment: The experiment of the trials; empty for the one that matters most.
        metric: The metric; empty for the one that matters most.
        view: The view.
        is_fresh: Whether the view has nothing of this pane yet.
    """

    pane: str | None
    experiment: str = ""
    metric: str = ""
    view: str = ""
    is_fresh: bool = True


@dataclass(frozen=True)
class Question:
    """The browser asks for details, or for a deed.

    Attributes:
        n: The number that the answer repeats.
        verb: Which details, or which deed.
        is_act: Whether it is a deed.
        ids: Of which rows.
        options: Further values.
        pane: The pane in front; empty if it was not said.
    """

    n: int
    verb: str
    is_act: bool
    ids: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    pane: str = ""


def message_of(content: object) -> Ping | Follow | Question | None:
    """Return a message of the browser; None if it is not one."""
    if not isinstance(content, dict):
        return None
    match content:
        case {"kind": "ping", "n": n}:
            view, pane = content.get("view") or "", content.get("pane")
            return Ping(n, view, pane) if _is_number(n) and _are_names([view, pane or ""], 2) else None
        case {"kind": "follow", "pane": pane}:
            experiment, metric, view = (content.get(name) or "" for name in ("experiment", "metric", "view"))
            are_names = _are_names([pane or "", experiment, metric, view], 4)
            is_fresh = content.get("fresh") is not False
            return Follow(pane, experiment, metric, view, is_fresh) if are_names else None
        case {"kind": "detail", "n": n, "of": verb}:
            return _question(content, n, verb, is_act=False)
        case {"kind": "act", "n": n, "verb": verb}:
            return _question(content, n, verb, is_act=True)
    return None


def _question(content: dict[str, Any], n: Any, verb: Any, *, is_act: bool) -> Question | None:
    ids, options = content.get("ids") or [], content.get("options") or {}
    pane = content.get("pane") or ""
    if not (_is_number(n) and _is_name(verb) and _is_name(pane) and _are_names(ids, MOST_IDS)):
        return None
    if not (isinstance(options, dict) and len(options) <= _MOST_OPTIONS):
        return None
    if not all(_is_name(name) and _is_value(value) for name, value in options.items()):
        return None
    return Question(n, verb, is_act, tuple(ids), options, pane)


def _is_number(value: object) -> bool:
    return type(value) is int and abs(value) < _LARGEST


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_NAME


def _are_names(values: object, most: int) -> bool:
    return (
        isinstance(values, Sequence)
        and len(values) <= most
        and all(map(_is_name, values))
        and (not isinstance(values, str))
    )


def _is_value(value: object) -> bool:
    """Tell whether a value of an option is a text, a number, True, False, None, or a list of names."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT
    return value is None or isinstance(value, (bool, int, float)) or _are_names(value, _MOST_ITEMS)
