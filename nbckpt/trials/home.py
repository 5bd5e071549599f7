"""The folder in which experiments are kept."""

from __future__ import annotations

from pathlib import Path

from nbckpt.errors import UsageError
from nbckpt.settings import Settings
from nbckpt.store import local_folder
from nbckpt.store.scan import link_outside


def experiments_folder(store: str | None = None) -> Path:
    """Return the folder of experiments: in the store's folder, or `.nbckpt` here if that is remote."""
    folder = local_folder(Settings.load().store if store is None else store)
    return (Path(".nbckpt") if folder is None else folder).absolute() / "experiments"


def inside_store(folder: Path) -> Path:
    """Return a store's folder of experiments after a check that it is inside the store.

    Raises:
        UsageError: The folder is a link that leads outside.
    """
    if link_outside(folder.parent, folder.name):
        raise UsageError(
            f"{str(folder)!r} is a link that leads outside its store, so its experiments are not used. "
            "Remove the link, or move the whole store there"
        )
    return folder
