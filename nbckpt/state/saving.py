"""Saving and loading states: all together, in one save that is whole or not there."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from nbckpt.errors import StoreError
from nbckpt.state import replica
from nbckpt.state.folder import Save, StateFolder, write_state
from nbckpt.state.registry import Registry, current
from nbckpt.state.state import State, name_of

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
    it is interrupted or killed at any point, the earlier saves are whole and this one is not there.

    Args:
        checkpoint_dir: The folder of the job's saves; by default that of `nbckpt.states`, else
            `replica.checkpoint_path()`.
        barrier: Called by every replica after its `sync`s and after the save; by default that of
            `nbckpt.states`.
        keep: How many saves are kept, by default that of `nbckpt.states`, two.

    Returns:
        The save's folder on replica 0. None on the others, and where there is no folder to save in, in
        which case nothing was done.

    Raises:
        StoreError: The disk failed.
        Exception: Whatever a state's `sync` or `save` raises.
    """
    registry = current.get()
    place = registry.path if checkpoint_dir is None else Path(checkpoint_dir)
    if place is None:
        return None
    wait = barrier or registry.barrier or _alone
    states = registry.live()
    for _, state in states:
        state.sync()
    wait()
    try:
        made = None
        if replica.rank() == 0:
            folder = StateFolder(place)
            made = folder.write(states, keep=keep or registry.keep, replicas=replica.count())
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
        StoreError: The disk failed.
        Exception: Whatever the state's `sync` or `save` raises.
    """
    if sync:
        state.sync()
    if replica.rank() == 0:
        folder = Path(checkpoint_dir)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make {str(folder)!r}: {error.strerror or error}") from error
        write_state(name_of(state), state, folder)


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
    registry.source = registry.source or _source(registry)
    file = registry.source.open(name)
    if file is None:
        return False
    with closing(file):
        state.load(file)
    return True


def _source(registry: Registry) -> _Saved:
    place = registry.path
    return _Saved(None if place is None else StateFolder(place).newest())


class _Saved:
    """A source of states: one save of the job, or none."""

    def __init__(self, save: Save | None) -> None:
        self._save = save

    def open(self, name: str) -> IO[bytes] | None:
        """See `Source.open`."""
        if self._save is None or name not in self._save.states:
            return None
        return self._save.open(name)


def _alone() -> None:
    """Wait for nobody."""
