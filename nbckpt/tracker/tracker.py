"""Tracker: one object that opens a store and saves, lists, compares and restores checkpoints."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nbckpt.core import environment, gc, transfer
from nbckpt.core.damage import set_aside_all
from nbckpt.core.history import History, VanishedError
from nbckpt.core.manifest import Manifest, Value, now
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer, Progress
from nbckpt.core.references import SHORT, Entry, Ref
from nbckpt.core.removals import Removal, last_removal, note
from nbckpt.core.selection import Selection, values_of
from nbckpt.core.trust import open_signer, stranger
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.loading import Failure, load_values
from nbckpt.core.values.variables import Captured, capture
from nbckpt.core.verify import Verified, verify
from nbckpt.errors import CodecError, NbckptError, UsageError
from nbckpt.listing import listing_table, read_rows
from nbckpt.render import Hint, Page, Rich, count
from nbckpt.settings import Settings
from nbckpt.state.snapshot import Snapshot, adopt, held, is_state, note_saved, put_back, snapshots
from nbckpt.store import CachedStore, RemoteStore, Store, open_store
from nbckpt.tracker.binding import GONE, Undo, change, swap
from nbckpt.tracker.comparing import Comparable, by_name, compared, is_whole
from nbckpt.tracker.results import Compared, Restored, Saved

if TYPE_CHECKING:
    from nbckpt.trials import trash

_MOST_TRIES = 3
_CACHE_SIZE = 4 << 30
_MOST_ROWS = 5


class Tracker(Rich):
    """Save, list and restore variables in one store.

    Only one thread at a time may use a tracker. Any number of trackers, in any number of processes, may use
    one store at the same time. Nothing is read or created before the first call that needs it.

    Args:
        store: A folder, a URL or a store; by default the store of the settings.
        settings: The settings; by default those of the environment.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store | None = None,
        *,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings.load()
        where = self.settings.store if store is None else store
        self.store = _cached(open_store(where), self.settings)
        self.history = History(self.store, lambda: open_signer(self.settings))
        self._known = Known(self.store)
        self._before: Manifest | None = None
        self._undo: Undo | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the objects that `undo` keeps alive."""
        self._undo = None

    def page(self) -> Page:
        """See `Rich.page`. It does not read a store over a network."""
        where = f"{type(self).__name__} of {self.store.url}"
        notes = (f"undo() takes back the {self.undoable}",) if self._undo else ()
        if _is_far(self.store):
            return Page(where, notes=notes, hints=(Hint("List", ".entries() or %ckpt ls"),))
        try:
            entries = self.entries()
            table = listing_table(read_rows(self.history, entries[:_MOST_ROWS]))
        except (NbckptError, OSError) as error:  # a user's store may raise either
            return Page(where, notes=(str(error), *notes))
        return Page(f"{where}: {count(len(entries), 'checkpoint')}", (table,), notes)

    def __repr__(self) -> str:
        return f"Tracker({self.store.url!r})"

    @property
    def undoable(self) -> str:
        """The action that `undo` would revert, as text; empty for none."""
        return self._undo.what if self._undo else ""

    # Saving.

    def save(
        self,
        namespace: dict[str, Any],
        name: str = "",
        *,
        variables: Iterable[str] = (),
        exclude: Iterable[str] = (),
        hidden: Container[str] = frozenset(),
        states: bool = False,
        message: str = "",
        provenance: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Saved:
        """Save variables of *namespace*, by default all of them, as a new checkpoint.

        After the return the checkpoint survives a crash of the process and of the machine. After an
        exception nothing of the new checkpoint is visible, and every older checkpoint is unchanged. A
        variable that cannot be pickled is left out and named in `manifest.skipped`. The namespace is not
        changed. Other threads may change it meanwhile: an array that they write to is saved, with `changed`
        set in its `manifest.values`.

        Args:
            namespace: The variables. Functions that use this dict as their globals do not copy it.
            name: The checkpoint becomes the next version of this name; by default the notebook's name.
            variables: Save only these; a pattern such as `df_*` means every match.
            exclude: Leave these out; patterns too.
            hidden: Names that are not the user's variables.
            states: Whether to save the live states (`nbckpt.State`) too.
            message: A note for people.
            provenance: The origin of the save: `cell`, `notebook`.
            progress: Called with the progress.

        Raises:
            UsageError: There is no such variable, no live state or nothing to save, or the name is invalid.
            CodecError: None of the chosen values can be pickled.
            StoreError: The storage failed.
        """
        started = time.perf_counter()
        name = name or self._default_name()
        self.history.check_format()
        selection = Selection(tuple(variables), tuple(exclude), hidden)
        chosen, whole = selection.of(namespace), selection.whole
        left = set() if whole else Selection(hidden=hidden).of(namespace).keys() - chosen.keys()
        beside = environment.read_states() if whole else {}
        if states:
            beside |= self._snapshots()
        self._known.refresh()
        for attempt in range(_MOST_TRIES):
            try:
                with Packer(
                    self.store, self._known, algorithms=self.history.algorithms, salted=attempt > 0
                ) as packer:
                    captured = capture(chosen | beside, namespace, packer, left=left)
                    if captured.skipped and not captured.drafts:
                        raise _nothing_left(captured)
                    packer.finish(progress)
                    made = self._describe(captured, packer, whole=whole, message=message, where=provenance)
                manifest, ref = self.history.publish(made, name)
                break
            except VanishedError as error:
                self._known.forget(error.packs)
        else:
            raise UsageError(
                f"{self.store.url} is being collected again and again: save again when that is over"
            )
        note_saved(beside)
        self._before = manifest if whole else self._before
        assert ref is not None  # a name was given
        return Saved(manifest, ref, packer.new_bytes, time.perf_counter() - started)

    def _snapshots(self) -> dict[str, Snapshot]:
        taken = snapshots()
        if not taken:
            raise UsageError("there are no states to save: make one with nbckpt.State, or leave --states out")
        return taken

    def _default_name(self) -> str:
        return Path(self.settings.notebook).stem if self.settings.notebook else "session"

    def _describe(
        self,
        captured: Captured,
        packer: Packer,
        *,
        whole: bool,
        message: str,
        where: Mapping[str, Any] | None,
    ) -> Manifest:
        present = {*captured.order, *(skipped.name for skipped in captured.skipped)}
        before = self._before
        # Only names of an earlier save: other absent names may be new work, see docs/decisions/0006.
        gone = (
            {*(value.name for value in before.values), *before.deleted} - present if before and whole else ()
        )
        return Manifest(
            algorithms=packer.algorithms,
            kind="variables",
            created_at=now(),
            message=message,
            parent=before.id if before else "",
            values=captured.values(packer),
            groups=captured.groups(packer),
            skipped=tuple(captured.skipped),
            warnings=tuple(captured.warnings),
            deleted=tuple(sorted(it for it in set(gone) - environment.NAMES if not is_state(it))),
            provenance={
                **environment.machine(),
                "packages": environment.packages(),
                "new_bytes": packer.new_bytes,
                **({"notebook": self.settings.notebook} if self.settings.notebook else {}),
                **(where or {}),
            },
            inline=packer.inline,
        )

    # Looking.

    def entries(self) -> list[Entry]:
        """Return the checkpoints, newest first."""
        self.history.check_format()
        return self.history.entries()

    def find(self, ref: str) -> Entry:
        """Return the checkpoint that *ref* refers to; see `History.resolve`."""
        self.history.check_format()
        return self.history.resolve(ref)

    def manifest(self, ref: str) -> Manifest:
        """Return a checkpoint's manifest. Nothing is unpickled."""
        return self.history.read(self.find(ref))

    def read(self, manifest: Manifest) -> Reader:
        """Return a reader for the bytes of a checkpoint."""
        return Reader(self.store, manifest.inline, mapping=self.settings.mapping)

    def verify(
        self,
        refs: Iterable[str] = (),
        progress: Progress | None = None,
        *,
        repair_from: str | os.PathLike[str] | Store | None = None,
    ) -> Verified:
        """Read and check all data, or only the data that *refs* need. Set damaged data aside.

        Args:
            refs: The checkpoints; by default all.
            progress: Called with the progress.
            repair_from: Another copy of the store, from which damaged data is fetched.
        """
        copy = None if repair_from is None else open_store(repair_from)
        return verify(self.history, [self.find(ref) for ref in refs] or self.entries(), progress, copy)

    def diff(
        self,
        old: str | Comparable,
        new: str | Comparable = "",
        namespace: dict[str, Any] | None = None,
        hidden: Container[str] = frozenset(),
    ) -> Compared:
        """Compare a checkpoint with another checkpoint or with the live *namespace*.

        Values are loaded only if both checkpoints are trusted. Otherwise their digests and previews are
        compared. If *old* holds a part of the variables, only that part of *namespace* is compared.
        """
        before = self.comparable(old) if isinstance(old, str) else old
        assert before.manifest is not None  # the live namespace is always the new side
        if not new:
            after = self._live(before.manifest, namespace, hidden)
        else:
            after = self.comparable(new) if isinstance(new, str) else new
        return compared(before.manifest, before, after)

    def comparable(self, ref: str) -> Comparable:
        """Return a checkpoint as one side of a comparison."""
        manifest = self.manifest(ref)
        return Comparable(
            manifest,
            by_name(manifest),
            self._loader(manifest) if self.history.trusted(manifest) else None,
            {path: (it.size, repr(it.runs)) for path, it in manifest.files.items()},
            manifest.provenance.get("packages", {}),
        )

    def _live(self, before: Manifest, namespace: dict[str, Any] | None, hidden: Container[str]) -> Comparable:
        """Return the live namespace as the new side of a comparison with a checkpoint."""
        if namespace is None:
            raise UsageError("A shell has no variables. Compare two checkpoints: %ckpt diff A B")
        live = Selection(hidden=hidden).of(namespace)
        if not is_whole(before):
            live = {name: value for name, value in live.items() if before.find(name)}
        if any(is_state(it.name) for it in before.values):
            live |= snapshots()
        values = self._live_values(live, namespace)
        packages = environment.packages()
        return Comparable(None, values, live.__getitem__, packages=packages, is_part=not is_whole(before))

    def _live_values(self, live: Mapping[str, Any], namespace: dict[str, Any]) -> dict[str, Value]:
        """Return the values that a save of *live* would have, without saving."""
        with Packer(self.store, self._known, algorithms=self.history.algorithms, dry=True) as packer:
            captured = capture(live, namespace, packer)
            packer.finish()
            return {value.name: value for value in captured.values(packer)}

    def _loader(self, manifest: Manifest) -> Callable[[str], Any]:
        reader = self.read(manifest)

        def load(name: str) -> Any:
            loaded, failed = load_values(manifest, reader, [name], {}, classes=Classes("apart"))
            if failed:
                raise CodecError(failed[0].reason)
            return loaded[name]

        return load

    # Restoring.

    def restore(
        self,
        ref: str,
        namespace: dict[str, Any],
        names: Iterable[str] = (),
        *,
        prefix: str = "",
        trust: bool = False,
        lazy: bool = False,
        dry_run: bool = False,
        hidden: Container[str] = frozenset(),
        progress: Progress | None = None,
    ) -> Restored:
        """Restore the variables of a checkpoint into *namespace*.

        First all values are loaded, then all names are bound. A value that cannot be loaded is named in
        `failed`, and its variable stays as it is. Variables that the checkpoint does not know stay, except
        variables that were already deleted when it was made. Replaced values are kept for `undo`.

        Args:
            ref: The checkpoint.
            namespace: The dict to restore into.
            names: Restore only these; patterns too.
            prefix: A prefix for every name, so that nothing is replaced.
            trust: Load the checkpoint even if someone else made it.
            lazy: Do not check arrays against their digests; read them when they are used.
            dry_run: Only return the changes, without making them.
            hidden: Names that are not the user's variables.
            progress: Called with the progress.

        Raises:
            NotFoundError: There is no such checkpoint, or it has no such variable.
            UntrustedError: Someone else made the checkpoint.
        """
        started = time.perf_counter()
        manifest = self.manifest(ref)
        names = tuple(names)
        wanted = [it for it in values_of(manifest, names) if not (prefix and is_state(it))]
        gone = [name for name in manifest.deleted if name in namespace] if not names and not prefix else []
        if dry_run:
            changes = self._foresee(manifest, wanted, namespace, prefix, hidden)
            changes |= dict.fromkeys(gone, "removed")
            return self._restored(manifest, changes, (), wanted, started, dry_run=True)
        if not (trust or self.history.trusted(manifest)):
            raise stranger(manifest, ref, str(self.history.check_format().get("key", "")))
        loaded, failed = load_values(
            manifest,
            self.read(manifest),
            wanted,
            namespace,
            classes=_classes_for(manifest, wanted, namespace),
            verify=not lazy,
            progress=progress,
        )
        if damaged := {name for it in failed if it.damaged for name in it.names}:
            # Otherwise the next save would reuse data that cannot be read.
            set_aside_all(self.store, manifest.packs_of(damaged))
        settings = {name: loaded.pop(name) for name in environment.NAMES & loaded.keys()}
        states = {name: loaded.pop(name) for name in list(loaded) if is_state(name)}
        bindings = {prefix + name: value for name, value in loaded.items()} | dict.fromkeys(gone, GONE)
        changes = self._bind(
            bindings, settings, states, namespace, f"restore of {manifest.id[:SHORT]}", failed
        )
        if not names and not prefix:
            self._before = manifest
        return self._restored(manifest, changes, tuple(failed), wanted, started)

    def bind(
        self, values: Mapping[str, Any], namespace: dict[str, Any], what: str
    ) -> tuple[dict[str, str], list[Failure]]:
        """Bind variables and load states that come from outside the store. Keep replaced values for `undo`.

        Args:
            values: The variables, and the snapshots of states.
            namespace: The dict to bind them in.
            what: Their origin, as text.

        Returns:
            The change of each name, `new`, `same` or `changed`; and the states that were not loaded.
        """
        failed: list[Failure] = []
        states = {name: it for name, it in values.items() if is_state(name)}
        bindings = {name: it for name, it in values.items() if name not in states}
        return self._bind(bindings, {}, states, namespace, f"restore of {what}", failed), failed

    def _bind(
        self,
        bindings: Mapping[str, Any],
        settings: dict[str, Any],
        states: Mapping[str, Snapshot],
        namespace: dict[str, Any],
        what: str,
        failed: list[Failure],
    ) -> dict[str, str]:
        """Bind all names and load all states, after all values are loaded. Add failures to *failed*."""
        changes = {name: change(namespace, name, value) for name, value in bindings.items()}
        before = held(states)
        former, reasons = environment.write_states(settings)
        # Before the states are loaded: after an interrupt of that load, undo still reverts the bindings.
        self._undo = Undo(what, swap(namespace, bindings), former, before)
        adopt(bindings.values())  # if two states have one name, load the one in the restored variable
        reasons |= put_back(states)
        failed += [Failure((name,), reason) for name, reason in reasons.items()]
        return changes | {name: "changed" for name in states if name not in reasons}

    def undo(self, namespace: dict[str, Any]) -> tuple[str, list[str]]:
        """Undo the last restore or removal. A second undo of a restore repeats the restore.

        The same objects that a restore replaced come back. If this tracker restored and removed nothing, the
        last removal by any other tracker is undone.

        Returns:
            The action that was undone, as text, and the names of the variables that it changed.

        Raises:
            UsageError: There is nothing to undo.
        """
        last = self._undo
        if last is None:
            removal = self.last_removal()
            if removal is None:
                raise UsageError(
                    "there is nothing to undo: nothing was restored here, and the trash is empty"
                )
            removal.bring_back(self.history)
            return str(removal), []
        if last.is_removal:
            if last.beside:
                last.beside.bring_back()  # first: it succeeds or fails as a whole
            for entry, refs in last.removed:
                self.history.bring_back(entry, refs)
            self._undo = None
            return last.what, []
        self._bind(last.bindings, last.settings, last.states, namespace, last.what, [])
        return last.what, sorted([*last.bindings, *last.states])

    def last_removal(self) -> Removal | None:
        """Return the last removal of checkpoints that can be undone, made by any process; None for none."""
        return last_removal(self.history)

    def _foresee(
        self,
        manifest: Manifest,
        wanted: list[str],
        namespace: dict[str, Any],
        prefix: str,
        hidden: Container[str],
    ) -> dict[str, str]:
        live = {
            name: namespace[prefix + name]
            for name in wanted
            if prefix + name in namespace and name not in hidden
        }
        if any(map(is_state, wanted)):
            live |= snapshots()
        values = self._live_values(live, namespace)

        def change(name: str) -> str:
            if prefix + name not in namespace and name not in live:
                return "new"
            value = manifest.find(name)
            return "same" if name in values and value and value.digest == values[name].digest else "changed"

        return {prefix + name: change(name) for name in wanted if name not in environment.NAMES}

    def _restored(
        self,
        manifest: Manifest,
        changes: dict[str, str],
        failed: tuple[Failure, ...],
        wanted: list[str],
        started: float,
        *,
        dry_run: bool = False,
    ) -> Restored:
        names = set(wanted)
        groups = {value.group for value in manifest.values if value.name in names}
        groups -= {at for at, group in enumerate(manifest.groups) if group.separate}
        apart = tuple(it.name for it in manifest.values if it.group in groups and it.name not in names)
        torn = tuple(it.name for it in manifest.values if it.changed and it.name in names)
        return Restored(manifest, changes, failed, apart, time.perf_counter() - started, dry_run, torn)

    # Keeping house.

    def tag(self, ref: str, name: str) -> Ref:
        """Give a checkpoint an additional name."""
        return self.history.add_ref(name, self.find(ref))

    def remove(
        self, refs: Iterable[str], beside: Callable[[], trash.Removal] | None = None
    ) -> list[tuple[Entry, list[Ref]]]:
        """Remove checkpoints; `undo` brings them back until `gc` frees their space.

        Args:
            refs: The checkpoints.
            beside: Called before the removal, to remove other things that `undo` brings back together with
                the checkpoints.
        """
        entries = list(dict.fromkeys(self.find(ref) for ref in refs))
        undo = Undo("removal of no checkpoint")
        if beside is not None:
            undo.beside = beside()
            undo.what = f"removal of {', '.join(undo.beside.labels)}"
            self._undo = undo
        if entries:
            note(self.store, entries)
        for entry in entries:  # after a failure, undo brings back those removed before it
            undo.removed.append((entry, self.history.remove(entry)))
            names = [entry.id[:SHORT] for entry, _ in undo.removed]
            undo.what = f"removal of {', '.join([*names, *(undo.beside.labels if undo.beside else ())])}"
            self._undo = undo
        return undo.removed

    def only_in(self, entries: Iterable[Entry]) -> int:
        """Return the number of bytes that only *entries* use."""
        ids = {entry.id for entry in entries}
        return gc.only_in(self.history, ids)

    def collect(self, *, dry_run: bool = False) -> gc.Collected:
        """Delete removed checkpoints and data that no checkpoint uses; see gc.py."""
        self.history.check_format()
        collected = gc.collect(self.history, dry_run=dry_run)
        if not dry_run:
            self._known = Known(self.store)
            if self._undo and self._undo.is_removal:
                self._undo = None
        return collected

    def trust(self, refs: Iterable[str]) -> list[Manifest]:
        """Sign checkpoints with your key; return the newly signed ones.

        Without *refs*, sign all checkpoints of the store: see `trust_all`.
        """
        entries = [self.find(ref) for ref in refs]
        if not entries:
            return self.trust_all()[0]
        return [manifest for manifest in map(self.history.read, entries) if self._sign(manifest)]

    def trust_all(self) -> tuple[list[Manifest], dict[str, str]]:
        """Sign every checkpoint of the store with your key, except those that cannot be read.

        Returns:
            The newly signed checkpoints; and by id, why a checkpoint cannot be read.
        """
        signed, unread = [], {}
        for entry in self.entries():
            try:
                manifest = self.history.read(entry)
            except NbckptError as error:
                unread[entry.id] = str(error)
                continue
            if self._sign(manifest):
                signed.append(manifest)
        return signed, unread

    def _sign(self, manifest: Manifest) -> bool:
        """Sign a checkpoint with your key; return False if it was trusted already."""
        if self.history.trusted(manifest):
            return False
        self.history.trust(manifest)
        return True

    def export(self, ref: str, file: str | os.PathLike[str], *, overwrite: bool = False) -> int:
        """Export one checkpoint to a file; return the file's size in bytes."""
        manifest = self.manifest(ref)
        names = [it.name for it in self.history.refs() if it.id == manifest.id]
        asked = re.split("[@~]", ref)[0]
        name = asked if asked in names else next(iter(names), "")
        return transfer.export(self.history, manifest, Path(file), name, overwrite=overwrite)

    def import_file(self, file: str | os.PathLike[str]) -> tuple[Manifest, Ref | None, bool]:
        """Import a file that `export` wrote; see `transfer.import_file`."""
        return transfer.import_file(self.history, Path(file))


def _cached(store: Store, settings: Settings) -> Store:
    """Return the store, with a cache if it is read over a network."""
    if settings.cache is None or not _is_far(store):
        return store
    return CachedStore(store, settings.cache, _CACHE_SIZE)


def _is_far(store: Store) -> bool:
    """Tell whether a store is read over a network."""
    return isinstance(store, (CachedStore, RemoteStore)) and not store.url.startswith("memory:")


def _classes_for(manifest: Manifest, names: list[str], namespace: dict[str, Any]) -> Classes:
    """Choose the classes to load: live ones for plain instances, saved ones if a class itself is loaded."""
    wanted = set(names)
    kinds = any(value.preview.get("class") for value in manifest.values if value.name in wanted)
    return Classes("new" if kinds else "live", namespace)


def _nothing_left(captured: Captured) -> CodecError:
    first = captured.skipped[0]
    return CodecError(
        f"cannot save {first.path}: {first.reason}. Nothing else was asked for, so nothing was saved"
    )
