"""Packages: the installed distributions and their versions, read from the names of folders.

`importlib.metadata` reads a file for each distribution, which takes a hundred times as long.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

_INFO = re.compile(r"(?P<name>[A-Za-z0-9][\w.]*)-(?P<version>[^-]+)(?:-.*)?\.(?:dist|egg)-info")
_MOST = 10_000
_MOST_URL = 64 << 10
_MOST_ORIGINS, _MOST_ORIGIN = 500, 300

_lock = threading.Lock()
_known: tuple[object, Mapping[str, str]] = None, {}


def installed() -> Mapping[str, str]:
    """Return the versions of the installed distributions by name, sorted.

    The folders are listed again only if one of them changed: an installation changes the folder's time.
    """
    global _known
    folders = [path for path in dict.fromkeys(sys.path) if path]
    stamp = tuple((path, _changed(path)) for path in folders)
    with _lock:
        if _known[0] != stamp:
            # The first folder on the path wins, as for an import.
            pairs = [pair for path in reversed(folders) for pair in _listed(path)]
            _known = stamp, dict(sorted(dict(pairs[-_MOST:]).items()))
        return _known[1]


def origins() -> Mapping[str, str]:
    """Return where the distributions come from that no index has: editable installs and repositories."""
    return _origins(tuple(filter(None, dict.fromkeys(sys.path))), tuple(installed()))


@lru_cache(2)
def _origins(folders: tuple[str, ...], names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the origins; *names* are the installed distributions, so that an installation is noticed."""
    del names
    kept: dict[str, str] = {}
    for folder in reversed(folders):
        for name in (entry for entry in _entries(folder) if entry.endswith(".dist-info")):
            file = Path(folder, name, "direct_url.json")
            with suppress(OSError, ValueError, AttributeError):
                if (info := _INFO.fullmatch(name)) and file.stat().st_size <= _MOST_URL:
                    kept[_normal(info["name"])] = _origin(json.loads(file.read_text("utf-8")))[:_MOST_ORIGIN]
    return dict(sorted(kept.items())[:_MOST_ORIGINS])


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  the names are enough
    except OSError:
        return []


def _changed(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:  # it does not exist
        return 0


def _listed(folder: str) -> Iterator[tuple[str, str]]:
    for name in _entries(folder):
        if name.endswith("-info") and (info := _INFO.fullmatch(name)):
            yield _normal(info["name"]), info["version"]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _origin(document: Mapping[str, Any]) -> str:
    """Return the origin in a `direct_url.json` (PEP 610) as text."""
    from nbckpt.core.masking import masked_remote

    url = masked_remote(str(document.get("url", "")))
    vcs = document.get("vcs_info", {})
    if vcs:
        return f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', '')}"
    return f"{'editable: ' if document.get('dir_info', {}).get('editable') else ''}{url}"
