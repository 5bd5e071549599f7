"""Media and their encoded form: the bytes, the kind and a small preview."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.render import size

LARGEST = 64 << 20
"""The most bytes of one object, and of all objects of one report."""
MOST = 100
"""The most objects of one report."""
LONGEST_NAME = 500
"""The most characters of a name, with the names of the dicts around it."""
MOST_PREVIEW = 8_000
"""The most bytes of a preview, as JSON."""
ENDINGS = {
    "image": "png",
    "figure": "png",
    "table": "json",
    "text": "txt",
    "html": "html",
    "svg": "svg",
    "file": "bin",
}
"""The ending of the file of each kind. A file keeps its own ending."""
ENDING = re.compile("[a-z0-9]{1,10}")


@dataclass(frozen=True)
class Encoded:
    """An object as it is stored.

    Attributes:
        kind: One of `ENDINGS`.
        data: The bytes.
        preview: Facts and a small view, as plain JSON.
        ending: The ending of a file; empty for the usual ending of the kind.
    """

    kind: str
    data: bytes
    preview: Mapping[str, Any] = field(default_factory=dict)
    ending: str = ""

    def __repr__(self) -> str:
        return f"Encoded({self.kind}, {size(len(self.data))})"


class Media(ABC):
    """A result that is not a number. Report it under a name: `nbckpt.report(samples=Image(array))`.

    Attributes:
        caption: A short text that is shown with it.
    """

    caption: str = ""

    @abstractmethod
    def encode(self) -> Encoded:
        """Return it as it is stored.

        Raises:
            UsageError: It cannot be stored, or is larger than a limit.
        """

    def __repr__(self) -> str:
        return f"nbckpt.media.{type(self).__name__}({self.caption!r})"


def bounded(kind: str, data: bytes, preview: Mapping[str, Any], ending: str = "") -> Encoded:
    """Return an encoded object whose preview is small enough.

    Raises:
        UsageError: The object is too large.
    """
    check_size(kind, len(data))
    kept = {key: value for key, value in preview.items() if value not in ("", None)}
    while kept and len(json.dumps(kept)) > MOST_PREVIEW:
        del kept[max(kept, key=lambda key: len(json.dumps(kept[key])))]
    return Encoded(kind, data, kept, ending)


def check_size(kind: str, number: int) -> None:
    """Refuse an object that is too large.

    Raises:
        UsageError: It is larger than the limit.
    """
    if number > LARGEST:
        raise UsageError(
            f"the {kind} has {size(number)}; the limit is {size(LARGEST)}. Report a smaller one, or save it "
            "in a checkpoint"
        )


def file_bytes(kind: str, path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a user's file.

    Raises:
        NotFoundError: There is no such file.
        UsageError: It is too large.
        StoreError: It cannot be read.
    """
    file = Path(path)
    if not file.is_file():
        raise NotFoundError(f"there is no file {os.fspath(path)!r} to report as {kind}")
    try:
        check_size(kind, file.stat().st_size)
        data = file.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}") from error
    check_size(kind, len(data))
    return data
