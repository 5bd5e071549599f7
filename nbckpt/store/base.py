"""Store: bytes by key. nbckpt saves everything through this one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import overload

from nbckpt.errors import NotFoundError, UsageError
from nbckpt.store.cancel import wanted

Buffer = bytes | bytearray | memoryview
Data = Buffer | Sequence[Buffer]

STAGING = ".nbckpt-tmp"
"""Folder at a store's top for puts that are not finished. No key begins with it."""

CACHE = ".nbckpt-cache"
"""What the names of files begin with that can be made again from other files. They are never copied."""

PIECE = 16 << 20
"""The most bytes that are moved between two checks for cancellation."""


class Store(ABC):
    """Bytes by key, for any number of threads and processes at once.

    A key is one or more parts joined by `/`. No part is empty, `.` or `..`. nbckpt never puts different
    bytes under a key that exists, so an implementation needs no locks and no compare-and-swap.

    A store of your own sets `url` and implements the abstract methods. Each of them passes its key through
    `check_key`, and `put` takes its bytes from `pieces_of`, which ends a cancelled put. `MemoryStore` is the
    shortest example. Every correct store passes the suite `nbckpt.testing.StoreTests`.
    """

    url: str
    """The store's location, as a user would write it."""

    lists_in_pages: bool = False
    """Whether a long listing takes many requests, so that a catalogue of the keys is kept in the store."""

    @abstractmethod
    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes under *key*, or only those from *start* up to *stop*.

        A range that reaches past the end returns the bytes up to the end.

        Raises:
            NotFoundError: The store has no such key; the message names it.
            StoreError: The storage failed.
        """

    @abstractmethod
    def put(self, key: str, data: Data) -> None:
        """Store *data*, one buffer or several in a row, under *key*: all of it or nothing.

        After the return the bytes survive a crash of the process and of the machine, if the storage can
        promise that. At any moment, a reader finds either all of the bytes or no key.

        Raises:
            StoreError: The storage failed. *key* holds the same bytes as before.
            CancelledError: The put was cancelled (see cancel.py). *key* holds the same bytes as before.
        """

    def put_note(self, key: str, data: Data) -> None:
        """Store *data* as `put` does, for as long as this machine runs.

        The bytes need not survive a crash of the machine, and a reader may find a part of them until the
        return. This default is `put`.
        """
        self.put(key, data)

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Tell whether the store has *key*."""

    @abstractmethod
    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield every key that begins with *prefix*, sorted. Keys may be put and deleted meanwhile."""

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield every key that begins with *prefix*, sorted, with its number of bytes.

        This default reads every value. A store whose listing includes the sizes returns them from there. A
        key that is deleted meanwhile may be left out.
        """
        for key in self.keys(prefix):
            with suppress(NotFoundError):
                yield key, len(self.get(key))

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove *key*. A missing key is not an error."""

    def settle(self, folder: str) -> None:
        """Make deletions in *folder* durable, so that they survive a crash of the machine.

        This default does nothing, because most storages promise that for each `delete`.
        """
        del folder

    @property
    def origin(self) -> Store:
        """The storage itself: this store, or the one that it caches."""
        return self

    def forget(self, key: str) -> None:
        """Drop every cached copy of *key*, so that the next read asks the storage."""
        del key

    def copy(self, source: str, target: str) -> None:
        """Store the bytes of *source* under *target* as well, with the promises of `put`.

        This default moves the bytes through this process. A store whose storage can copy overrides it.

        Raises:
            NotFoundError: The store has no key *source*.
        """
        size = next((size for key, size in self.sizes(source) if key == source), None)
        if size is None:
            raise NotFoundError(f"no {source!r} in {self.url}")
        self.put(target, Pieces(size, partial(self.get, source)))

    def move(self, source: str, target: str) -> None:
        """Store the bytes of *source* under *target*, and remove *source*.

        This default copies and then deletes. It would also delete bytes that are put under *source* between
        the two steps. A store whose storage can rename moves in one step.

        Raises:
            NotFoundError: The store has no key *source*.
        """
        self.copy(source, target)
        self.delete(source)

    def path(self, key: str) -> Path | None:
        """Return the local file that holds exactly the bytes of *key*, or None if there is no such file."""
        del key
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def check_key(key: str) -> str:
    """Return *key* if it is valid. A valid key cannot lead out of a store.

    Raises:
        UsageError: A part is empty, `.` or `..`, or the key contains a NUL.
    """
    if "\0" in key or any(part in {"", ".", ".."} for part in key.split("/")):
        raise UsageError(f"{key!r} is not a key: its parts may not be empty, '.' or '..'")
    return key


class Pieces(Sequence[bytes]):
    """Data that is read piece by piece during a put, so that it is never in memory as a whole.

    Args:
        size: The number of bytes.
        read: Returns the bytes from one offset up to another.
    """

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        self.size = size
        self.read = read

    def __len__(self) -> int:
        return -(-self.size // PIECE)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        start = range(len(self))[at] * PIECE
        return self.read(start, min(start + PIECE, self.size))


def parts_of(data: Data) -> Sequence[Buffer]:
    """Return the buffers of *data*, in order."""
    return [data] if isinstance(data, (bytes, bytearray, memoryview)) else data


def pieces_of(data: Data) -> Iterator[memoryview]:
    """Yield the bytes of *data* in order, one piece at a time, until the work is cancelled.

    Raises:
        CancelledError: The work was cancelled.
    """
    cancel = wanted()
    for part in parts_of(data):
        view = memoryview(part).cast("B")
        for start in range(0, len(view), PIECE):
            cancel.check()
            yield view[start : start + PIECE]
    cancel.check()
