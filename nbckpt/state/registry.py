"""Registry: which states there are, by name. It keeps none of them alive."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol

from nbckpt.core.manifest import now
from nbckpt.errors import UsageError
from nbckpt.state import replica
from nbckpt.state.folder import at_least_one, local
from nbckpt.state.place import Place, place_of

_log = logging.getLogger("nbckpt")

KEEP = 2
"""How many saves are kept."""


class Registered(Protocol):
    """What the registry, and a save, know of a state. See `nbckpt.State`."""

    def save(self, fileobj: IO[bytes]) -> None:
        """Write what there is to keep."""

    def load(self, fileobj: IO[bytes]) -> None:
        """Read what `save` wrote."""

    def sync(self) -> None:
        """Bring the replicas together."""

    def _reference(self) -> Callable[[], Registered | None]:
        """Return what finds the state for as long as it is to be saved."""


class Source(Protocol):
    """Where states are loaded from."""

    def open(self, name: str) -> IO[bytes] | None:
        """Open what a state saved; None where it saved nothing there."""


@dataclass(frozen=True)
class Entry:
    """A state, found as long as it is to be saved, its class, and the code that made it.

    Attributes:
        last: What was last done with it, `saved` or `loaded`, and when.
    """

    state: Callable[[], Registered | None]
    kind: str
    place: Place
    last: tuple[str, str] | None = None


class Registry:
    """The states of a job by their names. Safe from every thread.

    Args:
        path: The folder in which they are saved; by default what the environment says.
        barrier: Called by all replicas; it returns when all have called it.
        keep: How many saves are kept.
        origin: What states are loaded from where there is no folder, as in a trial.

    Attributes:
        source: What states are loaded from; None before the first load.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        barrier: Callable[[], Any] | None = None,
        keep: int = KEEP,
        origin: Source | None = None,
    ) -> None:
        self.barrier = barrier
        self.keep = keep
        self.source = self._origin = origin
        self._path = path
        self._entries: dict[str, Entry] = {}
        self._dropped: set[str] = set()
        self._lock = threading.RLock()

    @property
    def path(self) -> Path | None:
        """Where the states are saved."""
        return self._path or (replica.checkpoint_path() if self._origin is None else None)

    @property
    def is_nowhere(self) -> bool:
        """Whether states are alive that no save keeps, since no folder is set."""
        return self.path is None and self._origin is None and bool(self.live())

    def saved(self) -> None:
        """Load from here on what was saved last."""
        self.source = self._origin

    def add(self, name: str, state: Registered) -> None:
        """Register a state, in place of one that the same notebook code made before.

        Raises:
            UsageError: Another live state has the name.
        """
        entry = _entry(state)
        with self._lock:
            earlier = self._entries.get(name)
            former = None if earlier is None else earlier.state()
            if earlier is not None and former is not None and former is not state:
                again = entry.kind == earlier.kind and entry.place.is_again(earlier.place)
                if not again:
                    raise UsageError(
                        f"state {name!r} already exists: {entry.place.where} makes it, and "
                        f"{earlier.place.where} made it before. Choose another name, or close() the other one"
                    )
            self._put(name, entry)

    def adopt(self, name: str, state: Registered) -> None:
        """Register a state that was made elsewhere, in place of whichever has the name."""
        with self._lock:
            self._put(name, _entry(state))

    def _put(self, name: str, entry: Entry) -> None:
        # The last in order, also where one that is dead has not been cleared away yet: on every replica
        # the order is the same, whenever memory is collected there.
        self._entries.pop(name, None)
        self._entries[name] = entry
        self._dropped.discard(name)

    def live(self) -> list[tuple[str, Registered]]:
        """Return the states that are alive, in the order in which they were made."""
        with self._lock:
            found = [(name, entry.state()) for name, entry in self._entries.items()]
            self._entries = {name: self._entries[name] for name, state in found if state is not None}
        return [(name, state) for name, state in found if state is not None]

    def drop(self, name: str) -> None:
        """Note that nobody kept a state that was neither saved nor loaded."""
        with self._lock:
            self._dropped.add(name)

    def to_save(self) -> list[tuple[str, Registered]]:
        """Return the live states, for a save; the log tells of those that nobody kept until then."""
        with self._lock:
            dropped, self._dropped = self._dropped, set()
        for name in sorted(dropped):
            _log.warning("state %r is not saved: it was dropped. Keep what State.of returns", name)
        return self.live()

    def find(self, name: str) -> Registered | None:
        """Return the live state called *name*."""
        return dict(self.live()).get(name)

    def entry(self, state: Registered) -> Entry | None:
        """Return what is known of a state; None where it is not registered."""
        with self._lock:
            return next((it for it in self._entries.values() if it.state() is state), None)

    def note(self, names: Iterable[str], done: str) -> None:
        """Remember that the states of these names were just `saved` or `loaded`."""
        with self._lock:
            for name in self._entries.keys() & set(names):
                self._entries[name] = replace(self._entries[name], last=(done, now()))

    def discard(self, state: Registered) -> None:
        """Forget a state, which gives its name free."""
        with self._lock:
            self._entries = {name: it for name, it in self._entries.items() if it.state() is not state}


current: ContextVar[Registry] = ContextVar("nbckpt_states", default=Registry())  # noqa: B039  one for the process, on purpose


@contextmanager
def states(
    path: str | os.PathLike[str] | None = None,
    *,
    barrier: Callable[[], Any] | None = None,
    keep: int = KEEP,
) -> Iterator[Registry]:
    """Have states of one's own in a block, saved in *path*; those outside are not touched.

    The block is that of this thread, and of what runs with a copy of its context.

    Args:
        path: The folder in which they are saved; by default what the environment says.
        barrier: Called by all replicas before and after each save; it returns when all have called it.
        keep: How many saves are kept, one at least.

    Raises:
        UsageError: The folder is a URL, or *keep* is below one.
    """
    registry = Registry(None if path is None else local(path), barrier=barrier, keep=at_least_one(keep))
    token = current.set(registry)
    try:
        yield registry
    finally:
        current.reset(token)


def _entry(state: Registered) -> Entry:
    kind = type(state)
    return Entry(state._reference(), f"{kind.__module__}.{kind.__qualname__}", place_of(state))
