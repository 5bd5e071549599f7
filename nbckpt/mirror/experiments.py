"""Experiments: open an experiment by its name, in a folder or at a URL, from which it is pulled first."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nbckpt.errors import NotFoundError, UsageError
from nbckpt.mirror.merge import left
from nbckpt.store import PrefixStore, Store, local_folder, open_store
from nbckpt.store.files import exists, explained, make_folder
from nbckpt.store.locks import Timeout
from nbckpt.store.scan import can_be_named, link_outside
from nbckpt.sync.download import download
from nbckpt.sync.transfer import Moved, TransferOptions
from nbckpt.trials.catalog import Catalog, no_experiment
from nbckpt.trials.engine.claim import at_rest
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.engine.sheets import EXPERIMENTS, prefixes_there
from nbckpt.trials.home import experiments_folder, inside_store
from nbckpt.trials.model import spec_file


def open_experiment(name: str, path_or_url: str | os.PathLike[str] | None = None) -> Experiment:
    """Open an experiment, to look at it and to control it.

    An experiment at a URL is pulled into the store's folder first, as by `%ckpt pull`, and opened there. If
    it is there already, only trials that are new or newer at the URL are copied. What happens to the copy
    is not sent back.

    Args:
        name: The experiment's name; or the folder or URL and the name, such as `ray_results/rates`.
        path_or_url: A store's folder, a folder of experiments, or the URL of a store or of an `upload_dir`;
            by default the store.

    Raises:
        NotFoundError: There is no such experiment. The message suggests the closest name.
        UsageError: The URL is invalid, or another experiment has this name in the store.
        CorruptError: The experiment's file is damaged.
        StoreError: The storage or the disk failed.

    Examples:
        >>> with nbckpt.track("baseline", lr=0.1) as run:
        ...     run.report(loss=0.5)
        >>> nbckpt.open_experiment("baseline").trials[0].config
        {'lr': 0.1}
    """
    if path_or_url is None and "/" in name:
        parent, _, name = name.rstrip("/").rpartition("/")
        path_or_url = parent or "/"
    if path_or_url is None:
        return Catalog(inside_store(experiments_folder())).open(name)
    folder = local_folder(path_or_url)
    if folder is None:
        return _pulled(name, open_store(path_or_url), inside_store(experiments_folder()))
    catalogs = [Catalog(folder.absolute() / EXPERIMENTS), Catalog(folder.absolute())]
    names = {known: catalog for catalog in catalogs for known in catalog.names()}
    if name not in names:
        raise NotFoundError(no_experiment(name, list(names), repr(str(folder))))
    return names[name].open(name)


def _pulled(name: str, target: Store, experiments: Path) -> Experiment:
    """Pull an experiment, and open it. If it runs here, nothing is pulled: this is the newest state."""
    options, folder = TransferOptions(), experiments / name
    work = options.work(target.url)
    keys = [f"{prefix}/{spec_file.FILE}" for prefix in (f"{EXPERIMENTS}/{name}", name) if _is_name(name)]
    key = next((key for key in keys if work.one(partial(target.exists, key))), "")
    if not key:
        raise NotFoundError(no_experiment(name, list(prefixes_there(target)), target.url))
    if link := link_outside(experiments.parent, f"{experiments.name}/{name}"):
        raise UsageError(f"{link} is a link that leads outside {experiments.parent}: remove it")
    if why := another(folder, work.one(partial(target.get, key)), target.url):
        raise UsageError(why)
    with suppress(Timeout):
        take(folder, PrefixStore(target, key.removesuffix(f"/{spec_file.FILE}")), options)
    return Experiment.read(folder)


def _is_name(name: str) -> bool:
    return bool(name) and not (name.startswith(".") or {"/", "\\"} & set(name)) and can_be_named(name)


def another(folder: Path, there: bytes, url: str) -> str:
    """Return why an experiment must not be pulled into *folder*: another one has its name. Or return "".

    Args:
        folder: The experiment's folder here.
        there: Its `experiment.json` at the URL.
        url: Where it is from, for people.

    Raises:
        CorruptError: One of the files is damaged.
    """
    with suppress(NotFoundError):
        if spec_file.read(folder).spec.created_at != spec_file.created_at(there, url):
            return (
                f"{folder.name!r} in {folder.parent} is another experiment than at {url}. Remove it with "
                f"%ckpt rm {folder.name}, or set NBCKPT_STORE to another folder"
            )
    return ""


def take(folder: Path, there: Store, options: TransferOptions) -> Moved:
    """Pull an experiment into *folder*. What is there and newer stays; see merge.py.

    Raises:
        Timeout: The experiment runs here.
        NotFoundError: Nothing is there yet.
        StoreError: The storage or the disk failed, or the pull was cancelled or took too long.
    """
    with explained("write", folder):
        make_folder(folder.parent)
    # A missing experiment is locked too: otherwise a run of this name could begin meanwhile.
    with at_rest(folder, timeout=0):
        if not exists(folder):
            return download(there, folder, options=options)
        patterns, reasons = left(folder, there, options.work(there.url))
        moved = download(there, folder, exclude=patterns, options=options)
        return replace(moved, left_out={**moved.left_out, **reasons})
