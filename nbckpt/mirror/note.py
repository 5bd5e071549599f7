"""Note: the signed file beside a store that holds its sync location and period."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from nbckpt.core import schema
from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError, UsageError
from nbckpt.store import check_no_secret
from nbckpt.store.files import explained, write_file
from nbckpt.store.scan import OUTSIDE, link_outside

FILE = "sync.json"
FORMAT = 2

_FORM = {"url": str, "period": float, "signature": str}

_log = logging.getLogger("nbckpt")


def read(file: Path) -> tuple[str, float] | None:
    """Return the sync location and the period in seconds; None if this user signed no note."""
    if not file.is_file():
        return None
    try:
        fields = _read(file)
        url, period = fields["url"], fields["period"]
        check_no_secret(url, FILE)
        if open_signer().signed_bytes("sync", _signed(url, period), fields["signature"]):
            return url, float(period)
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


def write(file: Path, url: str, period: float) -> None:
    """Write the note. After the return it is complete and durable.

    Raises:
        UsageError: The URL contains a password.
        StoreError: The disk failed.
    """
    check_no_secret(url, FILE)
    signature = open_signer().sign_bytes("sync", _signed(url, period))
    sealed = schema.seal({"format": FORMAT, "url": url, "period": period, "signature": signature})
    with explained("write", file):
        write_file(file, sealed)


def _signed(url: str, period: float) -> bytes:
    """Return the bytes to sign."""
    return f"{url}\n{float(period)!r}".encode("utf-8", "backslashreplace")
