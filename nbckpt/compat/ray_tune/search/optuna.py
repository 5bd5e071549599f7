"""Where Ray has its `OptunaSearch`."""

from __future__ import annotations

from nbckpt.compat.ray_tune.search import OptunaSearch

__all__ = ["OptunaSearch"]
