"""Stores: what one store of checkpoints has and another one lacks, brought there.

Keys are put once and never changed, so what is there with its size need not be moved again, and any
number of machines may send to one store at once. Nothing is ever removed from either.

Nothing is believed of the source: a pack is put when all its blobs are what its id vouches for, a
manifest when it is the one that its key names and the packs that it needs are there.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from nbckpt.core.history import decode_entry
from nbckpt.core.packs.format import LARGEST_PACK, check_pack, pack_key, pack_of
from nbckpt.core.packs.relocation import moved_key
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError
from nbckpt.store import Buffer, Store
from nbckpt.sync.progress import ProgressTracker
from nbckpt.sync.transfer import Moved, TransferOptions, TransferPool

# Nothing is deleted at the target: see docs/decisions/0027.
ORDER = ("store.json", "packs/", "signatures/", "refs/", "checkpoints/")
"""What is put first: contents, then names, and last the manifests, each of which shows a checkpoint."""

_MOST_TRIES = 3


def mirror(source: Store, target: Store, options: TransferOptions | None = None) -> Moved:
    """Bring *target* every checkpoint that *source* has.

    Whoever reads the target finds each checkpoint whole or not at all, also when this is killed. Trials
    are not among them, see `upload`.

    Args:
        source: Where from.
        target: Where to.
        options: The timeout, the retries and the progress.

    Returns:
        What was done; files are keys. What is damaged in the source is left out, by its key.

    Raises:
        StoreError: A storage failed, or it was cancelled or took too long; what was moved until then
            need not be moved again.
    """
    options = options or TransferOptions()
    work, meter = options.work(target.url), ProgressTracker(options.told)
    left_out: dict[str, str] = {}
    moved: dict[str, int] = {}
    for _ in range(_MOST_TRIES + 1):
        there = work.one(partial(_sizes, target))
        here = work.one(partial(_sizes, source))
        missing = {key: size for key, size in here.items() if _is_due(key, size, there.get(key))}
        for key in left_out:
            missing.pop(key, None)
        if not missing:
            same = len(here.keys() - moved.keys() - left_out.keys())
            return Moved(len(moved), sum(moved.values()), same, left_out=left_out)
        meter.plan(len(missing), sum(missing.values()))
        transfer = _Transfer(source, target, meter, set(there), left_out)
        try:
            transfer.move(missing, work)
        except NotFoundError:
            pass  # the source is being collected: what is left of it is looked at again
        else:
            moved |= {key: size for key, size in missing.items() if key not in left_out}
        # Once more: a collector of the target may have taken packs before their manifest was there.
    raise StoreError(f"{source.url} or {target.url} is being collected again and again: try again later")


def _is_due(key: str, size: int, there: int | None) -> bool:
    """Tell whether a key is to be moved: it is not there, or is a pack that cannot be whole there."""
    return there is None or (key.endswith(".pack") and size != there)


def _sizes(store: Store) -> dict[str, int]:
    """Return the keys of a store that belong to checkpoints."""
    found = dict(store.sizes())
    return {key: size for key, size in found.items() if key.startswith(ORDER)}


@dataclass(frozen=True)
class _Transfer:
    """Keys on their way from one store to another.

    Attributes:
        source: Where from.
        target: Where to.
        meter: Counts what is moved.
        there: The keys of the target.
        left_out: Why keys are not moved.
    """

    source: Store
    target: Store
    meter: ProgressTracker
    there: set[str]
    left_out: dict[str, str]

    def move(self, missing: Mapping[str, int], work: TransferPool) -> None:
        for prefix in ORDER:
            keys = [key for key in missing if key.startswith(prefix)]
            work.all(partial(self._put, key, missing[key]) for key in keys)

    def _put(self, key: str, size: int) -> None:
        with self.meter.file(key) as moved:
            try:
                data = self._checked(key, size)
            except (CorruptError, FormatError) as error:
                self.left_out[key] = str(error)
            else:
                self.target.put(key, data)
                self.there.add(key)
            moved(size)

    def _checked(self, key: str, size: int) -> Buffer:
        """Return the bytes of a key, which are what the key promises."""
        if key.endswith(".pack") and size > LARGEST_PACK:
            raise CorruptError(f"{key} has {size} bytes, and no pack is that large")
        data = _data(self.source, key, size)
        if key.endswith(".pack"):
            check_pack(data, pack_of(key))
        elif key.startswith("checkpoints/"):
            for pack in decode_entry(key, bytes(data)).packs():
                if not {pack_key(pack), moved_key(pack)} & self.there:
                    raise CorruptError(f"it needs pack {pack[:12]}, which is damaged or missing")
        return data


def _data(store: Store, key: str, size: int) -> Buffer:
    """Return the bytes of a key; those of a large file are not read into memory."""
    path = store.path(key)
    if path is None or size < mmap.PAGESIZE:
        return store.get(key)
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise NotFoundError(f"no {key!r} in {store.url}") from None
