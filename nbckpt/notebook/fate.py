"""Fate: whether the value that a magic returns is shown by the cell, kept by the caller, or dropped."""

from __future__ import annotations

import dis
import inspect
from types import FrameType
from typing import Literal

Fate = Literal["shown", "kept", "dropped"]

_MAGIC = {"run_line_magic", "run_cell_magic"}
_PRINTED = {"PRINT_EXPR", "CALL_INTRINSIC_1"}  # in Python 3.11 and in later versions


def fate() -> Fate:
    """Return the fate of the value that the running magic returns.

    IPython shows only the value of a cell's last line; other lines drop their values. The next bytecode
    instruction of the caller shows the fate. This works in a cell, a loop, a function and a module.
    See docs/decisions/0049.
    """
    caller = _caller(inspect.currentframe())
    if caller is None:
        return "kept"
    later = (
        instruction.opname
        for instruction in dis.get_instructions(caller.f_code)
        if instruction.offset > caller.f_lasti
    )
    following = next(later, "")
    if following == "POP_TOP":
        return "dropped"
    return "shown" if following in _PRINTED else "kept"


def _caller(frame: FrameType | None) -> FrameType | None:
    """Return the frame that called a magic; None if no magic runs."""
    while frame is not None and frame.f_code.co_name not in _MAGIC:
        frame = frame.f_back
    return None if frame is None else frame.f_back
