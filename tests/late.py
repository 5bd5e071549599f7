"""Large libraries, imported when a test first uses them: collection imports every module of the tests."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class Library:
    """Stands for a module, and imports it when an attribute is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks each name of a module for `__wrapped__` and others
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def library(name: str, *, reason: str) -> Any:
    """Return a module that is imported later; without its library, skip the tests of the caller's module."""
    if find_spec(name.partition(".")[0]) is None:
        pytest.skip(reason, allow_module_level=True)
    return Library(name)
