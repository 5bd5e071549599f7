"""Where: a filter over trials, such as `lr < 0.1 and tag == 'good'`. It is parsed, never run as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion

LONGEST = 2_000
DEEPEST = 40
MOMENTS = {"started_at", "ended_at"}
"""Names whose values are seconds since 1970. A text that is compared with one is a date."""
_ALLOWED = "use comparisons, and, or, not, in, names and constants, as in \"lr < 0.1 and tag == 'good'\""

Values = Mapping[str, Any]
Test = Callable[[Values], bool]
Operand = Callable[[Values], Any]


class _Missing:
    """The value of a name that a trial does not have. Every comparison with it is false."""

    def __bool__(self) -> bool:
        return False


_MISSING = _Missing()


class Several(tuple[Any, ...]):  # noqa: SLOT001  it holds what a tuple holds
    """Several values of one name. A comparison holds if it holds for one of them; `!=` if for all."""


class Where:
    """A parsed filter.

    Args:
        text: The filter. A name is a metric, a value of the configuration, or one of the trial's own fields.
            `a.b` and `a/b` mean b in the dict a; `config.lr` and `metrics['val loss']` say which is meant.
            `started_at > '2026-11-19'` is a comparison with the begin of that day here.

    Attributes:
        names: The names in the filter, each with its position, from 1.

    Raises:
        UsageError: The filter cannot be read; the message says where and why.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.names: dict[str, int] = {}
        if len(self.text) > LONGEST:
            raise UsageError(f"a filter has at most {LONGEST:,} characters: this one has {len(self.text):,}")
        try:
            tree = ast.parse(self.text, mode="eval")  # see docs/decisions/0086
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = getattr(error, "offset", 0) or 1
            reason = getattr(error, "msg", "") or str(error) or "it is nested too deep"
            if reason == "invalid syntax" and not getattr(error, "offset", 0):  # at the end, which has none
                at, reason = len(self.text) + 1, "it ends too early" if self.text else "it is empty"
            raise UsageError(f"cannot read the filter at character {at}: {reason}; {_ALLOWED}") from None
        self._test = self._truth(tree.body, 0)

    def matches(self, values: Values) -> bool:
        """Tell whether a trial with these values passes the filter."""
        return self._test(values)

    def check(self, known: Iterable[str]) -> None:
        """Refuse a name that no trial has.

        Raises:
            UsageError: There is such a name. The message suggests the closest one.
        """
        names = set(known)
        for name, at in self.names.items():
            if name not in names:
                shown = ", ".join(sorted(name for name in names if "/" not in name)[:12])
                raise UsageError(
                    f"no trial has {name!r}, at character {at} of the filter. "
                    f"{suggestion(name, names)}There are {shown}"
                )

    def _refuse(self, node: ast.AST, reason: str) -> UsageError:
        part = (ast.get_source_segment(self.text, node) or "")[:40]
        where = f"at character {self._position(node)}, {part!r}"
        return UsageError(f"cannot read the filter {where}: {reason}; {_ALLOWED}")

    def _truth(self, node: ast.AST, depth: int) -> Test:
        """Return the test that a part of the filter makes."""
        if depth > DEEPEST:
            raise self._refuse(node, "it is nested too deep")
        if isinstance(node, ast.BoolOp):
            tests = [self._truth(value, depth + 1) for value in node.values]
            combine = all if isinstance(node.op, ast.And) else any
            return lambda values: combine(test(values) for test in tests)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            test = self._truth(node.operand, depth + 1)
            return lambda values: not test(values)
        if isinstance(node, ast.Compare):
            parts = (node.left, *node.comparators)
            read = self._moment if any(_path(part) in MOMENTS for part in parts) else self._operand
            operands = [read(part, depth + 1) for part in parts]
            compares = [self._comparison(node, operator_) for operator_ in node.ops]
            return lambda values: _chained(compares, [operand(values) for operand in operands])
        operand = self._operand(node, depth)
        return lambda values: bool(operand(values))

    def _comparison(self, node: ast.AST, given: ast.cmpop) -> Callable[[Any, Any], bool]:
        if type(given) not in _COMPARISONS:
            raise self._refuse(node, "'is' is not a comparison of values")
        return _COMPARISONS[type(given)]

    def _operand(self, node: ast.AST, depth: int) -> Operand:
        if depth > DEEPEST:
            raise self._refuse(node, "it is nested too deep")
        name = _path(node)
        if name is not None:
            self.names.setdefault(name, self._position(node))
            return lambda values: values.get(name, _MISSING)
        constant = self._constant(node, depth)
        return lambda _: constant

    def _moment(self, node: ast.AST, depth: int) -> Operand:
        """Return an operand of a comparison of moments: a text is a date, in the time zone here."""
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            return self._operand(node, depth)
        try:
            moment = datetime.fromisoformat(node.value).timestamp()
        except (ValueError, OverflowError, OSError):  # OSError: before 1970 on Windows
            reason = "this is not a date such as '2026-11-19' or '2026-11-19 14:30'"
            raise self._refuse(node, reason) from None
        return lambda _: moment

    def _position(self, node: ast.AST) -> int:
        return len(self.text.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore")) + 1

    def _constant(self, node: ast.AST, depth: int) -> Any:
        if depth > DEEPEST:
            raise self._refuse(node, "it is nested too deep")
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool, type(None))):
            return node.value
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return tuple(self._constant(item, depth + 1) for item in node.elts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            number = self._constant(node.operand, depth + 1)
            if isinstance(number, (int, float)):
                return -number if isinstance(node.op, ast.USub) else number
        raise self._refuse(node, "this is not a name or a constant")


def _path(node: ast.AST) -> str | None:
    """Return the name that a part of a filter stands for: `a.b`, `a/b` and `a['b']` are "a/b"."""
    parts: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and len(parts) < DEEPEST:
            right = _path(node.right)
            if right is None:
                return None
            parts.append(right)
            node = node.left
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(str(node.slice.value))
            node = node.value
        else:
            return None
    return "/".join((node.id, *reversed(parts)))


def _chained(compares: list[Callable[[Any, Any], bool]], operands: list[Any]) -> bool:
    pairs = zip(compares, operands, operands[1:], strict=False)
    return all(compare(left, right) for compare, left, right in pairs)


def _alternatives(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, Several) else (value,)


def _safe(compare: Callable[[Any, Any], Any], *, every: bool = False) -> Callable[[Any, Any], bool]:
    """Return a comparison for names with several values, which is false for values that do not compare."""
    combine = all if every else any

    def compared(left: Any, right: Any) -> bool:
        return combine(_holds(compare, a, b) for a in _alternatives(left) for b in _alternatives(right))

    return compared


def _holds(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    if left is _MISSING or right is _MISSING:
        return False
    try:
        return bool(compare(left, right))
    except (TypeError, ValueError):  # a text and a number, or an array
        return False


def _in(left: Any, right: Any) -> bool:
    right = tuple(right) if isinstance(right, Several) else right
    return any(_holds(_contains, right, one) for one in _alternatives(left))


def _contains(right: Any, left: Any) -> bool:
    return bool(left in right)


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: _safe(operator.eq),
    ast.NotEq: _safe(operator.ne, every=True),
    ast.Lt: _safe(operator.lt),
    ast.LtE: _safe(operator.le),
    ast.Gt: _safe(operator.gt),
    ast.GtE: _safe(operator.ge),
    ast.In: _in,
    ast.NotIn: lambda left, right: not (left is _MISSING or right is _MISSING or _in(left, right)),
}
