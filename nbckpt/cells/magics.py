"""Magics: what the magics of a cell do, from the Python that IPython makes of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from nbckpt.cells.code import words_of

Transform = Callable[[str], str]
"""Turns a cell with magics into Python, as `InteractiveShell.transform_cell` does."""

_RUN_CODE = frozenset({"time", "timeit", "prun"})
_HARMLESS = words_of(
    """
    autosave cd colors conda env history html javascript js latex ls lsmagic magic mamba markdown
    matplotlib pdoc pfile pinfo pinfo2 pip precision psearch psource pwd svg uv who who_ls
    writefile xmode
    """
)
_SHELLS = frozenset({"bash", "sh"})
_COMMANDS = words_of(
    """
    auto best checkout compare diff doctor export gc help history ls note panel plot pull push redo results rm
    save show snippet status sync tag track trials trust untag verify
    """
)
"""The commands of `%ckpt` that bind no variables, or that tell `%ckpt auto` which, as redo does."""


@dataclass
class Magics:
    """The magics of a cell.

    Attributes:
        sources: The source of the cell, and the Python code that its magics run.
        binds: The variables that they bind.
        unknown: Why it is not known what they touch; empty if it is known.
    """

    sources: list[str] = field(default_factory=list)
    binds: set[str] = field(default_factory=set)
    unknown: str = ""


class MagicReader(ast.NodeTransformer):
    """Takes the calls of magics out of a cell, and notes what they do.

    Args:
        transform: Turns the cell below a magic into Python.
    """

    def __init__(self, transform: Transform) -> None:
        self.magics = Magics()
        self._transform = transform

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """See `ast.NodeVisitor`."""
        call = node.func
        if not (isinstance(call, ast.Attribute) and _is_shell(call.value)):
            return self.generic_visit(node)
        words = [word.value for word in node.args if isinstance(word, ast.Constant)]
        texts = [
            word for word in words if isinstance(word, str)
        ]  # None stands for the cell below `%%ckpt cell`
        if len(words) != len(node.args) or node.keywords or not self._understood(call.attr, texts):
            self.magics.unknown = f"it runs {texts[0] if texts else call.attr!r}"
        return ast.copy_location(ast.Constant(None), node)

    def _understood(self, method: str, texts: list[str]) -> bool:
        """Note what a call does, and return False if that is not known."""
        if method in {"system", "getoutput"}:
            return not _expands(texts[0])
        if method not in {"run_line_magic", "run_cell_magic"} or len(texts) < 2:
            return False
        name, line, *below = texts
        body = below[0] if below else ""
        if name in _RUN_CODE:
            return self._run(line, body)
        if name == "capture":
            self.magics.binds.update(re.findall(r"\w+", line))
            return self._run("", body)
        if name == "ckpt":
            words = line.split()
            return (words[:1] == ["cell"] or bool(_COMMANDS & {*words[:1]})) and self._run("", body)
        return not _expands(line) and (name in _HARMLESS or (name in _SHELLS and "--" not in line))

    def _run(self, line: str, body: str) -> bool:
        code = _without_options(line)
        if code is None:
            return False
        self.magics.sources += [code, self._transform(body)]
        return True


def _is_shell(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "get_ipython"


def _expands(line: str) -> bool:
    """Tell whether IPython evaluates parts of a line."""
    return "{" in line or "$" in line


def _without_options(line: str) -> str | None:
    """Return the code of a line, without the options before it; None if it has none."""
    while True:
        try:
            ast.parse(line)
        except SyntaxError:
            _, space, line = line.strip().partition(" ")
            if not space:
                return None
        else:
            return line
