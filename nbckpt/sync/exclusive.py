"""Exclusive: one transfer at a time writes to a target, within this process or of several processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nbckpt.store import Cancel, TimedOutError
from nbckpt.store.locks import Timeout, file_lock
from nbckpt.sync.transfer import TransferOptions

PATIENCE_S = 300.0
"""How long to wait for another process: it may be stopped, and a disk without locks may keep a dead one's."""
_LOOK_S = 0.1

_targets: set[str] = set()
_targets_changed = threading.Condition()


@contextmanager
def exclusive(target: str, options: TransferOptions) -> Iterator[None]:
    """Lock a target for writing within this process; wait until no other transfer writes to it.

    Raises:
        CancelledError: The transfer was cancelled meanwhile.
        TimedOutError: The other transfer did not end within the timeout.
    """
    cancel = options.cancel or Cancel()
    with _targets_changed, cancel.calling(_look_again):
        if not _targets_changed.wait_for(lambda: cancel.cancelled or target not in _targets, options.timeout):
            raise _late(options.timeout)
        cancel.check()
        _targets.add(target)
    try:
        yield
    finally:
        with _targets_changed:
            _targets.discard(target)
            _targets_changed.notify_all()


@contextmanager
def alone(file: Path, options: TransferOptions) -> Iterator[None]:
    """Lock a file during the block; wait until no other process holds the lock.

    If the file cannot be locked, or another process holds the lock for minutes, the block runs all the same.

    Raises:
        CancelledError: The transfer was cancelled meanwhile.
        TimedOutError: The other process did not end within the timeout.
    """
    cancel, began = options.cancel or Cancel(), time.monotonic()
    with ExitStack() as stack:
        while (waited := time.monotonic() - began) < PATIENCE_S:
            try:
                stack.enter_context(file_lock(file, timeout=0))
                break
            except Timeout:
                if options.timeout is not None and waited >= options.timeout:
                    raise _late(options.timeout) from None
            except (OSError, NotImplementedError):  # the folder is read-only, or its disk has no locks
                break
            cancel.event.wait(_LOOK_S)
            cancel.check()
        yield


def _late(timeout: float | None) -> TimedOutError:
    return TimedOutError(f"another transfer there did not end within {timeout:g} s")


def _look_again() -> None:
    with _targets_changed:
        _targets_changed.notify_all()


def _forget() -> None:
    """Free all targets in the child of a fork: the parent's threads are not here, its lock may be held."""
    global _targets_changed
    _targets.clear()
    _targets_changed = threading.Condition()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
