"""Snapshots: states as values, so that they can be stored beside other values.

Checkpoints of notebook variables and of trials hold such snapshots. There the name of a state has the
prefix `state:`, which no variable name has.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import IO, Any

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import UsageError
from nbckpt.render import error_text
from nbckpt.states.registry import Registered, current
from nbckpt.states.state import State, name_of

PREFIX = "state:"

_log = logging.getLogger("nbckpt")


class Snapshot:
    """The bytes that one state wrote.

    Args:
        kind: The name of the state's class.
        data: The bytes.
    """

    __slots__ = ("data", "kind")

    def __init__(self, kind: str, data: Any) -> None:
        self.kind = kind
        self.data = memoryview(data)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Pickle the bytes out of band, so that they are not copied into the record.
        return Snapshot, (self.kind, pickle.PickleBuffer(self.data))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and (self.kind, self.data) == (other.kind, other.data)

    __hash__ = None  # type: ignore[assignment]  # a hash would have to read all its bytes

    def __repr__(self) -> str:
        return f"<{self.kind}: {len(self.data)} bytes>"


def is_state(name: str) -> bool:
    """Tell whether *name* is the name of a state among other values."""
    return name.startswith(PREFIX)


def take(state: Registered) -> Snapshot:
    """Return a snapshot of a state.

    Raises:
        Exception: Any error that the state's `save` raises.
    """
    file = BytesIO()
    state.save(file)
    # Not `getbuffer()`: for a buffer in a garbage cycle, Python 3.13 prints a BufferError.
    return Snapshot(type(state).__qualname__, file.getvalue())


def snapshots() -> dict[str, Snapshot]:
    """Sync all live states and return their snapshots, by name with the prefix `state:`.

    Raises:
        Exception: Any error that a state's `sync` or `save` raises.
    """
    states = current.get().to_save()
    for _, state in states:
        state.sync()
    return {PREFIX + name: take(state) for name, state in states}


def note_saved(names: Iterable[str]) -> None:
    """Record that the states among these names were just saved."""
    current.get().note([name.removeprefix(PREFIX) for name in names if is_state(name)], "saved")


def adopt(values: Iterable[Any]) -> None:
    """Register the states among *values*. Each replaces a registered state of the same name."""
    for value in values:
        if isinstance(value, State):
            current.get().adopt(name_of(value), value)


def held(names: Iterable[str]) -> dict[str, Snapshot]:
    """Return snapshots of the live states of these names, so that a load can be undone."""
    taken: dict[str, Snapshot] = {}
    for name in names:
        state = current.get().find(name.removeprefix(PREFIX))
        if state is not None:
            try:
                taken[name] = take(state)
            except Exception as error:  # noqa: BLE001  a state that cannot be saved may still be loaded
                _log.warning("undo cannot restore %s: %s: %s", name, type(error).__name__, error)
    return taken


def put_back(taken: Mapping[str, Snapshot]) -> dict[str, str]:
    """Load live states from snapshots. Return the reason for each state that was not loaded."""
    failed: dict[str, str] = {}
    for name, snapshot in taken.items():
        state = current.get().find(name.removeprefix(PREFIX))
        try:
            if state is None:
                failed[name] = "no live state has this name. Make the state first"
            else:
                state.load(BytesIO(snapshot.data))
                current.get().note([name.removeprefix(PREFIX)], "loaded")
        except Exception as error:  # noqa: BLE001  an error of the user's code, handled like that of a variable
            failed[name] = error_text(error)
    return failed


def states_checkpoint(**fields: Any) -> Checkpoint:
    """Return a checkpoint of all live states: `report(loss=…, checkpoint=states_checkpoint())`.

    A trial that continues from the checkpoint loads the states with `load_state`.

    Args:
        fields: More fields of the checkpoint, returned by `get_checkpoint().to_dict()`.

    Raises:
        UsageError: There is no live state, or a field has the name of a state.
        Exception: Any error that a state's `sync` or `save` raises.

    Examples:
        >>> steps = nbckpt.State.of("steps", {"count": 3})
        >>> nbckpt.states.states_checkpoint(epoch=1).to_dict()["epoch"]
        1
    """
    taken = snapshots()
    if not taken:
        raise UsageError("no state is alive. Make one with nbckpt.State and keep it in a variable")
    return Checkpoint.from_dict({**fields, **taken})


class CheckpointSource:
    """A source of states: the checkpoint that a trial continues from.

    Args:
        latest: Returns that checkpoint, or None in a new trial.
    """

    def __init__(self, latest: Callable[[], Checkpoint | None]) -> None:
        self._latest = latest
        self._taken: dict[str, Snapshot] | None = None

    def open(self, name: str) -> IO[bytes] | None:
        """See `Source.open`."""
        if self._taken is None:
            checkpoint = self._latest()
            fields = {} if checkpoint is None else checkpoint.to_dict()
            self._taken = {str(key): value for key, value in fields.items() if isinstance(value, Snapshot)}
        snapshot = self._taken.get(PREFIX + name)
        return None if snapshot is None else BytesIO(snapshot.data)
