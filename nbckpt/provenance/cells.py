"""Cells: the sources of the notebook's cells so far, from the running IPython, which is not imported here."""

from __future__ import annotations

from collections.abc import Sequence
from sys import modules


def sources() -> Sequence[str]:
    """Return the sources as the user wrote them, the running cell last; empty outside of IPython.

    The position in the list is the number of the cell, from 1 on.
    """
    ipython = modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    history = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None)
    return history[1:] if isinstance(history, list) and all_texts(history) else ()


def all_texts(values: Sequence[object]) -> bool:
    """Tell whether every value is a text."""
    return all(isinstance(value, str) for value in values)
