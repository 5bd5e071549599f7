"""Save and load states: all states together, in one save that is complete or absent."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from nbckpt.states import replica
from nbckpt.states.folder import StateFolder, at_least_one, local
from nbckpt.states.registry import current
from nbckpt.states.save import write_alone
from nbckpt.states.state import State, name_of

NO_FOLDER = (
    "no folder is set, so no state is saved. Set NBCKPT_CHECKPOINT_PATH or use nbckpt.states.use_folder()"
)

_log = logging.getLogger("nbckpt")


def save_all_states(
    checkpoint_dir: str | os.PathLike[str] | None = None,
    *,
    barrier: Callable[[], Any] | None = None,
    keep: int | None = None,
) -> str | None:
    """Save all live states as one new save. Every replica calls this function, after the same step.

    First every replica calls `sync` of every state, then replica 0 writes. After the return the save is
    complete and survives a crash of the machine. With a barrier this holds on every replica. If the call is
    interrupted or killed at any point, the earlier saves stay complete, and the new save is complete or
    absent.

    Args:
        checkpoint_dir: The folder of the job's saves; by default the folder of `nbckpt.states`, else
            `replica.checkpoint_path()`.
        barrier: Called by every replica after its `sync`s and after the save; by default the barrier of
            `nbckpt.states`.
        keep: The number of saves to keep; by default the number of `nbckpt.states`, two.

    Returns:
        The folder of the save on replica 0, and None on the other replicas. Also None if there is no state
        or no folder to save in. Then nothing was done, and the log says so, except in a trial.

    Raises:
        UsageError: The folder is a URL, or *keep* is below one; nothing was done.
        StoreError: The disk failed.
        Exception: Any error that a state's `sync` or `save` raises.

    Examples:
        >>> best = nbckpt.State.of("best", {"loss": 0.5})
        >>> nbckpt.save_all_states() is None
        False
        >>> nbckpt.load_state(best)
        True
    """
    registry = current.get()
    path = registry.path if checkpoint_dir is None else checkpoint_dir
    if path is None:
        if registry.is_nowhere:
            _log.warning(NO_FOLDER)
        return None
    folder, keep = StateFolder(path), at_least_one(registry.keep if keep is None else keep)
    wait = barrier or registry.barrier or _alone
    states = registry.to_save()
    for _, state in states:
        state.sync()
    wait()
    save = None
    try:
        if not states:
            _log.warning("no state is alive, so nothing is saved. Keep each state in a variable")
        elif replica.rank() == 0:
            save = folder.write(states, keep=keep, replicas=replica.count())
            registry.note(dict(states), "saved")
    finally:
        registry.saved()
        wait()
    return None if save is None else str(save.folder)


def save_state(state: State, checkpoint_dir: str | os.PathLike[str], sync: bool = True) -> None:  # noqa: FBT001, FBT002  AdaptDL's signature
    """Save one state as a file in a folder of the caller. The file is not a save of the job.

    Args:
        state: The state.
        checkpoint_dir: The folder; it is made if it does not exist.
        sync: Whether to call `sync` of the state first. Every replica calls it; replica 0 writes.

    Raises:
        UsageError: The folder is a URL, or the state's class does not call `State.__init__`.
        StoreError: The disk failed.
        Exception: Any error that the state's `sync` or `save` raises.

    Examples:
        >>> best = nbckpt.State.of("best", {"loss": 0.5})
        >>> Path("folder").mkdir()
        >>> nbckpt.states.save_state(best, "folder")
    """
    name, folder = name_of(state), local(checkpoint_dir)
    if sync:
        state.sync()
    if replica.rank() == 0:
        write_alone(name, state, folder)


def load_state(state: State) -> bool:
    """Load a state from the newest complete save. Every replica calls it; any number of replicas may save.

    All states of a job are loaded from the same save, even while replica 0 makes the next one. A newer save
    that is incomplete is skipped, and the log says so.

    Returns:
        Whether the save has the state. If not, as in a first run, the state is unchanged.

    Raises:
        CorruptError: There are saves, but all are incomplete.
        StoreError: The disk failed.
        Exception: Any error that the state's `load` raises.

    Examples:
        >>> best = nbckpt.State.of("best", {"loss": 0.5})
        >>> nbckpt.load_state(best)  # a first run: nothing is saved yet
        False
    """
    name, registry = name_of(state), current.get()
    source, path = registry.source, registry.path
    if source is None or (isinstance(source, _NewestSave) and source.path != path):
        registry.source = source = _NewestSave(path)  # one source for all states: see docs/decisions/0023
    file = source.open(name)
    if file is None:
        return False
    with closing(file):
        state.load(file)
    registry.note([name], "loaded")
    return True


class _NewestSave:
    """A source of states: the newest save in the folder *path*, or nothing if there is no save."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._save = None if path is None else StateFolder(path).newest()

    def open(self, name: str) -> IO[bytes] | None:
        """See `Source.open`."""
        if self._save is None or name not in self._save.states:
            return None
        return self._save.open(name)


def _alone() -> None:
    """Wait for no other replica: the default barrier."""
