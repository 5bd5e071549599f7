"""Adapter: run the syncer of a config in the background, even if the syncer works synchronously."""

from __future__ import annotations

import copy
import glob
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nbckpt.errors import NbckptError, StoreError
from nbckpt.sync.background import BackgroundSyncer, DefaultSyncer
from nbckpt.sync.config import AUTO, SyncConfig, get_node_to_storage_syncer
from nbckpt.sync.exclude import excluding
from nbckpt.sync.exclusive import exclusive
from nbckpt.sync.files import scan
from nbckpt.sync.request import Request
from nbckpt.sync.syncer import Syncer
from nbckpt.sync.transfer import TransferOptions


def background(config: SyncConfig, clock: Callable[[], float] = time.monotonic) -> BackgroundSyncer:
    """Return a syncer that works in the background and has its own queue and period.

    All syncers made from one user's syncer call the methods of that one object, so that attributes set
    on `self` persist. See docs/decisions/0048.
    """
    if config.syncer == AUTO:
        return DefaultSyncer(config.sync_period, config.sync_timeout, clock=clock)
    syncer = get_node_to_storage_syncer(config)
    assert syncer is not None
    if not isinstance(syncer, BackgroundSyncer) or _asks_itself(type(syncer)):
        return _Adapted(syncer, config.sync_timeout, clock)
    own = copy.copy(syncer)
    vars(own)["carry_out"] = syncer.carry_out
    return own


def _asks_itself(kind: type[BackgroundSyncer]) -> bool:
    """Tell whether a class overrides a method that takes requests."""
    return any(
        getattr(kind, name) is not getattr(BackgroundSyncer, name)
        for name in ("sync_up", "sync_down", "delete")
    )


class _Adapted(BackgroundSyncer):
    """A background syncer that calls a user's syncer, which may work synchronously or in its own background.

    Args:
        syncer: The user's syncer.
        timeout: Seconds until a transfer is abandoned.
        clock: Returns monotonic seconds.
    """

    def __init__(self, syncer: Syncer, timeout: float | None, clock: Callable[[], float]) -> None:
        super().__init__(syncer.sync_period, timeout, clock=clock)
        self._syncer = syncer

    def carry_out(self, request: Request, options: TransferOptions) -> object:
        """See `BackgroundSyncer.carry_out`."""
        with exclusive(f"syncer {id(self._syncer)}", options):  # it may support only one transfer at a time
            if request.action == "sync_up":
                request = _without_incomplete(request, options)
            # A transfer that hangs is abandoned here, so that other transfers get their turn.
            return replace(options, attempts=1).work(request.remote).one(partial(self._explained, request))

    def _explained(self, request: Request) -> None:
        try:
            self._do(request)
        except NbckptError:
            raise
        except Exception as error:
            raise StoreError(f"{request} failed: {type(error).__name__}: {error}") from error

    def _do(self, request: Request) -> None:
        given: dict[str, Any] = {"remote_dir": request.remote}
        if request.action != "delete":
            given |= {"local_dir": request.local, "exclude": list(request.exclude)}
        call = partial(getattr(self._syncer, request.action), **given)
        if call() is False:  # the syncer is still busy with an earlier request
            with suppress(Exception):  # reported by the command of that earlier request
                self._syncer.wait()
            if call() is False:
                raise StoreError(f"{self._syncer!r} did not begin with the {request}")
        self._syncer.wait()


def _without_incomplete(request: Request, options: TransferOptions) -> Request:
    """Return an upload that leaves out the files that do not make sense alone now."""
    folder, excluded = Path(request.local), excluding(request.exclude)
    files = scan(folder, excluded, {}) if folder.is_dir() else {}
    left_out = map(glob.escape, options.incomplete(folder, files))
    return request._replace(exclude=(*request.exclude, *left_out))
