"""gc: deletes data that no checkpoint uses, and never data that a running save is about to use.

The danger is a race. A save finds a blob in a pack and names that pack in its manifest. Meanwhile a
collector, which read the manifests earlier, deletes the pack. So the collector first puts a mark that names
the packs, `condemned/<collector>`. It waits, reads the manifests again, and deletes the packs that are still
unused. A save first claims its packs under a key of its own, then reads the marks. If a mark names one of
its packs, it starts again without that pack. Only then does it put its manifest. So either the save sees the
mark, or the second look sees the claim or the manifest; see docs/decisions/0045.

A pack that no manifest ever named may belong to a running save. A collection
only notes it. A collection at least an hour later deletes it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from nbckpt.core import removals
from nbckpt.core.history import History
from nbckpt.core.manifest import now
from nbckpt.core.orphans import Orphans, is_old
from nbckpt.core.packs.format import (
    Blob,
    aside_key,
    build,
    pack_key,
    pack_of,
    piece_of,
    read_head,
    read_index,
    salt,
)
from nbckpt.core.packs.relocation import moved_key, table
from nbckpt.core.references import KINDS, Entry
from nbckpt.core.renewal import renew_catalogue
from nbckpt.core.use_counter import UseCounter
from nbckpt.core.uses import Places, Uses
from nbckpt.errors import CorruptError, FormatError, NotFoundError, RefusedError, StoreError

GRACE_S = 2.0
"""How long, in seconds, the collector waits between its mark and its second look."""

_MOSTLY_DEAD = 0.5


@dataclass
class Collected:
    """The result of a collection, or of a dry run.

    Attributes:
        removed: Manifests that were deleted permanently.
        packs: Packs that were deleted.
        rewritten: Packs that were compacted to the blobs still in use.
        freed: Bytes freed.
        waiting: The number of unused packs that may belong to a running save.
        kept: Checkpoints that cannot be read, or whose packs cannot be followed. If there are any, no pack is
            deleted.
    """

    removed: list[str] = field(default_factory=list)
    packs: list[str] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    freed: int = 0
    waiting: int = 0
    kept: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        packs = f"packs={len(self.packs)}, rewritten={len(self.rewritten)}, waiting={self.waiting}"
        return f"Collected(removed={len(self.removed)}, {packs}, freed={self.freed})"


def collect(
    history: History, *, dry_run: bool = False, wait: Callable[[float], None] = time.sleep
) -> Collected:
    """Delete removed checkpoints and unused packs, and compact packs that are mostly unused."""
    collected = _Collector(history, dry_run, wait).run()
    if not dry_run:
        renew_catalogue(history)
    return collected


class _Collector:
    def __init__(self, history: History, dry_run: bool, wait: Callable[[float], None]) -> None:  # noqa: FBT001
        self.history = history
        self.store = history.store
        self.dry_run = dry_run
        self.wait = wait
        self.result = Collected()
        self.orphans = Orphans(self.store, dry_run=dry_run)
        self.counter = UseCounter(history, self.orphans)

    def run(self) -> Collected:
        while self._collect():
            pass
        return self.result

    def _collect(self) -> bool:
        """Collect once. Return True if space ran short, so that another collection must follow."""
        self.result.waiting = 0
        # This order matters: a checkpoint that is restored in between counts as living, and not as doomed.
        trash = self.history.entries("trash")
        living = {entry.id for entry in self.history.living()}
        doomed = [entry for entry in trash if entry.id not in living]
        uses = self._count(doomed)
        if uses is not None:
            dead, shrinking = self._candidates(doomed, uses)
            if self.dry_run or not (dead or shrinking or doomed):
                self._take(dead, shrinking, doomed, uses)
            else:
                return self._condemn(dead, shrinking, doomed)
        return False

    def _condemn(self, dead: list[str], shrinking: list[str], doomed: list[Entry]) -> bool:
        """Mark the data to delete, look again, then delete. Tell whether more is left to delete."""
        # The mark has a key of its own, so that a collector that runs at the same time does not delete it.
        mark = f"condemned/{secrets.token_hex(8)}"
        try:
            is_whole = self._mark(mark, [*dead, *shrinking, *(entry.id for entry in doomed)], doomed)
            if not is_whole:
                dead = [pack for pack in dead if pack in self.counter.packs_of(doomed[0])]
                shrinking, doomed = [], doomed[:1]
            if dead or shrinking:
                self.wait(GRACE_S)  # see docs/decisions/0007
            # An undo claims a checkpoint before it reads the marks; see docs/decisions/0045.
            claimed = {target for target in self.history.pending() if not self.orphans.is_old(target)}
            back = claimed | {entry.id for entry in self.history.living()}
            doomed = [entry for entry in doomed if entry.id not in back]
            last = self._count(doomed)
            if last is not None:
                for kind in KINDS:  # a removal that a power cut takes back would miss its packs
                    self.store.settle(kind)
                self._take(dead, shrinking, doomed, last)
            return not is_whole and last is not None and bool(doomed)
        finally:
            self.store.delete(mark)

    def _mark(self, mark: str, ids: list[str], doomed: list[Entry]) -> bool:
        """Mark packs and checkpoints. Tell whether there was space for the mark.

        Without space, only the first removed checkpoint is marked. The mark is then a copy of its manifest,
        which names the checkpoint and its packs. On a local disk this copy is a link, which takes no space.
        """
        try:
            self.store.put(mark, "\n".join((now(), *ids)).encode())
        except RefusedError:
            raise
        except StoreError:
            if not doomed:
                raise
            self.store.copy(doomed[0].key, mark)
            return False
        return True

    def _take(self, dead: list[str], shrinking: list[str], doomed: list[Entry], uses: Uses) -> None:
        self.result.removed += [entry.id for entry in doomed]
        for pack in dead:
            if pack not in uses:
                self._delete(pack)
        for pack in shrinking:
            if pack in uses:
                with suppress(NotFoundError, CorruptError):  # `verify` reports the damage; gc leaves it alone
                    self._shrink(pack, uses[pack])
        self._empty_aside(uses)
        self._empty_trash(doomed)

    def _count(self, doomed: list[Entry]) -> Uses | None:
        """Return the blobs in use, by pack, or None if that cannot be known."""
        uses, self.result.kept = self.counter.uses(doomed)
        return uses

    def _candidates(self, doomed: list[Entry], uses: Uses) -> tuple[list[str], list[str]]:
        """Return the unused packs, and the packs that are mostly unused."""
        named_before = self.counter.named_in(doomed)
        dead, shrinking = [], []
        for key in list(self.store.keys("packs/")):
            if key.endswith(".moved"):
                pack = pack_of(key.replace(".moved", ".pack"))
                if pack not in uses and not self.store.exists(pack_key(pack)):
                    dead.append(pack)
                continue
            pack = pack_of(key)
            if pack in uses:
                if pack in self.counter.claimed and not self.orphans.is_old(pack):
                    self.result.waiting += 1
                if self._living_share(pack, uses[pack]) < _MOSTLY_DEAD:
                    shrinking.append(pack)
            elif pack in named_before or self.orphans.is_old(pack):
                dead.append(pack)
            else:
                self.result.waiting += 1
        return dead, shrinking

    def _empty_aside(self, uses: Uses) -> None:
        """Delete damaged packs set aside that nothing needs, or that are whole again under their own key."""
        for key, size in list(self.store.sizes("damaged/")):
            pack = pack_of(key)
            if pack not in uses or self.store.exists(pack_key(pack)):
                self.result.packs.append(pack)
                self.result.freed += size
                if not self.dry_run:
                    self.store.delete(key)

    def _delete(self, pack: str) -> None:
        self.result.freed += sum(blob.stored for blob in self._blobs(pack))
        if self.store.exists(pack_key(pack)):
            self.result.packs.append(pack)
        if not self.dry_run:
            for key in (pack_key(pack), moved_key(pack), aside_key(pack), f"orphans/{pack}"):
                self.store.delete(key)

    def _shrink(self, pack: str, places: Places) -> None:
        """Copy the used blobs into a new pack, record their new place, and delete the old pack."""
        blobs, algorithms = read_index(self.store, pack), self.history.algorithms
        pieces = [piece_of(self.store, blobs[at]) for at in sorted(places.of(len(blobs)))]
        if not self.dry_run:
            # The salt makes the id new: another collector may have condemned a pack of the same blobs.
            new, parts = build([*pieces, salt(algorithms)], algorithms)
            self.store.put(pack_key(new), parts)
            self.store.put(moved_key(pack), table(read_head(self.store, pack), [new]))
            self.store.delete(pack_key(pack))
        self.result.rewritten.append(pack)
        self.result.freed += sum(blob.stored for blob in blobs) - sum(len(piece.data) for piece in pieces)

    def _empty_trash(self, doomed: list[Entry]) -> None:
        if self.dry_run:
            return
        ids = {entry.id for entry in doomed}
        for ref in self.history.refs():
            if ref.id in ids:  # left by an interrupted removal
                self.store.put(f"trash/{ref.key}", self.store.get(ref.key))
                self.store.delete(ref.key)
        for key in (*self.counter.spent, *self.history.spent_refs(ids)):
            self.store.delete(key)
        for entry in doomed:
            for key in list(self.store.keys(f"signatures/{entry.id}/")):
                self.store.delete(key)
            self.store.delete(entry.key)
        for note in list(self.store.keys(removals.FOLDER)):
            if is_old(self.store, note) or ids.issuperset(removals.noted(self.store, note)):
                self.store.delete(note)
        for mark in list(self.store.keys("condemned/")):
            if is_old(self.store, mark):  # its collector died, and saves must not respect the mark forever
                self.store.delete(mark)

    def _blobs(self, pack: str) -> list[Blob]:
        try:
            return read_index(self.store, pack)
        except (NotFoundError, CorruptError, FormatError):
            return []

    def _living_share(self, pack: str, living: Places) -> float:
        blobs = self._blobs(pack)
        whole = sum(blob.stored for blob in blobs)
        return sum(blobs[at].stored for at in living.of(len(blobs))) / whole if whole else 1.0
