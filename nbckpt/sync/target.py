"""Target: a store that holds one folder and an index of that folder.

Each file is stored under its path. The index is written last. If another tool uploaded the files, there
is no index.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from nbckpt.errors import NotFoundError
from nbckpt.store import PrefixStore, Store, check_key
from nbckpt.sync.exclude import OWN, parents
from nbckpt.sync.index import KEY, Index, Item
from nbckpt.sync.transfer import TransferOptions, TransferPool


def index_of(store: Store, work: TransferPool) -> Index:
    """Return the index of a target, or build one from its files if the target has no index.

    Raises:
        NotFoundError: The target is empty.
        CorruptError: The index is damaged.
        StoreError: The storage failed.
    """
    # An experiment has no index, but its trials have one each: see docs/decisions/0032.
    index = work.one(partial(Index.read, store)) or _joined_index(store, work)
    if not index.items and not index.looked_at:
        raise NotFoundError(f"there is nothing at {store.url}")
    return index


def _joined_index(store: Store, work: TransferPool) -> Index:
    """Build the index of a folder that has none by joining the indexes of the folders below."""
    sizes = work.one(lambda: dict(store.sizes()))
    tops = {key.removesuffix(f"/{KEY}") for key in sizes if key.endswith(f"/{KEY}")}
    indexes: list[Index] = []
    work.all(partial(_read_below, store, top, indexes) for top in tops)
    loose = {path: size for path, size in sizes.items() if tops.isdisjoint(parents(path))}
    items, keys = dict(foreign_index(loose).items), dict[str, str]()
    for index in indexes:
        items.update(index.items)
        keys.update(index.keys)
    return Index(items, looked_at=min((index.looked_at for index in indexes), default=0), keys=keys)


def _read_below(store: Store, folder: str, indexes: list[Index]) -> None:
    index = Index.read(PrefixStore(store, folder))
    if index is not None:
        indexes.append(index.below(folder))


def foreign_index(sizes: Mapping[str, int]) -> Index:
    """Return an index of files that another tool uploaded. Only their sizes are known."""
    return Index({check_key(path): Item(size, 0, "") for path, size in sizes.items() if not is_own(path)})


def delete(store: Store, *, options: TransferOptions | None = None) -> int:
    """Remove a whole target. Readers see an empty target at once, even if the removal fails later.

    Returns:
        The number of files removed.

    Raises:
        StoreError: The storage failed. Delete again to continue.
    """
    work = (options or TransferOptions()).work(store.url)
    keys = work.one(lambda: [key for key in list(store.keys()) if key != KEY])
    if keys:
        work.one(partial(Index().write, store))
    work.all(partial(store.delete, key) for key in keys)
    work.one(partial(store.delete, KEY))
    return sum(not is_own(key) for key in keys)


def is_own(key: str) -> bool:
    """Tell whether a key belongs to the index and not to the folder's files."""
    return key.startswith(f"{OWN}/")
