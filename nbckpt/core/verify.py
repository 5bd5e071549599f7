"""verify: reads everything, and reports damage and the checkpoints that it affects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from nbckpt.core.damage import repair, set_aside
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.content import Content
from nbckpt.core.packs.format import Blob, parse_index
from nbckpt.core.packs.pools import Pool
from nbckpt.core.packs.relocation import find_index
from nbckpt.core.packs.writer import Progress
from nbckpt.core.references import Entry
from nbckpt.core.uses import Places, Uses, add_uses
from nbckpt.errors import NbckptError, NotFoundError, StoreError
from nbckpt.store import Store

_READERS = 2
_TRIES = 3  # so often a pack may be compacted while it is read


@dataclass(frozen=True)
class Damage:
    """One damaged item.

    Attributes:
        problem: The pack or manifest, and the kind of damage.
        touches: For each affected checkpoint: its id, and the names of its affected values and files.
        pack: The damaged pack. Empty for a manifest.
    """

    problem: str
    touches: tuple[tuple[str, tuple[str, ...]], ...] = ()
    pack: str = ""


@dataclass
class Verified:
    """The result of a verification.

    Attributes:
        checkpoints: The number of checkpoints that were read.
        packs: The number of packs that they need.
        size: The size of those packs in bytes.
        damages: The damage found.
        repaired: The damaged or missing packs that were restored.
        failure: Why the other copy could not be read, so that the remaining packs were not repaired.
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
    """Read and check every byte that *entries* need, in the storage itself. Nothing is unpickled.

    Damaged packs are set aside, so that later saves write their bytes again. If another *copy* of the store
    has such a pack whole, the pack is restored from there.
    """
    result = Verified()
    manifests: list[Manifest] = []
    stored = History(history.store.origin, lambda: history.signer)
    for entry in entries:
        try:
            manifests.append(stored.read(entry))
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
            readers.map(lambda pack: _check_pack(stored.store, pack, needed[pack]), packs)
        ):
            result.packs += 1
            result.size += size
            result.damages += [
                Damage(problem, _touched(manifests, pack, position), where)
                for position, problem, where in bad
            ]
            if progress is not None:
                progress(at + 1, len(packs))
    if result.damages:  # data that was removed and collected meanwhile is not damaged
        living = {entry.id for entry in history.living()}
        result.damages = [
            damage
            for damage in result.damages
            if not damage.touches or any(target in living for target, _ in damage.touches)
        ]
    _mend(history.store, result, copy)
    return result


def _mend(store: Store, result: Verified, copy: Store | None) -> None:
    """Set the damaged packs aside, and bring back those that another copy has."""
    for pack in dict.fromkeys(damage.pack for damage in result.damages if damage.pack):
        with suppress(StoreError):  # the damage is reported even if the store cannot be written
            set_aside(store, pack)
        if copy is not None and not result.failure:
            try:
                result.repaired += [pack] * repair(store, pack, copy)
            except StoreError as error:  # report the damage all the same
                result.failure = str(error)


def _check_pack(
    store: Store, pack: str, needed: Places
) -> tuple[str, int, list[tuple[int | None, str, str]]]:
    """Return the number of bytes read from a pack, and the damage found.

    Each damage has the position of the blob, or None for the whole pack; a description; and the pack that
    holds the blob now. If a collector compacts the pack meanwhile, it is read again from its new place.
    """
    missing = ""
    for _ in range(_TRIES):
        try:
            index = find_index(store, pack)
        except NbckptError as error:
            return pack, 0, [(None, f"pack {pack[:12]}: {error}", pack)]
        try:
            return _check_blobs(store, pack, index, needed)
        except NotFoundError as error:
            missing = str(error)
    return pack, 0, [(None, f"pack {pack[:12]}: {missing}", pack)]


def _check_blobs(
    store: Store, pack: str, index: list[Blob | None], needed: Places
) -> tuple[str, int, list[tuple[int | None, str, str]]]:
    """Check the blobs of a pack. The result is that of `_check_pack`.

    Raises:
        NotFoundError: A pack that holds these blobs is gone since its index was read.
    """
    size = 0
    gone = sorted(at for at in needed.of(len(index)) if index[at] is None) + needed.beyond(len(index))
    bad: list[tuple[int | None, str, str]] = [
        (at, f"blob {at} of pack {pack[:12]} is gone", pack) for at in gone
    ]
    for at, blob in enumerate(index):
        if blob is None:
            continue
        try:
            size += _check_blob(store, blob)
        except NotFoundError:
            raise
        except NbckptError as error:
            bad.append((at, str(error), blob.pack))
    return pack, size, bad


def _check_blob(store: Store, blob: Blob) -> int:
    data = store.get(blob.key, blob.offset, blob.offset + blob.stored)
    if len(data) != blob.stored:
        raise blob.damage()
    blob.decode(data)
    return blob.stored


def _check_inline(manifest: Manifest) -> Iterator[Damage]:
    """Yield the damage in the packs inside a manifest. Only a stranger's manifest can have such damage."""
    for pack, data in manifest.inline.items():
        try:
            for blob in parse_index(data, pack):
                blob.decode(memoryview(data)[blob.offset : blob.offset + blob.stored])
        except NbckptError as error:
            yield Damage(str(error), _touched([manifest], pack, None) or ((manifest.id, ()),))


def _touched(
    manifests: list[Manifest], pack: str, position: int | None
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the checkpoints that need a blob, each with the names of the values and files that use it."""

    def needs(content: Content | None) -> bool:
        runs = content.runs if content else ()
        return any(
            run[0] == pack and (position is None or run[1] <= position < run[1] + run[2]) for run in runs
        )

    touched = []
    for manifest in manifests:
        groups = {
            at for at, group in enumerate(manifest.groups) if any(map(needs, (group.record, *group.roots)))
        }
        names = [
            value.name
            for value in (*manifest.values, *manifest.attributes)
            if value.group in groups or needs(value.picture)
        ]
        names += [path for path, content in manifest.files.items() if needs(content)]
        names += [name for name, content in manifest.attachments.items() if needs(content)]
        if names:
            touched.append((manifest.id, tuple(names)))
    return tuple(touched)
