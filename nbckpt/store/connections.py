"""Connections: the fsspec file systems that reach a remote store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from nbckpt.errors import UsageError

_MOST = 8  # an SSH server refuses more than about ten connections at once

# paramiko mixes up the answers for two threads that share a connection.
_ONE_THREAD = frozenset({"sftp", "ssh"})

# By default s3fs would trust its own stale listing, and ask for the size of an object before each read.
_S3 = {"use_listings_cache": False, "max_concurrency": 1}
_OPTIONS: dict[str, dict[str, Any]] = {"s3": _S3, "s3a": _S3}


class Connections:
    """File systems for one URL: one for all threads, or one per thread if threads cannot share a connection.

    A lost connection, for example after a failure of the server or the network, is replaced by a new one.

    Attributes:
        root: The path of the URL inside these file systems.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        protocol = url.partition("://")[0]
        self._protocols = {link.partition("://")[0] for link in url.split("::")}
        is_shared = not self._protocols & _ONE_THREAD
        self._url = url
        self._options = _OPTIONS.get(protocol, {}) | options
        first, root = self._connect()
        self.root = root.rstrip("/")
        self._shared = first if is_shared else None
        self._free = [first]
        self._places = threading.BoundedSemaphore(_MOST)
        self._lent = threading.local()

    @property
    def mine(self) -> Any:
        """The file system that is lent to this thread."""
        return self._shared or self._lent.fs

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend this thread a file system within the block."""
        if self._shared or hasattr(self._lent, "fs"):  # second case: a put reads its data from the same store
            yield
            return
        with self._places:
            self._lent.fs = fs = self._take()
            is_sound = False
            try:
                yield
                is_sound = True
            except OSError as error:
                lost = isinstance(error, (ConnectionError, TimeoutError))
                is_sound = error.errno is not None and not lost  # the server answered
                raise
            finally:
                del self._lent.fs
                # A lost connection may look alive for a while.
                (self._free.append if is_sound else _close)(fs)

    def _take(self) -> Any:
        with suppress(IndexError):
            while fs := self._free.pop():
                if fs.client.get_transport().is_active():
                    return fs
                fs.client.close()
        return self._connect()[0]

    def _connect(self) -> tuple[Any, str]:
        if self._protocols & _ONE_THREAD:
            return self._connect_to_known()
        import fsspec

        fs, root = fsspec.core.url_to_fs(self._url, **self._options)  # see docs/decisions/0071
        if fs.async_impl:
            # This imports asyncio (30 ms), which fsspec needs anyway.
            from nbckpt.store.cancellable import Cancellable

            fs = Cancellable(fs)
        return fs, str(root)

    def _connect_to_known(self) -> tuple[Any, str]:
        """Connect over SSH to a known host. fsspec alone would connect to any host that answers."""
        from nbckpt.store.sftp import KnownHosts

        if len(self._protocols) > 1:
            raise UsageError(
                "a URL with :: skips the check of the host's key. Give the URL of the host alone"
            )
        options = KnownHosts._get_kwargs_from_urls(self._url) | self._options
        return KnownHosts(**options), KnownHosts._strip_protocol(self._url)


def _close(fs: Any) -> None:
    fs.client.close()
