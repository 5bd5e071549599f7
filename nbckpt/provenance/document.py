"""Document: what is needed to do a trial or a checkpoint again, as JSON, and the objects beside it.

The objects are larger parts that many trials share: `patch`, `packages`, `cells` and `seeds`. Documents and
objects may come from anybody, so both are checked and bounded when they are read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from nbckpt.core.manifest import now
from nbckpt.core.masking import masked_command, masked_text
from nbckpt.core.schema import check, parse
from nbckpt.errors import CorruptError, NotFoundError
from nbckpt.provenance.git import Code
from nbckpt.provenance.inputs import FORM as INPUT
from nbckpt.provenance.packages import installed, origins
from nbckpt.provenance.seeds import read_seeds

T = TypeVar("T")

MOST_OBJECT = 8 << 20
"""The most bytes of an object."""

_MOST_CELLS = 512 << 10
_MOST_WORDS, _MOST_WORD = 200, 1000

FORM = {
    "at": str,
    "code?": {
        **dict.fromkeys(("commit", "branch", "remote", "root", "folder", "note"), str),
        "changed": [str],
        "untracked": [str],
        "left_out": [str],
        "age_s?": float,
    },
    "machine?": {
        **dict.fromkeys(("python?", "implementation?", "system?", "platform?", "cpu?"), str),
        "cpus?": int,
        "gpus?": [{"name": str, "memory_mib": int, "driver": str}],
    },
    "executor?": str,
    "command?": [str],
    "cell?": int,
    "notebook?": str,
    "data?": [INPUT],
    "origins?": {str: str},
    "notes?": [str],
}
"""The form of a document; see core/schema.py."""


@dataclass(frozen=True)
class Provenance:
    """What is needed to do a trial or a checkpoint again.

    Attributes:
        document: The document, of the form `FORM`.
        read: Returns the bytes of an object by its name. It raises NotFoundError if there is none.
    """

    document: Mapping[str, Any]
    read: Callable[[str], bytes]

    @property
    def code(self) -> Mapping[str, Any]:
        """The state of the working tree; empty if there was none."""
        code: Mapping[str, Any] = self.document.get("code", {})
        return code

    @property
    def machine(self) -> Mapping[str, Any]:
        """The machine."""
        machine: Mapping[str, Any] = self.document.get("machine", {})
        return machine

    @property
    def inputs(self) -> Sequence[Mapping[str, Any]]:
        """The inputs that `nbckpt.data` noted."""
        inputs: Sequence[Mapping[str, Any]] = self.document.get("data", ())
        return inputs

    @cached_property
    def patch(self) -> bytes:
        """The uncommitted changes; empty if there are none."""
        return self._object("patch")

    @cached_property
    def packages(self) -> Mapping[str, str]:
        """The versions of the installed distributions by name."""
        packages: Mapping[str, str] = self._json("packages", {str: str}) or {}
        return packages

    @cached_property
    def cells(self) -> Sequence[str]:
        """The sources of the notebook's cells, the last one included."""
        cells: Sequence[str] = self._json("cells", [str]) or ()
        return cells

    @cached_property
    def seeds(self) -> Mapping[str, Any]:
        """The states of the random generators; see seeds.py."""
        seeds: Mapping[str, Any] = self._json("seeds", {str: object}) or {}
        return seeds

    def check(self) -> None:
        """Read every object.

        Raises:
            CorruptError: An object is missing or damaged.
        """
        self.patch, self.packages, self.cells, self.seeds  # noqa: B018  each is read and checked once

    def _json(self, name: str, form: Any) -> Any:
        data = self._object(name)
        return check(parse(data, f"the object {name}"), form, f"the object {name}") if data else None

    def _object(self, name: str) -> bytes:
        try:
            return self.read(name)
        except NotFoundError:
            return b""


def no_object(name: str) -> bytes:
    """Raise the error of an object that does not exist."""
    raise NotFoundError(f"there is no object {name!r}")


def checked(document: Any, label: str) -> Mapping[str, Any]:
    """Return a document after checking its form.

    Raises:
        CorruptError: It has another form.
    """
    form: Mapping[str, Any] = check(document, FORM, label)
    return form


@dataclass(frozen=True)
class Taken:
    """What is known at once, in the thread that starts a trial or saves: it costs less than a millisecond.

    Attributes:
        document: The document, without code and machine.
        sources: The sources of the cells, not masked yet.
        seeds: The states of the random generators.
        packages: The installed distributions.
    """

    document: Mapping[str, Any]
    sources: Sequence[str]
    seeds: Mapping[str, Any]
    packages: Mapping[str, str]

    def objects(self, code: Code | None) -> dict[str, bytes]:
        """Return the objects by name."""
        named = {
            "patch": code.patch if code else b"",
            "packages": as_json(self.packages),
            "cells": as_json(_masked(self.sources)),
            "seeds": as_json(self.seeds),
        }
        return {name: data for name, data in named.items() if data}


def take(sources: Sequence[str], inputs: Sequence[Mapping[str, Any]], *, seeds: bool, **more: Any) -> Taken:
    """Return what is known at once.

    Args:
        sources: The sources of the notebook's cells so far.
        inputs: The inputs so far.
        seeds: Whether to read the states of the random generators.
        more: More fields of the document.
    """
    notes: list[str] = []
    known = {
        "command": _tried(_command, notes),
        "cell": len(sources),
        "data": list(inputs),
        "origins": _tried(origins, notes),
        **more,
    }
    states: Mapping[str, Any] = _tried(read_seeds, notes) or {} if seeds else {}
    packages: Mapping[str, str] = _tried(installed, notes) or {}
    document = {"at": now(), **known, "notes": notes}
    return Taken({name: part for name, part in document.items() if part}, sources, states, packages)


def _tried(read: Callable[[], T], notes: list[str]) -> T | None:
    """Return what *read* returns. If it fails, note that, because a save or a trial never fails by it."""
    try:
        return read()
    except Exception as error:  # noqa: BLE001  other libraries are asked
        notes.append(f"{read.__name__.strip('_')} failed: {type(error).__name__}: {error}"[:_MOST_WORD])
        return None


def _command() -> list[str]:
    return [word[:_MOST_WORD] for word in masked_command([*sys.orig_argv][:_MOST_WORDS])]


def finished(taken: Taken, code: Code | None, machine: Mapping[str, Any], age_s: float = 0) -> dict[str, Any]:
    """Return the whole document."""
    document = dict(taken.document)
    if code is not None:
        document["code"] = {name: field for name, field in asdict(code).items() if name != "patch"}
        if age_s >= 1:
            document["code"]["age_s"] = round(age_s, 1)
    return document | ({"machine": dict(machine)} if machine else {})


def _masked(sources: Sequence[str]) -> list[str]:
    """Return the newest cells that fit into the limit, masked; an empty text stands for an older cell."""
    masked, left = [], _MOST_CELLS
    for source in reversed(sources):
        left -= len(source)
        masked.append(_masked_cell(source) if left >= 0 else "")
    return masked[::-1]


@lru_cache(2000)
def _masked_cell(source: str) -> str:
    """Return a cell without secrets. Each save has all cells again, and masking takes time."""
    return masked_text(source, is_code=True)


def as_json(part: Any) -> bytes:
    """Return a part of a document as bytes; nothing for an empty part."""
    return json.dumps(part, separators=(",", ":"), sort_keys=True).encode() if part else b""


def decompressed(data: bytes, decompress: Callable[[Any, int], bytes], label: str) -> bytes:
    """Return the bytes of a compressed object.

    Raises:
        CorruptError: They cannot be decompressed, or are too long.
    """
    plain = decompress(data, MOST_OBJECT)
    if not plain:
        raise CorruptError(f"{label} is damaged: it cannot be decompressed")
    return plain
