"""Where experiments are kept."""

from __future__ import annotations

from pathlib import Path

from nbckpt.settings import Settings
from nbckpt.store import local_folder


def experiments_folder(store: str | None = None) -> Path:
    """Return where experiments are kept: in the store's folder, or in `.nbckpt` where that is remote."""
    folder = local_folder(Settings.load().store if store is None else store)
    return (Path(".nbckpt") if folder is None else folder).absolute() / "experiments"
