"""Commands for the programs of powercut.py: after each one, what a power cut would lose is noted."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

from attack.powercut import Disk
from nbckpt.cells.analysis import Touched
from nbckpt.cells.key import CellCode
from nbckpt.commands import TABLE, Session, parse
from nbckpt.commands.caching import keep
from nbckpt.commands.table import Body
from nbckpt.core import gc
from nbckpt.mirror import AutoMirror
from nbckpt.timeline.auto import Auto
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
from nbckpt.tracker.cell_run import CellEnd
from nbckpt.tracker.cells import CellResults


class Asking:
    """A notebook with a store. Nothing is synced or pushed in the background.

    Args:
        folder: The folder of the store.
        disk: It notes what a power cut would lose.

    Attributes:
        names: The variables.
    """

    def __init__(self, folder: Path, disk: Disk) -> None:
        gc.GRACE_S = 0.0
        self.folder, self.disk = folder, disk
        self.names: dict[str, Any] = {}
        self.tracker = Tracker(folder)
        self._mirror = AutoMirror(self.tracker.store, in_background=False)
        self.points = Auto(Timeline(self.tracker, self.names, frozenset))

    def start(self, line: str, code: str = "") -> Any:
        """Run the line of a command, with the code of a cell below it. Return the result."""
        body = Body(CellCode(code, str), CellResults)
        session = Session(
            self.tracker, self._mirror, self.names, table=TABLE, points=self.points, body=body,
            panel=lambda _: None, insert=lambda _: None,
        )  # fmt: skip
        return parse(TABLE, line.split(), "%ckpt").run(session)

    def __call__(self, line: str, code: str = "") -> Any:
        """Run the line of a command, and note what a power cut would lose now."""
        result = self.start(line, code)
        self.disk.look()
        return result

    def noise(self, size: int, seed: int = 0) -> bytearray:
        """Return bytes that cannot be compressed, so that they are written to a pack."""
        return bytearray(random.Random(seed).randbytes(size))

    def read(self, line: str) -> None:
        """Run the line of a command that writes nothing."""
        before = self.disk.changes
        self.start(line)
        assert self.disk.changes == before, f"{line!r} writes"

    def cell(self, line: str, code: str) -> None:
        """Run a cell whose result is kept."""
        run = self(line, code).run
        exec(code, self.names)
        self.names.pop("__builtins__")
        assert not keep(run, CellEnd([], None, [], [], frozenset())).problem
        self.disk.look()

    def point(self, **values: Any) -> None:
        """Run a cell that binds variables, and wait for its point and for the removal of old ones."""
        self.names |= values
        self.points.after_cell(1.0, Touched(frozenset(values)), {})
        self.points.settle()
        for thread in threading.enumerate():
            if thread.name == "nbckpt-point":
                thread.join()
        assert not self.points.trouble()
        self.disk.look()

    def spoil(self) -> None:
        """Damage each pack of the store, durably. A new notebook comes to the store."""
        for pack in self.folder.glob("packs/**/*.pack"):
            with pack.open("r+b") as file:
                file.seek(pack.stat().st_size // 2)
                file.write(b"damage")
                file.flush()
                os.fsync(file.fileno())
        self.tracker = Tracker(self.folder)
