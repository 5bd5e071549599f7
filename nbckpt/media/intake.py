"""Intake: takes the media out of the reports of a trial, so that its metrics stay numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from sys import modules
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.media.base import LARGEST, LONGEST_NAME, MOST, Encoded, Media
from nbckpt.render import error_text, short, size

LONGEST_TEXT = 2_000
"""A text with more characters is stored as media; a shorter one stays in the result."""

NUMBERS = frozenset({int, float, bool, type(None)})
"""The types of plain numbers. No value of these types is media."""

_DEEPEST = 8
_DEEPEST_SAID = 3
_MOST_SAID = 200
_BARE = (
    ("matplotlib.figure", "Figure", "Figure"),
    ("matplotlib.axes", "Axes", "Figure"),
    ("PIL.Image", "Image", "Image"),
    ("pandas", "DataFrame", "Table"),
    ("pandas", "Series", "Table"),
    ("polars", "DataFrame", "Table"),
)
"""Classes of other libraries that need no class of nbckpt. A library that is not imported has no values."""

_log = logging.getLogger("nbckpt")


class Intake:
    """Takes the media out of the reports of one trial. Problems go to the log, once for each metric.

    Args:
        trial_name: The trial's full name, for people.
    """

    def __init__(self, trial_name: str) -> None:
        self._name = trial_name
        self._said: set[str] = set()

    def take(self, metrics: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Encoded]]:
        """Return the other metrics, and the media by their names; `a/b` means b in the dict a.

        Media that cannot be stored leave a text in the metrics which says why.
        """
        media: dict[str, Encoded] = {}
        others: dict[str, Any] = {}
        for name, value in metrics.items():
            kind = type(value)
            if kind in NUMBERS or (kind is str and len(value) <= LONGEST_TEXT):
                others[name] = value
            else:
                self._take(str(name), name, value, others, media)
        return others, media

    def _take(
        self,
        label: str,
        key: Any,
        value: Any,
        others: dict[Any, Any],
        media: dict[str, Encoded],
        above: frozenset[int] = frozenset(),
    ) -> None:
        """Put one value into *others* or *media*. *above* are the containers that it is in."""
        if is_media(value):
            failure = self._store(label, value, media)
            if failure:
                others[key] = failure
        elif id(value) in above or not _holds_media(value, _DEEPEST - len(above), set()):
            others[key] = value
            self._look_at(label, value)
        else:
            inner: dict[Any, Any] = {}
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            for name, item in items:
                self._take(f"{label}/{name}", name, item, inner, media, above | {id(value)})
            if inner:
                others[key] = inner if isinstance(value, Mapping) else list(inner.values())

    def say_too_deep(self, label: str) -> None:
        """Say what to write for a value whose nesting is too deep to keep."""
        self._say(label, f"{short(label)!r} is nested too deeply and is not kept: report its numbers by name")

    def _store(self, label: str, value: Any, media: dict[str, Encoded]) -> str:
        """Encode a value into *media*. Return why that is not possible, or ""."""
        try:
            encoded = _fitting(label, value, media)
        except Exception as error:  # noqa: BLE001  drawing may raise anything, and the trial continues
            said = str(error) if isinstance(error, UsageError) else error_text(error)
            self._say(label, f"{short(label)!r} was not kept: {said}")
            return f"not kept: {said}"
        media[label] = encoded
        return ""

    def _look_at(self, label: str, value: Any, depth: int = _DEEPEST_SAID) -> None:
        """Say what to write for a value that is kept as text only."""
        if isinstance(value, Mapping) and depth:
            for name, item in value.items():
                self._look_at(f"{label}/{name}", item, depth - 1)
        if isinstance(value, (int, float, str, Mapping, list, tuple, type(None))):
            return
        dimensions = getattr(value, "ndim", None)
        if dimensions == 0 and hasattr(value, "item"):  # a number of NumPy, torch or jax
            return
        name = short(label.rpartition("/")[2])
        if isinstance(dimensions, int) and hasattr(value, "shape"):
            self._say(
                label,
                f"{short(label)!r} is an array of shape {_shape(value)}, and only its text is kept. "
                f"Write {name}=nbckpt.media.Image({name}) for an image, or a number of it, such as "
                f"{name}={name}.mean()",
            )
        else:
            self._say(
                label,
                f"{short(label)!r} is neither a number nor media but {type(value).__name__}, and only its "
                f"text is kept. Write {name}=str({name}), a number, or one of nbckpt.media",
            )

    def _say(self, label: str, sentence: str) -> None:
        if label not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(label)
            _log.warning("%s: %s", self._name, sentence)


def _fitting(label: str, value: Any, media: Mapping[str, Encoded]) -> Encoded:
    """Return a value as it is stored.

    Raises:
        UsageError: It cannot be stored, or the report has too many media with it.
    """
    if len(label) > LONGEST_NAME:
        raise UsageError(f"the limit is {LONGEST_NAME} characters for a name. Give it a shorter one")
    if len(media) >= MOST:
        raise UsageError(f"the limit is {MOST} media for one report. Report fewer of them at once")
    encoded = wrapped(value).encode()
    if sum(len(other.data) for other in media.values()) + len(encoded.data) > LARGEST:
        raise UsageError(f"the limit is {size(LARGEST)} for all media of one report. Report fewer at once")
    return encoded


def is_media(value: Any) -> bool:
    """Return whether a value is stored as media."""
    if type(value) is str:
        return len(value) > LONGEST_TEXT
    return isinstance(value, Media) or bool(_class_for(value))


def wrapped(value: Any) -> Media:
    """Return the object of nbckpt for a value that is media.

    Raises:
        UsageError: It has a form that cannot be stored.
    """
    if isinstance(value, Media):
        return value
    from nbckpt import media

    kind: Callable[[Any], Media] = getattr(media, _class_for(value) or "Text")
    return kind(value)


def _class_for(value: Any) -> str:
    """Return the name of the class that stores a value of another library, or ""."""
    for module, name, kind in _BARE:
        loaded = modules.get(module)
        known = getattr(loaded, name, None)
        if isinstance(known, type) and isinstance(value, known):
            return kind
    return ""


def _holds_media(value: Any, depth: int, seen: set[int]) -> bool:
    """Return whether a dict or a list has media in it, at most *depth* levels deep. Look at each once."""
    if not isinstance(value, (Mapping, list, tuple)) or not depth or id(value) in seen:
        return False
    seen.add(id(value))
    items = value.values() if isinstance(value, Mapping) else value
    others = (item for item in items if type(item) not in NUMBERS)
    return any(is_media(item) or _holds_media(item, depth - 1, seen) for item in others)


def _shape(value: Any) -> Any:
    """Return the shape of an array as a tuple; torch has a class of its own."""
    return tuple(value.shape) if isinstance(value.shape, tuple) else value.shape
