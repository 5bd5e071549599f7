"""tag, rm, gc, trust: name, remove and sign checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from nbckpt.commands.annotating import TrialAnnotated, annotate
from nbckpt.commands.meaning import is_ref, is_trial
from nbckpt.commands.options import DryRun, Item, Name, Step
from nbckpt.commands.table import Session
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.gc import Collected
from nbckpt.core.manifest import Manifest
from nbckpt.core.names import check_name
from nbckpt.core.references import SHORT, Ref
from nbckpt.core.trash import names_of
from nbckpt.core.tree import Tree
from nbckpt.errors import NbckptError, UsageError
from nbckpt.render import Column, Hint, Page, Result, Table, count, listed, short, size
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoint_index import TrialCheckpoint, metric_of
from nbckpt.trials.trash import empty
from nbckpt.trials.unused_media import UnusedMedia, free_media

_MOST_KEPT = 10


@dataclass(frozen=True, repr=False)
class Tagged(Result):
    """The additional name of a checkpoint."""

    ref: Ref

    def page(self) -> Page:
        """See `Result.page`."""
        return Page(f"Tagged {self.ref.id[:SHORT]} as {self.ref}.")


def tag(session: Session, ref: Step, name: Name) -> Tagged | TrialAnnotated:
    """Give a checkpoint an additional name, or a trial a tag.

    A trial's checkpoint, t3@10, is copied to the store under this name. t3 is the trial itself.

    Args:
        name: The additional name, or the tag.
    """
    if is_trial(ref) and not is_ref(session, ref):
        if "@" not in ref:
            return annotate(session, ref, add=(name,))
        folder, tree = tree_of_trial(session, ref)
        made = Checkpoint.from_directory(folder)
        target = made.to_store(session.tracker.store, check_name(name), message=tree.manifest.message)
        return Tagged([ref for ref in session.tracker.history.refs(name) if ref.id == target][-1])
    return Tagged(session.tracker.tag(ref, name))


def tree_of_trial(session: Session, ref: str) -> tuple[Path, Tree]:
    """Check the files of a trial's checkpoint, and return its folder and its tree."""
    trial, record = session.library.checkpoint(ref)
    trial.checkpoints.check(record)
    step = TrialCheckpoint(trial.folder, record.name)
    tree = step.tree(metric_of(trial.folder.parent))
    message = ", ".join(filter(None, (step.ref, tree.manifest.message)))
    return trial.folder / record.name, replace(tree, manifest=replace(tree.manifest, message=message))


@dataclass(frozen=True, repr=False)
class Removed(Result):
    """The checkpoints and experiments that a removal or its dry run names.

    Attributes:
        labels: The checkpoints.
        freed: The bytes that the next gc frees.
        dry_run: Whether nothing was removed.
        experiments: Experiments and checkpoints of trials, as text, with their sizes in bytes.
    """

    labels: tuple[str, ...]
    freed: int
    dry_run: bool
    experiments: tuple[tuple[str, int], ...] = ()

    def page(self) -> Page:
        """See `Result.page`."""
        names = (*self.labels, *(label for label, _ in self.experiments))
        freed = self.freed + sum(taken for _, taken in self.experiments)
        if self.dry_run:
            return Page(f"Would remove {', '.join(names)}. The next gc would free up to {size(freed)}.")
        hints = [Hint("Undo", "%ckpt undo"), Hint(f"Free up to {size(freed)}", "%ckpt gc")]
        return Page(f"Removed {listed(names)}.", hints=tuple(hints if freed else hints[:1]))


def rm(session: Session, ref: Item, *more: Item, older: bool = False, dry_run: DryRun = False) -> Removed:
    """Remove checkpoints or experiments; undo brings them back.

    Their space is free after gc. Then undo cannot bring them back.

    Args:
        ref: A checkpoint, EXP/t3@10 for a checkpoint of a trial, or an experiment.
        more: Further checkpoints or experiments.
        older: Keep the newest version of each name and those with a second name, and remove the others; of an
            experiment or a trial, keep the newest checkpoint of each trial.
    """
    tracker, library = session.tracker, session.library
    refs = list(dict.fromkeys([ref, *more]))
    named = tracker.history.refs()
    if older:
        there = [version for version, _ in tracker.history.named(named)]
        refs = [version for name in refs for version in _older(library, there, name)]
    others = [ref for ref in refs if not is_ref(session, ref)]
    names = library.names()
    others = [ref for ref in dict.fromkeys(others) if ref in names or ("@" in ref and is_trial(ref))]
    refs = [ref for ref in refs if ref not in others]
    _refuse_trials(session, refs)
    entries = [tracker.find(ref) for ref in refs]
    history = tracker.history
    labels = [", ".join(map(str, names_of(history, entry, named))) or entry.id[:SHORT] for entry in entries]
    freed = tracker.only_in(entries) if entries else 0
    # Check everything first: an item that cannot be removed must fail before any removal.
    sizes = [(f"the experiment {name}" if name in names else name, library.size_of(name)) for name in others]
    if not dry_run:
        tracker.remove(refs, partial(library.remove, *others) if others else None)
    return Removed(tuple(labels), freed, dry_run, tuple(sizes))


def _refuse_trials(session: Session, refs: Sequence[str]) -> None:
    """Refuse to remove a trial, and say what can be removed."""
    for ref in refs:
        if is_trial(ref) and not is_ref(session, ref):
            experiment, trial = session.library.trial(ref)
            name = f"{experiment.name}/{trial.id}"
            raise UsageError(
                f"{name} is a trial. Remove its checkpoints, such as {name}@10; all but the newest: %ckpt rm "
                f"{name} --older; the whole experiment: %ckpt rm {experiment.name}"
            )


def _older(library: Catalog, refs: Sequence[Ref], name: str) -> list[str]:
    """Return the versions of a name before the newest, without checkpoints that have a second name.

    Only *refs* count. For the name of an experiment or a trial, return the checkpoints of each trial before
    the newest.

    Raises:
        UsageError: There are none.
    """
    names = Counter(ref.id for ref in refs)
    versions = sorted((ref for ref in refs if ref.name == name), key=lambda ref: ref.version)
    if not versions and (name in library.names() or (is_trial(name) and "@" not in name)):
        return _older_of_trials(library, name)
    if older := [str(ref) for ref in versions[:-1] if names[ref.id] == 1]:
        return older
    kept = "every older version has a second name" if versions[1:] else "it has no older version"
    raise UsageError(f"{name!r}: {kept}")


def _older_of_trials(library: Catalog, name: str) -> list[str]:
    experiment, one = (library.open(name), None) if name in library.names() else library.trial(name)
    older = [
        f"{experiment.name}/{trial.id}@{record.step}"
        for trial in ([one] if one else experiment.trials)
        for record in trial.checkpoints.records()[:-1]
    ]
    if not older:
        raise UsageError(f"{name!r}: no trial has an older checkpoint")
    return older


@dataclass(frozen=True, repr=False)
class Collection(Result):
    """The result of a gc or of its dry run.

    Attributes:
        collected: The counts for the store.
        dry_run: Whether nothing was deleted.
        experiments: The removed experiments and checkpoints of trials that gc deletes, with their sizes.
        media: The media that no trial needs.
    """

    collected: Collected
    dry_run: bool
    experiments: tuple[Sequence[str], int] = ((), 0)
    media: UnusedMedia = field(default_factory=UnusedMedia)

    def page(self) -> Page:
        """See `Result.page`."""
        collected = self.collected
        done = "Would free" if self.dry_run else "Freed"
        removed = count(len(collected.removed), "removed checkpoint")
        packs, rewritten = count(len(collected.packs), "pack"), count(len(collected.rewritten), "pack")
        notes = [f"{removed}, {packs} deleted, {rewritten} compacted"]
        if collected.waiting:
            waiting = count(collected.waiting, "pack")
            notes.append(f"{waiting} may belong to a running save: kept for an hour")
        if collected.kept:
            ids = " ".join(name[:SHORT] for name in collected.kept[:_MOST_KEPT])
            damaged = count(len(collected.kept), "damaged checkpoint")
            notes.append(
                f"No pack was deleted, because {damaged} may need it. "
                f"Show the damage: %ckpt verify. Remove: %ckpt rm {ids}"
            )
        labels, taken = self.experiments
        if labels:
            notes.append(f"deleted {short(', '.join(labels), 100)}, {size(taken)}")
        if self.media.files:
            notes.append(f"deleted {count(self.media.files, 'file')} of media, {size(self.media.size)}")
        return Page(f"{done} {size(collected.freed + taken + self.media.size)}.", notes=tuple(notes))


def gc(session: Session, *, dry_run: DryRun = False) -> Collection:
    """Delete data that no checkpoint uses."""
    experiments = empty(session.library.folder, dry_run=dry_run)  # first: it needs no space and frees some
    media = free_media(session.library, dry_run=dry_run)
    return Collection(session.tracker.collect(dry_run=dry_run), dry_run, experiments, media)


@dataclass(frozen=True, repr=False)
class Trusted(Result):
    """The checkpoints that `trust` signed with your key.

    Attributes:
        signed: The newly signed checkpoints.
        unread: By id or name, why a checkpoint cannot be read.
        experiments: The newly signed experiments and checkpoints of trials.
    """

    signed: tuple[Manifest, ...]
    unread: Mapping[str, str] = field(default_factory=dict)
    experiments: tuple[str, ...] = ()

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self.unread)

    def page(self) -> Page:
        """See `Result.page`."""
        steps = [name for name in self.experiments if "@" in name]
        functions = len(self.experiments) - len(steps)
        signed = count(len(self.signed) + len(steps), "checkpoint")
        signed += f" and {count(functions, 'experiment')}" if functions else ""
        ids = short(
            ", ".join([manifest.id[:SHORT] for manifest in self.signed] + list(self.experiments)), 100
        )
        headline = f"Signed {signed} as your own: {ids}."
        if not (self.signed or self.experiments):
            headline = "Nothing to sign: every readable checkpoint is signed by you already."
        rows = tuple((name[:SHORT], why) for name, why in self.unread.items())
        table = Table(
            "not signed, since they cannot be read", (Column("id", code=True), Column("reason")), rows
        )
        return Page(headline, (table,))


def trust(session: Session, *refs: Item, store_: bool = False) -> Trusted:
    """Sign checkpoints of others, so that they can be restored.

    Args:
        refs: Checkpoints, EXP/t3 for those of a trial, or experiments with all their checkpoints.
        store_: Sign everything in this store.
    """
    if bool(refs) == store_:
        raise UsageError("which checkpoints? %ckpt trust REF, or %ckpt trust --store for all in this store")
    library, signer = session.library, session.tracker.history.signer
    if refs:
        names = library.names()
        others = [ref for ref in refs if not is_ref(session, ref) and (ref in names or is_trial(ref))]
        ours = [ref for ref in refs if ref not in others]
        signed = session.tracker.trust(ours) if ours else []
        return Trusted(
            tuple(signed), {}, tuple(name for ref in others for name in library.trust(ref, signer))
        )
    signed, unread = session.tracker.trust_all()
    experiments: list[str] = []
    for name in library.names():
        try:
            experiments += library.trust(name, signer)
        except NbckptError as error:
            unread[name] = str(error)
    return Trusted(tuple(signed), unread, tuple(experiments))
