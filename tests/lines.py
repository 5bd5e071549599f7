"""Lines: act when the code of some modules comes to one of its lines, wherever a signal could come."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any


class Line:
    """Acts before one line of some modules, in this thread; a trace function.

    Args:
        at: The number of the line among those that the code comes to, from 1.
        act: What to do there.
        modules: The modules.

    Attributes:
        where: The function and its line; empty if the code did not come so far.
    """

    def __init__(self, at: int, act: Callable[[], object], *modules: ModuleType) -> None:
        self.where = ""
        self._left, self._act = at, act
        self._files = {module.__file__ for module in modules}

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        """Count, and act when it is time."""
        code = frame.f_code
        if code.co_filename not in self._files or code.co_name.startswith("<"):  # some count earlier cells
            return None
        if event == "call" or (event == "line" and not _is_with(code.co_filename, frame.f_lineno)):
            self._left -= 1
            if self._left == 0:
                self.where = f"{code.co_name}, line {frame.f_lineno}"
                self._act()
        return self


@contextmanager
def at_line(at: int, act: Callable[[], object], *modules: ModuleType) -> Iterator[Line]:
    """Act before a line that the block comes to."""
    former, line = sys.gettrace(), Line(at, act, *modules)
    sys.settrace(line)
    try:
        yield line
    finally:
        sys.settrace(former)


def _is_with(file: str, line: int) -> bool:
    """Tell whether a line is a `with`. Python looks for no signal between its block and its end."""
    return linecache.getline(file, line).lstrip().startswith("with ")
