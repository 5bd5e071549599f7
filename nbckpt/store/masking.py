"""Masking: nbckpt never shows or stores passwords and tokens in URLs."""

from __future__ import annotations

import re

from nbckpt.errors import UsageError

_NAMES = "token|secret|passw|pwd|key|sig|credential|auth"


def _secrets(ends: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns for passwords and tokens, in URLs that end at any of the characters *ends*."""
    # A password may contain slashes, as keys of S3 do: then it is what follows a colon, up to the next `@`.
    # `host:80/` is a port.
    user = re.compile(rf"(?<=://)([^{ends}/:@]*):(?:[^{ends}/]*|(?!\d+/)[^{ends}@]*)@")
    # Who gives a web server a name alone gives a token, as for git.
    alone = re.compile(rf"(?<=http://|ttps://)[^{ends}/:@]+@")
    name = rf"[^{ends}=&;]*(?:{_NAMES})[^{ends}=&;]*"
    return user, alone, re.compile(rf"([?&;]{name}=)[^{ends}&;]+", re.IGNORECASE)


_IN_TEXT, _ALONE = _secrets(r"\s'\""), _secrets("")


def masked(text: str) -> str:
    """Return a text whose URLs have `***` instead of a password, and of a token in the query."""
    return _masked(text, *_IN_TEXT)


def masked_url(url: str) -> str:
    """Mask one URL like `masked`. No text surrounds it, so a password may contain quotes and spaces."""
    return _masked(url, *_ALONE)


def _masked(text: str, user: re.Pattern[str], alone: re.Pattern[str], token: re.Pattern[str]) -> str:
    return token.sub(r"\1***", alone.sub("***@", user.sub(r"\1:***@", text)))


def check_no_secret(url: str, where: str) -> None:
    """Check that a URL contains no secret, so that a file may store it.

    Raises:
        UsageError: The URL contains a password or a token, which would be stored in *where*.
    """
    if masked_url(url) != url:  # see docs/decisions/0053
        raise UsageError(
            f"{masked_url(url)!r} contains a password or a token, which would be stored in {where}. Remove "
            "it from the URL. Use an SSH key, environment variables or a configuration file of fsspec "
            "(~/.config/fsspec)"
        )
