"""Store: bytes by key. The one interface under everything that nbckpt keeps."""

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
"""Folder at a store's top for what is still being written; no key begins with it."""

PIECE = 16 << 20
"""The most bytes that are moved before it is asked whether they are wanted still."""


class Store(ABC):
    """Bytes by key, from any number of threads and processes at once.

    A key is one or more parts joined by `/`; no part is empty, `.` or `..`. nbckpt never puts other
    bytes under a key that exists, so an implementation needs no locks and no compare-and-swap.
    """

    url: str
    """Where this store is, as a user would write it."""

    @abstractmethod
    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes under *key*, or only those from *start* up to *stop*.

        A range that reaches past the end gives what there is.

        Raises:
            NotFoundError: Nothing is kept under *key*.
            StoreError: The storage failed.
        """

    @abstractmethod
    def put(self, key: str, data: Data) -> None:
        """Keep *data*, one buffer or several in a row, under *key*: whole or not at all.

        After the return the bytes survive a crash of the process and of the machine, as far as the
        storage can promise it. A reader finds all of them or no key, at any moment.

        Raises:
            StoreError: The storage failed; *key* holds what it held before.
            CancelledError: Nobody wants it any more (see cancel.py); the same holds.
        """

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Tell whether something is kept under *key*."""

    @abstractmethod
    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield every key that begins with *prefix*, in order."""

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield every key that begins with *prefix*, in order, with how many bytes it holds.

        This default reads them all; a store whose listing knows the sizes answers with that listing. A key
        that is deleted meanwhile may be left out.
        """
        for key in self.keys(prefix):
            with suppress(NotFoundError):
                yield key, len(self.get(key))

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove *key*; one that is not there is fine."""

    def settle(self, folder: str) -> None:
        """Let what was deleted in *folder* be gone after a crash of the machine, too.

        This default does nothing: most storages promise that of each `delete`.
        """
        del folder

    def forget(self, key: str) -> None:
        """Let the next read of *key* ask the storage, whatever was kept of earlier ones."""
        del key

    def copy(self, source: str, target: str) -> None:
        """Keep under *target* what is kept under *source*, as `put` would.

        This default moves the bytes; a store whose storage can copy by itself lets it.

        Raises:
            NotFoundError: Nothing is kept under *source*.
        """
        size = next((size for key, size in self.sizes(source) if key == source), None)
        if size is None:
            raise NotFoundError(f"no {source!r} in {self.url}")
        self.put(target, Pieces(size, partial(self.get, source)))

    def move(self, source: str, target: str) -> None:
        """Keep under *target*, and only there, what is kept under *source*.

        This default copies and deletes, and so would delete what is put under *source* between the two. A
        store whose storage can rename does it in one step.

        Raises:
            NotFoundError: Nothing is kept under *source*.
        """
        self.copy(source, target)
        self.delete(source)

    def path(self, key: str) -> Path | None:
        """Return the local file that holds exactly the bytes of *key*, where there is one."""
        del key
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def check_key(key: str) -> str:
    """Return *key* when it is one, so that no key can lead out of a store.

    Raises:
        UsageError: A part is empty, `.` or `..`, or there is a NUL.
    """
    if "\0" in key or any(part in {"", ".", ".."} for part in key.split("/")):
        raise UsageError(f"{key!r} is not a key: its parts may not be empty, '.' or '..'")
    return key


class Pieces(Sequence[bytes]):
    """Data that is read piece by piece while it is put, so that it is never in memory whole.

    Args:
        size: How many bytes there are.
        read: Returns those from one place up to another.
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
    """Return the buffers of *data* in order."""
    return [data] if isinstance(data, (bytes, bytearray, memoryview)) else data


def pieces_of(data: Data) -> Iterator[memoryview]:
    """Yield the bytes of *data* in order, a piece at a time, for as long as they are wanted.

    Raises:
        CancelledError: They are not any more.
    """
    cancel = wanted()
    for part in parts_of(data):
        view = memoryview(part).cast("B")
        for start in range(0, len(view), PIECE):
            cancel.check()
            yield view[start : start + PIECE]
    cancel.check()
