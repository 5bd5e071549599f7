"""gc: free what nothing names any more, without ever taking what a save is about to name.

The danger is a save that found a blob in a pack, and names that pack in its manifest, while a collector
that read the manifests earlier deletes it. So the collector first puts a mark, `condemned/<pack>`, waits,
looks at the manifests a second time, and deletes what still nothing names. A save looks at the marks
right before its manifest, and starts again without the marked packs. Either the save sees the mark or,
since putting one small manifest takes less than the wait, the second look sees the manifest.

A pack that nothing ever named may belong to a save that is still running: it is only noted, and taken
by a collection at least an hour later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from nbckpt.core.history import Entry, History
from nbckpt.core.manifest import Manifest, canonical, decode, now
from nbckpt.core.moved import find_index, moved_key
from nbckpt.core.pack import RAW, Blob, Piece, build, pack_key, pack_of, read_index
from nbckpt.errors import CorruptError, NbckptError, NotFoundError

GRACE_S = 2.0
"""How long the collector waits between its mark and its second look."""

ORPHAN_AGE = timedelta(hours=1)
_MOSTLY_DEAD = 0.5


@dataclass
class Collected:
    """What a collection did, or with a dry run would do.

    Attributes:
        removed: Manifests deleted for good.
        packs: Packs deleted.
        rewritten: Packs of which only the living part was kept.
        freed: Bytes freed.
        waiting: Packs that nothing names but that may belong to a running save.
        kept: Manifests that could not be read; while there are any, no pack is deleted.
    """

    removed: list[str] = field(default_factory=list)
    packs: list[str] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    freed: int = 0
    waiting: int = 0
    kept: list[str] = field(default_factory=list)


def collect(
    history: History, *, dry_run: bool = False, wait: Callable[[float], None] = time.sleep
) -> Collected:
    """Delete what `rm` took away and what nothing names; rewrite packs that are mostly dead."""
    return _Collector(history, dry_run, wait).run()


class _Collector:
    def __init__(self, history: History, dry_run: bool, wait: Callable[[float], None]) -> None:  # noqa: FBT001
        self.history = history
        self.store = history.store
        self.dry_run = dry_run
        self.wait = wait
        self.result = Collected()

    def run(self) -> Collected:
        trash = self.history.entries("trash")
        self.result.removed = [entry.id for entry in trash]
        uses = self._uses()
        if uses is not None:
            dead, shrinking = self._candidates(trash, uses)
            self._take(dead, shrinking)
        if not self.dry_run:
            self._empty_trash(trash)
        return self.result

    def _uses(self) -> dict[str, set[int]] | None:
        """Return which blobs of which packs are named; None where a manifest cannot be read."""
        uses: dict[str, set[int]] = {}
        for entry in self.history.entries():
            try:
                manifest = self.history.read(entry)
            except NotFoundError:
                continue  # removed meanwhile
            except NbckptError:
                self.result.kept.append(entry.id)
                continue
            _add_uses(uses, manifest)
        self._follow_moves(uses)
        return None if self.result.kept else uses

    def _follow_moves(self, uses: dict[str, set[int]]) -> None:
        """Count the blobs of rewritten packs where they are now."""
        for key in list(self.store.keys("packs/")):
            pack = pack_of(key.removesuffix(".moved"))
            if not key.endswith(".moved") or self.store.exists(pack_key(pack)):
                continue
            index = find_index(self.store, pack)
            for place in uses.pop(pack, ()):
                blob = index[place]
                if blob is not None:
                    names = [it.digest for it in read_index(self.store, blob.pack)]
                    uses.setdefault(blob.pack, set()).add(names.index(blob.digest))

    def _candidates(self, trash: list[Entry], uses: dict[str, set[int]]) -> tuple[list[str], list[str]]:
        """Return the packs that nothing names, and those that are mostly dead."""
        named_before = self._named_in(trash)
        dead, shrinking = [], []
        for key in list(self.store.keys("packs/")):
            pack = pack_of(key)
            if not key.endswith(".pack"):
                continue
            if pack not in uses:
                if pack in named_before or self._is_old_orphan(pack):
                    dead.append(pack)
                else:
                    self.result.waiting += 1
            elif self._living_share(pack, uses[pack]) < _MOSTLY_DEAD:
                shrinking.append(pack)
        return dead, shrinking

    def _take(self, dead: list[str], shrinking: list[str]) -> None:
        """Condemn, look a second time, delete."""
        if self.dry_run:
            self.result.packs, self.result.rewritten = dead, shrinking
            self.result.freed = sum(map(self._size, dead)) + sum(map(self._dead_bytes, shrinking))
            return
        if not dead and not shrinking:
            self._forgive(self._marked())
            return
        for pack in (*dead, *shrinking):
            self.store.put(f"condemned/{pack}", now().encode())
        self.wait(GRACE_S)
        uses = self._uses()
        for pack in dead if uses is not None else ():
            if pack not in uses:  # type: ignore[operator]  # mypy does not follow the condition above
                self._delete(pack)
        for pack in shrinking if uses is not None else ():
            self._shrink(pack, uses.get(pack, set()))  # type: ignore[union-attr]  # the same
        self._forgive(self._marked())

    def _delete(self, pack: str) -> None:
        self.result.freed += self._size(pack)
        self.result.packs.append(pack)
        self.store.delete(pack_key(pack))
        for key in (moved_key(pack), f"orphans/{pack}"):
            self.store.delete(key)

    def _shrink(self, pack: str, living: set[int]) -> None:
        """Keep the living blobs in a new pack, say where they went, and delete the old one."""
        blobs = read_index(self.store, pack)
        places = sorted(living)
        pieces = [self._piece(blobs[place]) for place in places]
        new, parts = build(pieces)
        self.store.put(pack_key(new), parts)
        table = {str(place): [new, at] for at, place in enumerate(places)}
        self.store.put(moved_key(pack), canonical({"format": 1, "count": len(blobs), "blobs": table}))
        self.result.freed += self._size(pack) - sum(map(len, parts))
        self.result.rewritten.append(pack)
        self.store.delete(pack_key(pack))

    def _piece(self, blob: Blob) -> Piece:
        data = self.store.get(pack_key(blob.pack), blob.offset, blob.offset + blob.stored)
        blob.decode(data)  # never carry damage into a pack that looks whole
        return Piece(
            blob.digest,
            data,
            blob.size,
            blob.codec,
            aligned=blob.codec == RAW and blob.offset % 4096 == 0,
        )

    def _empty_trash(self, trash: Iterable[Entry]) -> None:
        for entry in trash:
            for key in list(self.store.keys(f"signatures/{entry.id}/")):
                self.store.delete(key)
            self.store.delete(entry.key)
        # The highest removed version of a name stays, so that its number is not given again.
        last: dict[str, str] = {}
        for ref in self.history.refs(folder="trash/refs"):
            if ref.name in last:
                self.store.delete(last[ref.name])
            last[ref.name] = ref.key

    def _named_in(self, trash: Iterable[Entry]) -> set[str]:
        named: set[str] = set()
        for entry in trash:
            with suppress(NbckptError):
                named |= decode(self.store.get(entry.key)).packs()
        return named

    def _is_old_orphan(self, pack: str) -> bool:
        """Tell whether an earlier collection, long enough ago, found the pack unnamed; note it if not."""
        try:
            since = datetime.fromisoformat(self.store.get(f"orphans/{pack}").decode())
        except (NotFoundError, ValueError):
            if not self.dry_run:
                self.store.put(f"orphans/{pack}", now().encode())
            return False
        return datetime.now(UTC) - since > ORPHAN_AGE

    def _marked(self) -> list[str]:
        return list(self.store.keys("condemned/"))

    def _forgive(self, marks: Iterable[str]) -> None:
        for key in marks:
            self.store.delete(key)

    def _blobs(self, pack: str) -> list[Blob]:
        try:
            return read_index(self.store, pack)
        except (NotFoundError, CorruptError):
            return []

    def _size(self, pack: str) -> int:
        return sum(blob.stored for blob in self._blobs(pack))

    def _dead_bytes(self, pack: str) -> int:
        uses = self._uses() or {}
        living = uses.get(pack, set())
        return sum(blob.stored for at, blob in enumerate(self._blobs(pack)) if at not in living)

    def _living_share(self, pack: str, living: set[int]) -> float:
        blobs = self._blobs(pack)
        whole = sum(blob.stored for blob in blobs)
        return sum(blobs[at].stored for at in living if at < len(blobs)) / whole if whole else 1.0


def _add_uses(uses: dict[str, set[int]], manifest: Manifest) -> None:
    for content in manifest.contents():
        for pack, first, count in content.runs:
            if pack not in manifest.inline:
                uses.setdefault(pack, set()).update(range(first, first + count))


def only_in(history: History, ids: Container[str]) -> int:
    """Return how many stored bytes the checkpoints with these ids name that no other one does."""
    mine: dict[str, set[int]] = {}
    others: dict[str, set[int]] = {}
    for entry in history.entries():
        with suppress(NbckptError):
            _add_uses(mine if entry.id in ids else others, history.read(entry))
    freed = 0
    for pack, places in mine.items():
        with suppress(NbckptError):
            index = find_index(history.store, pack)
            blobs = (index[place] for place in places - others.get(pack, set()))
            freed += sum(blob.stored for blob in blobs if blob)
    return freed
