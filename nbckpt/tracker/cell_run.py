"""Cell run: one run of a cell, and the steps that keep its result; see cells.py."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from nbckpt._private_apis import class_tracker
from nbckpt.cells.analysis import touched
from nbckpt.cells.flow import surely_bound
from nbckpt.cells.key import CellCode, CellKey, Made, changed_inputs, class_digests, digests_beside, is_made
from nbckpt.core import environment
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.manifest_json import canonical
from nbckpt.core.names import CELL
from nbckpt.core.packs.content import Content
from nbckpt.core.packs.writer import Packer
from nbckpt.core.selection import Selection
from nbckpt.core.transfer import save
from nbckpt.core.values.variables import capture
from nbckpt.errors import CodecError
from nbckpt.provenance import inputs
from nbckpt.tracker.binding import GONE
from nbckpt.tracker.cells import MOST_OUTPUT, SHOWN, CellResults, Output, sharing

_BLOB = 1 << 20


@dataclass(frozen=True)
class CellEnd:
    """What came of a cell that ended without an error.

    Attributes:
        outputs: Its outputs.
        shown: The value of its last expression; None for none.
        opened: The user's files that it opened.
        lost: The outputs that cannot be kept.
        hidden: Names that are not the user's variables now.
    """

    outputs: Sequence[Output]
    shown: Any
    opened: Sequence[str]
    lost: Sequence[str]
    hidden: Container[str]


class CellRun:
    """One run of a cell whose result is to be kept. It is made before the cell runs.

    Args:
        results: The kept results.
        name: The name of the cell.
        code: Its code.
        key: Its key.
        files: Its declared input files.
        namespace: The variables.
        hidden: Names that are not the user's variables.
        origin: The cell and the notebook.

    Attributes:
        name: The name of the cell.
    """

    def __init__(
        self,
        results: CellResults,
        name: str,
        code: CellCode,
        key: CellKey,
        files: Iterable[str],
        namespace: dict[str, Any],
        hidden: Container[str],
        origin: Mapping[str, Any],
    ) -> None:
        self.name = name
        self._results, self._code, self._key = results, code, replace(key, digester=None)
        self._files = [str(Path(file).absolute()) for file in files]
        self._namespace, self._origin = namespace, origin
        self._before = Selection(hidden=hidden).of(namespace)
        named = key.touched.names - surely_bound(code.source)  # maybe the cell does not bind these
        names = (sharing({*key.inputs, *named}, self._before, namespace) | named) & self._before.keys()
        names -= key.inputs.keys()
        self._beside = digests_beside(key, names, self._before)
        self._classes = class_digests(key.touched.names, self._before, namespace)
        self._states = {name: pickle.dumps(state) for name, state in environment.read_states().items()}
        self._moment, self._started = now(), time.perf_counter()

    def keep(self, ended: CellEnd) -> Manifest:
        """Keep the result. Remove the oldest results of the name.

        Raises:
            CodecError: The result cannot be saved: the message has the path to the cause.
            StoreError: The storage failed.
        """
        ms = int((time.perf_counter() - self._started) * 1000)
        after = Selection(hidden=ended.hidden).of(self._namespace)
        written = changed_inputs(self._key, self._before, self._namespace)
        self._check_classes(written)
        changed = self._changed(after, written) & after.keys()
        names = sharing(changed, after, self._namespace)
        items = {name: after[name] for name in sorted(names)} | self._new_states()
        items |= {SHOWN: ended.shown} if ended.shown is not None else {}
        kept = {"key": self._key.text, "ms": ms, "lost": list(ended.lost), **self._files_of(ended)}
        kept |= self._found(names | changed, after, written)
        modules = {name: after[name] for name in changed if issubclass(type(after[name]), ModuleType)}
        kept["modules"] = {name: module.__name__ for name, module in modules.items()}
        deleted = sorted(self._before.keys() - after.keys())
        write = partial(self._write, items, canonical(list(ended.outputs)), kept, deleted)
        return self._publish(write)

    def _found(self, names: set[str], after: Mapping[str, Any], written: set[str]) -> dict[str, Any]:
        """Return what else has to be as it was: the variables of the result that the cell did not bind."""
        same = {name for name in names if self._before.get(name, GONE) is after[name]}
        beside = {name: self._beside[name] for name in self._beside.keys() & same}
        return {"beside": beside, "in_place": sorted(written), "classes": self._former_classes()}

    def _former_classes(self) -> dict[str, list[str]]:
        """Return the number and the digest of each class that was there: the cell changed none in place."""
        numbers, classes = class_tracker().numbers, dict[str, list[str]]()
        for name, digest in class_digests(self._before, self._before, self._namespace).items():
            with suppress(Exception):  # it has no number, or cannot be hashed
                classes[name] = [numbers[self._before[name]], digest]
        return classes

    def _files_of(self, ended: CellEnd) -> dict[str, Any]:
        """Return the inputs that the cell noted, and the other files that it opened."""
        data = [entry for entry in inputs.so_far() if entry.get("at", "") >= self._moment]
        declared = [*self._files, *(str(Path(entry["path"]).absolute()) for entry in data)]
        return {"data": data, "opened": [path for path in ended.opened if not _is_in(path, declared)]}

    def _publish(self, write: Callable[[Packer], Manifest]) -> Manifest:
        results = self._results
        publish = partial(results.history.publish, name=CELL + self.name, kind="cells")
        (manifest, _), _ = save(results.history, results.known, write, publish)
        results.prune(self.name)
        return manifest

    def _changed(self, after: Mapping[str, Any], written: set[str]) -> set[str]:
        """Return the variables that the cell bound or changed in place, apart from inputs. In doubt, too.

        A written input that has another value now may live on in other variables.
        """
        touched_now = touched(self._code.source, self._namespace, transform=self._code.transform)
        if touched_now.everything:
            raise CodecError(touched_now.everything)
        bound = {name for name, value in after.items() if self._before.get(name, GONE) is not value}
        reached = touched_now.names - self._classes.keys() if self._is_doubtful(written) else set()
        former = {f"{name} before": self._before[name] for name in written - after.keys() | written & bound}
        aliases = sharing(former, {**after, **former}, self._namespace)
        return bound | written | aliases | (reached | self._key.binds) - self._key.inputs.keys()

    def _is_doubtful(self, written: set[str]) -> bool:
        """Tell whether the cell may have changed what its inputs lead to."""
        return bool(written) or is_made(self._key)

    def _check_classes(self, written: set[str]) -> None:
        """Check that the cell changed no class in place: a restore would give its instances another class."""
        digests = class_digests(self._classes, self._before, self._namespace)
        doubtful = {name for name, digest in digests.items() if not digest or digest != self._classes[name]}
        if doubtful and self._is_doubtful(written):
            raise CodecError(f"it changes the class {min(doubtful)} in place, which a restore cannot do")

    def _new_states(self) -> dict[str, Any]:
        """Return the states of libraries that the cell changed: it drew random numbers, for example."""
        states = environment.read_states().items()
        return {name: state for name, state in states if self._states.get(name) != pickle.dumps(state)}

    def _write(
        self,
        items: dict[str, Any],
        outputs: bytes,
        kept: Mapping[str, Any],
        deleted: Sequence[str],
        packer: Packer,
    ) -> Manifest:
        captured = capture(items, self._namespace, packer)
        lost = [skipped for skipped in captured.skipped if skipped.name != SHOWN]
        made = {skipped.name: Made(items[skipped.name], self._key.text) for skipped in lost}
        self._results.made |= made  # only these: they are kept alive
        if lost:
            raise CodecError(f"{lost[0].path}: {lost[0].reason}")
        if len(outputs) > MOST_OUTPUT:
            raise CodecError(f"its outputs take more than {MOST_OUTPUT >> 20} MiB")
        packer.finish()
        with packer.beside(inline=True) as own:
            stored = own.add_record(outputs, _BLOB)
            own.finish()
            content = Content(stored.size, tuple(own.runs(stored)))
        return Manifest(
            algorithms=packer.algorithms,
            kind="variables",
            created_at=now(),
            values=captured.values(packer),
            groups=captured.groups(packer),
            warnings=tuple(captured.warnings),
            deleted=tuple(deleted),
            provenance={
                **environment.machine(),
                "packages": environment.packages(),
                "new_bytes": packer.new_bytes,
                **self._origin,
                "kept": kept,
            },
            attachments={"outputs": content},
            inline={**packer.inline, **own.inline},
        )


def _is_in(path: str, places: Iterable[str]) -> bool:
    """Tell whether a path is one of these files, or in one of these folders."""
    return any(path == place or path.startswith(place + os.sep) for place in places)
