"""Operators: small faults that can be put into a function, found in its syntax tree.

A fault replaces a part of a function's text. The part is a statement, or the first expression of a compound
statement such as the condition of an `if`. So a fault can be found again after the rest of the file changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

OPERATORS = (
    *("comparison", "and or", "not", "condition", "constant", "return"),
    *("call", "sign", "jump", "keyword", "cleanup"),
)

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_SIGNS: dict[type[ast.operator], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPOUND = (ast.If, ast.While, ast.For, ast.With, ast.Try, ast.Match, *_FUNCTIONS, ast.ClassDef)
_LEFT_OUT = (*_FUNCTIONS, ast.ClassDef, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
_LARGEST = 4096  # a larger number is a size or a time: a change by 1 is not seen
_NO_FAULT = {"encoding", "strict", "daemon", "timeout", "stacklevel", "flush"}
_QUIET = {"debug", "info", "warning", "error", "exception", "sleep", "collect", "freeze"}


@dataclass(frozen=True)
class Fault:
    """A change of a function's text.

    Attributes:
        function: The qualified name of the function in its module.
        operator: One of `OPERATORS`, or `hand`.
        before: The text of the statement, or of the expression that begins it.
        after: The text that replaces it.
        occurrence: How many times the text occurs earlier in the function.
        line: The first line of the changed part in the file.
    """

    function: str
    operator: str
    before: str
    after: str
    occurrence: int
    line: int


class Source:
    """The text of a module, with the places of the nodes of its syntax tree."""

    def __init__(self, text: str) -> None:
        self.text, self._bytes = text, text.encode()
        self.tree = ast.parse(text)
        lines = self._bytes.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: Any) -> tuple[int, int]:
        """Return the first and the last place of a node, in bytes."""
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def part(self, start: int, stop: int) -> str:
        """Return the text between two places."""
        return self._bytes[start:stop].decode()

    def functions(self, node: ast.AST | None = None, name: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the functions with their qualified names, the outer ones first."""
        for child in ast.iter_child_nodes(node or self.tree):
            if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                inner = f"{name}.{child.name}" if name else child.name
                if isinstance(child, _FUNCTIONS):
                    yield inner, child
                yield from self.functions(child, inner)
            else:
                yield from self.functions(child, name)


def optional_keywords(trees: list[ast.Module]) -> set[tuple[str, str]]:
    """Return the keyword arguments that can be left out: names of a function or class and of an argument."""
    optional: set[tuple[str, str]] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, _FUNCTIONS):
            optional |= {(node.name, name) for name in _with_default(node.args)}
        elif isinstance(node, ast.ClassDef):
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign) and part.value]
            optional |= {(node.name, part.target.id) for part in fields if isinstance(part.target, ast.Name)}
            made = [part for part in node.body if isinstance(part, _FUNCTIONS) and part.name == "__init__"]
            optional |= {(node.name, name) for part in made for name in _with_default(part.args)}
    return optional


def _with_default(given: ast.arguments) -> list[str]:
    optional = given.args[len(given.args) - len(given.defaults) :]
    by_name = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return [arg.arg for arg in [*optional, *(arg for arg, value in by_name if value is not None)]]


def faults(source: Source, optional: set[tuple[str, str]]) -> Iterator[Fault]:
    """Yield every fault that the operators can put into the functions of a module.

    Python may not accept the text of a fault, or the text may mean the same as before: see `put`.
    """
    for name, function in source.functions():
        last = name.rpartition(".")[2]
        if last == "__repr__" or last.startswith("_repr_"):
            continue
        start, stop = source.span(function)
        whole = source.part(start, stop)
        for anchor, node in _places(function):
            first, end = source.span(anchor)
            before = source.part(first, end)
            for operator, left, right, text in _changes(source, anchor, node, optional):
                after = source.part(first, left) + text + source.part(right, end)
                occurrence = whole.encode()[: first - start].count(before.encode())
                yield Fault(name, operator, before, after, occurrence, node.lineno)


def _places(function: ast.AST) -> Iterator[tuple[Any, Any]]:
    """Yield each node of a function's body with its anchor, without texts, annotations and messages."""

    def inside(anchor: ast.AST, node: ast.AST) -> Iterator[tuple[Any, Any]]:
        if not isinstance(node, ast.comprehension):
            yield anchor, node
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.AnnAssign) and child is node.annotation:
                continue
            if isinstance(child, (ast.comprehension, ast.expr, ast.keyword)) and not isinstance(
                child, (ast.JoinedStr, ast.Lambda)
            ):
                yield from inside(anchor, child)

    def block(statements: list[ast.stmt]) -> Iterator[tuple[Any, Any]]:
        for statement in statements:
            if isinstance(statement, _LEFT_OUT):
                continue
            if isinstance(statement, _COMPOUND):
                for head in (getattr(statement, "test", None), getattr(statement, "iter", None)):
                    if head is not None:
                        yield from inside(head, head)
                for part in ("body", "orelse", "finalbody"):
                    yield from block(getattr(statement, part, []))
                for more in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
                    yield from block(more.body)
            else:
                yield from inside(statement, statement)

    for node in ast.walk(function):  # marks for the operators that need the parent
        for child in ast.iter_child_nodes(node):
            child.parent = node  # type: ignore[attr-defined]
    yield from block(function.body)  # type: ignore[attr-defined]


def _changes(
    source: Source, anchor: ast.AST, node: ast.AST, optional: set[tuple[str, str]]
) -> Iterator[tuple[str, int, int, str]]:
    """Yield the changes of a node: the operator, the first and the last place, and the new text."""
    start, stop = source.span(node)
    parent = getattr(node, "parent", None)
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            yield from _between(source, "comparison", left, right, *_COMPARISONS[type(op)])
        case ast.BoolOp(op=op, values=[left, right, *_]):
            words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            yield from _between(source, "and or", left, right, *words)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            first = source.span(operand)[0]
            yield "not", start, first, source.part(start + 3, first).lstrip()
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and value <= _LARGEST:
            if not (isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.LShift, ast.Pow, ast.Mult))):
                yield "constant", start, stop, str(value + 1)
        case ast.Return(value=ast.expr() as value) if getattr(value, "value", "") is not None:
            yield "return", start, stop, "return None"
        case ast.Expr(value=ast.Call(func=func)) if _called(func) not in _QUIET:
            is_cleanup = isinstance(parent, ast.ExceptHandler) or node in getattr(parent, "finalbody", [])
            yield "cleanup" if is_cleanup else "call", start, stop, "pass"
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _SIGNS and (
            isinstance(op, ast.Sub) or any(isinstance(side, ast.Constant) for side in (left, right))
        ):
            if not any(_is_collection(side) for side in (left, right)):
                yield from _between(source, "sign", left, right, *_SIGNS[type(op)])
        case ast.AugAssign(op=op, target=left, value=right) if type(op) in _SIGNS:
            old, new = _SIGNS[type(op)]
            if not _is_collection(right):
                yield from _between(source, "sign", left, right, f"{old}=", f"{new}=")
        case ast.Continue() | ast.Break():
            yield "jump", start, stop, "break" if isinstance(node, ast.Continue) else "continue"
        case ast.Call(func=func, keywords=keywords) if keywords:
            for keyword in keywords:
                if (_called(func), keyword.arg) in optional and keyword.arg not in _NO_FAULT:
                    yield "keyword", *_without(source, node, keyword), ""
    is_test = node is getattr(parent, "test", None) and isinstance(parent, (ast.If, ast.IfExp, ast.While))
    if is_test and not isinstance(node, (ast.Constant, ast.Name)):
        if not isinstance(parent, ast.While):
            yield "condition", start, stop, "True"
        yield "condition", start, stop, "False"


def _between(
    source: Source, operator: str, left: ast.AST, right: ast.AST, old: str, new: str
) -> Iterator[tuple[str, int, int, str]]:
    """Yield the change of the word or sign between two nodes."""
    start, stop = source.span(left)[1], source.span(right)[0]
    word = rf"\b{old}\b" if old.isalpha() else re.escape(old)
    changed = re.sub(word.replace(" ", r"\s+"), new, source.part(start, stop), count=1)
    yield operator, start, stop, changed


def _without(source: Source, call: ast.Call, keyword: ast.keyword) -> tuple[int, int]:
    """Return the places between which a keyword argument and a comma beside it stand."""
    given = sorted([*call.args, *call.keywords], key=source.span)
    at = given.index(keyword)
    start, stop = source.span(keyword)
    if at + 1 < len(given):
        return start, source.span(given[at + 1])[0]
    return (source.span(given[at - 1])[1] if at else start), stop


def _is_collection(node: ast.expr) -> bool:
    """Tell whether a node is a text or a collection, to which a change of a sign is only a type error."""
    is_text = isinstance(getattr(node, "value", None), (str, bytes))
    kinds = (ast.List, ast.ListComp, ast.Set, ast.SetComp, ast.Tuple, ast.JoinedStr)
    return is_text or isinstance(node, kinds) or (isinstance(node, ast.Call) and _called(node.func) == "keys")


def _called(func: ast.expr) -> str:
    return getattr(func, "attr", getattr(func, "id", ""))


def put(source: Source, fault: Fault) -> str | None:
    """Return the text of a module with a fault, or None if the text of the fault is not there.

    A name that lost its leading underscore since the fault was drawn counts as the same name.

    Raises:
        SyntaxError: Python does not accept the text.
    """
    pattern = re.sub(r"(?<![A-Za-z0-9_])_(?=[A-Za-z])", "_?", re.escape(fault.before))
    for name, function in source.functions():
        start, stop = source.span(function)
        inside = source.part(start, stop)
        matches = list(re.finditer(pattern, inside))
        if _public(name) != _public(fault.function) or len(matches) <= fault.occurrence:
            continue
        match, after = matches[fault.occurrence], fault.after
        for private in set(re.findall(r"\b_[A-Za-z]\w*", fault.before)):
            if not re.search(rf"\b{private}\b", match[0]):
                after = re.sub(rf"\b{private}\b", private[1:], after)
        changed = inside[: match.start()] + after + inside[match.end() :]
        text = source.part(0, start) + changed + source.part(stop, len(source.text.encode()))
        return text if ast.dump(ast.parse(text)) != ast.dump(source.tree) else None
    return None


def _public(name: str) -> str:
    return re.sub(r"\b_+", "", name)
