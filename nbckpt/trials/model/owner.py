"""Owner: the trial that a file names, so that a file of another trial is noticed."""

from __future__ import annotations

import re
from pathlib import Path

from nbckpt.errors import CorruptError

_TRIAL = re.compile("t[0-9]+")


def is_of_other(named: str | None, folder: Path) -> bool:
    """Tell whether a file in the folder of a trial names another trial. A folder of another name is a copy.

    Args:
        named: The trial that the file names; None if an earlier nbckpt wrote it.
        folder: The folder.
    """
    return named not in {None, folder.name} and _TRIAL.fullmatch(folder.name) is not None


def check_owner(file: str, named: str | None, folder: Path) -> None:
    """Check that a file in the folder of a trial does not name another trial.

    Raises:
        CorruptError: It does.
    """
    if is_of_other(named, folder):
        raise CorruptError(f"{file} is damaged: it belongs to the trial {named}")
