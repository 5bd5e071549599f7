"""Tricks: how code can find variables without naming them, so that it can touch every one."""

from __future__ import annotations

import builtins
import re
from collections.abc import Container
from types import FunctionType
from typing import Any

from nbckpt.cells.code import Uses, words_of

_NAMES = frozenset({"globals", "exec", "eval", "compile", "__import__", "breakpoint", "get_ipython"})
_AT_TOP = frozenset({"locals", "vars"})
"""Builtins that show a function only its own variables, but show a cell all."""

OBJECTS = frozenset(id(getattr(builtins, name)) for name in (_NAMES | _AT_TOP) - {"get_ipython"})
"""The ids of these builtins."""

MODULES = words_of("__main__ builtins ctypes code pdb runpy cProfile profile doctest")
_ATTRIBUTES = words_of(
    """
    __globals__ __builtins__ f_globals f_locals f_back f_builtins tb_frame gi_frame cr_frame ag_frame
    user_ns user_global_ns user_module _getframe _getframemodulename _current_frames currentframe
    getouterframes getinnerframes get_objects get_referrers get_referents run_cell run_line_magic
    run_cell_magic ex ev
    """
)
_OF_MODULES = frozenset(
    {
        *(("sys", "modules"), ("inspect", "stack"), ("inspect", "trace"), ("importlib", "import_module")),
        *(("numexpr", "evaluate"), ("numexpr", "re_evaluate"), ("trace", "Trace")),
        *(("timeit", "timeit"), ("timeit", "repeat"), ("timeit", "Timer")),
        *(("unittest", "main"), ("unittest", "TestProgram")),
        *(("unittest", "loadTestsFromName"), ("unittest", "loadTestsFromNames")),
    }
)
_HOMES = words_of(
    """
    cProfile doctest importlib.import_module numexpr.necompiler pandas.core.computation.eval profile timeit
    trace unittest.main
    """
)
"""Functions, and modules of functions, that find variables in `__main__` or in the frame of their caller."""
_RESULTS = re.compile(r"_{1,3}|_\d+|_oh|Out")
"""IPython's names for the results of earlier cells."""


def in_code(used: Uses, variables: Container[str], *, is_cell: bool) -> str | None:
    """Return why code can touch every variable, judged by the names in it."""
    builtin = used.reads & _NAMES | (used.own_reads & _AT_TOP if is_cell else frozenset())
    # If a variable of the user's has the name of a builtin, its value is looked at instead.
    tricks = {name for name in builtin if name == "get_ipython" or name not in variables}
    tricks |= used.attributes & _ATTRIBUTES
    tricks |= {module for module in used.imports if module.partition(".")[0] in MODULES}
    tricks |= {name for module, name in _OF_MODULES if module in used.imports and name in used.attributes}
    tricks |= {name for name in used.reads if _RESULTS.fullmatch(name) and name in variables}
    if used.star:
        tricks.add("import *")
    return f"it uses {min(tricks)}" if tricks else None


def in_value(value: Any) -> str | None:
    """Return why code with this value can touch every variable: it finds variables by their names."""
    kind: Any = value if isinstance(value, (FunctionType, type)) else type(value)
    home = value.__globals__.get("__name__") if isinstance(value, FunctionType) else kind.__module__
    return f"it uses {kind.__qualname__}" if _HOMES & {home, f"{home}.{kind.__qualname__}"} else None


def in_modules(modules: Container[str], attributes: Container[str]) -> str | None:
    """Return why code that reaches these modules and names these attributes can touch every variable."""
    tricks = [pair for pair in _OF_MODULES if pair[0] in modules and pair[1] in attributes]
    return f"it uses {'.'.join(min(tricks))}" if tricks else None
