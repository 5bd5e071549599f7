"""Tracker: one object that opens a store and saves, lists, compares and restores checkpoints."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from nbckpt.core import gc, transfer, use_counter
from nbckpt.core.damage import set_aside_all
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest, Value
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer, Progress
from nbckpt.core.references import Entry, Ref
from nbckpt.core.removals import Removal, last_removal
from nbckpt.core.selection import Selection
from nbckpt.core.trust import open_signer, stranger
from nbckpt.core.values.loading import Failure
from nbckpt.core.values.variables import capture
from nbckpt.core.verify import Verified, verify
from nbckpt.errors import NbckptError
from nbckpt.listing import listing_table, read_rows
from nbckpt.provenance.background import expect
from nbckpt.provenance.checkpoint import Origin
from nbckpt.render import Hint, Page, Rich, count
from nbckpt.settings import Settings, wants_provenance
from nbckpt.store import Store, is_far, open_store, with_cache
from nbckpt.tracker.binding import Binder
from nbckpt.tracker.comparing import Comparable, compared, live, stored
from nbckpt.tracker.restoring import Restore, newest_whole
from nbckpt.tracker.results import Compared, Restored, Saved
from nbckpt.tracker.saving import Save
from nbckpt.tracker.signing import sign, sign_all

if TYPE_CHECKING:
    from nbckpt.trials import trash

_MOST_ROWS = 5


class Tracker(Rich):
    """Save, list and restore variables in one store.

    Only one thread at a time may use a tracker. Any number of trackers, in any number of processes, may use
    one store at the same time. Nothing is read or created before the first call that needs it.

    Args:
        store: A folder, a URL or a store; by default the store of the settings.
        settings: The settings; by default those of the environment.

    Attributes:
        before: The checkpoint that the variables came from, and the parent of the next save.

    Examples:
        >>> tracker, variables = nbckpt.Tracker("store"), {"lr": 0.1}
        >>> saved = tracker.save(variables, "clean")
        >>> variables["lr"] = 0.5
        >>> [difference.name for difference in tracker.diff("clean", namespace=variables).differences]
        ['lr']
        >>> restored = tracker.restore("clean", variables)
        >>> variables
        {'lr': 0.1}
        >>> action, names = tracker.undo(variables)
        >>> named, size = tracker.tag("clean", "first"), tracker.export("first", "first.zip")
        >>> removed, freed = tracker.remove(["clean"]), tracker.collect()
        >>> imported, signed = tracker.import_file("first.zip"), tracker.trust(["first"])
        >>> tracker.entries() == [tracker.find("first")], tracker.verify().damages
        (True, [])
    """

    saves: ClassVar = True
    """Whether a save may come, so that git is asked at once."""

    def __init__(
        self, store: str | os.PathLike[str] | Store | None = None, *, settings: Settings | None = None
    ) -> None:
        self.settings = settings or Settings.load()
        self.store = with_cache(
            open_store(self.settings.store if store is None else store), self.settings.cache
        )
        self.history = History(self.store, lambda: open_signer(self.settings))
        self._known = Known(self.store)
        self.before: Manifest | None = None
        self._binder = Binder()
        if self.saves:
            expect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the objects that `undo` keeps alive."""
        self._binder.last = None

    def page(self) -> Page:
        """See `Rich.page`. It does not read a store over a network."""
        where = f"{type(self).__name__} of {self.store.url}"
        notes = (f"undo() reverts the {self.undoable}",) if self._binder.last else ()
        if is_far(self.store):
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
        return self._binder.last.action if self._binder.last else ""

    @property
    def removed_at(self) -> str:
        """When the removal began that `undo` would revert; empty if it would revert no removal."""
        last = self._binder.last
        return last.at if last is not None and last.is_removal else ""

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
        origin: Mapping[str, Any] | None = None,
        provenance: bool = True,
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
            origin: Where the save comes from: `cell`, `notebook`.
            provenance: Whether to keep what is needed to do it again: the commit and the uncommitted changes,
                the packages, the machine, the cells.
            progress: Called with the progress.

        Raises:
            UsageError: There is no such variable, no live state or nothing to save, or the name is invalid.
            CodecError: None of the chosen values can be pickled.
            StoreError: The storage failed.
        """
        started = time.perf_counter()
        self.history.check_format()
        selection = Selection(tuple(variables), tuple(exclude), hidden)
        again = Origin() if provenance and wants_provenance() else None
        notebook = {"notebook": self.settings.notebook} if self.settings.notebook else {}
        origin = {**notebook, **(origin or {})}
        save = Save(namespace, selection, self.before, origin, message, states=states, again=again)
        write = partial(save.write, progress=progress)
        name = name or Path(self.settings.notebook or "session").stem
        publish = partial(self.history.publish, name=name)
        (manifest, ref), new_bytes = transfer.save(self.history, self._known, write, publish, name)
        save.note()
        self.before = manifest if selection.whole else self.before
        assert ref is not None  # a name was given
        return Saved(manifest, ref, new_bytes, time.perf_counter() - started)

    def entries(self) -> list[Entry]:
        """Return the checkpoints, newest first."""
        self.history.check_format()
        return self.history.listed().entries()

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
        return verify(self.history, [self.find(ref) for ref in refs] or self.history.living(), progress, copy)

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
        if not new:
            return compared(before, live(before, namespace, hidden, self._live_values))
        return compared(before, self.comparable(new) if isinstance(new, str) else new)

    def comparable(self, ref: str | Entry) -> Comparable:
        """Return a checkpoint as one side of a comparison."""
        manifest = self.history.read(self.find(ref) if isinstance(ref, str) else ref)
        return stored(manifest, self.read(manifest), trusted=self.history.trusted(manifest))

    def _live_values(self, live: Mapping[str, Any], namespace: dict[str, Any]) -> dict[str, Value]:
        """Return the values that a save of *live* would have, without saving."""
        with Packer(self.store, self._known, algorithms=self.history.algorithms, dry=True) as packer:
            captured = capture(live, namespace, packer)
            packer.finish()
            return {value.name: value for value in captured.values(packer)}

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
        fallback_to_latest: bool = False,
        device: str = "",
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
            fallback_to_latest: If it is missing or damaged, restore the newest whole one of the same name.
            device: Where to restore tensors that were saved on a GPU, such as `cpu`.
            hidden: Names that are not the user's variables.
            progress: Called with the progress.

        Raises:
            NotFoundError: There is no such checkpoint, or it has no such variable.
            UntrustedError: Someone else made the checkpoint.
        """
        started = time.perf_counter()
        ref, note = newest_whole(self.history, ref) if fallback_to_latest else (ref, "")
        manifest = self.manifest(ref)
        restore = Restore(manifest, namespace, tuple(names), prefix)
        if dry_run:
            foreseen = restore.foresee(hidden, self._live_values)
            return restore.result(foreseen, (), started, note, dry_run=True)
        if not (trust or self.history.trusted(manifest)):
            raise stranger(manifest, ref, str(self.history.check_format().get("key", "")))
        loaded, failed = restore.load(self.read(manifest), verify=not lazy, progress=progress, device=device)
        if damaged := {name for failure in failed if failure.damaged for name in failure.names}:
            # Otherwise the next save would reuse data that cannot be read.
            set_aside_all(self.store, manifest.packs_of(damaged))
        changes = restore.bind(self._binder, loaded, failed)
        if restore.is_whole:
            self.before = manifest
        return restore.result(changes, tuple(failed), started, note)

    def bind(
        self, values: Mapping[str, Any], namespace: dict[str, Any], origin: str
    ) -> tuple[dict[str, str], list[Failure]]:
        """Bind variables and load states that come from outside the store. Keep replaced values for `undo`.

        Return the change of each name, `new`, `same` or `changed`; and the states that were not loaded.

        Args:
            values: The variables, and the snapshots of states.
            namespace: The dict to bind them in.
            origin: Their origin, as text.
        """
        failed: list[Failure] = []
        return self._binder.bind(values, {}, namespace, f"restore of {origin}", failed), failed

    def undo(self, namespace: dict[str, Any]) -> tuple[str, list[str]]:
        """Undo the last restore or removal. A second undo of a restore repeats the restore.

        The same objects that a restore replaced come back. If this tracker restored and removed nothing, the
        last removal by any other tracker is undone.

        Returns:
            The action that was undone, as text, and the names of the variables that it changed.

        Raises:
            UsageError: There is nothing to undo.
        """
        return self._binder.undo(self.history, namespace)

    def last_removal(self) -> Removal | None:
        """Return the last removal of checkpoints that can be undone, made by any process; None for none."""
        return last_removal(self.history)

    def tag(self, ref: str, name: str) -> Ref:
        """Give a checkpoint an additional name."""
        return transfer.give_name(self.history, self.find(ref), name)

    def remove(
        self, refs: Iterable[str], beside: Callable[[], trash.Removal] | None = None
    ) -> list[tuple[Entry, list[Ref]]]:
        """Remove checkpoints; `undo` brings them back until `gc` frees their space.

        Args:
            refs: The checkpoints.
            beside: Called before the removal, to remove other things that `undo` brings back together with
                the checkpoints.
        """
        return self._binder.remove(self.history, dict.fromkeys(self.find(ref) for ref in refs), beside)

    def only_in(self, entries: Iterable[Entry]) -> int:
        """Return the number of bytes that only *entries* use."""
        return use_counter.only_in(self.history, {*entries})

    def collect(self, *, dry_run: bool = False) -> gc.Collected:
        """Delete removed checkpoints and data that no checkpoint uses; see gc.py."""
        self.history.check_format()
        collected = gc.collect(self.history, dry_run=dry_run)
        if not dry_run:
            self._known = Known(self.store)
            if self._binder.last and self._binder.last.is_removal:
                self._binder.last = None
        return collected

    def trust(self, refs: Iterable[str]) -> list[Manifest]:
        """Sign checkpoints with your key; return the newly signed ones.

        Without *refs*, sign all checkpoints of the store: see `trust_all`.
        """
        entries = [self.find(ref) for ref in refs]
        if not entries:
            return self.trust_all()[0]
        return [manifest for manifest in map(self.history.read, entries) if sign(self.history, manifest)]

    def trust_all(self) -> tuple[list[Manifest], dict[str, str]]:
        """Sign every checkpoint of the store with your key, except those that cannot be read.

        Returns:
            The newly signed checkpoints; and by id, why a checkpoint cannot be read.
        """
        return sign_all(self.history)

    def export(self, ref: str, file: str | os.PathLike[str], *, overwrite: bool = False) -> int:
        """Export one checkpoint to a file; return the file's size in bytes."""
        manifest = self.manifest(ref)
        names = [named.name for named in self.history.refs() if named.id == manifest.id]
        wanted = re.split("[@~]", ref)[0]
        name = wanted if wanted in names else next(iter(names), "")
        return transfer.export(self.history, manifest, Path(file), name, overwrite=overwrite)

    def import_file(self, file: str | os.PathLike[str]) -> tuple[Manifest, Ref | None, bool]:
        """Import a file that `export` wrote; see `transfer.import_file`."""
        return transfer.import_file(self.history, Path(file))
