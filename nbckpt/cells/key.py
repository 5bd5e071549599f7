"""Key: what the result of a cell depends on. Equal keys mean that the cell would compute the same again.

See docs/decisions/0096.
"""

from __future__ import annotations

import ast
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbckpt.cells.analysis import Touched, compiled, touched
from nbckpt.cells.code import uses
from nbckpt.cells.digest import Digester
from nbckpt.cells.flow import former_reads
from nbckpt.cells.magics import Transform
from nbckpt.cells.reach import Reach
from nbckpt.core.algorithms import PREFERRED
from nbckpt.errors import CodecError

_MADE = "made by "


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
    """

    text: str
    problem: str
    inputs: Mapping[str, str]
    touched: Touched


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
    inputs, problem = _digests(_inputs(code, namespace), namespace, made)
    python = ".".join(platform.python_version_tuple()[:2])
    parts = {"source": normal_source(code.source), "inputs": inputs, "more": more, "python": python}
    text = PREFERRED.digest(json.dumps(parts, sort_keys=True).encode("utf-8", "backslashreplace")).hex()
    return CellKey("" if problem else text, problem, inputs, before)


def _inputs(cell: CellCode, namespace: dict[str, Any]) -> set[str]:
    """Return the variables whose former values a cell reads, with those that its functions read."""
    reach = Reach(namespace)
    former = former_reads(cell.source)
    for code in compiled(cell.source, cell.transform)[0]:
        used = uses(code)
        reach.follow(replace(used, reads=used.reads & former, binds=frozenset()))
    return reach.reads


def _digests(
    names: set[str], namespace: dict[str, Any], made: Mapping[str, Made]
) -> tuple[dict[str, str], str]:
    """Return the digest of each variable, and why there is none for one of them."""
    digester = Digester(namespace)
    digests = {}
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        try:
            digests[name] = digester.digest(value)
        except CodecError as error:
            maker = made.get(name)
            if maker is None or maker.value is not value:
                return digests, f"its input {name} cannot be digested: {error}"
            digests[name] = _MADE + maker.key
    return digests, ""


def changed_inputs(key: CellKey, namespace: dict[str, Any]) -> set[str]:
    """Return the inputs of a cell that it changed in place, among those that can be digested."""
    before = {name: digest for name, digest in key.inputs.items() if not digest.startswith(_MADE)}
    digests, _ = _digests({*before}, namespace, {})
    return {name for name, digest in before.items() if digests.get(name) != digest}
