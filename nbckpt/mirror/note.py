"""Note: the signed file beside a store that says where and when it is synced."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

from nbckpt.core import schema
from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError, UsageError
from nbckpt.store import check_no_secret
from nbckpt.store.files import explained, write_file
from nbckpt.store.scan import OUTSIDE, link_outside

FILE = "sync.json"
FORMAT = 2

_FORM = {"url": str, "period": float, "after_saves?": bool, "signature": str}

_log = logging.getLogger("nbckpt")


class Note(NamedTuple):
    """Where and when a store is synced: after each period, in seconds; 0 is none. And after saves, or not."""

    url: str
    period: float
    after_saves: bool = True

    def signed(self) -> bytes:
        """Return the bytes to sign."""
        by_saves = "" if self.after_saves else "\nnot after saves"
        return f"{self.url}\n{float(self.period)!r}{by_saves}".encode("utf-8", "backslashreplace")


def read(file: Path) -> Note | None:
    """Return where and when to sync; None if this user signed no note."""
    try:
        if not file.is_file():
            return None
        fields = _read(file)
        url = fields["url"]
        check_no_secret(url, FILE)
        note = Note(url, float(fields["period"]), fields.get("after_saves", True))
        if open_signer().signed_bytes("sync", note.signed(), fields["signature"]):
            return note
    except (OSError, NbckptError) as error:
        _log.warning("%s cannot be read, so nothing is synced: %s", file, error)
    else:
        # Otherwise a folder from a stranger would send everything saved in it to that stranger.
        _log.warning(
            "%s was written by someone else, so nothing is synced; to do so: %%ckpt sync %s", file, url
        )
    return None


def _read(file: Path) -> Any:
    if link_outside(file.parent, file.name):
        raise UsageError(OUTSIDE)
    data = file.read_bytes()
    fields = schema.parse(data, FILE)
    if isinstance(fields, dict) and "format" not in fields:  # format 1 had no such field
        return schema.check(fields, _FORM, FILE)
    return schema.unseal(data, _FORM, FILE)


def write(file: Path, note: Note) -> None:
    """Write the note. After the return it is complete and durable.

    Raises:
        UsageError: The URL contains a password.
        StoreError: The disk failed.
    """
    check_no_secret(note.url, FILE)
    signature = open_signer().sign_bytes("sync", note.signed())
    fields = {"url": note.url, "period": note.period, "signature": signature}
    saves = {} if note.after_saves else {"after_saves": False}
    with explained("write", file):
        write_file(file, schema.seal({"format": FORMAT, **fields, **saves}))
