"""Mirror: copy a store and its experiments to another location, once or continuously in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.lazy import attach

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

if not TYPE_CHECKING:  # with it, a type checker would accept every name
    __getattr__, __dir__, __all__ = attach(__name__, _HOMES)
