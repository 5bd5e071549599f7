"""%ckpt and %%ckpt: the commands as IPython magics."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython import get_ipython
from IPython.core.error import UsageError as ShellUsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import display

from nbckpt.commands import TABLE, HelpRequest, Session, parse
from nbckpt.errors import NbckptError, UsageError, visible
from nbckpt.notebook import completer
from nbckpt.notebook.cells import CellCache, run_again
from nbckpt.notebook.fate import fate
from nbckpt.notebook.figures import let_figures_show
from nbckpt.notebook.live import Live
from nbckpt.notebook.names import hidden_names, history_names, running_cell
from nbckpt.notebook.panel_choice import LiveTables, ShownPanel, make_panel
from nbckpt.notebook.points import CellWatch, show_last_state, tell_off
from nbckpt.notebook.progress import DELAY_S, ProgressLine
from nbckpt.notebook.stores import OpenStores
from nbckpt.notebook.tokenize import split
from nbckpt.render import Result

if TYPE_CHECKING:
    from nbckpt.tracker import Tracker


@magics_class
class CheckpointMagics(Magics):
    """The magic `%ckpt` of one shell.

    Attributes:
        tracker: The tracker for the notebook's folder; it is opened on first use.
        live: Shows experiments while they run.
        panel: The panel that is open; None before the first one.
        cells: Runs cells whose results are kept.
        stores: The stores that commands have opened.
        progress_delay: Seconds before a command shows its progress.
    """

    shell: InteractiveShell
    progress_delay: float = DELAY_S

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.live = Live(shell, LiveTables(self.session, self._is_busy, lambda: self._is_running))
        self.cells = CellCache(shell, lambda: hidden_names(shell))
        self.panel: ShownPanel | None = None
        self._is_running = self._has_asked = False
        self.stores = OpenStores(shell)
        self._cells = CellWatch(shell, lambda: self.stores.points.get(None), self._where)

    @no_var_expand
    @line_cell_magic
    def ckpt(self, line: str, cell: str | None = None) -> Result | None:
        """Save, browse and restore this notebook's variables; `%ckpt help` lists the commands."""
        line = line.rstrip()
        quiet = line.endswith(";")
        try:
            with _one_line_errors():
                result, progress = self._answer(line.rstrip(";"), cell)
        except HelpRequest as request:
            from nbckpt.commands.about import Help

            result, progress = Help("%ckpt", usage=request.text), ProgressLine()
        return self._show_once(result, progress, quiet=quiet)

    def run_once(self, line: str, source: str) -> bool:
        """Tell whether the cell below `%%ckpt cell` runs. If its result is kept, restore and show that."""
        from nbckpt.cells.key import CellCode
        from nbckpt.commands.caching import CellResult
        from nbckpt.commands.table import Body

        body = Body(CellCode(source, self.shell.transform_cell), self.cells.results)
        try:
            with _one_line_errors():
                request = parse(TABLE, split(line), "%ckpt")
                with ProgressLine(delay=self.progress_delay) as progress:
                    session = replace(self.session(request.store, progress), body=body)
                    result = request.run(session)
                    let_figures_show()
        except HelpRequest as asked:
            from nbckpt.commands.about import Help

            display(Help("%ckpt", usage=asked.text))
            return False
        assert result is not None
        restored = getattr(result, "result", result)
        runs = isinstance(restored, CellResult) and restored.kept is None  # not a schema
        if runs and not result.warns:
            progress.end()
        elif not progress.become(result):
            display(result)
        return isinstance(restored, CellResult) and self.cells.begin(session, restored)

    def _answer(self, line: str, cell: str | None) -> tuple[Result | None, ProgressLine]:
        """Run the cell below `%%ckpt`, if any, and the command. The result is None if it is already shown."""
        request = parse(TABLE, split(line), "%ckpt")
        verb = request.command.name
        if verb == "cell" and not request.form:
            raise UsageError("write %%ckpt cell in the first line of its cell")
        if cell is not None and verb not in {"save", "track"}:
            raise UsageError(f"%%ckpt works only with save and track. Use %ckpt {verb}.")
        if cell is not None and verb == "save":
            self._run(cell)
        self._cells.settle()
        with ProgressLine(delay=self.progress_delay) as progress:
            session = self.session(request.store, progress, cell)
            result = request.run(session)
            let_figures_show()
        if cell is not None and verb == "track":
            from nbckpt.trials.engine.open_trial import OpenTrial

            with result if isinstance(result, OpenTrial) else nullcontext():
                self._run(cell)
        if (panel := self.panel) is not None:
            panel.refresh()
        if trouble := session.auto.trouble():
            print(f"nbckpt: {visible(trouble)}", file=sys.stderr)  # noqa: T201
        return result, progress

    def _show_once(self, result: Result | None, progress: ProgressLine, *, quiet: bool) -> Result | None:
        """Show a result if the cell would not show it, and return it for the caller.

        A semicolon silences a result, except a result with warnings.
        """
        ours, hook = fate(), self.shell.displayhook
        silenced = ours == "shown" and hook.quiet()  # by a semicolon after the call
        if result is None or ours == "kept" or not (result.warns or not (quiet or silenced)):
            progress.end()
            return None if quiet and ours == "shown" else result
        is_shown = progress.become(result)
        if ours == "shown" and not silenced:
            if not is_shown:
                return result
            hook.update_user_ns(result)
            hook.fill_exec_result(result)
            return None  # it has replaced the progress already
        if not is_shown:
            display(result)
        return result

    @property
    def tracker(self) -> Tracker:
        """The tracker of the notebook's own store."""
        return self.stores.open(None)[0]

    def session(self, store: str | None = None, progress: Any = None, cell: str | None = None) -> Session:
        """Return the session for commands in this shell."""
        namespace = self.shell.user_ns
        url = store and _expanded(store, namespace)
        tracker, auto = self.stores.open(url)
        return Session(
            tracker,
            auto,
            namespace,
            hidden=hidden_names(self.shell),
            history=history_names(self.shell),
            where=self._where(cell),
            progress=progress,
            table=TABLE,
            insert=lambda text: self.shell.set_next_input(text),
            watch=self.live.show,
            run_cell=lambda source: run_again(self.shell, source),
            panel=lambda tab: self.show_panel(tab, url),
            points=self.stores.points_of(url),
        )

    def _where(self, cell: str | None = None) -> dict[str, Any]:
        return {"cell": running_cell(self.shell, cell)}

    def show_panel(self, tab: str = "", store: str | None = None) -> None:
        """Show a static copy as HTML, which lasts, and the panel below it. A shell has one panel at a time.

        Args:
            tab: The tab in front; by default trials, if there are some.
            store: The store, by default the notebook's.

        Raises:
            UsageError: There is no such tab.
            NotFoundError: ipywidgets is not installed, and there is no experiment to show without it.
        """
        try:
            panel = make_panel(
                lambda: self.session(store), self._is_busy, lambda: self._is_running, tab, self.panel
            )
        except ImportError as error:
            print(f"nbckpt: the panel needs ipywidgets: pip install ipywidgets ({error})", file=sys.stderr)  # noqa: T201
            self._show_static(tab, store)
            return
        panel.show()
        self._close_panel()
        self.panel = panel

    def _show_static(self, tab: str, store: str | None) -> None:
        static = {"checkpoints": "ls", "trials": "trials", "sync": "sync --status"}
        tab = tab or "checkpoints"
        if tab not in static:
            raise UsageError(f"there is no tab {tab!r}: there are {', '.join(static)}")
        display(parse(TABLE, static[tab].split(), "%ckpt").run(self.session(store)))

    def _is_busy(self) -> bool:
        """Tell whether a cell runs in another thread than the caller."""
        return self._is_running and threading.current_thread() is not threading.main_thread()

    def register(self) -> None:
        """Register for the events of cells, so that the panel updates after each cell."""
        self.live.register()
        self.cells.register()
        self.shell.events.register("pre_run_cell", self._begun)
        self.shell.events.register("post_run_cell", self._ended)

    def _begun(self, info: object = None) -> None:
        self._is_running = True
        self._cells.begun(info)
        _ask_git()

    def _ended(self, result: object = None) -> None:
        self._cells.ended(result)
        self._is_running = False
        if not self._has_asked:
            self._has_asked = True
            _ask_git()  # after the cell that loaded the extension, because the imports take time
        if (panel := self.panel) is not None:
            panel.look_again()

    def _close_panel(self) -> None:
        if self.panel is not None:
            self.panel.close()
            self.panel = None

    def close(self) -> None:
        """Unregister from the shell, and close the panel and every store."""
        self._close_panel()
        self.live.unregister()
        self.cells.unregister()
        for event, callback in (("pre_run_cell", self._begun), ("post_run_cell", self._ended)):
            if callback in self.shell.events.callbacks[event]:
                self.shell.events.unregister(event, callback)
        tell_off(self.stores.points.get(None))
        self.stores.close()

    def _run(self, cell: str) -> None:
        """Run a cell's body like a cell: show its last expression, and raise its exceptions unchanged."""
        code = self.shell.transform_cell(cell)
        name = self.shell.compile.cache(code, self.shell.execution_count, raw_code=cell)
        try:
            tree = ast.parse(code, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            body = compile(tree, name, "exec")
            value = compile(ast.Expression(last.value), name, "eval") if isinstance(last, ast.Expr) else None
        except SyntaxError as error:
            if "await" in str(error) or "async" in str(error):
                raise UsageError(
                    "%%ckpt cannot run a cell with await in it: put %ckpt save below the cell"
                ) from None
            raise
        exec(body, self.shell.user_ns)  # a magic must run the user's cell
        shown = eval(value, self.shell.user_ns) if value else None
        if shown is not None and not cell.rstrip().endswith(";"):
            display(shown)


def panel(tab: str = "") -> None:
    """Show the panel below this cell, like `%ckpt panel`.

    Args:
        tab: The tab in front: `trials`, `checkpoints`, `history` or `sync`; by default trials, if any.

    Raises:
        UsageError: There is no such tab, or this is not a notebook.
        NotFoundError: ipywidgets is not installed, and there is no experiment to show without it.
    """
    shell = get_ipython()
    if shell is None:
        raise UsageError("the panel needs a notebook")
    if CheckpointMagics.__name__ not in shell.magics_manager.registry:
        load(shell)
    shell.magics_manager.registry[CheckpointMagics.__name__].show_panel(tab)


def load(shell: InteractiveShell) -> None:
    """Register the magic and its completion. Loading again resets both, and turns auto off."""
    unload(shell)
    magics = CheckpointMagics(shell)
    shell.register_magics(magics)
    magics.register()
    completer.register(shell, magics.session)
    show_last_state(shell, lambda: magics.tracker)


def unload(shell: InteractiveShell) -> None:
    """Unregister the magic and its completion."""
    magics = shell.magics_manager.registry.pop(CheckpointMagics.__name__, None)
    if isinstance(magics, CheckpointMagics):
        magics.close()
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("ckpt", None)
    completer.unregister(shell)


def _ask_git() -> None:
    """Ask git in the background, so that a save of this cell or the next one does not wait for it."""
    from nbckpt.provenance.background import expect

    expect()


def _expanded(url: str, namespace: dict[str, Any]) -> str:
    from nbckpt.commands.pushing import expanded

    return expanded(url, namespace)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Show nbckpt's errors like IPython's usage errors: one line, without a traceback."""
    try:
        yield
    except NbckptError as error:
        raise ShellUsageError(str(error)) from None
