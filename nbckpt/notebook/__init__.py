"""The notebook interface: the magic, its completion, its progress. Only this package imports IPython."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.lazy import attach

if TYPE_CHECKING:
    from nbckpt.notebook.magic import panel as panel

_HOMES = {"panel": "nbckpt.notebook.magic"}

if not TYPE_CHECKING:  # with it, a type checker would accept every name
    __getattr__, __dir__, __all__ = attach(__name__, _HOMES)
