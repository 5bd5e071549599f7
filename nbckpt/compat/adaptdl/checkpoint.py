"""States by AdaptDL's names, and the checkpoints that AdaptDL wrote.

AdaptDL's checkpoint is a folder `checkpoint-N` that holds one file for each state, under the state's name.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from nbckpt.errors import CorruptError, FormatError, NotFoundError, UntrustedError
from nbckpt.states import State, saving
from nbckpt.states.folder import StateFolder
from nbckpt.states.registry import current
from nbckpt.states.save import Save
from nbckpt.states.saving import save_all_states, save_state
from nbckpt.store.files import explained, only_files
from nbckpt.store.scan import is_link

__all__ = ["State", "load_state", "save_all_states", "save_state"]


def load_state(state: State, *, trust: bool = False) -> bool:
    """Load a state from the newest save; see `nbckpt.load_state`.

    If nbckpt has not saved in the job's folder yet, AdaptDL's newest checkpoint there is loaded.

    Args:
        state: The state.
        trust: Load AdaptDL's checkpoint. It is not needed for the saves of nbckpt.

    Raises:
        UntrustedError: There is only a checkpoint of AdaptDL, and *trust* was not given.
        CorruptError: There are saves, but all are incomplete.
        StoreError: The disk failed.
        Exception: Any error that the state's `load` raises.
    """
    registry = current.get()
    if registry.source is None and registry.path is not None:
        folder = newest_checkpoint(registry.path)
        if folder is not None and not trust:
            raise UntrustedError(
                f"{str(folder)!r} was written by AdaptDL, and a state that loads its pickles could run "
                "anything. If you know who wrote it, pass trust=True to load_state()"
            )
        if folder is not None:
            registry.source = AdaptDLCheckpoint(folder)
    return saving.load_state(state)


class AdaptDLCheckpoint:
    """A source of states: a folder that AdaptDL wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, name: str) -> IO[bytes] | None:
        """See `nbckpt.states.registry.Source.open`. A name or a link that leads outside is not opened."""
        file = self.folder / name
        if file.parent != self.folder or is_link(file) or not file.is_file():
            return None
        with explained("read", file):
            return open(file, "rb", opener=only_files)


def newest_checkpoint(path: Path) -> Path | None:
    """Return AdaptDL's newest checkpoint in a job's folder, or None if nbckpt has saved there.

    Raises:
        StoreError: The disk failed.
    """
    folders = [folder for folder in StateFolder(path).folders() if not is_link(folder)]
    return None if any(map(_is_ours, folders)) else next(iter(folders), None)


def _is_ours(folder: Path) -> bool:
    try:
        Save.read(folder)
    except NotFoundError:
        return False
    except (CorruptError, FormatError):
        return True
    return True
