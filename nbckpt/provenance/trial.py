"""Trial: the provenance of a trial, in `provenance.json` of its folder.

    <experiment>/<trial>/provenance.json    the documents of the attempts that the results come from
    <experiment>/provenance/<digest>        the objects, compressed, which the trials share

Both are written in the background when a trial starts. A trial never waits for them and never fails by them.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.core.schema import SEALED, seal, unseal
from nbckpt.errors import CorruptError, NotFoundError, StoreError
from nbckpt.provenance import background, inputs
from nbckpt.provenance.background import Question, here
from nbckpt.provenance.cells import sources
from nbckpt.provenance.document import (
    FORM,
    MOST_OBJECT,
    Provenance,
    Taken,
    as_json,
    decompressed,
    finished,
    take,
)
from nbckpt.provenance.machine import machine
from nbckpt.provenance.worker import WorkerOrigin
from nbckpt.settings import wants_provenance
from nbckpt.store.files import only_files, write_files
from nbckpt.store.scan import OUTSIDE, is_link, link_outside

FILE = "provenance.json"
OBJECTS = "provenance"
"""The folder of an experiment that holds the objects."""

MOST_FILE = 16 << 20
_MOST_ATTEMPTS = 20
_IN_PROCESS = {"thread", "inline", "cell", ""}
_CHECKSUM = re.compile("([a-z0-9][a-z0-9-]*:)?[0-9a-f]{64}")
_FORM = {"format": int, "attempts": [FORM | {"objects": {str: _CHECKSUM}, "iteration": int}]}


def of_trial(folder: Path, *, iteration: int = 0, executor: str = "") -> None:
    """Note what is needed to do a trial again. Return at once; the file follows in the background.

    It costs less than a millisecond and raises nothing. It does nothing if `NBCKPT_PROVENANCE` is 0.

    Args:
        folder: The trial's folder.
        iteration: The iteration that the trial starts after; 0 if it starts from the beginning.
        executor: The name of the executor. The states of random generators count in this process only.
    """
    if wants_provenance():
        more = {"executor": executor} if executor else {}
        taken = take(sources(), inputs.so_far(), seeds=executor in _IN_PROCESS, **more)
        background.ask(here(), _write, (folder, iteration, taken))


def of_worker(folder: Path, origin: WorkerOrigin) -> None:
    """Note the machine and the seeds of the process that a trial runs in, in the background."""
    if wants_provenance():
        background.ask((), _write, (folder, 0, origin))


def _write(questions: Sequence[Question]) -> None:
    """Write the files of all trials that started since git was asked last, durably, in the time of one."""
    files: dict[Path, bytes] = {}
    attempts: dict[Path, list[Mapping[str, Any]]] = {}
    for question in questions:
        assert isinstance(question.subject, tuple)
        folder, iteration, taken = question.subject
        if not folder.is_dir():  # the experiment was removed meanwhile
            continue
        if isinstance(taken, WorkerOrigin):
            if not (earlier := attempts.get(folder) or _earlier(folder)):
                continue
            document, objects = _with_worker(earlier[-1], taken)
            attempts[folder] = [*earlier[:-1], document]
        else:
            earlier = (attempts.get(folder) or _earlier(folder))[: _MOST_ATTEMPTS - 1] if iteration else []
            document, objects = _encoded(taken, question)
            attempts[folder] = [*earlier, document | {"iteration": iteration}]
        files[folder / FILE] = seal({"format": SEALED, "attempts": attempts[folder]})
        files |= {file: data for file, data in _files(folder.parent, objects) if not file.exists()}
    write_files(files)


def _encoded(taken: Taken, question: Question) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a document with the checksums of its objects, and the objects by checksum."""
    code = question.answer.result()[0]
    objects = {name: (PREFERRED.checksum([data]), data) for name, data in taken.objects(code).items()}
    document = finished(taken, code, machine())
    document["objects"] = {name: checksum for name, (checksum, _) in objects.items()}
    return document, dict(objects.values())


def _with_worker(
    document: Mapping[str, Any], origin: WorkerOrigin
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a document with the machine and the seeds of a trial's process, and the new object."""
    objects, data = dict(document["objects"]), as_json(origin.seeds)
    if data:
        objects["seeds"] = PREFERRED.checksum([data])
    new = {objects["seeds"]: data} if data else {}
    return {**document, "machine": dict(origin.machine), "objects": objects}, new


def _files(experiment: Path, objects: Mapping[str, bytes]) -> list[tuple[Path, bytes]]:
    """Return the files of objects.

    Raises:
        FileExistsError: There is a link in the place of their folder.
    """
    if is_link(experiment / OBJECTS):
        raise FileExistsError(errno.EEXIST, f"{str(experiment / OBJECTS)!r} is a link")
    return [(_file(experiment, checksum), PREFERRED.compress(data)) for checksum, data in objects.items()]


def _file(experiment: Path, checksum: str) -> Path:
    return experiment / OBJECTS / checksum.rpartition(":")[2]


def _earlier(folder: Path) -> list[Mapping[str, Any]]:
    """Return the documents of the earlier attempts; none if they cannot be read."""
    try:
        return _documents(folder)
    except (CorruptError, NotFoundError, StoreError):
        return []


def read_attempts(folder: Path) -> list[Provenance]:
    """Return the provenance of each attempt that a trial's results come from, oldest first.

    Raises:
        NotFoundError: The trial has none, or it is not written yet.
        CorruptError: The file is damaged.
        FormatError: A newer nbckpt wrote it.
        StoreError: The disk failed.
    """
    documents = _documents(folder)
    noted, unread = inputs.of_folder(folder, documents[0]["at"])
    documents[-1] = last = dict(documents[-1])
    if noted:
        last["data"] = [*last.get("data", ()), *noted]
    if unread:
        last["notes"] = [*last.get("notes", ()), f"{unread} of the noted inputs cannot be read"]
    return [
        Provenance(document, partial(_object, folder.parent, document["objects"])) for document in documents
    ]


def _documents(folder: Path) -> list[Mapping[str, Any]]:
    file = folder / FILE
    data = _read(folder.parent, f"{folder.name}/{FILE}", MOST_FILE)
    attempts: list[Mapping[str, Any]] = unseal(data, _FORM, str(file))["attempts"]
    if not attempts:
        raise CorruptError(f"{file} is damaged: it has no attempt")
    return attempts


def _object(experiment: Path, checksums: Mapping[str, str], name: str) -> bytes:
    """Return the bytes of an object after checking them."""
    if name not in checksums:
        raise NotFoundError(f"there is no object {name!r}")
    checksum = checksums[name]
    label, algorithms = f"the object {name}", of_checksum(checksum, f"the object {name}")
    try:
        data = _read(experiment, f"{OBJECTS}/{_file(experiment, checksum).name}", MOST_OBJECT)
    except NotFoundError:
        raise CorruptError(f"{label} of its provenance is missing") from None
    plain = decompressed(data, algorithms.decompress, label)
    if algorithms.checksum([plain]) != checksum:
        raise CorruptError(f"{label} is damaged: its contents do not match its checksum")
    return plain


def _read(folder: Path, path: str, most: int) -> bytes:
    if link := link_outside(folder, path):
        raise CorruptError(f"{link} is not read: {OUTSIDE}")
    try:
        with open(folder / path, "rb", opener=only_files) as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        raise NotFoundError(f"{path} does not exist in {folder}") from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > most:
        raise CorruptError(f"{path} is damaged: it is too long")
    return data
