"""Masking: passwords and tokens in URLs are never shown, and never kept."""

from __future__ import annotations

import re

from nbckpt.errors import UsageError

_USER = re.compile(r"(?<=://)([^\s/:@'\"]*):[^\s/'\"]*@")
_NAMES = "token|secret|passw|pwd|key|sig|credential|auth"
_QUERY = re.compile(rf"([?&;][^\s=&;'\"]*(?:{_NAMES})[^\s=&;'\"]*=)[^\s&;'\"]+", re.IGNORECASE)


def masked(text: str) -> str:
    """Return a text in which the URLs have `***` in place of a password, and of a token in the query."""
    return _QUERY.sub(r"\1***", _USER.sub(r"\1:***@", text))


def check_no_secret(url: str, where: str) -> None:
    """Return when a URL can be kept in a file.

    Raises:
        UsageError: A password or a token in it would be kept *where*.
    """
    if masked(url) != url:  # see docs/decisions/0053
        raise UsageError(
            f"{masked(url)!r} has a password or a token in it, which would be kept in {where}. Leave it out "
            "of the URL, and give it by an SSH key, environment variables or a configuration file of fsspec "
            "(~/.config/fsspec)"
        )
