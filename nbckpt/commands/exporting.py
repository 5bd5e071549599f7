"""export, import: checkpoints as files, and pages about experiments."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbckpt.commands.housekeeping import tree_of_trial
from nbckpt.commands.meaning import is_ref, is_trial
from nbckpt.commands.options import Exportable, File
from nbckpt.commands.saving import counted
from nbckpt.commands.table import Session
from nbckpt.commands.trials import target_of
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import SHORT, Ref
from nbckpt.core.transfer import write_file
from nbckpt.errors import UsageError
from nbckpt.render import Hint, Page, Result, size
from nbckpt.render.document import Form, document
from nbckpt.store.files import explained, writing
from nbckpt.trials.views.report import experiment_sections, trial_sections

_MOST_PAGE = 4_900_000
_PAGES: Mapping[str, Form] = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}


@dataclass(frozen=True, repr=False)
class Exported(Result):
    """The result of an export: a file with one checkpoint."""

    ref: str
    file: str
    size: int

    def page(self) -> Page:
        """See `Result.page`."""
        return Page(
            f"Exported {self.ref} to {self.file}, {size(self.size)}.",
            hints=(Hint("Import elsewhere", f"%ckpt import {shlex.quote(self.file)}"),),
        )


@dataclass(frozen=True, repr=False)
class PageExported(Result):
    """The result of an export: a page about an experiment or a trial, for somebody without nbckpt."""

    ref: str
    file: str
    size: int

    def page(self) -> Page:
        """See `Result.page`."""
        return Page(f"Wrote a page about {self.ref} to {self.file}, {size(self.size)}.")


def export(
    session: Session, ref: Exportable, file: File, *, overwrite: bool = False, full: bool = False
) -> Exported | PageExported:
    """Write a checkpoint or a page to a file.

    A FILE that ends with .html or .md is a page about an experiment or a trial, any other is a checkpoint.

    Args:
        ref: A checkpoint; EXP or EXP/t3 for a page, EXP/t3@10 for a checkpoint of a trial.
        file: The file to write, for example grid.html, grid.md or cleaned.ckpt.
        overwrite: Replace the file if it exists.
        full: Let a page become larger than 5 MB.
    """
    if form := _PAGES.get(Path(file).suffix.lower()):
        return _export_page(session, ref, form, Path(file), overwrite=overwrite, full=full)
    if full:
        raise UsageError("--full is for pages: name a file that ends with .html or .md")
    if not is_ref(session, ref) and ref in session.library.names():
        raise UsageError(f"{ref} is an experiment. Write a page about it: %ckpt export {ref} {ref}.html")
    if is_trial(ref) and not is_ref(session, ref):
        _, tree = tree_of_trial(session, ref)
        signer = session.tracker.history.signer
        sign = signer.sign if not tree.manifest.values or signer.signed(tree.manifest) else None
        return Exported(ref, file, write_file(tree, Path(file), sign, overwrite=overwrite))
    return Exported(ref, file, session.tracker.export(ref, file, overwrite=overwrite))


def _export_page(
    session: Session, ref: str, form: Form, file: Path, *, overwrite: bool, full: bool
) -> PageExported:
    library = session.library
    if ref not in library.names() and not (is_trial(ref) and "@" not in ref):
        names = ", ".join(library.names()) or "none yet"
        raise UsageError(
            f"a page is about an experiment or a trial, and {ref!r} is neither: there are {names}"
        )
    experiment, trial = target_of(library, ref)
    name = experiment.name if trial is None else f"{experiment.name}/{trial.id}"
    sections = experiment_sections(experiment) if trial is None else trial_sections(experiment, trial)
    data = document(form, name, sections, None if full else _MOST_PAGE)
    with explained("write", file):
        if file.exists() and not overwrite:
            raise UsageError(f"{str(file)!r} exists. Choose another name, or use --overwrite")
        file.parent.stat()  # raises if the folder does not exist, for example after a typing error
        with writing(file) as opened:
            opened.write(data)
    return PageExported(name, str(file), len(data))


@dataclass(frozen=True, repr=False)
class Imported(Result):
    """The result of an import: a checkpoint from a file."""

    manifest: Manifest
    ref: Ref | None
    new: bool
    trusted: bool

    def page(self) -> Page:
        """See `Result.page`."""
        name = self.manifest.id[:SHORT]
        if not self.new:
            return Page(f"{name} is already in this store.")
        label = f"{self.ref} ({name})" if self.ref else name
        headline = f"Imported {label}: {counted(value.name for value in self.manifest.values)}."
        if self.trusted:
            return Page(headline)
        hints = Hint("Show", f"%ckpt show {name}"), Hint("Trust", f"%ckpt trust {name}")
        return Page(headline, notes=("Not signed by you. Look at it before you trust it.",), hints=hints)


def import_(session: Session, file: File) -> Imported:
    """Import a checkpoint from a file.

    Args:
        file: A file that export wrote.
    """
    with explained("read", file):
        if Path(file).is_dir():
            pull = f"%ckpt pull {shlex.quote(file)}"
            raise UsageError(f"{file!r} is a folder. For the checkpoints in a store: {pull}")
    manifest, ref, new = session.tracker.import_file(file)
    return Imported(manifest, ref, new, session.tracker.history.trusted(manifest))
