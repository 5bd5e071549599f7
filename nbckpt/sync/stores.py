"""Stores: what one store of checkpoints has and another one lacks, brought there.

Keys are put once and never changed, so what is there with its size need not be moved again, and any
number of machines may send to one store at once. Nothing is ever removed from either.
"""

from __future__ import annotations

import mmap
from functools import partial

from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import Buffer, Store
from nbckpt.sync.folders import Moved
from nbckpt.sync.progress import Meter
from nbckpt.sync.work import Terms, Work

ORDER = ("store.json", "packs/", "signatures/", "refs/", "checkpoints/")
"""What is put first: contents, then names, and last the manifests, each of which shows a checkpoint."""

_MOST_TRIES = 3


def mirror(source: Store, target: Store, terms: Terms | None = None) -> Moved:
    """Bring *target* every checkpoint that *source* has.

    Whoever reads the target finds each checkpoint whole or not at all, also when this is killed. Trials
    are not among them, see `folders`.

    Args:
        source: Where from.
        target: Where to.
        terms: How.

    Returns:
        What was done; files are keys.

    Raises:
        StoreError: A storage failed, or it was cancelled or took too long; what was moved until then
            need not be moved again.
    """
    terms = terms or Terms()
    work, meter = terms.work(target.url), Meter(terms.told)
    moved = Moved()
    for _ in range(_MOST_TRIES):
        there = work.one(partial(_sizes, target))
        here = work.one(partial(_sizes, source))
        missing = {key: size for key, size in here.items() if key not in there}
        if not missing:
            return Moved(moved.files, moved.size, len(here) - moved.files)
        meter.plan(len(missing), sum(missing.values()))
        try:
            _move(source, target, missing, work, meter)
        except NotFoundError:
            pass  # the source is being collected: what is left of it is looked at again
        else:
            moved = Moved(moved.files + len(missing), moved.size + sum(missing.values()))
        # Once more: a collector of the target may have taken packs before their manifest was there.
    if work.one(partial(_lacks, source, target)):
        raise StoreError(f"{source.url} or {target.url} is being collected again and again: try again later")
    return Moved(moved.files, moved.size, len(here) - moved.files)


def _sizes(store: Store) -> dict[str, int]:
    """Return the keys of a store that belong to checkpoints."""
    found = dict(store.sizes())
    return {key: size for key, size in found.items() if key.startswith(ORDER)}


def _lacks(source: Store, target: Store) -> bool:
    return bool(_sizes(source).keys() - _sizes(target).keys())


def _move(source: Store, target: Store, missing: dict[str, int], work: Work, meter: Meter) -> None:
    for prefix in ORDER:
        keys = [key for key in missing if key.startswith(prefix)]
        work.all(partial(_put, source, target, key, missing[key], meter) for key in keys)


def _put(source: Store, target: Store, key: str, size: int, meter: Meter) -> None:
    with meter.file(key) as moved:
        target.put(key, _data(source, key, size))
        moved(size)


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
