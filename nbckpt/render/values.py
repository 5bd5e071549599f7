"""Values for people to read: sizes, points in time, durations, counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from nbckpt.render.page import Cell

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def size(number: float) -> str:
    """Return a number of bytes in decimal units.

    >>> size(0), size(999), size(12_400_000)
    ('0 bytes', '999 bytes', '12.4 MB')
    """
    at = 0
    while abs(number) >= 999.5 and at < len(_UNITS) - 1:
        number, at = number / 1000, at + 1
    return f"{number:.0f} {_UNITS[0]}" if at == 0 else f"{number:.3g} {_UNITS[at]}"


def duration(seconds: float) -> str:
    """Return a duration with two or three significant figures.

    >>> duration(0.0004), duration(0.08), duration(12.3), duration(5481), duration(100_000)
    ('0.4 ms', '80 ms', '12.3 s', '1 h 31 min', '1 d 4 h')
    """
    if seconds < 1:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.0995 else f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 24 * 60 else f"{hours // 24} d {hours % 24} h"


def moment(written: str) -> datetime | None:
    """Parse a timestamp from a manifest. Return None if it is not valid."""
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        return None


def age(written: str, now: datetime | None = None) -> Cell:
    """Return how long ago a timestamp was. The hint is the timestamp itself."""
    then = moment(written)
    if then is None:
        return Cell(written)
    seconds = max(0.0, ((now or datetime.now(UTC)) - then).total_seconds())
    exact = then.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= unit:
            return Cell(f"{int(seconds // unit)} {name} ago", exact)
    return Cell("just now", exact)


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun.

    >>> count(1, "variable"), count(3, "variable"), count(2, "copy", "copies")
    ('1 variable', '3 variables', '2 copies')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = 10) -> str:
    """Return names for a sentence: the first *most* of them, and the number of the others.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], 1)
    ('a, b', 'a and 2 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def short(text: str, most: int = 60) -> str:
    """Return *text*, shortened to *most* characters.

    >>> short("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
