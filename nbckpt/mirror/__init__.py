"""Mirror: a store and its experiments at another place too; once, or kept so in the background."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbckpt.mirror.auto import PERIOD_S as PERIOD_S
    from nbckpt.mirror.auto import AutoMirror as AutoMirror
    from nbckpt.mirror.auto import AutoStatus as AutoStatus
    from nbckpt.mirror.mirror import Mirror as Mirror
    from nbckpt.mirror.mirror import Mirrored as Mirrored

_HOMES = {
    "PERIOD_S": "nbckpt.mirror.auto",
    "AutoMirror": "nbckpt.mirror.auto",
    "AutoStatus": "nbckpt.mirror.auto",
    "Mirror": "nbckpt.mirror.mirror",
    "Mirrored": "nbckpt.mirror.mirror",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
