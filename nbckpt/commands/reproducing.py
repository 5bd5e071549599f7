"""reproduce: write a folder in which a trial or a checkpoint is made again, and run it there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from nbckpt.commands import rerun
from nbckpt.commands.meaning import find_ref, is_trial
from nbckpt.commands.options import File, Number, Word
from nbckpt.commands.table import Session
from nbckpt.core.environment import NAMES
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import Entry
from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError, NotFoundError, UntrustedError, UsageError
from nbckpt.provenance.background import settle
from nbckpt.provenance.checkpoint import read_provenance
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.install import make_environment, run_program
from nbckpt.provenance.lines import lines
from nbckpt.provenance.recipe import PARAMETERS, RUN, write_recipe
from nbckpt.provenance.trial import read_attempts
from nbckpt.render import Column, Hint, Page, Result, Table, count
from nbckpt.store.files import commit, discard, explained, hidden, make_folder
from nbckpt.trials.checkpoints.origin import FOLDER as ORIGIN
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.metrics import flat, numbers, plain
from nbckpt.trials.model.spec import LOOP
from nbckpt.trials.model.trial import Trial, state_of

_SETTLE_S = 5.0


@dataclass(frozen=True, repr=False)
class Reproduced(Result):
    """The folder that was written, and the results that were compared if it was run.

    Attributes:
        label: What is done again.
        folder: The folder.
        described: Where it comes from, in four lines.
        notes: What is missing in the folder.
        rows: The compared results; None if it was not run.
        face: How users write a command here.
    """

    label: str
    folder: Path
    described: tuple[str, ...]
    notes: tuple[str, ...] = ()
    rows: tuple[rerun.Again, ...] | None = None
    face: str = "%ckpt"

    @property
    def exit_status(self) -> int:
        """See `Result.exit_status`: 1 if a result differs."""
        return int(not all(row.same for row in self.rows or ()))

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self.notes) or self.exit_status != 0

    def page(self) -> Page:
        """See `Result.page`."""
        notes = (*self.described, *self.notes)
        if self.rows is None:
            hints = (
                Hint("Run", f"python {self.folder / RUN}"),
                Hint("Run in a new environment", f"{self.face} reproduce {self.label} --run"),
            )
            return Page(f"Wrote {self.folder}: all that is needed for {self.label}", notes=notes, hints=hints)
        same = sum(row.same for row in self.rows)
        results = f"{same} of {count(len(self.rows), 'result')} equal" if self.rows else "nothing to compare"
        rows = tuple(
            (row.name, row.recorded, row.now, "equal" if row.same else "differs") for row in self.rows
        )
        columns = (Column("result", code=True), Column("recorded"), Column("now"), Column("comparison"))
        headline = f"Ran {self.label} again in {self.folder}: {results}"
        return Page(headline, (Table("results", columns, rows),), notes)


def reproduce(
    session: Session,
    ref: Annotated[str, Word("REF", "ref or trial")],
    *,
    output: File = "",
    run: bool = False,
    limit: Number = 3600,
    trust: bool = False,
) -> Reproduced:
    """Write a folder that makes a trial or a checkpoint again.

    The folder holds the code at the commit with the uncommitted changes, requirements.txt, the parameters,
    the notebook, and run.py.

    Args:
        ref: EXP/t3 for a trial; a name, name@3 or an id for a checkpoint.
        output: The folder; by default reproduce-EXP-t3 in the working folder.
        run: Make a virtual environment, install the packages, run it, and compare the results.
        limit: The most seconds for the installation, and again for the run.
        trust: Run it even if somebody else recorded it.
    """
    settle(_SETTLE_S)
    folder, rows = Path(output or f"reproduce-{_named(ref)}").absolute(), None
    entry = find_ref(session, ref)
    stage = hidden(folder.parent)
    with explained("write", folder):
        if folder.exists():
            raise UsageError(f"{str(folder)!r} exists. Remove it, or choose another folder with -o")
        try:
            make_folder(folder.parent)
            stage.mkdir()
            if entry is None and is_trial(ref):
                label, provenance, notes, is_ours = _write_trial(session, ref, stage)
            else:
                label, provenance, notes, is_ours = _write_checkpoint(session, entry, ref, stage)
            if run and not (is_ours or trust):
                raise UntrustedError(
                    f"{label} was not recorded by you, and running it can run any code. Write the folder "
                    "without --run, read it, and pass --trust if you trust its author"
                )
            commit(stage, folder)
        finally:
            discard(stage)
    if run:
        rows = _run(folder, limit, trust=trust)
    return Reproduced(label, _short(folder), tuple(lines(provenance)), tuple(notes), rows, session.face)


Written = tuple[str, Provenance, list[str], bool]
"""The label, the provenance, what is missing, and whether this user recorded it."""


def _write_trial(session: Session, ref: str, folder: Path) -> Written:
    experiment, trial = session.library.trial(ref.partition("@")[0])
    label = f"{experiment.name}/{trial.id}"
    provenance = _of_trial(trial, label)
    kept = spec_file.read(trial.folder.parent)
    is_ours = kept.is_signed(open_signer())
    has_function = kept.has_function and kept.spec.executor != LOOP
    task: dict[str, Any] = {
        "name": experiment.name,
        "iteration": trial.iteration,
        "metrics": {
            name: value for name, value in flat(plain(trial.metrics)) if name in set(numbers(trial.metrics))
        },
        "mode": "function" if has_function else _mode(provenance),
    }
    if has_function:
        (folder / rerun.FUNCTION).mkdir()
        shutil.copy(trial.folder.parent / spec_file.FILE, folder / rerun.FUNCTION)
        if (trial.folder.parent / ORIGIN).is_dir():
            shutil.copytree(trial.folder.parent / ORIGIN, folder / rerun.FUNCTION / ORIGIN, symlinks=True)
    (folder / PARAMETERS).write_text(json.dumps(plain(trial.config), indent=1) + "\n", "utf-8")
    notes = _write(provenance, folder, label, task, is_ours=is_ours)
    if donor := state_of(trial).scheduling.donor:
        notes.append(
            f"The trial went on from {experiment.name}/{donor} with other values. run.py trains with the "
            "last values from the beginning, so its results differ."
        )
    return label, provenance, notes, is_ours


def _write_checkpoint(session: Session, entry: Entry | None, ref: str, folder: Path) -> Written:
    tracker = session.tracker
    entry = entry or tracker.find(ref)
    manifest = tracker.history.read(entry)
    provenance = read_provenance(manifest, tracker.read(manifest))
    if provenance is None:
        raise NotFoundError(f"{ref} was saved without its provenance, so it cannot be reproduced")
    is_ours = tracker.history.trusted(manifest)
    task = {"name": _name_of(session, entry, ref), "values": _values(manifest), "mode": _mode(provenance)}
    return ref, provenance, _write(provenance, folder, ref, task, is_ours=is_ours), is_ours


def _name_of(session: Session, entry: Entry, ref: str) -> str:
    """Return a name of the checkpoint: its code saves another version of that."""
    names = (kept.name for kept in session.tracker.history.refs() if kept.id == entry.id)
    return next(names, ref.partition("@")[0])


def _values(manifest: Manifest) -> dict[str, list[str]]:
    return {
        value.name: [value.digest, str(value.preview.get("text", ""))]
        for value in manifest.values
        if value.name not in NAMES
    }


def _write(
    provenance: Provenance, folder: Path, label: str, task: Mapping[str, Any], *, is_ours: bool
) -> list[str]:
    """Write the recipe, and sign its task if this user recorded it."""
    more = {"command": list(provenance.document.get("command", ())), "root": provenance.code.get("root", "")}
    notes = write_recipe(provenance, folder, label, {**more, **task}, [os.getcwd()])  # noqa: PTH109
    if is_ours:
        rerun.sign_task(folder)
    return notes


def _mode(provenance: Provenance) -> str:
    """Return what runs something without a function: its cells, or its script."""
    if provenance.cells:
        return "cells"
    command = provenance.document.get("command", ())
    return "script" if len(command) > 1 else ""


def _of_trial(trial: Trial, label: str) -> Provenance:
    try:
        return read_attempts(trial.folder)[0]
    except NotFoundError:
        raise NotFoundError(
            f"{label} has no provenance, so it cannot be reproduced: it ran without, or has only just begun"
        ) from None


def _run(folder: Path, limit_s: float, *, trust: bool) -> tuple[rerun.Again, ...]:
    """Run the folder's task in a new environment, and return the compared results.

    Raises:
        UsageError: The packages cannot be installed, or the task failed or took too long.
    """
    python = make_environment(folder, limit_s)
    status, lines = run_program([str(python), RUN, *(["--trust"] if trust else [])], folder, limit_s)
    if status not in {0, 1} or not (folder / rerun.COMPARED).exists():
        raise UsageError(f"it failed, see {str(folder / 'output.txt')!r}: {' '.join(lines[-2:])}")
    return tuple(rerun.compared(folder))


def _named(ref: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in ref)


def _short(folder: Path) -> Path:
    """Return a folder relative to the working folder, if it is below that."""
    with suppress(ValueError, OSError, NbckptError):
        return folder.relative_to(Path.cwd())
    return folder
