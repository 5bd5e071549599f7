"""Maker: the code that made a state. It tells a cell that runs again from other code."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

_PACKAGE = __name__.partition(".")[0]
_PROMPTS = ("<stdin", "<python-input", "<pyshell")
"""Prefixes of the file names of prompt input: Python's, Python's since 3.13, and IDLE's."""


@dataclass(frozen=True)
class Maker:
    """The code that made a state.

    Attributes:
        where: The file and line, or the cell, as shown to people.
        text: The line of code.
        run: Identifies the run of notebook code; None for other code.
        cell: The id of the notebook's cell, if the front end sends it.
    """

    where: str
    text: str = ""
    run: object = None
    cell: str = ""

    def is_again(self, earlier: Maker) -> bool:
        """Tell whether this is the notebook code of *earlier*, run again and perhaps edited."""
        if self.run is None or earlier.run is None or self.run == earlier.run:
            return False
        # see docs/decisions/0024
        if self.cell and earlier.cell:
            return self.cell == earlier.cell
        return self.text == earlier.text


def maker_of(state: object) -> Maker:
    """Return the maker of *state*: the code that calls its class or `State.of`."""
    frame = _calling_frame(state)
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).strip()
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    notebook = _notebook_frame(frame)
    if notebook is None:
        return Maker(where, text)
    shell = _shell(notebook)
    if shell is None:  # a plain prompt compiles each input separately
        while (outer := _notebook_frame(notebook.f_back)) is not None:
            notebook = outer
        return Maker(f"the line `{text}`" if text else where, text, notebook.f_code)
    # The history knows which cell runs; in some versions execution_count is already that of the next cell.
    history = shell.history_manager
    number = len(history.input_hist_raw) - 1 if history else shell.execution_count
    cell = f"cell [{number}], `{text}`" if notebook is frame else f"{where}, called by cell [{number}]"
    return Maker(cell, text, shell.execution_count, _cell_id(shell))


def in_notebook() -> bool:
    """Tell whether the caller runs in a notebook's cell or at a prompt."""
    return _notebook_frame(sys._getframe(1)) is not None


def _calling_frame(state: object) -> FrameType:
    """Return the frame that calls the class, outside the constructors of the class."""
    # Compare code objects: reading a frame's variables would keep them alive while the frame runs.
    attributes = [attribute for cls in type(state).__mro__ for attribute in vars(cls).values()]
    own = {getattr(attribute, "__code__", None) for attribute in attributes}
    frame = sys._getframe(1)
    while frame.f_back is not None and (_is_ours(frame) or frame.f_code in own):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(f"{_PACKAGE}.")


def _notebook_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of notebook or prompt code that *frame* was called from, or None."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "__main__":
            # Do not test sys.ps1: IPython sets it in every program that uses IPython.
            at_prompt = frame.f_code.co_filename.startswith(_PROMPTS)
            if at_prompt or "get_ipython" in frame.f_globals:
                return frame
        frame = frame.f_back
    return None


def _shell(frame: FrameType) -> Any:
    """Return the IPython shell that runs a frame, or None. Does not import IPython."""
    get = frame.f_globals.get("get_ipython")
    return get() if callable(get) else None


def _cell_id(shell: Any) -> str:
    """Return the id of the running cell, which JupyterLab and VS Code send with the code; else ""."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return str((parent or {}).get("metadata", {}).get("cellId", ""))
