"""The files of a checkpoint's folder: which files are allowed, their sizes and their checksums."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.errors import CorruptError, NbckptError, UsageError
from nbckpt.store.files import rename
from nbckpt.store.scan import link_outside
from nbckpt.sync.exclude import parents
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX, Record, safe_path


def contents(folder: Path) -> tuple[dict[str, tuple[int, str]], tuple[str, ...]]:
    """Return a folder's files with their sizes and checksums, and its empty folders.

    A link becomes a copy of the file that it points to.

    Raises:
        UsageError: The folder holds a link that leads outside or to a folder, or a special file.
    """
    files: dict[str, tuple[int, str]] = {}
    empty_folders: list[str] = []
    for entry in walk(folder):
        path = safe_path(entry.relative_to(folder).as_posix())
        if entry.is_dir():
            empty_folders.append(path)
        else:
            files[path] = (entry.stat().st_size, PREFERRED.checksum_of_file(entry))
    return dict(sorted(files.items())), tuple(sorted(empty_folders))


def walk(top: Path) -> Iterator[Path]:
    """Yield the files and the empty folders below *top*. A link becomes a copy of its target.

    Raises:
        UsageError: There is a link that leads outside or to a folder, or a special file.
    """
    for here, folders, names in os.walk(top, onerror=_raise):
        folder = Path(here)
        for name in folders:
            if (folder / name).is_symlink():
                raise UsageError(f"{name!r} in the checkpoint is a link to a folder: copy what it points to")
        for name in names:
            file = folder / name
            if file.is_symlink():
                _copy_in_place(file, top)
            if not file.is_file():
                raise UsageError(f"{name!r} in the checkpoint is neither a file nor a folder: take it out")
            yield file
        if not folders and not names and folder != top:
            yield folder


def check_files(folder: Path, record: Record, where: object) -> None:
    """Read every file of a checkpoint that is in *folder*.

    Raises:
        CorruptError: A file is missing or differs from the recorded one; the message names it and *where*.
        FormatError: This machine cannot compute the record's checksums.
    """
    for path, (size, checksum) in record.files.items():
        file = folder / path
        is_there = file.is_file() and not link_outside(folder.parent, f"{folder.name}/{path}")
        algorithms = of_checksum(checksum, f"{path!r} of {record.name}")
        if not is_there or file.stat().st_size != size or algorithms.checksum_of_file(file) != checksum:
            raise CorruptError(f"{path!r} of {record.name} in {where} is not what was saved")


def incomplete(folder: Path, paths: Collection[str]) -> dict[str, str]:
    """Return the records of checkpoints whose files are not among *paths*: `rm` or `undo` moves them now."""
    folders = {folder for path in paths for folder in parents(path)}
    records = [path for path in paths if path.rpartition("/")[2].startswith(PREFIX) and path.endswith(SUFFIX)]
    reasons = {}
    for path in (path for path in records if path.removesuffix(SUFFIX) not in folders):
        with suppress(OSError, NbckptError):  # a damaged record is sent as it is
            if Record.decode((folder / path).read_bytes(), path).files:
                reasons[path] = "the files of this checkpoint are not here"
    return reasons


def _raise(error: OSError) -> None:
    raise error


def _copy_in_place(link: Path, top: Path) -> None:
    target = link.resolve()
    if not target.is_relative_to(top.resolve()) or not target.is_file():
        raise UsageError(
            f"{link.name!r} in the checkpoint is a link that leads outside or nowhere: copy the file"
        )
    copied = link.with_name(uuid.uuid4().hex)
    shutil.copy2(target, copied)
    rename(copied, link)
