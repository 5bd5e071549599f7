"""Key: what the result of a cell depends on. Equal keys mean that the cell would compute the same again.

See docs/decisions/0096.
"""

from __future__ import annotations

import ast
import json
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from nbckpt.cells.analysis import Touched, compiled, touched
from nbckpt.cells.code import uses
from nbckpt.cells.digest import Digester
from nbckpt.cells.flow import former_uses
from nbckpt.cells.magics import Transform
from nbckpt.cells.reach import Reach
from nbckpt.core.algorithms import PREFERRED
from nbckpt.errors import CodecError

_MADE = "made by "
_FORM = 3
"""The form of keys. A new one parts the results that were kept with keys that lacked an input."""


@dataclass(frozen=True)
class CellCode:
    """The code of a cell.

    Attributes:
        source: It as Python, after IPython turned its magics into Python.
        transform: Turns the code below a magic into Python.
    """

    source: str
    transform: Transform


@dataclass(frozen=True)
class Made:
    """A value that a cell with a key made: it stands for the value if that has no digest."""

    value: Any
    key: str


@dataclass(frozen=True)
class CellKey:
    """The key of a cell at one moment.

    Attributes:
        text: The key; empty if the cell has none.
        problem: Why the cell has no key.
        inputs: The digest of each variable that the cell reads.
        touched: The variables that the cell can touch.
        binds: The variables that the cell, or a function that it can call, can bind or delete.
        digester: It has digested the inputs. It keeps their objects alive.
    """

    text: str
    problem: str
    inputs: Mapping[str, str]
    touched: Touched
    binds: frozenset[str] = frozenset()
    digester: Digester | None = field(default=None, compare=False)


def normal_source(source: str) -> str:
    """Return the source of a cell as its syntax tree gives it: without comments and spacing."""
    return ast.unparse(ast.parse(source))


def cell_key(
    code: CellCode, namespace: dict[str, Any], more: Mapping[str, Any], made: Mapping[str, Made]
) -> CellKey:
    """Return the key of a cell: of its syntax tree and of everything that it reads.

    Args:
        code: The cell.
        namespace: The variables.
        more: What else the result depends on: files and versions.
        made: The variables that cells with keys made.
    """
    before = touched(code.source, namespace, transform=code.transform)
    if before.everything:
        return CellKey("", before.everything, {}, before)
    digester = Digester(namespace)
    reach = _reach(code, namespace)
    inputs, problem = _digests(reach.reads, namespace, made, digester)
    python = ".".join(platform.python_version_tuple()[:2])
    parts: dict[str, Any] = {"form": _FORM, "python": python, "inputs": inputs, "more": more}
    parts["source"] = normal_source(code.source)
    if there := sorted(reach.deletes & namespace.keys()):
        parts["deletes"] = there
    if reach.placed:
        parts["placed"] = sorted({f"{place} {_code_digest(each, namespace)}" for place, each in reach.placed})
    text = PREFERRED.digest(json.dumps(parts, sort_keys=True).encode("utf-8", "backslashreplace")).hex()
    binds = before.binds | reach.binds
    return CellKey("" if problem else text, problem, inputs, before, binds, digester)


def _reach(cell: CellCode, namespace: dict[str, Any]) -> Reach:
    """Return what a cell leads to from the variables whose former values it reads.

    Nothing tells when the code of a magic runs. So what the code around it binds first counts, too.
    """
    reach = Reach(namespace)
    codes, magics = compiled(cell.source, cell.transform)
    for source, code in zip(magics.sources, codes, strict=True):
        reads, deletes = map(frozenset, former_uses(source))
        used = uses(code)
        reach.follow(replace(used, reads=used.reads & reads, binds=frozenset(), deletes=deletes))
    return reach


def _digests(
    names: set[str], variables: Mapping[str, Any], made: Mapping[str, Made], digester: Digester
) -> tuple[dict[str, str], str]:
    """Return the digest of each variable, and why there is none for one of them."""
    digests = {}
    for name in sorted(names & variables.keys()):
        value = variables[name]
        try:
            digests[name] = digester.digest(value)
        except CodecError as error:
            maker = made.get(name)
            if maker is None or maker.value is not value:
                return digests, f"its input {name} cannot be digested: {error}"
            digests[name] = _MADE + maker.key
    return digests, ""


def _code_digest(function: FunctionType, namespace: dict[str, Any]) -> str:
    """Return the digest of a function; of its code alone if it holds what has none."""
    try:
        return Digester(namespace).digest(function)
    except CodecError:
        return Digester(namespace).digest(function.__code__)


def is_made(key: CellKey) -> bool:
    """Tell whether an input of a cell has no digest, so that nothing tells whether it changed."""
    return any(digest.startswith(_MADE) for digest in key.inputs.values())


def changed_inputs(key: CellKey, former: Mapping[str, Any], namespace: dict[str, Any]) -> set[str]:
    """Return the inputs of a cell that it changed in place, among those that can be digested.

    Args:
        key: The key of the cell before it ran.
        former: The variables before it ran: maybe it bound some of them to other objects since.
        namespace: The namespace.
    """
    before = {name: digest for name, digest in key.inputs.items() if not digest.startswith(_MADE)}
    names = before.keys() & former.keys()
    digests, _ = _digests(names, former, {}, Digester(namespace))
    return {name for name in names if digests.get(name) != before[name]}


def class_digests(
    names: Iterable[str], variables: Mapping[str, Any], namespace: dict[str, Any]
) -> dict[str, str]:
    """Return the digest of each class among these variables; an empty one if it has none."""
    digests = {}
    for name in names:
        if issubclass(type(kind := variables.get(name)), type):
            digests[name] = ""
            with suppress(CodecError):
                digests[name] = Digester(namespace).digest(kind)
    return digests


def have_equal_code(namespace: dict[str, Any], one: type, other: type) -> bool:
    """Tell whether two classes have the same attributes and methods."""
    digests = class_digests(("one", "other"), {"one": one, "other": other}, namespace)
    return digests["one"] == digests["other"] != ""


def digests_beside(key: CellKey, names: Iterable[str], variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each of these variables beside the inputs, before the cell runs.

    It tells what the variable shares with the inputs, too. One without a digest has an empty one.
    """
    digests = {}
    for name in names:
        digests[name] = ""
        if key.digester is not None:
            with suppress(CodecError):
                digests[name] = key.digester.branch().digest(variables[name])
    return digests
