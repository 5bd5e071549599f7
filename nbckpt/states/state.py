"""State: a named object that is saved and loaded, with any number of replicas."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import IO, Any, Generic, TypeVar

from nbckpt.core.tables import values_table
from nbckpt.core.values.preview import describe
from nbckpt.errors import UsageError
from nbckpt.hook import Hook
from nbckpt.render import Page, Rich, age
from nbckpt.states.registry import current

V = TypeVar("V")


class State(Rich):
    """A named state that survives restarts of the job. Subclasses implement `save` and `load`.

    All replicas make the same states in the same order. A state is saved only while it is alive: keep it in
    a variable. The context decides which registry holds the states, see `nbckpt.states`. From the return of
    `State.__init__` on, a save in another thread can save it. If threads save, set what `save` needs before
    `super().__init__(name)`.

    Args:
        name: Any text. Two live states of one job cannot share a name. If a notebook cell runs again, its
            new state replaces the state that the cell made before.

    Raises:
        UsageError: Another live state has the name. The message says where both are made.

    Examples:
        >>> class Steps(nbckpt.State):
        ...     count = 0
        ...     def save(self, fileobj):
        ...         fileobj.write(str(self.count).encode())
        ...     def load(self, fileobj):
        ...         self.count = int(fileobj.read())
        >>> steps = Steps("steps")
        >>> steps.count = 3
        >>> folder = nbckpt.save_all_states()
        >>> steps.count = 0
        >>> nbckpt.load_state(steps), steps.count
        (True, 3)
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"a state's name is text, not {name!r}")
        self.__name = name
        current.get().add(name, self)

    def save(self, fileobj: IO[bytes]) -> None:
        """Write the state to a binary file. Called on replica 0 only."""

    def load(self, fileobj: IO[bytes]) -> None:
        """Read what `save` wrote. Called on every replica."""

    def sync(self) -> None:
        """Synchronize the replicas before a save. Called on every replica, before any state is saved."""

    def close(self) -> None:
        """Exclude the state from later saves and free its name."""
        current.get().discard(self)

    def page(self) -> Page:
        """See `Rich.page`."""
        previews = [(name, describe(value)) for name, value in self._shown().items()]
        return Page(repr(self), (values_table("attributes", previews),), tuple(_remarks(self)))

    def _shown(self) -> dict[str, Any]:
        """Return the attributes to show, by name."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, '_State__name', None)!r})"

    def _reference(self) -> Callable[[], State | None]:
        """Return a function that returns the state while it should be saved, and None afterwards."""
        return weakref.ref(self)

    @staticmethod
    def of(name: str, value: V) -> StateOf[V]:
        """Return a state for a model, an optimizer, a scheduler, a sampler or any other value.

        See `nbckpt.states.values.ValueState`.

        Examples:
            >>> steps = nbckpt.State.of("steps", {"count": 3})
            >>> folder = nbckpt.save_all_states()
            >>> steps.value["count"] = 0
            >>> nbckpt.load_state(steps), steps.value
            (True, {'count': 3})
        """
        return make_state(name, value)


class StateOf(State, Generic[V]):
    """A state with a value: the object that it saves, or after a load possibly a new one."""

    value: V


make_state: Hook[[str, Any], StateOf[Any]] = Hook()
"""See `State.of`."""


def _remarks(state: State) -> Iterator[str]:
    """Yield remarks about a state: where it was made, and when it was last saved or loaded."""
    entry = current.get().entry(state)
    if entry is None:
        yield "not saved here: it was closed, replaced, or made in another context"
        return
    yield f"made by {entry.maker.where}"
    if entry.last is None:
        yield "neither saved nor loaded since it was made"
    else:
        action, moment = entry.last
        yield f"last {action} {age(moment).text} ({age(moment).hint})"


def name_of(state: State) -> str:
    """Return a state's name.

    Raises:
        UsageError: Its class does not call `State.__init__`.
    """
    name: str | None = getattr(state, "_State__name", None)
    if name is None:
        raise UsageError(f"{type(state).__name__}.__init__ must call super().__init__(name) first")
    return name
