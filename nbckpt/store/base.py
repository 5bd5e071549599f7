"""Store: bytes by key. The one interface under everything that nbckpt keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from nbckpt.errors import NotFoundError, UsageError

Buffer = bytes | bytearray | memoryview
Data = Buffer | Sequence[Buffer]

STAGING = ".nbckpt-tmp"
"""Folder at a store's top for what is still being written; no key begins with it."""


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


def parts_of(data: Data) -> list[Buffer]:
    """Return the buffers of *data* in order."""
    return [data] if isinstance(data, (bytes, bytearray, memoryview)) else list(data)
