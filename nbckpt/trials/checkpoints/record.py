"""A checkpoint's record: the file that commits and describes a checkpoint, beside the folder of its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import PurePosixPath
from typing import Any, Literal, Self

from nbckpt.core.manifest import now
from nbckpt.core.schema import SEALED, OneOf, seal, unseal
from nbckpt.core.tree import INSIDE, check_path
from nbckpt.errors import CorruptError
from nbckpt.render import count

PREFIX = "checkpoint_"
SUFFIX = ".json"
TEMPORARY = f"{PREFIX}tmp"

Kind = Literal["files", "fields", "null"]

_FORM = {
    "format": int,
    "name": str,
    "kind": re.compile("files|fields|null"),
    "iteration": int,
    "time_total_s": float,
    **dict.fromkeys(("timesteps_total", "episodes_total"), OneOf(int, None)),
    "metrics": dict,
    "inner": str,
    "files": {str: (int, str)},
    "folders": [str],
    "temporary": bool,
    "created_at": str,
}


@dataclass(frozen=True)
class Record:
    """The record that commits and describes a checkpoint.

    Attributes:
        name: The name of its folder.
        kind: `files` for a user's folder, `fields` for a dict, `null` for an empty checkpoint, which has
            no folder.
        iteration: The number of results that the trial had.
        time_total_s: How long the trial had trained, in seconds.
        timesteps_total: The number of timesteps, if the user's code counts them.
        episodes_total: The number of episodes, if the user's code counts them.
        metrics: The last result.
        inner: The path inside the folder that the user's code gave; empty for the folder itself.
        files: Each file's size in bytes and checksum, by its path.
        folders: The empty folders.
        temporary: Whether the checkpoint was made from an object in memory, and is removed after use.
        created_at: When the checkpoint was committed, in UTC.
    """

    name: str
    kind: Kind
    iteration: int
    time_total_s: float = 0.0
    timesteps_total: int | None = None
    episodes_total: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    inner: str = ""
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    temporary: bool = False
    created_at: str = field(default_factory=now)

    def __repr__(self) -> str:
        return f"Record({self.name}, {self.kind}, {count(len(self.files), 'file')})"

    @property
    def step(self) -> int:
        """The number in its name, which people use to refer to it."""
        digits = self.name.rpartition("_")[2]
        return int(digits) if digits.isdecimal() else self.iteration

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(size for size, _ in self.files.values())

    def encode(self) -> bytes:
        """Return the record as JSON for its file."""
        return seal({"format": SEALED, **asdict(self)})

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Return the record that `encode` wrote.

        Raises:
            CorruptError: The data was changed, or a path in the record leads outside.
            FormatError: A newer nbckpt wrote the record.
        """
        read = unseal(data, _FORM, where)
        files = {path: (size, checksum) for path, (size, checksum) in read["files"].items()}
        attributes = {attribute.name: read[attribute.name] for attribute in fields(cls)}
        record = cls(**attributes | {"files": files, "folders": tuple(read["folders"])})
        try:
            _check(record)
        except ValueError as error:
            raise CorruptError(f"{where} is damaged: {error}") from error
        return record


def name_of(step: int) -> str:
    """Return the name of the checkpoint of a step."""
    return f"{PREFIX}{step:06d}"


def _check(record: Record) -> None:
    """Refuse a record whose name, counts or paths cannot belong to a checkpoint."""
    parts = PurePosixPath(record.name).parts
    if len(parts) != 1 or not record.name.startswith(PREFIX) or not record.iteration >= 0:
        raise ValueError(f"its name is {record.name!r}, its iteration {record.iteration!r}")
    for path in (*record.files, *record.folders, *([record.inner] if record.inner else [])):
        safe_path(path)


def safe_path(path: str) -> str:
    """Return *path* if it is a valid path in a checkpoint's folder; otherwise raise ValueError.

    The files that hold a checkpoint's fields are valid, too.
    """
    check_path(path.removeprefix(f"{INSIDE}/"))
    return path
