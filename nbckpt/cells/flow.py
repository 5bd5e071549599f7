"""Flow: the variables whose former values a cell can read: those that it does not bind first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

from nbckpt.cells.code import Uses, uses

_PASS: list[ast.stmt] = [ast.Pass(lineno=1, col_offset=0)]
_SKIPS = frozenset({"suppress", "raises"})
"""Context managers with such a name can leave their block early without an error."""


def former_uses(source: str) -> tuple[set[str], set[str]]:
    """Return the variables whose former values the code of a cell can read, and those that it can delete.

    Builtins are included. In doubt a variable is included: the body of a loop may not run, and a branch may
    not be taken.
    """
    flow = _Flow()
    flow.after(ast.parse(source).body, set())
    return flow.free, flow.deleted


def surely_bound(source: str) -> set[str]:
    """Return the variables that the code of a cell has bound if it ends without an error."""
    return _Flow().after(ast.parse(source).body, set())


class _Flow:
    """Follows the statements of a cell in order.

    Attributes:
        free: The variables that were read before they were bound.
        deleted: The variables that were deleted before they were bound.
    """

    def __init__(self) -> None:
        self.free: set[str] = set()
        self.deleted: set[str] = set()
        self._later: dict[str, frozenset[str]] = {}

    def after(self, body: Iterable[ast.stmt], bound: set[str]) -> set[str]:
        """Follow statements that run one after the other. Return the variables that are then bound."""
        bound = set(bound)
        for statement in body:
            bound = self._step(statement, bound)
        for name in self._later:  # a function can be called from outside
            self.free |= self._later[name] - bound
        return bound

    def _read(self, names: Iterable[str], bound: set[str]) -> None:
        todo, done = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name not in done:
                done.add(name)
                todo += self._later.get(name, ())
        self.free |= done - bound

    def _step(self, statement: ast.stmt, bound: set[str]) -> set[str]:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return self._definition(statement, bound)
        if isinstance(statement, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Match)):
            return self._branches(statement, bound)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            header = _uses(_headless(statement, body=_PASS))
            self._read(header.reads, bound)
            inner = self.after(statement.body, bound | header.binds)
            return bound | header.binds if _SKIPS & (header.reads | header.attributes) else inner
        if isinstance(statement, (ast.Try, ast.TryStar)):
            return self._attempt(statement, bound)
        if isinstance(statement, (ast.Break, ast.Continue)):
            return bound
        used = _uses(statement)
        self._read(used.reads, bound)
        self.deleted |= used.deletes - bound
        if isinstance(statement, ast.Delete):
            return bound - used.binds
        return bound | _targets(statement, used)

    def _definition(
        self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, bound: set[str]
    ) -> set[str]:
        """Follow a definition. What its functions read counts when they can be called."""
        code = _code(statement)
        self.deleted |= uses(code).deletes
        every, now = uses(code).reads, _at_once(code, is_class=isinstance(statement, ast.ClassDef))
        runs_code = statement.decorator_list or (isinstance(statement, ast.ClassDef) and statement.bases)
        self._read(every if runs_code else now, bound)
        self._later[statement.name] = every
        return bound | {statement.name}

    def _branches(
        self, statement: ast.If | ast.For | ast.AsyncFor | ast.While | ast.Match, bound: set[str]
    ) -> set[str]:
        if isinstance(statement, ast.Match):
            header = _uses(ast.Expr(statement.subject))
            self._read(header.reads, bound)
            for case in statement.cases:
                alone = ast.match_case(case.pattern, case.guard, _PASS)
                used = _uses(ast.Match(ast.Constant(None), [alone]))
                self._read(used.reads, bound | used.binds)
                self.after(case.body, bound | used.binds)
            return bound
        header = _uses(_headless(statement, body=_PASS, orelse=[]))
        self._read(header.reads, bound)
        body = self.after(statement.body, bound | header.binds)
        orelse = self.after(statement.orelse, bound)
        return body & orelse if isinstance(statement, ast.If) else bound

    def _attempt(self, statement: ast.Try | ast.TryStar, bound: set[str]) -> set[str]:
        ends = [self.after([*statement.body, *statement.orelse], bound)]
        for handler in statement.handlers:
            if handler.type is not None:
                self._read(_uses(ast.Expr(handler.type)).reads, bound)
            end = self.after(handler.body, bound | {handler.name or ""})
            if not isinstance(handler.body[-1], ast.Raise):
                ends.append(end - {handler.name or ""})
        self.after(statement.finalbody, bound)
        return self.after(statement.finalbody, set.intersection(*ends))


def _targets(statement: ast.stmt, used: Uses) -> set[str]:
    """Return the variables that a simple statement always binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return set(used.binds)
    targets: Sequence[ast.expr] = ()
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.AnnAssign) and statement.value):
        targets = [statement.target]
    nodes = (node for target in targets for node in ast.walk(target))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _headless(statement: ast.stmt, **changes: object) -> ast.stmt:
    fields = dict(ast.iter_fields(statement))
    make: Any = type(statement)
    header: ast.stmt = make(**(fields | {name: changes[name] for name in changes if name in fields}))
    return header


def _uses(statement: ast.stmt) -> Uses:
    return uses(_code(statement))


def _code(statement: ast.stmt) -> CodeType:
    tree = ast.fix_missing_locations(ast.Module([statement], []))
    code: CodeType = compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def _at_once(code: CodeType, *, is_class: bool) -> set[str]:
    """Return the variables that a definition reads while it is made: in its head, and in a class's body."""
    names = set(uses(code).own_reads)
    if is_class:
        for inner in code.co_consts:
            if isinstance(inner, CodeType) and not inner.co_flags & 1:  # CO_OPTIMIZED: not a function
                names |= _at_once(inner, is_class=True)
    return names
