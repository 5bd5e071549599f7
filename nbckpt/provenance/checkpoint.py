"""Checkpoint: the provenance of a saved checkpoint, in its manifest.

The document is in the manifest's `provenance`, under `again`. The objects are `attachments`: contents of
packs like those of values, so they are shared, pushed and freed with the checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.content import Content
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.errors import CorruptError, NotFoundError, StoreError
from nbckpt.provenance import background, inputs
from nbckpt.provenance.background import FRESH_S, Answer, here
from nbckpt.provenance.cells import sources
from nbckpt.provenance.document import (
    MOST_OBJECT,
    Provenance,
    Taken,
    checked,
    finished,
    no_object,
    take,
)
from nbckpt.provenance.git import LIMIT_S, Code
from nbckpt.provenance.head import read_head
from nbckpt.provenance.machine import known_machine, machine

AGAIN = "again"
"""The name of the document in a manifest's `provenance`."""

WAIT_S = 0.003  # see docs/decisions/0091
"""How long a save waits for git after the values are written."""

_BLOB = 16 << 10
"""The size of blobs of objects: a list of cells that grew shares the blobs of its beginning."""


class Attached(NamedTuple):
    """What a manifest holds of the origin of a save.

    Attributes:
        document: The document.
        contents: The contents of the objects, by name.
        inline: Small packs that the manifest carries.
    """

    document: dict[str, Any]
    contents: dict[str, Content]
    inline: dict[str, bytes]


class Origin:
    """What a save knows of its origin. It begins to ask git at once, while the values are written.

    Args:
        more: More fields of the document.
    """

    def __init__(self, **more: Any) -> None:
        self._taken: Taken = take(sources(), inputs.so_far(), seeds=False, **more)
        self._folders = here()
        self._head = read_head(self._folders)
        self._question = None if self._is_new() else background.ask(self._folders, _learn)

    def document(self, *, wait_s: float | None = None) -> tuple[dict[str, Any], Code | None]:
        """Return the document, and the state of the working tree. Wait for git briefly, or *wait_s* seconds.

        If git has not answered in time, its answer to an earlier question counts, if that was about the same
        commit; the document has its age. Otherwise only the commit and the branch are known.
        """
        now = time.monotonic()
        if self._question is not None and not self._is_new():
            with suppress(TimeoutError):
                self._question.answer.result(WAIT_S if wait_s is None else wait_s)
        code, asked_at = self._last() or (self._head, now)  # see docs/decisions/0077
        return finished(self._taken, code, known_machine(), now - asked_at), code

    def _is_new(self) -> bool:
        answer = self._last()
        return answer is not None and time.monotonic() - answer[1] < FRESH_S

    def _last(self) -> Answer | None:
        """Return the last answer of git, or None if another commit or branch was checked out since."""
        answer, head = background.last(self._folders), self._head
        code = answer and answer[0]
        if head is None or code is None:
            return answer if head is code else None
        is_same = not head.commit or (code.commit, code.branch) == (head.commit, head.branch)
        return answer if is_same else None

    def attach(self, packer: Packer) -> Attached:
        """Write the objects beside the values. A failure that is not the store's is only a note."""
        document, code = self.document()
        try:
            return self._attach(packer, document, self._taken.objects(code))
        except (StoreError, OSError):  # the manifest would not be stored either
            raise
        except Exception as error:  # noqa: BLE001  a save never fails by its provenance
            note = f"the objects were not kept: {type(error).__name__}: {error}"
            return Attached({**document, "notes": [*document.get("notes", ()), note]}, {}, {})

    def _attach(self, packer: Packer, document: dict[str, Any], objects: Mapping[str, bytes]) -> Attached:
        with packer.beside(inline=False) as shared:  # found again by the next save
            for data in objects.values():
                shared.add_record(data[: len(data) - len(data) % _BLOB], _BLOB)
            for name in {"packages", "patch"} & objects.keys():
                shared.add_record(objects[name], _BLOB)
            shared.finish()
        with packer.beside(inline=True) as own:
            stored = {name: own.add_record(data, _BLOB) for name, data in objects.items()}
            own.finish()
            contents = {name: Content(part.size, tuple(own.runs(part))) for name, part in stored.items()}
        return Attached(document, contents, own.inline)

    def provenance(self) -> Provenance:
        """Return it as something to compare with, after git has answered."""
        document, code = self.document(wait_s=LIMIT_S + 1)
        return Provenance(document, partial(_taken_object, self._taken.objects(code)))


def _learn(_: object) -> None:
    """Learn the GPUs of this machine. That may take longer than git, so only later saves know them."""
    machine()


def _taken_object(objects: Mapping[str, bytes], name: str) -> bytes:
    return objects[name] if name in objects else no_object(name)


def read_provenance(manifest: Manifest, reader: Reader) -> Provenance | None:
    """Return the provenance of a checkpoint, or None if it has none. Nothing is read before it is used."""
    document = manifest.provenance.get(AGAIN)
    if document is None:
        return None
    try:
        return Provenance(checked(document, "its provenance"), partial(_object, manifest, reader))
    except CorruptError as error:
        return Provenance({"at": "", "notes": [str(error)]}, no_object)


def _object(manifest: Manifest, reader: Reader, name: str) -> bytes:
    """Return the bytes of an object, checked.

    Raises:
        NotFoundError: There is none.
        CorruptError: It is damaged or too long.
    """
    content = manifest.attachments.get(name)
    if content is None:
        raise NotFoundError(f"there is no object {name!r}")
    if content.size > MOST_OBJECT:
        raise CorruptError(f"the object {name!r} is damaged: it is too long")
    return reader.read(reader.sized(content))
