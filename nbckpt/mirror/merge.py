"""Merge: choose the files that a pull copies into an experiment that exists locally.

A remote trial is newer if its journal begins with the whole local journal; a local trial is newer in the
opposite case. If both journals grew differently, the local trial stays as it is. No file of the user's is
ever replaced. See docs/decisions/0054.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from nbckpt.provenance import trial as provenance
from nbckpt.provenance.inputs import FILE as INPUTS
from nbckpt.store import Store
from nbckpt.store.files import explained
from nbckpt.sync.files import contents, digest_of
from nbckpt.sync.index import Index
from nbckpt.sync.target import index_of
from nbckpt.sync.transfer import TransferPool
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX
from nbckpt.trials.model import journal, log
from nbckpt.trials.model.annotation import FILE as NOTES
from nbckpt.trials.model.params import FILE as PARAMS

Newer = Literal["here", "there", "both", "neither"]

_OTHER = "the local file has other contents"
_BOTH = "it continued on both sides: neither was changed"


def left(folder: Path, store: Store, work: TransferPool) -> tuple[list[str], dict[str, str]]:
    """Return patterns of the files not to copy, and the reasons to show to the user.

    Args:
        folder: The experiment's local folder.
        store: The experiment's remote target.
        work: Makes the requests.

    Raises:
        NotFoundError: The target is still empty.
        StoreError: The storage or the disk failed.
    """
    index = index_of(store, work)
    with explained("read", folder):
        newer = {
            trial: _newer(folder, trial, index, store, work)
            for trial in {path.partition("/")[0] for path in index.items if "/" in path}
            if (folder / trial / journal.FILE).is_file()
        }
        both = {trial: _BOTH for trial, side in newer.items() if side == "both"}
        paths = {path for path in index.items if path.partition("/")[0] not in both}
        kept = dict(_kept(folder, index, newer, paths))
    reasons = both | {path: reason for path, reason in kept.items() if reason}
    return [glob.escape(path) for path in (*both, *kept)], reasons


def _newer(folder: Path, trial: str, index: Index, store: Store, work: TransferPool) -> Newer:
    """Return the side whose journal of a trial is longer and begins with the other side's journal."""
    path = f"{trial}/{journal.FILE}"
    if path not in index.items:
        return "here"
    there, here = index.items[path], (folder / path).read_bytes()
    common = min(there.size, len(here))
    if work.one(partial(store.get, index.key(path), 0, common)) != here[:common]:
        return "both"
    if there.size == len(here):
        return "neither"
    return "there" if there.size > len(here) else "here"


def _kept(folder: Path, index: Index, newer: dict[str, Newer], paths: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the paths not to copy, each with the reason; "" if the user need not know."""
    for path in sorted(paths):
        trial, _, rest = path.partition("/")
        side, is_checkpoint = newer.get(trial), rest.startswith(PREFIX)
        is_ours = rest in {journal.FILE, PARAMS, NOTES, log.FILE, provenance.FILE, INPUTS} or is_checkpoint
        if not (folder / path).is_file():
            is_gone = side == "here" or (side == "neither" and not _has_part(folder / trial, rest))
            if is_checkpoint and is_gone:  # it was removed locally
                yield path, ""
        elif not (_is_same(folder / path, path, index) or (side == "there" and is_ours)):
            yield path, "" if side == "here" or (is_ours and side) else _OTHER


def _has_part(trial: Path, path: str) -> bool:
    """Return whether a part of the checkpoint of *path* is there. A removal leaves no part."""
    name = path.partition("/")[0].removesuffix(SUFFIX)
    return any(os.path.lexists(trial / part) for part in (name, name + SUFFIX))


def _is_same(file: Path, path: str, index: Index) -> bool:
    size, digest = file.stat().st_size, index.items[path].digest
    return size == index.items[path].size and digest_of(contents(file, size), digest) == digest
