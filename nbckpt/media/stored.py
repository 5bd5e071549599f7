"""Stored media: files of an experiment, each with the digest of its bytes as its name.

    <experiment>/media/<digest>.<ending>

Equal bytes are stored once for all trials. The journals of the trials say what belongs to which result.
A journal can come from another machine: kinds, digests, endings and previews are checked when it is read.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.errors import CorruptError, NotFoundError, StoreError, UsageError
from nbckpt.media.base import ENDING, ENDINGS, LARGEST, LONGEST_NAME, MOST_PREVIEW, Encoded
from nbckpt.media.png import MOST_PIXELS, dimensions
from nbckpt.render import short, size
from nbckpt.store.files import explained, only_files, write_file
from nbckpt.store.scan import OUTSIDE, link_outside

FOLDER = "media"
FILE = re.compile(r"[0-9a-f]{64}\.[a-z0-9]{1,10}")
_DIGEST = re.compile("(blake2b-256:)?[0-9a-f]{64}")
_MOST_READ = 1_000


@dataclass(frozen=True)
class MediaData:
    """Media of a result, for other programs.

    Attributes:
        name: The name under which it was reported.
        step: The iteration of its result.
        type: image, figure, table, text, html, svg or file.
        digest: The checksum of its bytes.
        size: The number of its bytes.
    """

    name: str
    step: int
    type: str
    digest: str
    size: int


@dataclass(frozen=True, repr=False)
class StoredMedia:
    """Media of a result. The bytes are read when `load` or `read` asks for them.

    Attributes:
        name: The name under which it was reported; `a/b` means b in the dict a.
        step: The iteration of its result.
        type: image, figure, table, text, html, svg or file.
        digest: The checksum of its bytes.
        size: The number of its bytes.
        path: The file.
        preview: Facts and a small view, as plain JSON; empty for all but the newest media of a trial.

    Examples:
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(page=nbckpt.media.Html("<h1>It learns</h1>"))
        >>> run.trial.media[0].read()
        b'<h1>It learns</h1>'
    """

    name: str
    step: int
    type: str
    digest: str
    size: int
    path: Path
    preview: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Any:
        """Return the object: a text, a table as a frame of pandas, an image of PIL, or bytes.

        Without pandas a table is a list of dicts. Without PIL an image is the bytes of its PNG.

        Raises:
            NotFoundError: The file is not here.
            CorruptError: The file is not what was reported.
        """
        data = self.read()
        if self.type in {"text", "html", "svg"}:
            return data.decode("utf-8", "replace")
        if self.type == "table":
            return _frame(*self.table(data))
        if self.type in {"image", "figure"}:
            self.check_pixels(data)
            return _picture(data)
        return data

    def read(self) -> bytes:
        """Return the bytes.

        Raises:
            NotFoundError: The file is not here.
            CorruptError: The file is not what was reported.
            StoreError: The disk failed.
        """
        experiment = self.path.parents[1]
        if link := link_outside(experiment, f"{FOLDER}/{self.path.name}"):
            raise CorruptError(f"{self._label} is not read: {link} in {experiment}: {OUTSIDE}")
        try:
            with explained("read", self.path), open(self.path, "rb", opener=only_files) as file:
                data = file.read(self.size + 1)
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise NotFoundError(f"{self._label} is not here: {self.path} is missing") from None
            raise
        algorithms = of_checksum(self.digest, self._label)
        if len(data) != self.size or algorithms.checksum([data]) != self.digest:
            raise CorruptError(f"{self._label} is not what was reported: {self.path} was changed")
        return data

    def table(self, data: bytes) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and the rows of a table from its bytes.

        Raises:
            CorruptError: They are not a table.
        """
        try:
            whole = json.loads(data)
            columns, rows = whole["columns"], whole["rows"]
            is_table = isinstance(columns, list) and isinstance(rows, list)
            is_table = is_table and all(isinstance(row, list) and len(row) == len(columns) for row in rows)
        except (ValueError, TypeError, KeyError, RecursionError):
            is_table = False
        if not is_table:
            raise CorruptError(f"{self._label} is not a table")
        return list(map(str, columns)), rows

    def check_pixels(self, data: bytes) -> None:
        """Refuse bytes that are not a PNG, or a PNG that is too large to show.

        Raises:
            CorruptError: They are not, or it is.
        """
        width, height = dimensions(data) or (0, 0)
        if not 0 < width * height <= MOST_PIXELS:
            raise CorruptError(f"{self._label} is not an image with at most {MOST_PIXELS:,} pixels")

    def for_json(self) -> MediaData:
        """Return it for other programs; see render/json.py."""
        return MediaData(self.name, self.step, self.type, self.digest, self.size)

    @property
    def _label(self) -> str:
        return f"{short(self.name)!r} of result {self.step}"

    def __str__(self) -> str:
        return f"{self.type}:{self.digest}"

    def __repr__(self) -> str:
        return f"StoredMedia({self.type} {self.name!r} of result {self.step}, {size(self.size)})"


def store(experiment: Path, media: Mapping[str, Encoded]) -> dict[str, dict[str, Any]]:
    """Write media to an experiment's folder, durably. Return what the journal says about them.

    Files that are there already are not written again.

    Raises:
        UsageError: The worker of the trial, which can be on another machine, sent something else; or the
            folder is a link that leads outside.
        StoreError: The disk failed.
    """
    if link_outside(experiment, FOLDER):
        raise UsageError(f"media are not written to {experiment / FOLDER}: {OUTSIDE}. Remove the link")
    lines = {}
    for name, encoded in media.items():
        digest = PREFERRED.checksum([encoded.data])
        line: dict[str, Any] = {"type": encoded.kind, "digest": digest, "size": len(encoded.data)}
        line |= {"ending": encoded.ending} if encoded.ending else {}
        readable = next(stored(experiment, 0, {name: line | {"preview": encoded.preview}}), None)
        if readable is None:
            raise UsageError(f"{short(name)!r} is not media that nbckpt stores")
        lines[name], file = line | {"preview": readable.preview}, readable.path
        with explained("write", file):
            if not (file.is_file() and file.stat().st_size == len(encoded.data)):
                write_file(file, encoded.data)
    return lines


def stored(experiment: Path, step: int, media: object) -> Iterator[StoredMedia]:
    """Yield the media of a result that a journal names. What no nbckpt would write is left out."""
    if not isinstance(media, dict):
        return
    for name, line in list(media.items())[:_MOST_READ]:
        if isinstance(line, dict) and len(name) <= LONGEST_NAME and _is_usual(line):
            ending = line.get("ending", "")
            file = experiment / FOLDER / _file_name(line["digest"], line["type"], ending)
            preview = line.get("preview")
            if not isinstance(preview, dict) or len(json.dumps(preview)) > MOST_PREVIEW:
                preview = {}
            yield StoredMedia(name, step, line["type"], line["digest"], line["size"], file, preview)


def _is_usual(line: Mapping[str, Any]) -> bool:
    kind, digest, number, ending = (line.get(key, "") for key in ("type", "digest", "size", "ending"))
    return (
        isinstance(kind, str)
        and kind in ENDINGS
        and isinstance(digest, str)
        and _DIGEST.fullmatch(digest) is not None
        and type(number) is int
        and 0 <= number <= LARGEST
        and isinstance(ending, str)
        and (not ending or (kind == "file" and ENDING.fullmatch(ending) is not None))
    )


def _file_name(digest: str, kind: str, ending: str) -> str:
    return f"{digest.rpartition(':')[2]}.{ending or ENDINGS[kind]}"


def _frame(columns: list[str], rows: list[list[Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        return [dict(zip(columns, row, strict=True)) for row in rows]
    return pandas.DataFrame(rows, columns=columns)


def _picture(data: bytes) -> Any:
    try:
        from PIL import Image
    except ImportError:
        return data
    return Image.open(io.BytesIO(data))
