"""Inputs: `nbckpt.data` notes which file, folder or URL was read, with a fingerprint of its contents.

Outside of trials the notes stay in this process, for the checkpoints and trials that follow. Inside a trial
they are lines of `inputs.jsonl` in its folder, because a trial may run in another process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbckpt.core.manifest import now
from nbckpt.core.schema import SEALED, check, parse, seal, unseal
from nbckpt.errors import CorruptError, FormatError, NotFoundError, UsageError
from nbckpt.hook import Hook
from nbckpt.provenance.cells import sources
from nbckpt.provenance.fingerprint import fingerprint
from nbckpt.settings import wants_provenance
from nbckpt.store import local_folder, masked_url
from nbckpt.store.address import describe
from nbckpt.store.files import only_files
from nbckpt.store.scan import link_outside

FILE = "inputs.jsonl"
FORM = {
    "path": str,
    "size?": int,
    "modified?": str,
    "checksum?": str,
    "etag?": str,
    "files?": int,
    "note?": str,
    "cell?": int,
    "at?": str,
}
"""The form of an input; see core/schema.py."""

_MOST = 1000
_MOST_FILE = 1 << 20

trial_folder: Hook[[], Path | None] = Hook(lambda: None)
"""Returns the folder of the trial that runs the current code, or None. The layer of trials provides it."""

_lock = threading.Lock()
_noted: dict[str, dict[str, Any]] = {}


def data(path: str | os.PathLike[str]) -> str:
    """Note an input of this trial, or of the checkpoints and trials that follow. Return its path.

    Write `pd.read_csv(nbckpt.data("train.csv"))`. The note has the path, the size, the time of the last
    change, and a fingerprint of the contents: BLAKE3 of a file, or of all files of a folder; the ETag of a
    URL. The contents are read once, and again when the size or the time has changed. With
    `NBCKPT_PROVENANCE=0` nothing is read or noted.

    Raises:
        NotFoundError: There is no such file or folder.
        UsageError: It is neither a file, a folder nor a URL.

    Examples:
        >>> size = Path("train.csv").write_text("1,2,3")
        >>> Path(nbckpt.data("train.csv")).read_text()
        '1,2,3'
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is not a path: give a text")
    if wants_provenance():
        _note(described(text))
    return text


def so_far() -> Sequence[Mapping[str, Any]]:
    """Return the inputs that this process noted outside of trials."""
    with _lock:
        return list(_noted.values())


def forget() -> None:
    """Forget the inputs that this process noted."""
    with _lock:
        _noted.clear()


def described(text: str) -> dict[str, Any]:
    """Return the note of an input.

    Raises:
        NotFoundError: There is no such file or folder.
    """
    local = local_folder(text) if "://" in text else text
    if local is None:
        return {"path": masked_url(text), **describe(text)}
    try:
        return {"path": text, **fingerprint(Path(local).absolute())}
    except FileNotFoundError:
        raise NotFoundError(f"there is no file or folder {text!r}") from None
    except OSError as error:
        return {"path": text, "note": f"it cannot be read: {error.strerror or error}"}


def _note(noted: dict[str, Any]) -> None:
    noted["at"] = now()
    folder = trial_folder()
    if folder is None:
        cells = len(sources())
        with _lock:
            if len(_noted) < _MOST or noted["path"] in _noted:
                _noted[noted["path"]] = noted | ({"cell": cells} if cells else {})
        return
    line = seal({"format": SEALED, "input": noted}, in_lines=False) + b"\n"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with suppress(OSError):  # a full disk stops the trial's journal, and not its inputs
        file = os.open(folder / FILE, flags, 0o666)
        try:
            if os.fstat(file).st_size + len(line) <= _MOST_FILE:
                os.write(file, line)  # in one piece, because threads of a trial may note inputs side by side
        finally:
            os.close(file)


def of_folder(folder: Path, since: str) -> tuple[list[Mapping[str, Any]], int]:
    """Return the inputs that a trial noted after a moment, the last note of each path.

    The number is that of the notes that cannot be read. It never fails.
    """
    entries = list(_entries(folder))
    noted = {entry["path"]: entry for entry in entries if entry and entry.get("at", "") >= since}
    return list(noted.values())[:_MOST], entries.count(None)


def _entries(folder: Path) -> Iterator[Mapping[str, Any] | None]:
    """Yield each note; None for one that cannot be read: a killed process cut it off, or it was changed."""
    data = b""
    with suppress(OSError):
        if not link_outside(folder.parent, f"{folder.name}/{FILE}"):
            with open(folder / FILE, "rb", opener=only_files) as file:
                data = file.read(_MOST_FILE)
    for line in data.splitlines():
        try:
            yield _entry(line)
        except (CorruptError, FormatError):
            yield None


def _entry(line: bytes) -> Mapping[str, Any]:
    document: Mapping[str, Any] = check(parse(line, FILE), dict, FILE)
    if "format" in document:
        document = unseal(line, {"input": FORM}, FILE)["input"]
    check(document, FORM, FILE)  # format 1 had no checksum
    return document
