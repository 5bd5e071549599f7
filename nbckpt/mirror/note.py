"""Note: the file beside a store that says where else it is kept, signed by who said so."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from nbckpt.core.trust import open_signer
from nbckpt.errors import StoreError

FILE = "sync.json"

_log = logging.getLogger("nbckpt")


def read(file: Path) -> tuple[str, float] | None:
    """Return the place, and how often it is brought up to date; None where this user has said nothing."""
    if not file.is_file():
        return None
    try:
        read = json.loads(file.read_bytes())
        url, period = str(read["url"]), float(read["period"])
        if open_signer().signed_bytes("sync", _signed(url, period), str(read["signature"])):
            return url, period
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s cannot be read, so nothing is synced: %s", file, error)
    else:
        # Or a folder from a stranger would send what is saved in it to the stranger.
        _log.warning(
            "%s was written by someone else, so nothing is synced; to do so: %%ckpt sync %s", file, url
        )
    return None


def write(file: Path, url: str, period: float) -> None:
    """Write the note.

    Raises:
        StoreError: The disk failed.
    """
    signature = open_signer().sign_bytes("sync", _signed(url, period))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"url": url, "period": period, "signature": signature}))
    except OSError as error:
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror or error}") from error


def _signed(url: str, period: float) -> bytes:
    """Return what the signature is of."""
    return f"{url}\n{float(period)!r}".encode()
