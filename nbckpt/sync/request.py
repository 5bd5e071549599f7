"""Request: a transfer that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nbckpt.errors import NbckptError, StoreError
from nbckpt.store import CancelledError, masked_url, trimmed
from nbckpt.sync.exclude import excluding


class Request(NamedTuple):
    """A requested transfer.

    Attributes:
        action: `sync_up`, `sync_down` or `delete`.
        local: The local folder; empty for `delete`.
        remote: The URL of the remote folder.
        exclude: Patterns of files to leave out.
    """

    action: str
    local: str
    remote: str
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, action: str, local: str, remote: str, exclude: Iterable[str] | None = None) -> Request:
        """Return the request.

        Raises:
            UsageError: *exclude* is a single string.
        """
        excluding(exclude)
        return cls(action, os.fspath(local), trimmed(os.fspath(remote)), tuple(exclude or ()))

    @property
    def target(self) -> str:
        """The folder or URL that the transfer writes to."""
        return str(Path(self.local).absolute()) if self.action == "sync_down" else self.remote

    def meets(self, other: Request) -> bool:
        """Tell whether both requests use the same folder, so that their order matters."""
        return self.remote == other.remote or (self.local != "" and self.local == other.local)

    def __str__(self) -> str:
        remote = masked_url(self.remote)
        if self.action == "sync_up":
            return f"sync_up of {self.local!r} to {remote!r}"
        if self.action == "sync_down":
            return f"sync_down of {remote!r} to {self.local!r}"
        return f"delete of {remote!r}"


def explained(request: Request, error: BaseException) -> Exception:
    """Return an error that names the request."""
    if isinstance(error, CancelledError):
        explained: Exception = type(error)(f"{request}: {error}")
    elif isinstance(error, NbckptError):
        return error
    else:
        explained = StoreError(f"{request} failed: {type(error).__name__}: {error}")
    explained.__cause__ = error
    return explained
