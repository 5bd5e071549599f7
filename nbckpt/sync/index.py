"""Index: what a target folder holds, in one small document that is put last.

    .nbckpt-sync/index.json        every file: its size, its time in nanoseconds, its checksum
    .nbckpt-sync/<digest>          the new contents of a file that is still being replaced; the digest is
                                   that of its path and its contents

A reader takes the index's word: so it sees what the index before said, or all of what the new one says,
at whichever moment the writer is killed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from nbckpt.core import schema
from nbckpt.core.algorithms import Algorithms, of_checksum
from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.store import Store, check_key
from nbckpt.sync.exclude import OWN

FORMAT = 2
KEY = f"{OWN}/index.json"

_FORM = {"format": int, "looked_at": int, "aside": [str], "files": {str: (int, int, str)}}

_RACY_NS = 2_000_000_000
"""A file that changed so shortly before it was looked at may change again without a new time."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file of the target.

    Attributes:
        size: Its size in bytes.
        time: When it was changed last, where it came from, in nanoseconds since 1970.
        digest: Its checksum.
    """

    size: int
    time: int
    digest: str


@dataclass(frozen=True)
class Index:
    """What a target holds.

    Attributes:
        items: Its files by their paths.
        aside: Those whose contents are under their digests, since their paths still have former ones.
        looked_at: When the folder was looked at, in nanoseconds since 1970; 0 before the first upload
            into this target ended.
        keys: Where the contents of files are that belong to targets below this one; never written.
    """

    items: Mapping[str, Item] = field(default_factory=dict)
    aside: frozenset[str] = frozenset()
    looked_at: int = 0
    keys: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store) -> Self | None:
        """Return a target's index; None where it has none.

        Raises:
            CorruptError: It is damaged.
            FormatError: A newer nbckpt wrote it.
            StoreError: The storage failed.
        """
        what = f"{KEY} in {store.url}"
        try:
            data = store.get(KEY)
        except NotFoundError:
            return None
        found = schema.unseal(data, _FORM, what)
        try:
            items = {check_key(path): Item(*it) for path, it in found["files"].items()}
        except UsageError as error:
            raise CorruptError(f"{what} is damaged: {error}") from error
        return cls(items, frozenset(found["aside"]) & items.keys(), found["looked_at"])

    def write(self, store: Store) -> None:
        """Put the index, which shows everything that it says at once.

        Raises:
            StoreError: The storage failed; the target is as it was.
        """
        files = {path: [it.size, it.time, it.digest] for path, it in sorted(self.items.items())}
        text = {"format": FORMAT, "looked_at": self.looked_at, "aside": sorted(self.aside), "files": files}
        store.put(KEY, schema.seal(text))

    def algorithms(self, where: str) -> Algorithms:
        """Return with which algorithms the target is written; its first file tells.

        Raises:
            FormatError: They are not to be had here.
        """
        return of_checksum(next((it.digest for it in self.items.values() if it.digest), ""), where)

    def says(self, path: str, size: int, time_ns: int) -> bool:
        """Tell whether a file with this size and time is the one that the index names."""
        item = self.items.get(path)
        return item is not None and (item.size, item.time) == (size, time_ns) and not self._is_racy(item)

    def _is_racy(self, item: Item) -> bool:
        return item.time >= self.looked_at - _RACY_NS

    def key(self, path: str) -> str:
        """Return the key under which a file's contents are."""
        if path in self.keys:
            return self.keys[path]
        return key_aside(path, self.items[path]) if path in self.aside else path

    def below(self, folder: str) -> Self:
        """Return it as it is seen from above, where its target is *folder*."""
        items = {f"{folder}/{path}": it for path, it in self.items.items()}
        return replace(
            self,
            items=items,
            aside=frozenset(),
            keys={f"{folder}/{path}": f"{folder}/{self.key(path)}" for path in self.items},
        )

    def kept(self) -> dict[str, Item]:
        """Return its files for an index that was looked at later, which trusts no time that this did not."""
        return {path: replace(it, time=0) if self._is_racy(it) else it for path, it in self.items.items()}

    def settled(self) -> Self:
        """Return the index once all files are under their paths."""
        return replace(self, aside=frozenset())


def key_aside(path: str, item: Item) -> str:
    """Return the key of new contents of a file whose path has the former ones still."""
    algorithms = of_checksum(item.digest, f"{path!r} in the target")
    return f"{OWN}/{algorithms.digest(f'{path}/{item.digest}'.encode(errors='surrogatepass')).hex()}"


def now_ns() -> int:
    """Return the moment, in nanoseconds since 1970, as the times of files have it."""
    return time.time_ns()
