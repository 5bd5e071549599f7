"""Index: a small document that lists the files of a target folder. It is written last.

    .nbckpt-sync/index.json        every file: its size, its time in nanoseconds, its checksum
    .nbckpt-sync/<digest>          the new contents of a file that is still being replaced; the digest
                                   covers the file's path and contents

A reader trusts the index. So a reader sees either the old index or the whole new one, even if the writer
is killed at any moment.
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
"""A file that changed within this time before the scan may change again without a new time."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file of a target.

    Attributes:
        size: The size in bytes.
        time: The last change of the source file, in nanoseconds since 1970.
        digest: The checksum.
    """

    size: int
    time: int
    digest: str


@dataclass(frozen=True)
class Index:
    """The list of files of a target.

    Attributes:
        items: The files by path.
        aside: Paths of files whose new contents are stored under a digest, since the path still holds the
            former contents.
        looked_at: When the source folder was scanned, in nanoseconds since 1970; 0 before the first upload
            into this target ended.
        keys: The keys of files that belong to targets below this one; never written.
    """

    items: Mapping[str, Item] = field(default_factory=dict)
    aside: frozenset[str] = frozenset()
    looked_at: int = 0
    keys: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store) -> Self | None:
        """Return the index of a target, or None if there is no index.

        Raises:
            CorruptError: The index is damaged.
            FormatError: A newer nbckpt wrote the index.
            StoreError: The storage failed.
        """
        name = f"{KEY} in {store.url}"
        try:
            data = store.get(KEY)
        except NotFoundError:
            return None
        fields = schema.unseal(data, _FORM, name)
        try:
            items = {check_key(path): Item(*item) for path, item in fields["files"].items()}
        except UsageError as error:
            raise CorruptError(f"{name} is damaged: {error}") from error
        return cls(items, frozenset(fields["aside"]) & items.keys(), fields["looked_at"])

    def write(self, store: Store) -> None:
        """Write the index. All files that it lists become visible at once.

        Raises:
            StoreError: The storage failed; the target is unchanged.
        """
        files = {path: [item.size, item.time, item.digest] for path, item in sorted(self.items.items())}
        text = {"format": FORMAT, "looked_at": self.looked_at, "aside": sorted(self.aside), "files": files}
        store.put(KEY, schema.seal(text))

    def algorithms(self, where: str) -> Algorithms:
        """Return the algorithms that the target uses, according to the checksum of its first file.

        Raises:
            FormatError: The algorithms are not available here.
        """
        return of_checksum(next((item.digest for item in self.items.values() if item.digest), ""), where)

    def says(self, path: str, size: int, time_ns: int) -> bool:
        """Tell whether the index lists the file with this size and time, so that it is unchanged."""
        item = self.items.get(path)
        return item is not None and (item.size, item.time) == (size, time_ns) and not self._is_racy(item)

    def _is_racy(self, item: Item) -> bool:
        return item.time >= self.looked_at - _RACY_NS

    def key(self, path: str) -> str:
        """Return the key that holds the contents of a file."""
        if path in self.keys:
            return self.keys[path]
        return key_aside(path, self.items[path]) if path in self.aside else path

    def below(self, folder: str) -> Self:
        """Return the index as seen from the parent target, in which this target is *folder*."""
        items = {f"{folder}/{path}": item for path, item in self.items.items()}
        return replace(
            self,
            items=items,
            aside=frozenset(),
            keys={f"{folder}/{path}": f"{folder}/{self.key(path)}" for path in self.items},
        )

    def kept(self) -> dict[str, Item]:
        """Return the files for an index with a later scan. Times that this index distrusts become 0."""
        return {
            path: replace(item, time=0) if self._is_racy(item) else item for path, item in self.items.items()
        }

    def settled(self) -> Self:
        """Return the index for the moment when each file is under its path."""
        return replace(self, aside=frozenset())


def key_aside(path: str, item: Item) -> str:
    """Return the key for new contents of a file while its path still holds the former contents."""
    algorithms = of_checksum(item.digest, f"{path!r} in the target")
    return f"{OWN}/{algorithms.digest(f'{path}/{item.digest}'.encode(errors='surrogatepass')).hex()}"


def now_ns() -> int:
    """Return the current time in nanoseconds since 1970, like the times of files."""
    return time.time_ns()
