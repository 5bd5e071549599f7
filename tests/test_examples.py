"""Each name of the public face shows its use. pytest runs the examples, each in a folder of its own."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import nbckpt

HOOKS = {"load_ipython_extension", "unload_ipython_extension"}
"""IPython calls these; a user writes `%load_ext nbckpt`."""


def examples(named: Any) -> int:
    """Return how many lines of an object's docstring are examples."""
    return (inspect.getdoc(named) or "").count(">>>")


@pytest.mark.parametrize("name", sorted({*nbckpt.__all__} - HOOKS))
def test_each_public_name_has_an_example(name: str) -> None:
    assert examples(getattr(nbckpt, name)) > 0


def test_a_name_without_an_example_is_found() -> None:
    assert examples(nbckpt.load_ipython_extension) == 0
