"""The public names: every one is there, and nothing else is."""

from __future__ import annotations

import inspect

import pytest

import nbckpt


@pytest.mark.parametrize("name", nbckpt.__all__)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(nbckpt, name)) or name == "FILES"


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        _ = nbckpt.Nope


def test_dir_lists_the_public_names() -> None:
    assert dir(nbckpt) == sorted(nbckpt.__all__)


def test_every_error_is_an_nbckpt_error_and_keeps_its_message() -> None:
    errors = [
        it
        for it in map(nbckpt.__getattr__, nbckpt._HOMES)
        if inspect.isclass(it) and issubclass(it, Exception)
    ]
    assert len(errors) == 10
    assert all(
        issubclass(it, nbckpt.NbckptError) and str(it("a 'message'")) == "a 'message'" for it in errors
    )
