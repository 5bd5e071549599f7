"""params.json: the configuration of a trial."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbckpt.core.schema import CHECKSUM, SEALED, check, parse, seal, unseal
from nbckpt.errors import CorruptError, StoreError
from nbckpt.store.files import explained, only_files, write_files
from nbckpt.store.scan import is_link
from nbckpt.trials.model.drawing import Keys, lookalikes, picks_of
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.model.owner import check_owner

FILE = "params.json"

_FORM = {"format": int, "config": dict, "trial?": str, "picks?": {str: int}}
_NO_LISTS: Mapping[Keys, Sequence[Any]] = {}
_NO_SPACE: Mapping[str, Any] = {}
_NAMES = {"format", "config", CHECKSUM}


def encode(config: Mapping[str, Any], trial: str, lists: Mapping[Keys, Sequence[Any]] = _NO_LISTS) -> bytes:
    """Return the contents of the file. A value that JSON cannot express is written as its `repr`.

    If it comes from one of the *lists*, whose values look the same, its place there is written too.
    """
    picks = picks_of(lists, config)
    document = {"format": SEALED, "trial": trial, "config": plain(config)}
    return seal(document | {"picks": picks} if picks else document)


def write(configs: Mapping[Path, Mapping[str, Any]], space: Mapping[str, Any] = _NO_SPACE) -> None:
    """Make the folders of trials with their configurations, durably, in about the time of one folder.

    The configurations come from the *space*.

    Raises:
        StoreError: The disk failed, or there is a link in the place of a folder.
    """
    with explained("make the trial", next(iter(configs), "")):
        for folder in filter(is_link, configs):
            raise FileExistsError(errno.EEXIST, f"{str(folder)!r} is a link")
        lists = lookalikes(space)
        write_files({folder / FILE: encode(config, folder.name, lists) for folder, config in configs.items()})


def read(folder: Path) -> dict[str, Any]:
    """Return the configuration of the trial in *folder*, in its JSON form.

    Raises:
        CorruptError: The file is missing or damaged, or belongs to another trial.
        StoreError: The disk failed.
    """
    config: dict[str, Any] = _document(folder)["config"]
    return config


def picks(folder: Path) -> dict[str, int]:
    """Return which values the trial in *folder* has, of those that look the same. See `picks_of`.

    Raises:
        CorruptError: The file is missing or damaged, or belongs to another trial.
        StoreError: The disk failed.
    """
    kept: dict[str, int] = _document(folder).get("picks", {})
    return kept


def _document(folder: Path) -> dict[str, Any]:
    try:
        with open(folder / FILE, "rb", opener=only_files) as file:
            data = file.read()
    except FileNotFoundError:
        raise CorruptError(f"{FILE} is missing") from None
    except OSError as error:
        raise StoreError(f"cannot read {FILE}: {error.strerror or error}") from error
    document: dict[str, Any] = check(parse(data, FILE), dict, FILE)
    # Format 1 was the plain configuration. Two of the names distinguish the formats even if one is damaged.
    if len(_NAMES & document.keys()) < 2:
        return {"config": document}
    document = unseal(data, _FORM, FILE)
    check_owner(FILE, document.get("trial"), folder)
    return document
