"""Unused media: files of an experiment's media that no journal of a trial names.

A report writes its media before the line of the journal that names them. So the lock of the experiment is
held while its journals are read and its files are deleted: nothing of an experiment that runs is unused.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nbckpt.errors import StoreError, UsageError
from nbckpt.media.stored import FILE, FOLDER, stored
from nbckpt.store.files import discard, sweep
from nbckpt.store.scan import is_link, link_outside, size_of
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.model import journal
from nbckpt.trials.model.journal import Damage
from nbckpt.trials.model.listing import trial_names


@dataclass
class UnusedMedia:
    """The media that no trial needs.

    Attributes:
        files: Their number.
        size: Their bytes.
    """

    files: int = 0
    size: int = 0


def free_media(catalog: Catalog, *, dry_run: bool = False) -> UnusedMedia:
    """Delete the media that no trial needs; with *dry_run* only count them.

    Media of an experiment that runs, here or elsewhere, stay. So do those of one with a damaged journal.
    """
    freed = UnusedMedia()
    for name in catalog.names():
        folder = catalog.folder / name
        if is_link(folder) or is_link(folder / FOLDER) or not (folder / FOLDER).is_dir():
            continue
        with suppress(UsageError), catalog.at_rest(name):  # an error says that it runs
            for file in _unused(folder):
                size = size_of(file)
                if not dry_run:
                    discard(file)
                if dry_run or not os.path.lexists(file):
                    freed.files, freed.size = freed.files + 1, freed.size + size
            if not dry_run:
                sweep(folder / FOLDER)
    return freed


def _unused(experiment: Path) -> list[Path]:
    """Return the media that no journal names; none if a journal is not whole or names unknown media."""
    used: set[str] = set()
    try:
        for trial in trial_names(experiment):
            if link_outside(experiment, f"{trial}/{journal.FILE}"):
                return []
            for event in journal.read(experiment / trial / journal.FILE):
                if isinstance(event, Damage):
                    return []
                if "media" in event:
                    known = list(stored(experiment, 0, event["media"]))
                    if not isinstance(event["media"], dict) or len(known) < len(event["media"]):
                        return []  # a later version may have written it
                    used.update(media.path.name for media in known)
    except StoreError:
        return []
    names = sorted(os.listdir(experiment / FOLDER))  # noqa: PTH208
    return [experiment / FOLDER / name for name in names if FILE.fullmatch(name) and name not in used]
