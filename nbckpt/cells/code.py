"""Code: the names that compiled code uses. Nothing is run, and no variable is looked at."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from weakref import WeakKeyDictionary

from nbckpt.cells.lookups import Lookup, lookups, names_in

_NAMED = frozenset(dis.hasname)
_BINDS = frozenset({"STORE_GLOBAL", "STORE_NAME", "DELETE_GLOBAL", "DELETE_NAME"})


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Uses:
    """The names that code uses, with the functions, classes and comprehensions in it.

    Attributes:
        reads: Variables that it reads, and names after @ in its texts, as in `df.query("x > @low")`.
        binds: Variables that it binds or deletes.
        deletes: Variables that it deletes.
        attributes: Attributes, and names that it imports from modules.
        imports: Modules that it imports.
        star: Whether it imports every name of a module.
        own_reads: The variables that the code itself reads, without the code inside it.
        lookups: Calls of libraries that may find variables by names in a text.
    """

    reads: frozenset[str]
    binds: frozenset[str]
    deletes: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[str]
    star: bool
    own_reads: frozenset[str]
    lookups: frozenset[Lookup]


_known: WeakKeyDictionary[CodeType, Uses] = WeakKeyDictionary()


def uses(code: CodeType, *, inside: bool = False) -> Uses:
    """Return the names that *code* uses. The answer is kept as long as the code exists.

    Args:
        code: The code of a cell or of a function.
        inside: Whether other code contains it. Then it binds no variables, except those declared global.
    """
    known = _known.get(code)
    if known is None:
        known = _known[code] = _scan(code, inside=inside)
    return known


def _scan(code: CodeType, *, inside: bool) -> Uses:
    is_class = inside and not code.co_flags & inspect.CO_OPTIMIZED
    reads: set[str] = set()
    binds: set[str] = set()
    deletes: set[str] = set()
    attributes: set[str] = set()
    imports: set[str] = set()
    steps = list(dis.get_instructions(code))
    for operation, name in _names(steps):
        if operation == "IMPORT_NAME":
            imports.add(name)
        elif operation in _BINDS:
            if operation.endswith("GLOBAL") or not is_class:
                (deletes if operation.startswith("DELETE") else binds).add(name)
        elif operation in {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}:
            reads.add(name)
        else:
            attributes.add(name)
    inner = [uses(constant, inside=True) for constant in code.co_consts if isinstance(constant, CodeType)]
    texts = [text for constant in code.co_consts for text in _texts(constant)]
    return Uses(
        frozenset(reads).union(names_in(texts), *(part.reads for part in inner)),
        frozenset(binds | deletes).union(*(part.binds for part in inner)),
        frozenset(deletes).union(*(part.deletes for part in inner)),
        frozenset(attributes).union(*(part.attributes for part in inner)),
        frozenset(imports).union(*(part.imports for part in inner)),
        ("*",) in code.co_consts or any(part.star for part in inner),
        frozenset(reads),
        frozenset(lookups(steps)).union(*(part.lookups for part in inner)),
    )


def _names(steps: Iterable[dis.Instruction]) -> Iterator[tuple[str, str]]:
    for step in steps:
        if step.opcode in _NAMED:
            yield step.opname, str(step.argval)


def _texts(constant: object) -> Iterator[str]:
    """Yield the texts with @ in a constant, which may be a tuple of constants."""
    if isinstance(constant, str) and "@" in constant:
        yield constant
    elif isinstance(constant, tuple):
        for part in constant:
            yield from _texts(part)
