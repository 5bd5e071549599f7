"""Flow: the variables whose former values a cell can read: those that it does not bind first."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from inspect import CO_OPTIMIZED
from types import CodeType
from typing import Any

from nbckpt.cells.code import Uses, uses, words_of

_PASS: list[ast.stmt] = [ast.Pass(lineno=1, col_offset=0)]
_NEVER_SKIP = words_of(
    """
    ClientSession File GradientTape Model NamedTemporaryFile Pool ProcessPoolExecutor TemporaryDirectory
    TemporaryFile ThreadPoolExecutor ZipFile autocast axes_style catch_warnings closing config_context
    enable_grad errstate inference_mode localcontext no_grad nullcontext open option_context parallel_backend
    parallel_config plotting_context printoptions rc_context redirect_stderr redirect_stdout set_grad_enabled
    tqdm
    """
)
"""Context managers with these names pass on the errors of their block: it ran if the cell goes on after."""
_INERT = (ast.Name, ast.Constant, ast.Tuple, ast.List, ast.expr_context)
_MANY = (ast.Tuple, ast.List, ast.Starred)
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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
        self._later: set[str] = set()

    def after(self, body: Iterable[ast.stmt], bound: set[str]) -> set[str]:
        """Follow statements that run one after the other. Return the variables that are then bound."""
        bound = set(bound)
        for statement in body:
            if not _is_inert(statement):
                self._call(bound)
            bound = self._step(statement, bound)
        self._call(bound)
        return bound

    def _call(self, bound: set[str]) -> None:
        """Count what the cell's functions read: former functions and the next cells can call them too."""
        self._read(self._later, bound)

    def _read(self, names: Iterable[str], bound: set[str]) -> None:
        self.free |= set(names) - bound

    def _step(self, statement: ast.stmt, bound: set[str]) -> set[str]:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return self._definition(statement, bound)
        if isinstance(statement, ast.Match):
            return self._match(statement, bound)
        if isinstance(statement, (ast.If, ast.For, ast.AsyncFor, ast.While)):
            return self._branches(statement, bound)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return self._managed(statement, bound)
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
        every = uses(code).reads
        is_class = isinstance(statement, ast.ClassDef)
        calls = statement.decorator_list or (is_class and not _is_inert(statement))
        self._read(every if calls else _at_once(code), bound)
        self._later |= every
        return bound | {statement.name}

    def _branches(self, statement: ast.If | ast.For | ast.AsyncFor | ast.While, bound: set[str]) -> set[str]:
        self._read(_uses(_headless(statement, body=_PASS, orelse=[])).reads, bound)
        if isinstance(statement, (ast.If, ast.While)):
            bound = bound | _walruses(statement.test)
            body = self.after(statement.body, bound)
        else:
            body = self.after(statement.body, bound | _names(statement.target))
        orelse = self.after(statement.orelse, bound)
        return body & orelse if isinstance(statement, ast.If) else bound

    def _match(self, statement: ast.Match, bound: set[str]) -> set[str]:
        self._read(_uses(ast.Expr(statement.subject)).reads, bound)
        for case in statement.cases:
            alone = ast.match_case(case.pattern, None, _PASS)
            used = _uses(ast.Match(ast.Constant(None), [alone]))
            self._read(used.reads, bound)
            inside = bound | used.binds
            if case.guard is not None:
                self._read(_uses(ast.Expr(case.guard)).reads, inside)
                inside |= _walruses(case.guard)
            self.after(case.body, inside)
        return bound

    def _managed(self, statement: ast.With | ast.AsyncWith, bound: set[str]) -> set[str]:
        """Follow the block of context managers. They can leave it early without an error."""
        self._read(_uses(_headless(statement, body=_PASS)).reads, bound)
        binds = [_names(item.optional_vars) for item in statement.items]
        end = self.after(statement.body, bound.union(*binds))
        if all(_never_skips(item.context_expr) for item in statement.items):
            return end
        return bound | (binds[0] if isinstance(statement.items[0].optional_vars, ast.Name) else set())

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


def _is_inert(statement: ast.stmt) -> bool:
    """Tell whether a statement calls no function: its names are bound before the next call then."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
        return not statement.decorator_list and _are_inert(defaults)
    if isinstance(statement, ast.ClassDef):
        head = [*statement.decorator_list, *statement.bases, *statement.keywords]
        return not head and all(map(_is_inert, statement.body))
    if isinstance(statement, ast.Assign):
        return _are_inert([statement.value]) and all(isinstance(to, ast.Name) for to in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name) and _are_inert(filter(None, [statement.value]))
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass)) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _are_inert(parts: Iterable[ast.expr]) -> bool:
    return all(isinstance(node, _INERT) for part in parts for node in ast.walk(part))


def _never_skips(manager: ast.expr) -> bool:
    """Tell whether a context manager passes on the errors of its block, judged by its name."""
    made = manager.func if isinstance(manager, ast.Call) else manager
    name = made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")
    return name in _NEVER_SKIP


def _targets(statement: ast.stmt, used: Uses) -> set[str]:
    """Return the variables that a simple statement always binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return set(used.binds)
    if isinstance(statement, ast.Assign):
        return set().union(*map(_names, statement.targets))
    if isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.AnnAssign) and statement.value):
        return _names(statement.target)
    return set()


def _names(target: ast.expr | None) -> set[str]:
    """Return the variables among the targets of an assignment. An index of a target is none of them."""
    if isinstance(target, _MANY):
        return set().union(*map(_names, getattr(target, "elts", None) or [getattr(target, "value", None)]))
    return {target.id} if isinstance(target, ast.Name) else set()


def _walruses(node: ast.AST) -> set[str]:
    """Return the variables that an expression binds with := whatever its conditions give."""
    if isinstance(node, _INNER):
        return set()
    parts: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.BoolOp):
        parts = node.values[:1]
    elif isinstance(node, ast.IfExp):
        parts = [node.test]
    elif isinstance(node, ast.Compare):
        parts = [node.left, node.comparators[0]]
    own = {node.target.id} if isinstance(node, ast.NamedExpr) else set()
    return own.union(*map(_walruses, parts))


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


def _at_once(code: CodeType) -> set[str]:
    """Return the variables that a definition reads while it is made: in its head, and in a class's body.

    A comprehension or a lambda there can be code of its own, whose name begins with <.
    """
    names = set(uses(code).own_reads)
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and (inner.co_name[0] == "<" or not inner.co_flags & CO_OPTIMIZED):
            names |= _at_once(inner)
    return names
