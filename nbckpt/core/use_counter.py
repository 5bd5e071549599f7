"""UseCounter: which blobs the checkpoints of a store use, also in packs that were compacted since."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from contextlib import suppress

from nbckpt.core.history import History
from nbckpt.core.orphans import FOLDER, Orphans
from nbckpt.core.packs.format import MOST_BLOBS, pack_key, pack_of
from nbckpt.core.packs.relocation import find_index, locate, moved_key
from nbckpt.core.references import KINDS, Entry
from nbckpt.core.uses import Places, Uses, add_uses
from nbckpt.errors import NbckptError, NotFoundError


class UseCounter:
    """Counts what a collection must not delete.

    Attributes:
        claimed: The packs that only running saves use.
        spent: The claims of saves that have died, with their notes.
    """

    def __init__(self, history: History, orphans: Orphans) -> None:
        self.history = history
        self.store = history.store
        self.claimed: set[str] = set()
        self.spent: list[str] = []
        self._orphans = orphans

    def uses(self, doomed: Collection[Entry]) -> tuple[Uses | None, list[str]]:
        """Return the blobs in use, by pack, and the checkpoints that cannot be read or followed.

        With such checkpoints, it is not known what is in use, and None stands for the blobs.
        Checkpoints that were removed too recently to be doomed count as well: they can still be restored.
        """
        uses: Uses = {}
        kept: list[str] = []
        claims = self.history.claims()  # before the manifests: a claim may go once its manifest is there
        entries = (*self.history.living(), *self.history.entries("trash"))
        counted = [entry for entry in entries if entry not in doomed]
        for entry in counted:
            try:
                add_uses(uses, self.history.read(entry))
            except NotFoundError:
                continue  # removed or restored meanwhile
            except NbckptError:
                kept.append(entry.id)
        if lost := self._follow_moves(uses):
            kept += [entry.id for entry in counted if lost & self.packs_of(entry)]
        self._heed(claims, {entry.id for entry in entries}, uses)
        return None if lost or kept else uses, kept

    def _heed(self, claims: list[tuple[str, str]], there: Container[str], uses: Uses) -> None:
        """Count all blobs of claimed packs as used, for an hour. By then the save has ended or died."""
        dangling = [(key, target) for key, target in claims if target not in there]
        present = {pack_of(key) for key in self.store.keys("packs/")} if dangling else set()
        self.spent.clear()
        for key, target in dangling:
            if self._orphans.is_old(target):
                self.spent += [key, f"{FOLDER}{target}"]
                continue
            for pack in self.history.claimed(key) & present:
                self.claimed |= {pack} - uses.keys()
                uses.setdefault(pack, Places()).add(0, MOST_BLOBS)

    def packs_of(self, entry: Entry) -> set[str]:
        """Return the packs that a checkpoint names; none if it cannot be read."""
        try:
            return self.history.read(entry).packs()
        except NbckptError:
            return set()

    def _follow_moves(self, uses: Uses) -> set[str]:
        """Count the blobs of rewritten packs at their new places. Return the packs that are lost.

        A rewritten pack stays in *uses*, without blobs, because its relocation table is needed.
        """
        present = set(self.store.keys("packs/"))
        for key in {key.replace(".moved", ".pack") for key in present} - present:
            self.store.forget(key)  # a cache may still have a pack that was rewritten on another machine
        places: dict[str, dict[bytes, int]] = {}
        lost = set()
        for pack in list(uses):
            if pack_key(pack) in present or moved_key(pack) not in present:
                continue
            chain = [pack]
            try:
                index, chain = locate(self.store, pack)
                for blob in (index[at] for at in uses.pop(pack).of(len(index))):
                    if blob is None:
                        continue
                    if blob.pack not in places:
                        blobs = find_index(self.store, blob.pack)
                        places[blob.pack] = {blob.digest: at for at, blob in enumerate(blobs) if blob}
                    uses.setdefault(blob.pack, Places()).add(places[blob.pack][blob.digest])
            except NbckptError:
                lost.add(pack)
            for moved in chain:
                if pack_key(moved) not in present:
                    uses.setdefault(moved, Places())
        return lost

    def named_in(self, entries: Iterable[Entry]) -> Uses:
        """Return the blobs that these checkpoints name. Skip a checkpoint that cannot be read."""
        named: Uses = {}
        for entry in entries:
            with suppress(NbckptError):
                add_uses(named, self.history.read(entry))
        self._follow_moves(named)
        return named


def only_in(history: History, entries: Container[Entry]) -> int:
    """Return the stored bytes that only these checkpoints use."""
    mine: Uses = {}
    others: Uses = {}
    for entry in (entry for kind in KINDS for entry in history.entries(kind)):  # maybe several with one id
        with suppress(NbckptError):
            add_uses(mine if entry in entries else others, history.read(entry))
    freed = 0
    for pack, places in mine.items():
        with suppress(NbckptError):
            index = find_index(history.store, pack)
            alone = places.of(len(index)) - others.get(pack, Places()).of(len(index))
            blobs = (index[at] for at in alone)
            freed += sum(blob.stored for blob in blobs if blob)
    return freed
