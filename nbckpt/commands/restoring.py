"""restore, undo: restore variables."""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nbckpt.commands.changes import changes_table, failures_table
from nbckpt.commands.meaning import also_a_trial, is_ref, is_trial
from nbckpt.commands.options import DryRun, Step, Variable, Word
from nbckpt.commands.saving import counted, torn_note
from nbckpt.commands.table import Session
from nbckpt.commands.traveled import UNDONE, Traveled, traveled
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.elsewhere import notes_of
from nbckpt.core.environment import packages
from nbckpt.core.files import FILES, KIND
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import SHORT
from nbckpt.core.values.loading import Failure
from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.render import Hint, Page, Result, Table, age, duration, listed, short
from nbckpt.states.snapshot import is_state
from nbckpt.tracker import Restored
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.trash import removals

_UNDO = Hint("Undo", "%ckpt undo")


@dataclass(frozen=True, repr=False)
class RestoreResult(Result):
    """The result of a restore or of its dry run."""

    restored: Restored
    ref: str
    also: str = ""

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        restored = self.restored
        return bool(restored.failed or restored.apart or restored.torn or restored.note)

    def page(self) -> Page:
        """See `Result.page`."""
        restored = self.restored
        manifest = restored.manifest
        done = "Would restore" if restored.dry_run else "Restored"
        took = "" if restored.dry_run else f" in {duration(restored.seconds)}"
        values = counted(name for name, change in restored.changes.items() if change != "removed")
        saved, short_id = f"saved {age(manifest.created_at).text}", manifest.id[:SHORT]
        which = f"{short_id} ({saved})" if restored.note else f"{self.ref} ({short_id}, {saved})"
        headline = f"{done} {values} from {which}{took}."
        notes = [*filter(None, (restored.note, self.also)), *torn_note(restored.torn)]
        if restored.differing:
            names = short(", ".join(restored.differing), 100)
            notes.append(f"The restored objects have {names} as saved. The code here differs.")
        notes += notes_of(manifest.warnings, restored.changes)
        if restored.apart:
            names = short(", ".join(restored.apart), 100)
            notes.append(
                f"{names} was not restored, so objects that it shared with the restored variables "
                "are now separate copies."
            )
        undo = any(change != "new" for change in restored.changes.values()) and not restored.dry_run
        return Page(
            headline,
            (changes_table(restored.changes, dry_run=restored.dry_run), self._failures()),
            tuple(notes),
            hints=(*self._elsewhere(), *((_UNDO,) if undo else ())),
        )

    def _elsewhere(self) -> tuple[Hint, ...]:
        """Return the command that restores tensors whose device is not here to the CPU."""
        names = [name for failure in self.restored.failed if failure.device for name in failure.names]
        words = shlex.join(["restore", self.ref, *names, "--device", "cpu"])
        return (Hint("Restore to the CPU", f"%ckpt {words}"),) if names else ()

    def _failures(self) -> Table:
        return failures_table(self.restored.failed, _failure_caption(self.restored.manifest))


def _failure_caption(manifest: Manifest) -> str:
    """Return a caption that names the packages whose versions may have caused the failures."""
    then, here = manifest.provenance.get("packages", {}), packages()
    differ = [
        f"{name} {then[name]} (here {here[name]})"
        for name in then
        if name in here and then[name] != here[name]
    ]
    missing = [name for name in then if name not in here]
    hints = differ + ([f"not imported here: {', '.join(missing[:5])}"] if missing and not differ else [])
    return "not restored; all others are" + (f". Saved with {'; '.join(hints[:4])}" if hints else "")


def restore(
    session: Session,
    ref: Step,
    *names: Variable,
    as_: Annotated[str, Word("PREFIX")] = "",
    dry_run: DryRun = False,
    trust: bool = False,
    lazy: bool = False,
    fallback_to_latest: bool = False,
    device: Annotated[str, Word("D")] = "",
) -> RestoreResult | TrialRestored:
    """Restore the variables of a checkpoint.

    Args:
        ref: A name, name@3, an id, latest or latest~2; t3@10 or EXP/t3@10 for a checkpoint of a trial.
        names: Restore only these variables. Patterns such as df_* work too.
        as_: Put PREFIX in front of every name.
        trust: Restore the checkpoint even if someone else made it.
        lazy: Do not check arrays now; read them when they are used.
        fallback_to_latest: If the checkpoint is missing or damaged, restore the newest whole one instead.
        device: Restore tensors that were saved on a GPU to this device, such as cpu.
    """
    if as_ and not as_.isidentifier():
        raise UsageError(f"--as {as_}: no variable's name begins so. Use letters, digits and _")
    if is_trial(ref) and not is_ref(session, ref):
        checkpoint = _trial_checkpoint(session, ref, fallback=fallback_to_latest)
        return _restore_trial(session, *checkpoint, names, as_, device, dry_run=dry_run, trust=trust)
    with _naming_experiments(session, ref):
        restored = session.tracker.restore(
            ref,
            session.live("restore"),
            names,
            prefix=as_,
            dry_run=dry_run,
            fallback_to_latest=fallback_to_latest,
            trust=trust,
            lazy=lazy,
            device=device,
            hidden=session.hidden,
            progress=session.progress,
        )
    return RestoreResult(restored, ref, also_a_trial(session, ref))


@contextmanager
def _naming_experiments(session: Session, ref: str) -> Iterator[None]:
    """Say it if the checkpoint is missing because the word is the name of an experiment."""
    try:
        yield
    except NotFoundError:
        if is_ref(session, ref) or ref not in session.library.names():
            raise
        trials = session.library.open(ref).trials
        trial = next((trial.id for trial in trials if trial.checkpoint_name), "")
        advice = f". Restore a trial's newest checkpoint: %ckpt restore {ref}/{trial}" if trial else ""
        raise NotFoundError(f"{ref} is an experiment, and not a checkpoint{advice}") from None


@dataclass(frozen=True, repr=False)
class TrialRestored(Result):
    """The result of restoring a trial's checkpoint.

    Attributes:
        ref: The checkpoint's name.
        path: The checkpoint's folder.
        changes: The change of each variable; empty if the checkpoint is a folder of the user's files.
        failed: States that were not loaded.
        rest: Keys of the checkpoint's dict that cannot be variable names.
        dry_run: Whether nothing was restored.
        note: Why another checkpoint than the requested one was restored; "" if it was not.
    """

    ref: str
    path: Path
    changes: Mapping[str, str]
    failed: tuple[Failure, ...]
    rest: tuple[str, ...]
    dry_run: bool
    note: str = ""

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self.failed or self.rest or self.note)

    def page(self) -> Page:
        """See `Result.page`."""
        whole = f"nbckpt.Checkpoint.from_directory({str(self.path)!r})"
        if not (self.changes or self.failed or self.rest):
            hint = Hint("Open as a Checkpoint", whole)
            return Page(f"{self.ref} is a folder: {self.path}", notes=self._notes(), hints=(hint,))
        done = "Would restore" if self.dry_run else "Restored"
        rest = f"Not names of variables: {short(', '.join(self.rest), 100)}. Get them with {whole}.to_dict()"
        notes = self._notes() + ((rest,) if self.rest else ())
        undo = "changed" in self.changes.values() and not self.dry_run
        return Page(
            f"{done} {counted(self.changes)} from {self.ref}.",
            (
                changes_table(self.changes, dry_run=self.dry_run),
                failures_table(self.failed, "not restored; all others are"),
            ),
            notes,
            hints=(_UNDO,) if undo else (),
        )

    def _notes(self) -> tuple[str, ...]:
        return (self.note,) if self.note else ()


def _trial_checkpoint(session: Session, ref: str, *, fallback: bool) -> tuple[Trial, Record, str]:
    """Return a whole checkpoint of a trial; with *fallback* perhaps another one than *ref*, and why."""
    try:
        trial, record = session.library.checkpoint(ref)
        trial.checkpoints.check(record)
    except (NotFoundError, CorruptError) as error:
        name = ref.partition("@")[0]
        newest = session.library.trial(name)[1].checkpoints.newest_whole()[0] if fallback else None
        if newest is None:
            raise
        note = f"{error}. Restored {name}@{newest.step}, the newest whole one, instead of {ref}."
        return session.library.trial(name)[1], newest, note
    return trial, record, ""


def _restore_trial(
    session: Session,
    trial: Trial,
    record: Record,
    note: str,
    names: Sequence[str],
    prefix: str,
    device: str,
    *,
    dry_run: bool,
    trust: bool,
) -> TrialRestored:
    """Restore the dict that a trial saved into the namespace. For a folder, return its path."""
    label = f"{trial.folder.parent.name}/{trial.id}@{record.step}"
    checkpoint = Checkpoint.from_directory(trial.folder / record.name, trust=trust)
    loaded = checkpoint.to_dict(device=device)
    fields = {str(key): value for key, value in loaded.items() if key not in {FILES, KIND}}
    if not fields:
        return TrialRestored(label, trial.checkpoints.path(record), {}, (), (), dry_run, note)
    namespace = session.live("restore")
    if missing := [name for name in names if not fnmatch.filter(fields, name)]:
        raise NotFoundError(f"{label} has no variable {missing[0]!r}. It has {', '.join(fields)}")
    wanted = {
        name: fields[name] for name in fields if not names or any(fnmatch.fnmatch(name, by) for by in names)
    }
    values = {prefix + name: value for name, value in wanted.items() if (prefix + name).isidentifier()}
    states = {} if prefix else {name: value for name, value in wanted.items() if is_state(name)}
    rest = tuple(name for name in wanted if not (is_state(name) or (prefix + name).isidentifier()))
    failed: list[Failure] = []
    if dry_run:
        changes = {
            name: "changed" if name in namespace or name in states else "new" for name in values | states
        }
    else:
        changes, failed = session.tracker.bind(values | states, namespace, label)
    return TrialRestored(label, trial.folder / record.name, changes, tuple(failed), rest, dry_run, note)


@dataclass(frozen=True, repr=False)
class Undone(Result):
    """The result of `undo`: the restore or removal that was undone."""

    action: str
    names: tuple[str, ...]

    def page(self) -> Page:
        """See `Result.page`."""
        if self.action.startswith("removal of "):
            return Page(f"Restored {self.action.removeprefix('removal of ')} from the trash.")
        names = f": {short(', '.join(self.names), 120)}" if self.names else ""
        hints = (Hint("Redo", "%ckpt undo"),) if self.names else ()
        return Page(f"Undid the {self.action}{names}.", hints=hints)


def undo(session: Session, steps: Annotated[int, Word("N")] = 1, *, rerun: bool = False) -> Undone | Traveled:
    """Undo the last restore or removal, or cells while auto is on.

    Without auto, repeat it to redo a restore. With auto, each step undoes a cell that changed a variable,
    or a removal if that came last.

    Args:
        steps: The number of points to step back, while auto is on.
        rerun: While auto is on, run the cells again that made the variables that cannot be saved.
    """
    points, tracker = session.points, session.tracker
    if points is not None and points.limits is not None and points.since(tracker.removed_at):
        return traveled(session, points.ready().undo(steps, session.where), UNDONE, rerun=rerun)
    if steps != 1 or rerun:
        taken = "--rerun" if rerun else "a number of steps"
        raise UsageError(f"undo takes {taken} only while auto is on, in a notebook: %ckpt auto on")
    removed = [] if tracker.undoable else removals(session.library.folder)
    before = tracker.last_removal() if removed else None
    if removed and (before is None or before.stamp < removed[-1].stamp):
        removed[-1].bring_back()
        return Undone(f"removal of {listed(removed[-1].labels)}", ())
    action, names = tracker.undo(session.namespace if session.namespace is not None else {})
    return Undone(action, tuple(names))
