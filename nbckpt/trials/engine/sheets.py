"""Sheets: summaries of all trials at a URL in a few objects, so that nobody has to read their journals there.

    catalogue/trials/changing/<folder>/<random>    a note: the experiment in <folder> is about to change
    catalogue/trials/changing/<folder>/<digest>    a note that tells what becomes of its trials
    catalogue/trials/parts/<digest>                a line for each trial: where it is, a mark and its summary
    catalogue/trials/tops/<number>-<digest>        the parts; see core/shelf.py

The files at the URL are the truth. A summary has a mark of the files that it was made of. An experiment
with a note that tells nothing is looked at itself: then only trials whose marks differ are read.
See docs/decisions/0090.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.core.manifest_json import canonical
from nbckpt.core.schema import read
from nbckpt.core.shelf import MOST_BYTES, Shelf, filled
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError
from nbckpt.store import PrefixStore, Store
from nbckpt.sync.target import index_of
from nbckpt.sync.transfer import TransferOptions, TransferPool
from nbckpt.trials.model import annotation, journal, params, spec_file
from nbckpt.trials.model.annotation import Annotation
from nbckpt.trials.model.state import Status
from nbckpt.trials.model.summary import VERSION, Summary
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.views.statuses import INTERRUPTED, word

EXPERIMENTS = "experiments"
FOLDER = "catalogue/trials/"
FORMAT = 1

_FILES = (journal.FILE, params.FILE, annotation.FILE)
_CHANGING = re.compile(rf"{FOLDER}changing/((?:experiments/)?[^/]+)/[0-9a-f]{{16,64}}")
_TELLS = re.compile(".*/[0-9a-f]{64}")
_TRIAL = re.compile(f"(t[0-9]{{1,18}})/({'|'.join(map(re.escape, _FILES))})")
_TOP = {"format": int, "summaries": int, "parts": [re.compile("[0-9a-f]{64}")]}
_LINE = (re.compile(r"(experiments/)?[^/.][^/]*"), re.compile("t[0-9]{1,18}"), str, dict)
_UNSEEN: dict[str, Any] = {"curves": [], "media": [], "load": {}}  # neither frames nor filters ask for them
_DAMAGED = "damaged"  # beside a status that summaries may have
_UNFINISHED = {Status.PENDING, Status.RUNNING}
_SMALLEST_PART = 1 << 20
_MOST_NOTE = 4 << 20
_NOTE = {"at": int, "summaries": int, "trials": [(re.compile("t[0-9]{1,18}"), dict)]}
_MOST_PARTS = 12

Sheet = dict[str, tuple[str, Any]]
"""For each trial of an experiment: the mark of its files, and its summary as plain JSON."""

_log = logging.getLogger("nbckpt")


@dataclass(frozen=True)
class Sheets:
    """The sheets at a URL.

    Attributes:
        sheets: The sheet of each experiment by its folder at the URL.
        changing: The folders that may have changed since, each with its notes.
        present: The keys that were listed.
        parts: The digests of the parts that hold them.
        exist: Whether there are any. Without, the experiments must be found themselves.
    """

    sheets: dict[str, Sheet] = field(default_factory=dict)
    changing: dict[str, list[str]] = field(default_factory=dict)
    present: tuple[str, ...] = ()
    parts: frozenset[str] = frozenset()
    exist: bool = False


def note_change(store: Store, folder: str, summaries: Mapping[str, Any] | None = None) -> str:
    """Note that the experiment in a folder is about to change. Return the note's key.

    Args:
        store: The place of the experiments.
        folder: The experiment's folder there.
        summaries: Those of all trials that change, by their names. Without, readers look at the files.

    Raises:
        StoreError: The storage failed.
    """
    data, name = b"", secrets.token_hex(8)
    if summaries:
        note = {"at": time.time_ns(), "summaries": VERSION, "trials": [*summaries.items()]}
        plain = json.dumps(note).encode()
        if len(plain) <= _MOST_NOTE:
            data = bytes(memoryview(PREFERRED.compress(plain)))
            name = PREFERRED.digest(data).hex()
    key = f"{FOLDER}changing/{folder}/{name}"
    if store.lists_in_pages:
        store.put(key, data)
    return key


def _told_in(store: Store, notes: Iterable[str]) -> Sheet | None:
    """Return what notes tell of trials, the newest of each; None if one does not tell all that changes."""
    documents = []
    if not all(map(_TELLS.fullmatch, notes)):
        return None
    try:
        for key in notes:
            data = store.get(key, 0, _MOST_NOTE)
            if not key.endswith(PREFERRED.digest(data).hex()):
                return None
            documents.append(read(PREFERRED.decompress(data, _MOST_NOTE), _NOTE, key))
    except (NotFoundError, CorruptError):  # its writer may have put other ones meanwhile
        return None
    if any(document["summaries"] != VERSION for document in documents):
        return None
    documents.sort(key=itemgetter("at"))
    return {name: ("", summary) for document in documents for name, summary in document["trials"]}


def read_sheets(store: Store) -> Sheets:
    """Return the sheets at a URL. Without whole ones, there are none."""
    if not store.lists_in_pages:
        return Sheets()
    shelf = shelf_of(store)
    present = tuple(store.keys(FOLDER))  # notes sort before tops
    changing: dict[str, list[str]] = {}
    for match in filter(None, map(_CHANGING.fullmatch, present)):
        changing.setdefault(match[1], []).append(match[0])
    try:
        if newest := shelf.newest(present):
            parts = frozenset(_parts_of(shelf, newest))
            return Sheets(_read(shelf, sorted(parts)), changing, present, parts, exist=True)
    except (NotFoundError, CorruptError, FormatError) as error:
        _log.warning("%s. The experiments are read themselves; %%ckpt push writes it again", error)
    return Sheets({}, changing, present)


def _parts_of(shelf: Shelf, newest: str) -> list[str]:
    top = read(shelf.top(newest), _TOP, shelf.label)
    if (top["format"], top["summaries"]) != (FORMAT, VERSION):
        raise FormatError(f"{shelf.label} was written by another version of nbckpt")
    parts: list[str] = top["parts"]
    return parts


def _read(shelf: Shelf, parts: Iterable[str]) -> dict[str, Sheet]:
    sheets: dict[str, Sheet] = {}
    for part in parts:
        for line in shelf.part(part).split(b"\n"):
            folder, name, mark, summary = read(line, _LINE, shelf.label)
            sheets.setdefault(folder, {})[name] = mark, summary
    return sheets


def shelf_of(store: Store) -> Shelf:
    """Return the shelf of the sheets at a place."""
    shelf = Shelf(store, lambda: PREFERRED, FOLDER)
    shelf.label = f"the catalogue of the trials at {store.url}"
    return shelf


def renew_sheets(store: Store, near: Callable[[str], Path | None], *, begins: bool = False) -> None:
    """Write the sheets of the experiments that changed. A failure is logged.

    Args:
        store: The place of the experiments.
        near: Returns the local folder that an experiment was sent from, if there is one.
        begins: Only make the first sheets, if there are none, even if there is no experiment yet.
    """
    if not store.lists_in_pages:
        return
    try:
        present = list(store.keys(FOLDER))
        if shelf_of(store).newest(present) and (begins or not any(map(_CHANGING.fullmatch, present))):
            return
        former = read_sheets(store)
        due = former.changing.keys() if former.exist else {*prefixes_there(store).values()}
        if due or begins:
            work, sheets = TransferOptions().work(store.url), dict(former.sheets)
            for folder in due:
                known = sheets.pop(folder, {})
                sheets[folder] = sheet_at(PrefixStore(store, folder), work, known, near(folder))
            _put(store, former, sheets, [note for folder in due for note in former.changing.get(folder, ())])
    except (StoreError, NotFoundError) as error:
        _log.warning("the catalogue of the trials at %s was not renewed: %s", store.url, error)


def _put(store: Store, former: Sheets, sheets: Mapping[str, Sheet], settled: Iterable[str]) -> None:
    """Put sheets, and delete the notes that they settle."""
    lines = [
        json.dumps([folder, name, mark, summary], separators=(",", ":")).encode()
        for folder, sheet in sorted(sheets.items())
        for name, (mark, summary) in sheet.items()
    ]
    size = _SMALLEST_PART
    while size < MOST_BYTES and size * _MOST_PARTS // 2 < sum(map(len, lines)):
        size *= 2
    shelf = shelf_of(store)
    parts = [shelf.put_part(b"\n".join(group)) for group in filled(lines, size)]
    data = canonical({"format": FORMAT, "summaries": VERSION, "parts": parts})
    if shelf.put_top(data, former.present, former.parts | {*parts}):
        for note in settled:
            store.delete(note)


def sheet_now(store: Store, sheets: Sheets, folder: str, work: TransferPool) -> Sheet:
    """Return the sheet of an experiment as it is now: as its notes tell, or else as its files are.

    Raises:
        StoreError: The storage failed.
    """
    known, notes = sheets.sheets.get(folder, {}), sheets.changing.get(folder, ())
    news = work.one(partial(_told_in, store, notes))
    if news is None:
        return sheet_at(PrefixStore(store, folder), work, known)
    sheet = {**known, **news}
    return {name: sheet[name] for name in sorted(sheet, key=_number)}


def sheet_at(there: Store, work: TransferPool, known: Sheet, near: Path | None = None) -> Sheet:
    """Return the sheet of an experiment as its files are now; an empty one if it cannot be read.

    Args:
        there: The place of its files.
        work: Makes the requests.
        known: A former sheet. Trials whose files have not changed are not read again.
        near: A local folder that may have the same files.

    Raises:
        StoreError: The storage failed.
    """
    try:
        index = index_of(there, work)
        spec_file.created_at(work.one(partial(there.get, index.key(spec_file.FILE))), there.url)
    except (NotFoundError, KeyError, CorruptError, FormatError) as error:
        _log.warning("%s is left out: %s", there.url, error)
        return {}
    files: dict[str, dict[str, str]] = {}
    for match in filter(None, map(_TRIAL.fullmatch, index.items)):
        files.setdefault(match[1], {})[match[2]] = index.items[match[0]].digest
    marks = {name: _mark(digests) for name, digests in files.items()}
    sheet = {name: known.get(name, ("", {})) for name in sorted(files, key=_number)}
    due = [name for name in sheet if not marks[name] or sheet[name][0] != marks[name]]
    with TemporaryDirectory(prefix="nbckpt-trials-") as temporary:
        work.all(
            partial(_copy, there, index.key(f"{name}/{file}"), Path(temporary, name, file), digest, near)
            for name in due
            for file, digest in files[name].items()
        )
        for name in due:
            sheet[name] = marks[name], summary_of(Trial.read(Path(temporary, name)))
    return sheet


def _number(name: str) -> int:
    return int(name[1:])


def _mark(digests: Mapping[str, str]) -> str:
    """Return a mark of the contents of files; "" if they are not known."""
    if not all(digests.values()):
        return ""
    return PREFERRED.digest(repr(sorted(digests.items())).encode()).hex()


def _copy(there: Store, key: str, file: Path, digest: str, near: Path | None) -> None:
    """Write one of a trial's files into a temporary folder: from *near* if it has the same contents."""
    file.parent.mkdir(exist_ok=True)
    data = b""
    if near is not None and digest:
        with suppress(OSError):
            data = (near / file.parent.name / file.name).read_bytes()
    if not data or of_checksum(digest, key).checksum([data]) != digest:
        data = there.get(key)
    file.write_bytes(data)


def summary_of(trial: Trial) -> dict[str, Any]:
    """Return the summary of a trial as plain JSON, as frames and filters need it."""
    document = Summary(trial, annotation.read(trial.folder)).to_json() | _UNSEEN
    if trial.status is Status.DAMAGED:
        document |= {"status": str(Status.TERMINATED), _DAMAGED: True}
    return document


def prefixes_there(target: Store) -> dict[str, str]:
    """Return the experiments at a location, pushed there or synced by runs, each with its prefix."""
    keys = [key.split("/") for key in iter(target.keys())]
    synced = {parts[0]: parts[0] for parts in keys if len(parts) == 2 and parts[1] == spec_file.FILE}
    pushed = {parts[1]: "/".join(parts[:2]) for parts in keys if len(parts) > 2 and parts[0] == EXPERIMENTS}
    return {name: prefix for name, prefix in sorted((synced | pushed).items()) if not name.startswith(".")}


def trials_of(folder: str, sheet: Sheet) -> Iterator[tuple[Trial, str, Annotation]]:
    """Yield the trials of an experiment, each with its status in words and its annotation.

    Raises:
        CorruptError: A summary is not one.
    """
    for name, (_, document) in sheet.items():
        summary = Summary.from_json(document, Path(folder.rpartition("/")[2], name))
        if document.get(_DAMAGED):
            state_of(summary.trial).status = Status.DAMAGED
        # This process does not run it.
        status = INTERRUPTED if summary.trial.status in _UNFINISHED else word(summary.trial)
        yield summary.trial, status, summary.annotation
