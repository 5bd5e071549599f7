"""Points: tells `%ckpt auto` of each cell, when it begins and when it has ended."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from nbckpt.errors import NbckptError, visible
from nbckpt.settings import Settings

if TYPE_CHECKING:
    from nbckpt.cells.analysis import Compiled, Touched
    from nbckpt.core.manifest import Manifest
    from nbckpt.timeline.auto import Auto
    from nbckpt.tracker import Tracker


_COMMAND = re.compile(r"\s*%ckpt [^\n]*\s*")
"""A cell that is one command."""
_MOST_READ = 50
"""How many of the newest points are read to find one of this notebook."""


class CellWatch:
    """Watches the cells of a shell while `%ckpt auto` is on.

    Args:
        shell: The shell.
        points: Returns what makes the points; None if nothing asked for points yet.
        origin: Returns the cell and the notebook.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        points: Callable[[], Auto | None],
        origin: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._shell, self._points, self._origin = shell, points, origin
        self._depth = 0
        self._outermost: Any = None
        self._began = 0.0
        self._cell: Compiled | None = None
        self._before: Touched | None = None
        self._is_command = False

    def begun(self, info: Any = None) -> None:
        """Note what the code of a cell that is about to run can touch."""
        self._depth = 1 if self._is_over() else self._depth + 1
        if self._depth > 1:
            return  # a cell that another cell runs
        self._outermost, self._cell, self._before = info, None, None
        self._is_command = _COMMAND.fullmatch(info.raw_cell) is not None
        points = self._points()
        if points is not None and points.limits is not None:
            began = time.perf_counter()
            self._before = self._touched()
            try:
                self._cell = self._compiled(info)
                self._before = self._touched()
            finally:  # also after an interrupt, because IPython runs the cell then
                points.before_cell(self._before, time.perf_counter() - began)
            _say_trouble(points)
        self._began = time.perf_counter()

    def ended(self, result: Any = None) -> None:
        """Make a point after a cell, also after one that failed."""
        if result is not None and not result.info.raw_cell.strip():
            return  # IPython does not tell when an empty cell begins
        self._depth = max(0, self._depth - 1)
        points, before = self._points(), self._before
        if self._depth or points is None or points.limits is None:
            return
        if before is None and self._is_command:
            return  # it turned the points on
        now = time.perf_counter()
        seconds = now - self._began
        try:
            touched = self._touched()
            touched = touched if before is None else before | touched
            outcome = self._outcome(seconds, result)
            looked_s = time.perf_counter() - now
            points.after_cell(seconds, touched, outcome, is_command=self._is_command, looked_s=looked_s)
            _say_trouble(points)
        except (NbckptError, OSError) as error:
            _say(f"there is no point of this cell, and the next one takes its changes too: {error}")
        except KeyboardInterrupt:
            _say("there is no point of this cell, because it was interrupted; the next one takes its changes")
        else:
            if news := points.news():
                _say(news)

    def _is_over(self) -> bool:
        """Tell whether the outermost cell has ended. An interrupt can keep IPython from telling `ended`."""
        last = self._shell.last_execution_result
        return last is not None and last.info is self._outermost

    def _outcome(self, seconds: float, result: Any) -> Mapping[str, Any]:
        """Return the cell and the notebook, with the run time and the name of the exception, if it failed."""
        origin = self._origin()
        error = result and (result.error_before_exec or result.error_in_exec)
        outcome = {"seconds": round(seconds, 3), **({"error": type(error).__name__} if error else {})}
        return {**origin, "cell": {**origin.get("cell", {}), **outcome}}

    def settle(self) -> None:
        """Wait until the point in the background is there, so that a command sees it."""
        points = self._points()
        if points is not None:
            points.wait()
            _say_trouble(points)

    def _compiled(self, info: Any) -> Compiled:
        from nbckpt.cells.analysis import compiled

        transform = self._shell.transform_cell
        source = getattr(info, "transformed_cell", None)  # since IPython 9.4
        return compiled(transform(info.raw_cell) if source is None else source, transform)

    def _touched(self) -> Touched:
        from nbckpt.cells.analysis import UNKNOWN, reached

        return UNKNOWN if self._cell is None else reached(self._cell, self._shell.user_ns)


def show_last_state(shell: InteractiveShell, tracker: Callable[[], Tracker]) -> None:
    """Print a line about the last point of this notebook, if no variable is bound yet."""
    bound = {name for name in shell.user_ns if not str(name).startswith("_")} - shell.user_ns_hidden.keys()
    if not bound and Path(Settings.load().store, "points").is_dir():
        with suppress(NbckptError, OSError):  # loading must not fail; `%ckpt ls` tells what is wrong
            if line := last_state(tracker()):
                print(line)  # noqa: T201


def last_state(tracker: Tracker) -> str:
    """Return a line about the newest state of this notebook, or "" if no point of it was made lately.

    This is the newest point, or a save after it that holds as many variables. The line names its id:
    `%ckpt auto on` makes a newer point, of an empty namespace.
    """
    from nbckpt.core.references import SHORT
    from nbckpt.render import count

    newest = tracker.history.living(("checkpoints", "points"))[:_MOST_READ]
    saved: Manifest | None = None
    for entry in newest:
        manifest = tracker.history.read(entry)
        if not _is_state(manifest, tracker):
            continue
        if entry.kind != "points":
            saved = saved or manifest
            continue
        state = saved if saved and len(_names(saved)) >= len(_names(manifest)) else manifest
        made = datetime.fromisoformat(state.created_at).astimezone()
        is_today = made.date() == datetime.now().astimezone().date()
        when = made.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M")
        return f"State of {when}, {count(len(_names(state)), 'variable')}: %ckpt restore {state.id[:SHORT]}"
    return ""


def _is_state(manifest: Manifest, tracker: Tracker) -> bool:
    """Tell whether a checkpoint holds variables of this notebook, and is trusted."""
    is_ours = manifest.provenance.get("notebook", "") == (tracker.settings.notebook or "")
    return bool(_names(manifest)) and is_ours and tracker.history.trusted(manifest)


def _names(manifest: Manifest) -> list[str]:
    return [value.name for value in manifest.values if value.name.isidentifier()]


def tell_off(points: Auto | None) -> None:
    """Say that points are made no more, if they were made until now."""
    if points is not None and points.limits is not None:
        _say("auto is off, because the extension was unloaded. Once it is loaded again: %ckpt auto on")


def _say_trouble(points: Auto) -> None:
    if trouble := points.trouble():
        _say(f"there is no point of the cell before, and the next one takes its changes too: {trouble}")


def _say(text: str) -> None:
    print(f"nbckpt: {visible(text)}", file=sys.stderr)  # noqa: T201
