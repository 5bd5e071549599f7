"""Kernels of tests, which one reaches over sockets in a folder.

By default a kernel listens at ports that its client found free and closed again. Beside other tests, another
program can take one of them in between, and the kernel ends.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from late import Library

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient
    from nbformat import NotebookNode

jupyter, nbclient, nbval = Library("jupyter_client.manager"), Library("nbclient"), Library("nbval.kernel")
traitlets = Library("traitlets.config")

numbers = itertools.count()


@functools.cache
def sockets() -> TemporaryDirectory[str]:
    """Return the folder of all sockets of this process: the name of a socket has at most 100 characters."""
    return TemporaryDirectory(prefix="nbckpt-kernels-", dir="/tmp")


def transport() -> Any:
    """Return the options of one kernel's manager."""
    if os.name != "posix":
        return None
    place = Path(sockets().name, str(next(numbers)))
    return traitlets.Config({"KernelManager": {"transport": "ipc", "ip": str(place)}})


def manager_of(**options: Any) -> KernelManager:
    """Return the manager of a kernel that has not started."""
    manager: KernelManager = jupyter.KernelManager(**options, config=transport())
    return manager


@contextmanager
def lent(folder: Path, **options: Any) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """Lend a kernel that runs in *folder*, and a client of it."""
    manager = manager_of()
    manager.start_kernel(cwd=str(folder), **options)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def client_of(notebook: NotebookNode, folder: Path) -> NotebookClient:
    """Return what runs the cells of a notebook in *folder*."""
    client: NotebookClient = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(folder)}}, config=transport()
    )
    return client


def pytest_configure() -> None:
    """Let nbval start such kernels: `-p kernels`."""
    nbval.KernelManager = manager_of
