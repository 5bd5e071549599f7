"""Figures: a restore can bring some into a kernel that has not imported pyplot, which lets IPython draw."""

from __future__ import annotations

import importlib
from contextlib import suppress
from sys import modules

_INLINE = "matplotlib_inline.backend_inline"


def let_figures_show() -> None:
    """Let a figure as the last line of a cell show its picture, as after an import of pyplot.

    Nothing changes if there can be no figure, or if the kernel has another backend than Jupyter's.
    """
    if "matplotlib.figure" in modules and _INLINE not in modules:
        with suppress(Exception):  # the library's own code: without it a figure shows as text, as before
            importlib.import_module(_INLINE)
