"""Places: the working directory and the environment variables that belong to the points of this kernel.

They stay in memory: a path means nothing on another machine, and a variable may hold a password. See
docs/decisions/0104.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

_MOST = 1000


@dataclass(frozen=True)
class Place:
    """A working directory, and the environment variables."""

    folder: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


class Places:
    """The places of the newest points. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._kept: dict[str, Place] = {}
        self._last = Place()

    def look(self) -> Place:
        """Return the present place."""
        now = Place(_folder(), dict(os.environ))
        self._last = self._last if now == self._last else now  # most points share one
        return self._last

    def keep(self, point: str, place: Place) -> None:
        """Note that a place belongs to a point."""
        self._kept.pop(point, None)
        self._kept[point] = place
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]

    def go_back(self, point: str) -> tuple[str, ...]:
        """Go to the working directory of a point, if it is known. Return what changed, and what differs."""
        then, folder = self._kept.get(point), _folder()
        if then is None:
            return ()
        notes = []
        if then.folder and then.folder != folder:
            try:
                os.chdir(then.folder)
                notes.append(f"The working directory is {then.folder} again.")
            except OSError as error:
                notes.append(f"The working directory stays {folder}: {error}.")
        now, before = dict(os.environ), then.variables
        if differ := sorted({name for name, _ in now.items() ^ before.items()}):
            names = ", ".join(differ[:5]) + (", …" if len(differ) > 5 else "")
            notes.append(f"os.environ stays as it is. It differs from then: {names}.")
        return tuple(notes)


def _folder() -> str:
    with suppress(OSError):  # it was removed
        return os.getcwd()  # noqa: PTH109  once for each cell
    return ""
