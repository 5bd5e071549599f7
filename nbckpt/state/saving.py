"""Saving and loading states: all together, in one save that is whole or not there."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from nbckpt.state import replica
from nbckpt.state.folder import StateFolder, at_least_one, local, write_alone
from nbckpt.state.registry import current
from nbckpt.state.state import State, name_of

NO_FOLDER = "no state is saved, since no folder is set: set NBCKPT_CHECKPOINT_PATH or use nbckpt.states()"

_log = logging.getLogger("nbckpt")


def save_all_states(
    checkpoint_dir: str | os.PathLike[str] | None = None,
    *,
    barrier: Callable[[], Any] | None = None,
    keep: int | None = None,
) -> str | None:
    """Save all live states as one new save. Every replica calls it, after the same step.

    First every state's `sync` is called, on every replica, then replica 0 writes. After the return the
    save is whole and survives a crash of the machine; with a barrier that holds on every replica. When
    it is interrupted or killed at any point, the earlier saves are whole, and this one is, too, or is not
    there.

    Args:
        checkpoint_dir: The folder of the job's saves; by default that of `nbckpt.states`, else
            `replica.checkpoint_path()`.
        barrier: Called by every replica after its `sync`s and after the save; by default that of
            `nbckpt.states`.
        keep: How many saves are kept, by default that of `nbckpt.states`, two.

    Returns:
        The save's folder on replica 0. None on the others, and where there is no state to save, or no
        folder to save in: then nothing was done, and the log says so, but in a trial.

    Raises:
        UsageError: The folder is a URL, or *keep* is below one; nothing was done.
        StoreError: The disk failed.
        Exception: Whatever a state's `sync` or `save` raises.
    """
    registry = current.get()
    place = registry.path if checkpoint_dir is None else checkpoint_dir
    if place is None:
        if registry.is_nowhere:
            _log.warning(NO_FOLDER)
        return None
    folder, keep = StateFolder(place), at_least_one(registry.keep if keep is None else keep)
    wait = barrier or registry.barrier or _alone
    states = registry.to_save()
    for _, state in states:
        state.sync()
    wait()
    made = None
    try:
        if not states:
            _log.warning("nothing is saved, since no state is alive: keep each in a variable")
        elif replica.rank() == 0:
            made = folder.write(states, keep=keep, replicas=replica.count())
            registry.note(dict(states), "saved")
    finally:
        registry.saved()
        wait()
    return None if made is None else str(made.folder)


def save_state(state: State, checkpoint_dir: str | os.PathLike[str], sync: bool = True) -> None:  # noqa: FBT001, FBT002  the seed's signature
    """Save one state as a file in a folder of the caller's own, which is no save of the job.

    Args:
        state: The state.
        checkpoint_dir: The folder, which is made if it is not there.
        sync: Whether to call its `sync` first. Every replica calls it; replica 0 writes.

    Raises:
        UsageError: The folder is a URL, or the state's class does not call `State.__init__`.
        StoreError: The disk failed.
        Exception: Whatever the state's `sync` or `save` raises.
    """
    name, folder = name_of(state), local(checkpoint_dir)
    if sync:
        state.sync()
    if replica.rank() == 0:
        write_alone(name, state, folder)


def load_state(state: State) -> bool:
    """Load a state from the newest whole save. Every replica calls it, whatever number saved it.

    All states of a job are loaded from one save, also while replica 0 makes the next one. A newer save
    that is not whole is passed over, and the log says so.

    Returns:
        Whether the save has the state. If not, as in a first run, it is as it was.

    Raises:
        CorruptError: There are saves, and none of them is whole.
        StoreError: The disk failed.
        Exception: Whatever the state's `load` raises.
    """
    name, registry = name_of(state), current.get()
    source, place = registry.source, registry.path
    if source is None or (isinstance(source, _Saved) and source.place != place):
        registry.source = source = _Saved(place)  # for all states: see docs/decisions/0023
    file = source.open(name)
    if file is None:
        return False
    with closing(file):
        state.load(file)
    registry.note([name], "loaded")
    return True


class _Saved:
    """A source of states: the newest save of the job in *place*, or none."""

    def __init__(self, place: Path | None) -> None:
        self.place = place
        self._save = None if place is None else StateFolder(place).newest()

    def open(self, name: str) -> IO[bytes] | None:
        """See `Source.open`."""
        if self._save is None or name not in self._save.states:
            return None
        return self._save.open(name)


def _alone() -> None:
    """Wait for nobody."""
