"""Lookups: calls of libraries that find variables by names in a text, such as `df.query("x > @low")`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from dis import Instruction
from itertools import pairwise
from numbers import Number

_CALLS = frozenset({"query", "eval"})
_LOADS = frozenset({"LOAD_NAME", "LOAD_GLOBAL"})
_JOINS = frozenset({"BINARY_OP", "BUILD_STRING", "FORMAT_SIMPLE", "FORMAT_VALUE", "FORMAT_WITH_SPEC"})
_BESIDE = frozenset(
    {
        *("CACHE", "CONVERT_VALUE", "EXTENDED_ARG", "KW_NAMES", "LOAD_SMALL_INT", "NOP", "PRECALL"),
        "PUSH_NULL",
    }
)
_PLAIN = (str, Number, date)
_AT_NAME = re.compile(r"@(\w+)")
_OPEN_END = re.compile(r"@(?!\w)|@\w*$")


@dataclass(frozen=True, slots=True)
class Lookup:
    """A call of `query` or `eval` with arguments.

    Attributes:
        receiver: The variable whose method it is; empty if it is not a variable's.
        module: The module whose function it is, if the same code imports it.
        names: The variables of which its arguments are made; None if calls or local variables are in them.
        texts: The constant texts of which its arguments are made.
        joined: Whether the arguments are joined from parts, as in an f-string.
    """

    receiver: str
    module: str
    names: frozenset[str] | None
    texts: frozenset[str]
    joined: bool

    def is_open(self, values: dict[str, object]) -> bool:
        """Tell whether the call can find more than the variables after @ in its texts and in these values."""
        if self.names is None or not all(isinstance(values.get(name), _PLAIN) for name in self.names):
            return True
        return self.joined and (
            any(map(_OPEN_END.search, self.texts)) or any("@" in text for text in self._texts(values))
        )

    def reads(self, values: dict[str, object]) -> set[str]:
        """Return the names after @ in the variables of which its arguments are made."""
        return names_in(self._texts(values))

    def _texts(self, values: dict[str, object]) -> list[str]:
        return [value for value in values.values() if isinstance(value, str)]


def names_in(texts: Sequence[str]) -> set[str]:
    """Return the names after @ in texts."""
    return set(_AT_NAME.findall(" ".join(texts)))


def lookups(steps: Sequence[Instruction]) -> Iterator[Lookup]:
    """Yield the calls of `query` and `eval` in code."""
    pairs = list(pairwise(steps))
    modules = {
        after.argval: step.argval.partition(".")[0]
        for step, after in pairs
        if step.opname == "IMPORT_NAME" and after.opname.startswith("STORE_")
    }
    for at, (before, step) in enumerate(pairs):
        if step.argval in _CALLS and step.opname in {"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"}:
            receiver = before.argval if before.opname in _LOADS else ""
            module = modules.get(before.argval, "") if before.opname.startswith("LOAD_") else ""
            names, texts, joined = _parts(steps[at + 2 :])
            if names is None or names or texts:
                yield Lookup(receiver, module, names, frozenset(texts), joined)


def _parts(steps: Sequence[Instruction]) -> tuple[frozenset[str] | None, set[str], bool]:
    """Return the variables and texts in the arguments of a call, and whether it joins them."""
    names, texts, joined = set[str](), set[str](), False
    for step in steps:
        if step.opname.startswith("CALL"):
            return frozenset(names), texts, joined
        if step.opname in _LOADS:
            names.add(step.argval)
        elif step.opname in _JOINS:
            joined = True
        elif step.opname.startswith("LOAD_CONST"):
            texts |= {step.argval} if isinstance(step.argval, str) else set()
        elif step.opname not in _BESIDE:
            break
    return None, texts, joined
