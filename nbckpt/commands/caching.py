"""cell: run a cell once, and later restore its result in place of running it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import packages_distributions, version
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from nbckpt.cells.key import cell_key
from nbckpt.commands.options import File, Name, Word
from nbckpt.commands.table import Session
from nbckpt.core.manifest import Manifest
from nbckpt.core.names import CELL, check_name
from nbckpt.core.selection import Selection
from nbckpt.errors import CodecError, CorruptError, NbckptError, StoreError, UsageError
from nbckpt.provenance.inputs import described
from nbckpt.render import Hint, Page, Result, age, count, duration, short, size
from nbckpt.tracker.cell_run import CellEnd, CellRun
from nbckpt.tracker.cells import SHOWN, Kept, Output


@dataclass(frozen=True, repr=False)
class CellResult(Result):
    """The result of `%%ckpt cell`: the cell was restored, or it runs now.

    Attributes:
        name: The name of the cell.
        kept: The result that was restored; None if the cell runs.
        names: The variables that were bound or deleted.
        note: Why the cell runs although it ran before, or why its result cannot be kept.
        shown: The restored value of the last expression.
        outputs: The restored outputs.
        run: The run to keep; None if nothing is kept.
    """

    name: str
    kept: Kept | None = None
    names: tuple[str, ...] = ()
    note: str = ""
    shown: Any = field(default=None, compare=False)
    outputs: tuple[Output, ...] = ()
    run: CellRun | None = None

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self.note)

    def for_json(self) -> CellData:
        """Return what other programs may know; see render/json.py."""
        restored = self.kept is not None
        return CellData(
            self.name, restored, self.kept.manifest.created_at if self.kept else "", self.names, self.note
        )

    def page(self) -> Page:
        """See `Result.page`."""
        if self.kept is None:
            return Page(f"Cell {self.name} runs{f': {self.note}' if self.note else ''}.")
        when = age(self.kept.manifest.created_at).text
        names = short(", ".join(self.names), 100) or "no variables"
        headline = f"Restored {names} of cell {self.name}, computed {when} in {duration(self.kept.seconds)}."
        notes = []
        if self.kept.opened:
            files = short(", ".join(self.kept.opened), 200)
            notes.append(f"The cell also opened {files}. Changes of such files are not noticed; see --input.")
        if self.kept.lost:
            notes.append(f"Not kept: {', '.join(self.kept.lost)}.")
        again = Hint("Run it again", f"%%ckpt cell {quote(self.name)} --refresh")
        return Page(headline, notes=tuple(notes), hints=(again,))


@dataclass(frozen=True, slots=True)
class CellData:
    """A restored cell for other programs, which read it as JSON."""

    name: str
    restored: bool
    computed_at: str
    names: tuple[str, ...]
    note: str


@dataclass(frozen=True, repr=False)
class KeptResult(Result):
    """The result of a cell after it ran: it was kept, or why it was not.

    Attributes:
        name: The name of the cell.
        manifest: The checkpoint with the result; None if it was not kept.
        problem: Why it was not kept.
    """

    name: str
    manifest: Manifest | None = None
    problem: str = ""

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self.problem)

    def page(self) -> Page:
        """See `Result.page`."""
        if self.manifest is None:
            return Page(f"The result of cell {self.name} was not kept: {self.problem}.")
        names = [value.name for value in self.manifest.values if value.name.isidentifier()]
        variables = count(len({*names} - {SHOWN}), "variable")
        return Page(f"Kept the result of cell {self.name}: {variables}, {size(self.manifest.size())}.")


def cell(
    session: Session,
    name: Name,
    *,
    input_: Sequence[File] = (),
    pin: Sequence[Annotated[str, Word("MODULE")]] = (),
    refresh: bool = False,
) -> CellResult:
    """Run a cell once, and later restore its result.

    It is restored while the code and the inputs are the same: the variables, the prints and the figures.

    Args:
        name: The name of the cell's results.
        input_: A file or folder that the cell reads; repeat for several. nbckpt.data(path) does the same.
        pin: A module whose version counts; repeat for several.
        refresh: Run the cell again.
    """
    namespace, body = session.live("cell"), session.body
    if body is None:
        raise UsageError("%%ckpt cell runs the code below it: write it in the first line of a cell")
    check_name(CELL + name)
    more = {
        "files": {path: _fingerprint(path) for path in input_},
        "pins": {module: _version(module) for module in pin},
    }
    results = body.results(session.tracker)
    key = cell_key(body.code, namespace, more, results.made)
    if key.problem:
        return CellResult(name, note=f"its result is not kept, since {key.problem}")
    note = ""
    try:
        if not refresh and (kept := results.find(name, key.text)):
            variables = Selection(hidden=session.hidden).of(namespace)
            if not (note := kept.misfit(key, variables, namespace)):
                without = kept.without(key, variables)
                restored = results.restore(kept, namespace, f"cell {name}", session.progress, without=without)
                names, shown, outputs = restored
                return CellResult(name, kept, tuple(names), "", shown, tuple(outputs))
    except (CodecError, CorruptError, ImportError, StoreError) as error:
        note = f"its kept result cannot be loaded: {error}"
    run = CellRun(results, name, body.code, key, input_, namespace, session.hidden, session.where)
    return CellResult(name, note=note, run=run)


def keep(run: CellRun, ended: CellEnd) -> KeptResult:
    """Keep the result of a cell that has run, or say why it cannot be kept."""
    try:
        return KeptResult(run.name, run.keep(ended))
    except (NbckptError, OSError) as error:
        return KeptResult(run.name, problem=str(error))


def _fingerprint(path: str) -> str:
    noted = described(path)
    mark = noted.get("checksum") or noted.get("etag")
    if not mark:
        raise UsageError(f"--input {path}: {noted.get('note', 'it has no fingerprint')}")
    return str(mark)


def _version(module: str) -> str:
    """Return the version of a module; for a module without one, the fingerprint of its file or folder."""
    top = module.partition(".")[0]
    for distribution in packages_distributions().get(top, ()):
        return version(distribution)
    try:
        imported = sys.modules.get(module) or import_module(module)
    except ImportError as error:
        raise UsageError(f"--pin {module}: {error}") from None
    if stated := getattr(imported, "__version__", ""):
        return str(stated)
    file = getattr(imported, "__file__", None)
    if not file:
        raise UsageError(f"--pin {module}: it has neither a version nor a file")
    folder = Path(file).parent if Path(file).name == "__init__.py" else Path(file)
    return _fingerprint(str(folder))
