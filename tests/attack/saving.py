"""One kernel that saves again and again, and counts what each save asked of the system and left in memory.

    python -m attack.saving FOLDER SAVES

The namespace changes before each save: values, arrays in place, functions and classes that are defined again,
names that come and go. Each line printed is what one save did, as JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from nbckpt.commands import TABLE, Session, parse
from nbckpt.mirror import AutoMirror
from nbckpt.tracker import Tracker

CELL = """
from dataclasses import dataclass

@dataclass
class Point:
    x: int = {count}
    def far(self): return self.x + total

def total_of(values, start={count}):
    return sum(values, start)

total = {count}
points = [Point(at) for at in range(3)]
recent.append({count})
del recent[:-20]
weights[{count} % len(weights)] = {count}
frame.loc[{count} % len(frame), "x"] = {count}
"""
EVENTS = ("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove", "os.link", "os.chmod")


class Events:
    """Counts what Python asks of the system, from one call of `taken` to the next."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._io: Counter[str] = Counter()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        del arguments
        if event in EVENTS:
            self._counts[event] += 1

    def taken(self) -> dict[str, int]:
        """Return the counts since the last call, the reads and writes of the whole process among them."""
        lines = (line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        io = Counter({name: int(number) for name, number in lines if name in {"syscr", "rchar", "syscw"}})
        counts = dict(self._counts) | dict(io - self._io)
        self._counts, self._io = Counter(), io
        return counts


class Calls:
    """Counts the functions that this thread calls in a `with` block: what a save takes, but no time."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _hear(self, frame: object, event: str, argument: object) -> None:
        del frame, argument
        self.count += event in {"call", "c_call"}


def held() -> dict[str, int]:
    """Return what this process holds."""
    gc.collect()
    return {
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "objects": len(gc.get_objects()),
        "blocks": sys.getallocatedblocks(),
    }


def main(folder: Path, saves: int) -> None:
    tracker = Tracker(folder)
    namespace: dict[str, Any] = {"__name__": "__main__", "recent": [], "weights": np.zeros(20_000)}
    namespace["frame"] = pd.DataFrame({"x": np.zeros(500), "name": ["a", "b"] * 250})
    session = Session(tracker, AutoMirror(tracker.store, in_background=False), namespace)
    events = Events()
    for count in range(saves):
        exec(CELL.format(count=count), namespace)
        namespace[f"v{count}"] = [count] * 9
        namespace.pop(f"v{count - 5}", None)
        before = held() if count % 10 == 0 else {}
        calls = Calls()
        events.taken()
        with calls:
            str(parse(TABLE, ["save", "work"], "%ckpt").run(session))
        done = events.taken() | before | {"calls": calls.count}
        print(json.dumps(done | {"pack folders": len([*(folder / "packs").iterdir()])}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
