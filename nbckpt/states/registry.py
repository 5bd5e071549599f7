"""Registry: the states of a job, by name. It does not keep them alive."""

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
from nbckpt.states import replica
from nbckpt.states.folder import at_least_one, local
from nbckpt.states.maker import Maker, maker_of

_log = logging.getLogger("nbckpt")

KEEP = 2
"""The default number of saves to keep."""


class Registered(Protocol):
    """The methods of a state that the registry and a save use. See `nbckpt.State`."""

    def save(self, fileobj: IO[bytes]) -> None:
        """Write the state."""

    def load(self, fileobj: IO[bytes]) -> None:
        """Read what `save` wrote."""

    def sync(self) -> None:
        """Synchronize the replicas."""

    def _reference(self) -> Callable[[], Registered | None]:
        """Return a function that returns the state while it should be saved, and None afterwards."""


class Source(Protocol):
    """Something that states are loaded from."""

    def open(self, name: str) -> IO[bytes] | None:
        """Open the data that a state saved; None if there is no data of this state."""


@dataclass(frozen=True)
class Entry:
    """A registered state.

    Attributes:
        state: Returns the state while it should be saved, and None afterwards.
        kind: The name of its class.
        maker: The code that made the state.
        last: The last action, `saved` or `loaded`, and its time.
    """

    state: Callable[[], Registered | None]
    kind: str
    maker: Maker
    last: tuple[str, str] | None = None


class Registry:
    """The states of a job, by name. Any thread may use it.

    Args:
        path: The folder of the saves; by default the folder that the environment names.
        barrier: Called by all replicas; it returns when all have called it.
        keep: The number of saves to keep.
        origin: The source of states if there is no folder, as in a trial.

    Attributes:
        source: The source of states; None before the first load.
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
        """The folder of the saves; None if there is none."""
        return self._path or (replica.checkpoint_path() if self._origin is None else None)

    @property
    def is_nowhere(self) -> bool:
        """Whether states are alive but cannot be saved, since no folder is set."""
        return self.path is None and self._origin is None and bool(self.live())

    def saved(self) -> None:
        """Make later loads use the newest save."""
        self.source = self._origin

    def add(self, name: str, state: Registered) -> None:
        """Register a state. It replaces a state that the same notebook code made before.

        Raises:
            UsageError: Another live state has the name.
        """
        entry = _entry(state)
        with self._lock:
            earlier = self._entries.get(name)
            former = None if earlier is None else earlier.state()
            if earlier is not None and former is not None and former is not state:
                again = entry.kind == earlier.kind and entry.maker.is_again(earlier.maker)
                if not again:
                    raise UsageError(
                        f"state {name!r} already exists: {entry.maker.where} makes it, and "
                        f"{earlier.maker.where} made it before. Choose another name, or close() the other one"
                    )
            self._put(name, entry)

    def adopt(self, name: str, state: Registered) -> None:
        """Register a state that was made elsewhere. It replaces any state of the same name."""
        with self._lock:
            self._put(name, _entry(state))

    def _put(self, name: str, entry: Entry) -> None:
        # Put the state last, even if a dead entry of this name is still there. So the order is the same on
        # every replica, regardless of when garbage is collected there.
        self._entries.pop(name, None)
        self._entries[name] = entry
        self._dropped.discard(name)

    def live(self) -> list[tuple[str, Registered]]:
        """Return the states that are alive, in the order in which they were made."""
        with self._lock:
            states = [(name, entry.state()) for name, entry in self._entries.items()]
            live = [(name, state) for name, state in states if state is not None]
            self._entries = {name: self._entries[name] for name, _ in live}
        return live

    def drop(self, name: str) -> None:
        """Note that a state was dropped before it was saved or loaded."""
        with self._lock:
            self._dropped.add(name)

    def to_save(self) -> list[tuple[str, Registered]]:
        """Return the live states to save. Log a warning for each state that was dropped before the save."""
        with self._lock:
            dropped, self._dropped = self._dropped, set()
        for name in sorted(dropped):
            _log.warning("state %r is not saved: it was dropped. Keep what State.of returns", name)
        return self.live()

    def find(self, name: str) -> Registered | None:
        """Return the live state called *name*, or None."""
        return dict(self.live()).get(name)

    def entry(self, state: Registered) -> Entry | None:
        """Return the entry of a state, or None if the state is not registered."""
        with self._lock:
            return next((entry for entry in self._entries.values() if entry.state() is state), None)

    def note(self, names: Iterable[str], action: str) -> None:
        """Record that the states of these names were just `saved` or `loaded`."""
        with self._lock:
            for name in self._entries.keys() & set(names):
                self._entries[name] = replace(self._entries[name], last=(action, now()))

    def discard(self, state: Registered) -> None:
        """Remove a state and free its name."""
        with self._lock:
            for name in [name for name, entry in self._entries.items() if entry.state() is state]:
                del self._entries[name]


current: ContextVar[Registry] = ContextVar("nbckpt_states", default=Registry())  # noqa: B039  one for the process, on purpose


@contextmanager
def use_folder(
    path: str | os.PathLike[str] | None = None,
    *,
    barrier: Callable[[], Any] | None = None,
    keep: int = KEEP,
) -> Iterator[Registry]:
    """Use a separate registry of states in a block, saved in *path*. States outside are not affected.

    The block applies to this thread, and to code that runs with a copy of its context.

    Args:
        path: The folder of the saves; by default the folder that the environment names.
        barrier: Called by all replicas before and after each save; it returns when all have called it.
        keep: The number of saves to keep, at least one.

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
    return Entry(state._reference(), f"{kind.__module__}.{kind.__qualname__}", maker_of(state))
