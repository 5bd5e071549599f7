"""Snapshots: states as values, for where they are kept beside other values.

So it is in a checkpoint of a notebook's variables, and in one of a trial. There a state's name has
`state:` in front, which no variable has.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import IO, Any

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import UsageError
from nbckpt.state.registry import Registered, current
from nbckpt.state.state import State, name_of

PREFIX = "state:"

_log = logging.getLogger("nbckpt")


class Snapshot:
    """What one state wrote.

    Args:
        kind: The name of its class.
        data: The bytes.
    """

    __slots__ = ("data", "kind")

    def __init__(self, kind: str, data: Any) -> None:
        self.kind = kind
        self.data = memoryview(data)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # As memory beside the record, so that it is not copied into it.
        return Snapshot, (self.kind, pickle.PickleBuffer(self.data))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and (self.kind, self.data) == (other.kind, other.data)

    __hash__ = None  # type: ignore[assignment]  # it is as large as what it holds

    def __repr__(self) -> str:
        return f"<{self.kind}: {len(self.data)} bytes>"


def is_state(name: str) -> bool:
    """Tell whether that is the name of a state among other values."""
    return name.startswith(PREFIX)


def take(state: Registered) -> Snapshot:
    """Return what a state writes now.

    Raises:
        Exception: Whatever its `save` raises.
    """
    file = BytesIO()
    state.save(file)
    return Snapshot(type(state).__qualname__, file.getbuffer())


def snapshots() -> dict[str, Snapshot]:
    """Return what all live states write, by their names with `state:` in front; all are synced before.

    Raises:
        Exception: Whatever a state's `sync` or `save` raises.
    """
    states = current.get().to_save()
    for _, state in states:
        state.sync()
    return {PREFIX + name: take(state) for name, state in states}


def note_saved(names: Iterable[str]) -> None:
    """Remember that the states among these names were just saved."""
    current.get().note([it.removeprefix(PREFIX) for it in names if is_state(it)], "saved")


def adopt(values: Iterable[Any]) -> None:
    """Have those of *values* that are states take part in saves, in place of others of their names."""
    for value in values:
        if isinstance(value, State):
            current.get().adopt(name_of(value), value)


def held(names: Iterable[str]) -> dict[str, Snapshot]:
    """Return what those live states that have these names would write, for taking a load back."""
    found: dict[str, Snapshot] = {}
    for name in names:
        state = current.get().find(name.removeprefix(PREFIX))
        if state is not None:
            try:
                found[name] = take(state)
            except Exception as error:  # noqa: BLE001  a state that cannot be saved may still be loaded
                _log.warning("undo will not bring back %s: %s: %s", name, type(error).__name__, error)
    return found


def put_back(taken: Mapping[str, Snapshot]) -> dict[str, str]:
    """Load live states from snapshots; return why those that were not loaded were not."""
    failed: dict[str, str] = {}
    for name, snapshot in taken.items():
        state = current.get().find(name.removeprefix(PREFIX))
        try:
            if state is None:
                failed[name] = "no live state has this name: make it first"
            else:
                state.load(BytesIO(snapshot.data))
                current.get().note([name.removeprefix(PREFIX)], "loaded")
        except Exception as error:  # noqa: BLE001  the user's own, as with a variable that cannot be loaded
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


def states_checkpoint(**fields: Any) -> Checkpoint:
    """Return a checkpoint of all live states: `report(loss=…, checkpoint=states_checkpoint())`.

    In the trial that goes on from it, `load_state` finds them.

    Args:
        fields: What else is to be in the checkpoint, for `get_checkpoint().to_dict()`.

    Raises:
        UsageError: There is no live state, or a field has the name of one.
        Exception: Whatever a state's `sync` or `save` raises.
    """
    taken = snapshots()
    if not taken:
        raise UsageError("no state is alive here: make it with nbckpt.State and keep it in a variable")
    return Checkpoint.from_dict({**fields, **taken})


class CheckpointSource:
    """A source of states: the checkpoint that a trial goes on from.

    Args:
        latest: Returns it, or None at the very beginning.
    """

    def __init__(self, latest: Callable[[], Checkpoint | None]) -> None:
        self._latest = latest
        self._taken: dict[str, Snapshot] | None = None

    def open(self, name: str) -> IO[bytes] | None:
        """See `Source.open`."""
        if self._taken is None:
            checkpoint = self._latest()
            fields = {} if checkpoint is None else checkpoint.to_dict()
            self._taken = {str(key): it for key, it in fields.items() if isinstance(it, Snapshot)}
        taken = self._taken.get(PREFIX + name)
        return None if taken is None else BytesIO(taken.data)
