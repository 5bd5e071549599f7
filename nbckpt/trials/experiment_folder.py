"""The folder of an experiment: found, downloaded or made."""

from __future__ import annotations

import os
import re
import string
from contextlib import suppress
from datetime import datetime
from itertools import count, product
from pathlib import Path
from typing import Literal

from nbckpt.errors import NotFoundError, UsageError
from nbckpt.store.files import explained, make_folder
from nbckpt.store.fsync import sync_folder
from nbckpt.store.scan import can_be_named, link_outside
from nbckpt.trials.engine.fetch import fetch, is_there
from nbckpt.trials.home import experiments_folder, inside_store
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.spec import Spec

Resume = Literal["auto", "must", "never"]
"""Whether an experiment of this name may, must or must not exist."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_TRIAL = re.compile(r"t\d+", re.ASCII)


def experiment_folder(folder: str | os.PathLike[str] | None, name: str, spec: Spec, resume: Resume) -> Path:
    """Return the experiment's folder. Without a name, make a new folder."""
    if resume not in {"auto", "must", "never"}:
        raise UsageError(f"resume={resume!r} is unknown: use 'auto', 'must' or 'never'")
    if name and not isinstance(name, str):
        raise UsageError(f"name={name!r} is not a text: give a name such as 'baseline'")
    if not isinstance(folder, (str, os.PathLike, type(None))):
        raise UsageError(f"folder={folder!r} is not a path")
    if name and not (_NAME.fullmatch(name) and can_be_named(name)):
        raise UsageError(
            f"{name!r} cannot name an experiment: use letters, digits, '_', '-' and '.', and no name "
            "that the system reserves"
        )
    top = inside_store(experiments_folder()) if folder is None else Path(folder).absolute()
    if name:
        _check_no_trial(top, name, spec)
        return top / name
    if resume == "must":
        raise UsageError("resume='must' needs the name of the experiment to resume")
    return _new_folder(top, spec)


def _check_no_trial(top: Path, name: str, spec: Spec) -> None:
    """Refuse the name of a trial for a new experiment: commands could mean either. Older ones keep theirs."""
    if _TRIAL.fullmatch(name) and not (top / name).exists() and not is_there(spec.sync, name):
        raise UsageError(
            f"{name!r} cannot name an experiment, because trials have such names. Choose another one, for "
            f"example 'exp-{name}'"
        )


def find_or_make(folder: Path, spec: Spec, resume: Resume) -> None:
    """Download the experiment if it is only on remote storage. If it is nowhere, make its folder."""
    name = folder.name
    if link_outside(folder.parent, name):
        raise UsageError(f"{name!r} in {folder.parent} is a link that leads outside: remove it")
    there = spec_file.is_there(folder)
    if not there:
        there = bool(is_there(spec.sync, name)) if resume == "never" else fetch(spec.sync, name, folder)
    if resume == "must" and not there:
        raise NotFoundError(f"there is no experiment {name!r} in {folder.parent} to resume: see %ckpt trials")
    if resume == "never" and there:
        raise UsageError(
            f"there is an experiment {name!r} already: choose another name, or leave out resume='never'"
        )
    if not there:
        _make(folder)


def _new_folder(top: Path, spec: Spec) -> Path:
    """Make a folder with a new name: the function's name, the day and a letter."""
    base = re.sub(r"[^A-Za-z0-9_]", "", spec.function_name) or "trials"
    letters = ("".join(word) for size in count(1) for word in product(string.ascii_lowercase, repeat=size))
    for letter in letters:
        folder = top / f"{base}_{datetime.now():%m%d}{letter}"
        if not folder.exists() and not is_there(spec.sync, folder.name) and _make(folder):
            return folder
    raise AssertionError("letters have no end")


def _make(folder: Path) -> bool:
    """Make an experiment's folder, durably. Return whether it is new."""
    with explained("make", folder, "Choose another store"), suppress(FileExistsError):
        make_folder(folder.parent)
        folder.mkdir()
        sync_folder(folder.parent)
        return True
    return False
