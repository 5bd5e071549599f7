"""Cells: the kept results of cells. An entry is a checkpoint of its own kind, under the name `cell:NAME`."""

from __future__ import annotations

import importlib
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from nbckpt.cells.key import CellKey, Made, class_digests, digests_beside
from nbckpt.core import environment
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.core.names import CELL
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.writer import Progress
from nbckpt.core.references import Entry
from nbckpt.core.schema import check, parse
from nbckpt.core.trash import remove
from nbckpt.core.trust import stranger
from nbckpt.core.values.variables import with_sharing
from nbckpt.errors import CodecError, CorruptError, FormatError, NbckptError, NotFoundError
from nbckpt.provenance import inputs
from nbckpt.tracker.binding import GONE
from nbckpt.tracker.restoring import Restore
from nbckpt.tracker.tracker import Tracker

KEEP = 5
"""The number of results that are kept for each name."""

SHOWN = "_"
"""The name of the cell's last value, as in IPython."""

MOST_OUTPUT = 64 << 20

Output = Mapping[str, Any]
"""One output of a cell, as in a notebook file."""

_OUTPUTS = [
    {
        "output_type": str,
        "name?": str,
        "text?": str,
        "data?": {str: object},
        "metadata?": {str: object},
        "display_id?": str,
        "update?": bool,
    }
]
_KEPT = {
    "key": str,
    "ms": int,
    "data?": [{"path": str}],
    "opened?": [str],
    "modules?": {str: str},
    "lost?": [str],
    "beside?": {str: str},
    "in_place?": [str],
    "classes?": {str: [str]},
}
_REST = "opened", "modules", "lost", "beside", "in_place", "classes"


@dataclass(frozen=True)
class Kept:
    """A kept result of a cell.

    Attributes:
        manifest: Its checkpoint.
        seconds: How long the cell ran.
        opened: Files that the cell opened and that are not among its inputs.
        modules: The modules that the cell bound, by variable.
        lost: Outputs that were not kept.
        beside: Variables of the result that the cell did not read, and maybe did not bind, since they share
            objects with others, for example. Each has its digest before the cell.
        in_place: The inputs that the cell changed in place.
        classes: The classes that were there before the cell, by variable: the number in pickles, the digest.
    """

    manifest: Manifest
    seconds: float
    opened: Sequence[str] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    lost: Sequence[str] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    in_place: Sequence[str] = ()
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def misfit(self, key: CellKey, variables: Mapping[str, Any], namespace: dict[str, Any]) -> str:
        """Return why the result does not fit to what shares objects now; empty if it fits.

        Args:
            key: The key of the cell now, which is that of the result.
            variables: The user's variables.
            namespace: The namespace that holds them.
        """
        bound = sorted(self.beside.keys() & variables.keys())
        now = digests_beside(key, bound, variables)
        differ = [name for name in bound if not now[name] or now[name] != self.beside[name]]
        if differ := differ or sorted(self.beside.keys() & key.touched.names - variables.keys()):
            return f"{differ[0]} is a part of its kept result, and was something else before the cell"
        held = {value.name for value in self.manifest.values}
        if more := sorted(sharing(self.in_place, variables, namespace) - held.union(self.in_place)):
            return f"{more[0]} shares objects with {self.in_place[0]}, and did not when its result was kept"
        return ""

    def without(self, key: CellKey, variables: Mapping[str, Any]) -> set[str]:
        """Return the variables that a later cell made: not bound now, and not named by the cell's code."""
        return self.beside.keys() - variables.keys() - key.touched.names


class CellResults:
    """The kept results of cells in one store.

    Args:
        tracker: The tracker of the store.

    Attributes:
        made: The variables that cells with keys made in this process and that cannot be saved.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.made: dict[str, Made] = {}
        self.known = Known(tracker.store)

    @property
    def history(self) -> History:
        """The checkpoints of the store."""
        return self.tracker.history

    def find(self, name: str, key: str) -> Kept | None:
        """Return the newest whole result with this name and key whose files are as they were.

        Raises:
            UntrustedError: There is one, and only somebody else's.
        """
        strange: Manifest | None = None
        for manifest in self._manifests(name):
            try:
                document = _document(manifest, name)
            except CorruptError:
                continue
            if document["key"] != key or not all(map(_is_as_it_was, document.get("data", ()))):
                continue
            if self.history.trusted(manifest):
                rest = {field: document[field] for field in _REST if field in document}
                return Kept(manifest, document["ms"] / 1000, **rest)
            strange = strange or manifest
        if strange is not None:
            raise stranger(strange, CELL + name, str(self.history.check_format().get("key", "")))
        return None

    def prune(self, name: str) -> None:
        """Remove results of a name: those with the same inputs as a newer one, and those beyond `KEEP`."""
        seen: set[str] = set()
        for entry in self._entries(name):
            with suppress(NbckptError):  # another kernel may remove it at the same time
                kept = _document(self.history.read(entry), name)
                marks = [[noted["path"], _marks(noted)] for noted in kept.get("data", ())]
                inputs_of = repr([kept["key"], marks])
                if inputs_of in seen or len(seen) == KEEP:
                    remove(self.history, entry)
                seen.add(inputs_of)

    def _entries(self, name: str) -> list[Entry]:
        """Return the results that are kept for a name, newest first."""
        by_id = {entry.id: entry for entry in self.history.entries("cells")}
        refs = reversed(self.history.refs(CELL + name))
        return [by_id[ref.id] for ref in refs if ref.id in by_id]

    def _manifests(self, name: str) -> list[Manifest]:
        manifests = []
        for entry in self._entries(name):
            with suppress(CorruptError, FormatError, NotFoundError):  # the cell can run again
                manifests.append(self.history.read(entry))
        return manifests

    def restore(
        self,
        kept: Kept,
        namespace: dict[str, Any],
        label: str,
        progress: Progress | None = None,
        *,
        without: Container[str] = (),
    ) -> tuple[list[str], Any, list[Output]]:
        """Bind the variables that the cell bound or changed, and set the states of libraries.

        Args:
            kept: The result.
            namespace: The namespace.
            label: How `undo` calls it.
            progress: See `Tracker.restore`.
            without: Variables that are not bound.

        Returns:
            The names of the variables, the cell's last value, and its outputs.

        Raises:
            CodecError: A value cannot be loaded. Nothing was bound.
        """
        manifest = kept.manifest
        reader = self.tracker.read(manifest)
        restore = Restore(manifest, namespace, (), "")
        marks = class_digests(kept.classes, namespace, namespace)
        same = [name for name, mark in marks.items() if mark and [mark] == kept.classes[name][1:]]
        live = {kept.classes[name][0]: namespace[name] for name in same}
        loaded, failed = restore.load(reader, verify=True, progress=progress, live=live)
        lost = [failure for failure in failed if failure.names != (SHOWN,)]
        if lost:
            raise CodecError(f"{', '.join(lost[0].names)}: {lost[0].reason}")
        loaded = {name: value for name, value in loaded.items() if name not in without}
        outputs = self._outputs(kept)
        shown = loaded.pop(SHOWN, None)
        modules = {name: importlib.import_module(module) for name, module in kept.modules.items()}
        gone = {name: GONE for name in manifest.deleted if name in namespace}
        self.tracker.bind(loaded | modules | gone, namespace, label)
        return sorted({*loaded, *modules, *gone} - environment.NAMES), shown, outputs

    def _outputs(self, kept: Kept) -> list[Output]:
        content = kept.manifest.attachments.get("outputs")
        if content is None:
            return []
        if content.size > MOST_OUTPUT:
            raise CorruptError("the outputs of the cell are damaged: they are too long")
        reader = self.tracker.read(kept.manifest)
        data = bytes(reader.read(reader.sized(content)))
        outputs: list[Output] = check(parse(data, "the outputs of the cell"), _OUTPUTS, "the outputs")
        return outputs


def sharing(names: Iterable[str], variables: Mapping[str, Any], namespace: dict[str, Any]) -> set[str]:
    """Return these variables, and those that share objects with them. Modules share nothing."""
    values = {name: value for name, value in variables.items() if not issubclass(type(value), ModuleType)}
    wanted = values.keys() & {*names}
    return with_sharing(wanted, values, namespace) if wanted else set()


def _document(manifest: Manifest, name: str) -> Mapping[str, Any]:
    """Return what a checkpoint says about the cell that made it.

    Raises:
        CorruptError: It is not a kept result of a cell.
    """
    document: Mapping[str, Any] = check(manifest.provenance.get("kept"), _KEPT, f"the result of cell {name}")
    return document


def _marks(noted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies the contents of a noted input."""
    return {mark: noted[mark] for mark in ("checksum", "etag") if noted.get(mark)}


def _is_as_it_was(noted: Mapping[str, Any]) -> bool:
    """Tell whether a file, folder or URL has the contents that a cell noted with `nbckpt.data`."""
    try:
        here = inputs.described(noted["path"])
    except (NbckptError, OSError):
        return False
    marks = _marks(noted)
    return bool(marks) and marks == {mark: here.get(mark) for mark in marks}
