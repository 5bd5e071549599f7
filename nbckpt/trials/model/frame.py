"""Frame: pandas, for what a user wants as a DataFrame."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from nbckpt.errors import UsageError


def pandas_for(name: str) -> ModuleType:
    """Return pandas, for a function or an attribute of the user's.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError:
        raise UsageError(f"{name} needs pandas: pip install pandas") from None
