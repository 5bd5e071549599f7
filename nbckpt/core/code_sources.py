"""Sources of code: the statements of code objects, which another Python can compile again."""

from __future__ import annotations
import __future__

import ast
import linecache
import re
import typing
import warnings
import weakref
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from operator import itemgetter, or_
from types import CodeType

from nbckpt.core.masking import masked_text

Source = tuple[str, int, int, int]
"""The text of a statement; the number of its first line; the position of the code among the codes in it that
have the same name and first line; and the number of these."""

_MOST_TEXT, _MOST_FILES = 200 << 10, 200
_COMPREHENSION = re.compile(r"<(?:list|set|dict)comp>\.(?:<locals>\.)?")  # no functions from Python 3.12 on
_FEATURES = (getattr(__future__, name) for name in __future__.all_feature_names)
_FUTURE_FLAGS = reduce(or_, (feature.compiler_flag for feature in _FEATURES))
_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NO_SOURCE = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError)

_Statement = tuple[int, str, str]
"""The number of its first line, its text, and the imports of its file, which change how calls compile."""

_sources: dict[int, tuple[weakref.ref[CodeType], Source | None]] = {}
_statements: dict[str, tuple[Sequence[str], list[_Statement]]] = {}


def source_of(code: CodeType) -> Source | None:
    """Return the source of a code object, or None.

    Compiling it gives an equal object, and it holds no secret. The answer stays the same while the object
    lives, because a save compares records.
    """
    if id(code) not in _sources:
        remember(code, _find(code))
    return _sources[id(code)][1]


def remember(code: CodeType, source: Source | None) -> None:
    """Let `source_of` return this source."""
    number, forget = id(code), _sources.pop
    _sources[number] = weakref.ref(code, lambda _: forget(number, None)), source


def compiled(source: Source, filename: str, qualname: str, line: int, flags: int) -> CodeType | None:
    """Return the code that the source stands for, compiled by this Python, or None if it cannot be found."""
    text, first, position, count = source
    try:
        codes = _codes_at(text, first, filename, flags, qualname, line)
    except _NO_SOURCE:
        return None
    return codes[position] if len(codes) == count and 0 <= position < count else None


def _find(code: CodeType) -> Source | None:
    try:
        statements = _named_tuple(code) or _statements_of(code.co_filename)
        line = code.co_firstlineno
        first, text, imports = statements[bisect(statements, line, key=itemgetter(0)) - 1]
        codes = _codes_at(text + imports, first, code.co_filename, code.co_flags, code.co_qualname, line)
    except (*_NO_SOURCE, IndexError):
        return None
    # What typing puts into a protocol works with the typing of one version only.
    if code.co_filename == typing.__file__ or code not in codes or _has_secret(text):
        return None
    return text, first, codes.index(code), len(codes)


@lru_cache(maxsize=32)
def _has_secret(text: str) -> bool:
    return masked_text(text, is_code=True) != text


def _statements_of(filename: str) -> list[_Statement]:
    """Return the statements of a cell or a file, in order."""
    lines = linecache.getlines(filename)
    lines_then, statements = _statements.get(filename, (None, []))
    if lines_then is not lines:
        if len(_statements) == _MOST_FILES:
            _statements.clear()
        statements = [*_split(lines)]
        _statements[filename] = lines, statements
    return statements


def _named_tuple(code: CodeType) -> list[_Statement]:
    """Return the text from which Python may have made the constructor of a named tuple."""
    if code.co_filename != "<string>" or code.co_varnames[:1] != ("_cls",):
        return []
    fields = ", ".join(code.co_varnames[1:]) + "," * (len(code.co_varnames) == 2)
    return [(1, f"lambda _cls, {fields}: _tuple_new(_cls, ({fields}))", "")]


def _split(lines: Sequence[str]) -> Iterator[_Statement]:
    """Yield the statements of a file. Those that share a line are one."""
    text = "".join(lines)
    spans: list[tuple[int, int]] = []
    with warnings.catch_warnings(action="ignore"):  # they were shown when the cell ran
        body = ast.parse(text).body if len(text) <= _MOST_TEXT else []
    for node in body:
        first = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
        if spans and first <= spans[-1][1]:
            first, _ = spans.pop()
        spans.append((first, node.end_lineno or first))
    names = ", ".join(dict.fromkeys(_imported(body)))
    for first, last in spans:
        yield first, "".join(lines[first - 1 : last]), f"\nimport {names}" if names else ""


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that a module's statements import, outside of functions and classes."""
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
            yield from (name for name in names if name != "*")
        elif isinstance(node, _BLOCKS) and not isinstance(node, _SCOPES):
            yield from _imported(ast.iter_child_nodes(node))


def _codes_at(text: str, first: int, filename: str, flags: int, qualname: str, line: int) -> list[CodeType]:
    """Return the codes in a statement that have this name and begin in this line."""
    codes = _compiled(text, first, filename, flags & _FUTURE_FLAGS)
    return codes.get((_COMPREHENSION.sub("", qualname), line), [])


@lru_cache(maxsize=32)
def _compiled(text: str, first: int, filename: str, flags: int) -> dict[tuple[str, int], list[CodeType]]:
    """Return all codes in a statement by their names and lines.

    Raises:
        SyntaxError, ValueError, RecursionError: This Python cannot compile it.
    """
    if len(text) > _MOST_TEXT:
        raise ValueError("no statement of a cell")
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings(action="ignore"):
        whole = compile(text, filename, "exec", flags, dont_inherit=True)
    codes: dict[tuple[str, int], list[CodeType]] = {}
    for code in _inside(_moved(whole, first - 1)):
        name = _COMPREHENSION.sub("", code.co_qualname)
        codes.setdefault((name, code.co_firstlineno), []).append(code)
    return codes


def _moved(code: CodeType, lines: int) -> CodeType:
    """Return code that begins some lines later. The positions in it are relative to that."""
    parts = tuple(_moved(part, lines) if isinstance(part, CodeType) else part for part in code.co_consts)
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_consts=parts)


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)
