"""verify: read everything, and say what is damaged and which checkpoints it touches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from nbckpt.core.damage import repair, set_aside
from nbckpt.core.history import Entry, History
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.content import Content
from nbckpt.core.packs.format import Blob, parse_index
from nbckpt.core.packs.pools import Pool
from nbckpt.core.packs.relocation import find_index
from nbckpt.core.packs.writer import Progress
from nbckpt.core.uses import Places, Uses, add_uses
from nbckpt.errors import NbckptError, NotFoundError, StoreError
from nbckpt.store import Store

_READERS = 2


@dataclass(frozen=True)
class Damage:
    """One thing that is not as it was saved.

    Attributes:
        what: The pack or manifest, and what is wrong with it.
        touches: For each checkpoint that needs it: its id, and the names of the values and files in it.
        pack: The pack that has it; empty for a manifest.
    """

    what: str
    touches: tuple[tuple[str, tuple[str, ...]], ...] = ()
    pack: str = ""


@dataclass
class Verified:
    """What a verification read, and what it found.

    Attributes:
        checkpoints: How many were read.
        packs: How many packs they need.
        size: The bytes of those.
        damages: What is damaged.
        repaired: The packs that were damaged or missing and were brought back.
        failure: Why the other copy could not be read, so that the rest was not repaired.
    """

    checkpoints: int = 0
    packs: int = 0
    size: int = 0
    damages: list[Damage] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    failure: str = ""

    def __repr__(self) -> str:
        read = f"checkpoints={self.checkpoints}, packs={self.packs}, size={self.size}"
        return f"Verified({read}, damages={len(self.damages)})"


def verify(
    history: History,
    entries: Iterable[Entry],
    progress: Progress | None = None,
    copy: Store | None = None,
) -> Verified:
    """Read and check every byte that *entries* need. Nothing is unpickled.

    Packs that are damaged are set aside, so that later saves write their bytes again; those that are
    whole in another *copy* of the store are brought back from there.
    """
    result = Verified()
    manifests: list[Manifest] = []
    for entry in entries:
        try:
            manifests.append(history.read(entry))
        except NotFoundError:
            continue  # removed meanwhile
        except NbckptError as error:
            result.damages.append(Damage(str(error), ((entry.id, ()),)))
    result.checkpoints = len(manifests) + len(result.damages)
    for manifest in manifests:
        result.damages += _check_inline(manifest)
    needed: Uses = {}
    for manifest in manifests:
        add_uses(needed, manifest)
    packs = sorted(needed)
    with Pool(_READERS, "nbckpt-verify") as readers:
        for at, (pack, size, bad) in enumerate(
            readers.map(lambda pack: _check_pack(history, pack, needed[pack]), packs)
        ):
            result.packs += 1
            result.size += size
            result.damages += [
                Damage(what, _touched(manifests, pack, place), where) for place, what, where in bad
            ]
            if progress is not None:
                progress(at + 1, len(packs))
    if result.damages:  # what was removed and collected meanwhile is not damaged
        living = {entry.id for entry in history.entries()}
        result.damages = [
            it for it in result.damages if not it.touches or any(target in living for target, _ in it.touches)
        ]
    for pack in dict.fromkeys(it.pack for it in result.damages if it.pack):
        with suppress(StoreError):  # it is named all the same; here nothing can be written
            set_aside(history.store, pack)
        if copy is not None and not result.failure:
            try:
                result.repaired += [pack] * repair(history.store, pack, copy)
            except StoreError as error:  # what was found is told all the same
                result.failure = str(error)
    return result


def _check_pack(
    history: History, pack: str, needed: Places
) -> tuple[str, int, list[tuple[int | None, str, str]]]:
    """Return how much was read of a pack, and the damage found.

    For each: the blob's place, or None for the whole, what it is, and the pack that the blob is in now.
    """
    try:
        index = find_index(history.store, pack)
    except NbckptError as error:
        return pack, 0, [(None, f"pack {pack[:12]}: {error}", pack)]
    size = 0
    gone = sorted(at for at in needed.of(len(index)) if index[at] is None) + needed.beyond(len(index))
    bad: list[tuple[int | None, str, str]] = [
        (at, f"blob {at} of pack {pack[:12]} is gone", pack) for at in gone
    ]
    for place, blob in enumerate(index):
        if blob is None:
            continue
        try:
            size += _check_blob(history, blob)
        except NbckptError as error:
            bad.append((place, str(error), blob.pack))
    return pack, size, bad


def _check_blob(history: History, blob: Blob) -> int:
    data = history.store.get(blob.key, blob.offset, blob.offset + blob.stored)
    if len(data) != blob.stored:
        raise blob.damage()
    blob.decode(data)
    return blob.stored


def _check_inline(manifest: Manifest) -> Iterator[Damage]:
    """Yield the damage in the packs that a manifest carries; only a stranger's can have any."""
    for pack, data in manifest.inline.items():
        try:
            for blob in parse_index(data, pack):
                blob.decode(memoryview(data)[blob.offset : blob.offset + blob.stored])
        except NbckptError as error:
            yield Damage(str(error), _touched([manifest], pack, None) or ((manifest.id, ()),))


def _touched(
    manifests: list[Manifest], pack: str, place: int | None
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the checkpoints that need a blob, and what in them does."""

    def needs(content: Content | None) -> bool:
        runs = content.runs if content else ()
        return any(run[0] == pack and (place is None or run[1] <= place < run[1] + run[2]) for run in runs)

    found = []
    for manifest in manifests:
        groups = {at for at, it in enumerate(manifest.groups) if any(map(needs, (it.record, *it.roots)))}
        names = [
            it.name
            for it in (*manifest.values, *manifest.attributes)
            if it.group in groups or needs(it.picture)
        ]
        names += [path for path, content in manifest.files.items() if needs(content)]
        if names:
            found.append((manifest.id, tuple(names)))
    return tuple(found)
