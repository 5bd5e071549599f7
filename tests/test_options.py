"""A command's function says all about its options: the help, the completion and the refusals follow it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from nbckpt.commands import TABLE, Command, HelpRequest, parse
from nbckpt.commands.options import Number, Step, Variable
from nbckpt.errors import UsageError


def example(
    session: Any,
    ref: Step,
    *names: Variable,
    as_: Variable = "",
    most: Number = 20,
    period: float | None = None,
    exclude: Sequence[Variable] = (),
    mode: Literal["", "min", "max"] = "",
    dry_run: bool = False,
) -> Any:
    """Do an example.

    It has no effect.

    Args:
        names: Only 100 % of these
            and no others.
    """
    return ref, names, as_, most, period, exclude, mode, dry_run


TABLE_OF_ONE = {"example": Command("example", example)}


def result(line: str) -> Any:
    return parse(TABLE_OF_ONE, ["example", *line.split()], "%ckpt").run(None)  # type: ignore[arg-type]


def test_words_become_arguments_of_the_function() -> None:
    assert result("a") == ("a", (), "", 20, None, [], "", False)
    assert result("a --as=b=--")[2] == "b=--"
    assert result("a b c --as x -n 3 --period 0.5 -x d -x e --mode max --dry-run f") == (
        *("a", ("b", "c", "f"), "x", 3, 0.5, ["d", "e"], "max", True),
    )


def test_wrong_words_are_refused_with_the_way_to_the_help(subtests: pytest.Subtests) -> None:
    for line in ("", "a --most many", "a --mode mid", "a --unknown", "a --dry-run=1", "a --as=--"):
        with subtests.test(line), pytest.raises(UsageError, match="See `%ckpt help example`"):
            result(line)


def test_the_help_is_the_docstring() -> None:
    with pytest.raises(HelpRequest) as caught:
        result("--help")
    text = " ".join(caught.value.text.split())
    assert "Do an example. It has no effect." in text
    assert "VAR Only 100 % of these and no others." in text
    assert "REF A checkpoint; EXP/t3@10" in text
    assert re.search(r"-n( N)?, --most N \(default: 20\)", text)  # Python 3.13 writes N once
    assert "--mode {min,max}" in text


def test_every_command_can_show_its_help() -> None:
    for name, command in TABLE.items():
        with pytest.raises(HelpRequest) as caught:
            parse(TABLE, [name, "--help"], "%ckpt")
        assert all(
            flag in caught.value.text for option in command.options for flag in option.flags if flag[0] == "-"
        )


def test_an_option_that_is_not_alike_is_not_suggested() -> None:
    with pytest.raises(UsageError, match=r"takes no '--mean'\. See"):
        result("a --mean")


def test_a_wrong_option_is_refused_with_the_closest_one() -> None:
    for wrong in ("--exclde", "--exclde=x"):
        with pytest.raises(UsageError, match=f"takes no {wrong!r}. Did you mean '--exclude'"):
            result(f"a {wrong}")
