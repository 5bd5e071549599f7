"""Cells: `%%ckpt cell` makes its cell a plain one, which runs only if no result of it is kept.

The first line becomes a call, so that every line keeps its number. Before the cell is compiled, its
statements move into an `if` whose test is a call. So errors, `await`, `_` and `Out` are as in a plain cell.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from IPython.core.inputtransformer2 import cell_magic
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.display import display

from nbckpt.notebook.outputs import Recorder, recording, replay

if TYPE_CHECKING:
    from nbckpt.commands.caching import CellResult
    from nbckpt.commands.table import Session
    from nbckpt.provenance.opened import Opened
    from nbckpt.tracker import Tracker
    from nbckpt.tracker.cell_run import CellRun
    from nbckpt.tracker.cells import CellResults

_LINE = re.compile(r"%%ckpt[ \t]+(cell(?:[ \t].*)?)\n?")
_CALL = "get_ipython().run_cell_magic('ckpt', {line!r}, None)"
_MAGICS = "get_ipython().magics_manager.registry['CheckpointMagics']"


def as_plain_cell(lines: list[str]) -> list[str]:
    """Replace the line `%%ckpt cell` by a call. A magic in the next line keeps the rest of the cell."""
    match = _LINE.fullmatch(lines[0]) if lines else None
    if match is None:
        return lines
    return [_CALL.format(line=match[1].rstrip()) + "\n", *cell_magic(lines[1:])]


class RunOnce(ast.NodeTransformer):
    """An AST transformer that lets the statements below the call run only if the call returns True."""

    def visit(self, tree: ast.AST) -> ast.AST:
        """See `ast.NodeTransformer`."""
        if not (isinstance(tree, ast.Module) and tree.body and (line := _line_of(tree.body[0]))):
            return tree
        first, *body = tree.body
        source = ast.unparse(ast.Module(body, []))
        futures = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        body = [node for node in body if node not in futures]
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        test = _expression(f"{_MAGICS}.run_once({line!r}, {source!r})")
        tree.body = [*futures, ast.If(test, body or [ast.Pass()], [])]
        if isinstance(last, ast.Expr):
            shown = ast.IfExp(_expression(f"{_MAGICS}.cells.runs"), last.value, ast.Constant(None))
            tree.body.append(ast.copy_location(ast.Expr(ast.copy_location(shown, last)), last))
        ast.copy_location(tree.body[len(futures)], first)
        return ast.fix_missing_locations(tree)


def _line_of(node: ast.stmt) -> str:
    """Return the line of the magic in a call that `as_plain_cell` made; empty for any other statement."""
    call = node.value if isinstance(node, ast.Expr) else None
    arguments = call.args if isinstance(call, ast.Call) else []
    words = [word.value for word in arguments if isinstance(word, ast.Constant)]
    if len(words) == 3 and words[0] == "ckpt" and words[2] is None:
        return str(words[1])
    return ""


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class CellCache:
    """Runs cells of one shell that are kept.

    Args:
        shell: The shell.
        hidden: Returns the names that are not the user's variables.

    Attributes:
        runs: Whether the statements of the current cell run.
    """

    def __init__(self, shell: InteractiveShell, hidden: Callable[[], Container[str]]) -> None:
        self.runs = False
        self._hidden = hidden
        self._shell = shell
        self._results: dict[int, CellResults] = {}
        self._stack = ExitStack()
        self._current: tuple[Session, CellRun, Recorder, Opened] | None = None
        self._source = ""  # of the cell that runs; empty if it is not a kept one
        self._transformer = RunOnce()

    def register(self) -> None:
        """Take part in how the shell reads and ends its cells."""
        self._shell.input_transformers_cleanup.append(as_plain_cell)
        self._shell.ast_transformers.append(self._transformer)
        self._shell.events.register("post_run_cell", self._ended)

    def unregister(self) -> None:
        """Undo `register`."""
        self._stack.close()
        cleanups = self._shell.input_transformers_cleanup
        cleanups[:] = [transform for transform in cleanups if transform is not as_plain_cell]
        if self._transformer in self._shell.ast_transformers:
            self._shell.ast_transformers.remove(self._transformer)
        if self._ended in self._shell.events.callbacks["post_run_cell"]:
            self._shell.events.unregister("post_run_cell", self._ended)

    def results(self, tracker: Tracker) -> CellResults:
        """Return the kept results in the store of a tracker."""
        from nbckpt.tracker.cells import CellResults

        if id(tracker) not in self._results:
            self._results[id(tracker)] = CellResults(tracker)
        return self._results[id(tracker)]

    def begin(self, session: Session, result: CellResult) -> bool:
        """Show a restored result, and return False; or return True: the cell runs."""
        from nbckpt.provenance.opened import opened_files

        self._stack.close()
        self._current = None
        running = self._shell.displayhook.exec_result
        self._source = running.info.raw_cell if running else ""
        self.runs = result.kept is None
        if result.kept is not None:
            replay(self._shell, result.outputs, result.shown)
        elif result.run is not None:
            opened = self._stack.enter_context(opened_files())
            recorder = self._stack.enter_context(recording(self._shell))
            self._current = session, result.run, recorder, opened
        return self.runs

    def _ended(self, result: ExecutionResult | None = None) -> None:
        """Keep the result of a cell that ended without an error; not of a cell in it, as `%%capture` runs."""
        info = result.info if result is not None else None
        if info is not None and self._source not in {"", info.raw_cell}:
            return
        self.runs, self._source = False, ""
        current, self._current = self._current, None
        self._stack.close()
        if current is None or result is None or not result.success:
            return
        from nbckpt.commands.caching import keep
        from nbckpt.provenance.opened import existing
        from nbckpt.tracker.cell_run import CellEnd

        session, run, recorder, opened = current
        files = existing(opened.paths, session.tracker.store.url)
        lost = list(dict.fromkeys(recorder.lost))
        display(keep(run, CellEnd(recorder.outputs, result.result, files, lost, self._hidden())))
        session.auto.saved()


def run_again(shell: InteractiveShell, source: str) -> str:
    """Run the source of a cell inside another cell. Return its error as text; empty if there is none."""
    hook: Any = shell.displayhook
    outer = hook.exec_result
    result = shell.run_cell(source, store_history=False)
    hook.exec_result = outer
    error = result.error_before_exec or result.error_in_exec
    return "" if result.success else f"{type(error).__name__}: {error}".removesuffix(": ")
