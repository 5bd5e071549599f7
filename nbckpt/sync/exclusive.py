"""Exclusive: within this process, one transfer at a time writes to a target."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nbckpt.store import Cancel, TimedOutError
from nbckpt.sync.transfer import TransferOptions

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
            raise TimedOutError(f"another transfer there did not end within {options.timeout:g} s")
        cancel.check()
        _targets.add(target)
    try:
        yield
    finally:
        with _targets_changed:
            _targets.discard(target)
            _targets_changed.notify_all()


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
