"""A process that works on one store until it is killed, and says what it begins and what is done.

    python working.py FOLDER SEED

Every checkpoint holds a number and values made from it, so that whoever restores it can check it alone.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.core.gc import collect
from nbckpt.errors import NbckptError, NotFoundError
from nbckpt.mirror import AutoMirror
from nbckpt.states import save_all_states
from nbckpt.store import MemoryStore
from nbckpt.tracker import Tracker

NAMES = ("red", "green", "blue")
STEPS = 3


def values(number: int) -> dict[str, Any]:
    """Return what the checkpoint of this number holds; neighbours share most of their bytes."""
    array = np.random.default_rng(number // 4).integers(0, 256, 600_000, dtype=np.uint8)
    array[number % 4] = number % 251
    return {"number": number, "array": array, "small": [number] * 9}


def train(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for step in range(checkpoint.to_dict()["step"] if checkpoint else 0, STEPS):
        nbckpt.report(step=step + 1, checkpoint={"step": step + 1})


class TransferPool:
    """The commands, each on a tracker of this process."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.draw = random.Random(seed)
        self.tracker = Tracker(folder / "store")
        self.namespace: dict[str, Any] = {}
        self.next = seed * 1000
        self.state = nbckpt.State.of("count", {"saved": seed * 1000})

    def ask(self, *words: str) -> Any:
        session = Session(self.tracker, AutoMirror(self.tracker.store), self.namespace)
        return parse(TABLE, list(words), "%ckpt").run(session)

    def some_id(self) -> str:
        entries = self.tracker.entries()
        if not entries:
            raise NotFoundError("there are no checkpoints")
        return self.draw.choice(entries).id

    def say(self, *words: object) -> None:
        print(*words, flush=True)

    def save(self) -> None:
        self.next += 1
        self.namespace.clear()
        self.namespace.update(values(self.next))
        made = self.tracker.save(self.namespace, self.draw.choice(NAMES), variables=["*"])
        self.say("saved", made.manifest.id)

    def remove(self) -> None:
        target = self.some_id()
        self.say("removing", target)
        self.tracker.remove([target])
        self.say("removed", target)
        if self.draw.random() < 0.5:
            self.say("undoing", target)
            self.tracker.undo(self.namespace)
            self.say("saved", target)

    def restore(self) -> None:
        got: dict[str, Any] = {}
        Tracker(self.folder / "store").restore(self.some_id(), got)
        assert np.array_equal(got["array"], values(got["number"])["array"])

    def tag(self) -> None:
        self.tracker.tag(self.some_id(), "best")

    def collect(self) -> None:
        collect(self.tracker.history, wait=lambda _: None)

    def export(self) -> None:
        file = self.folder / "one.ckpt"
        self.tracker.export(self.some_id(), file, overwrite=True)
        other = Tracker(MemoryStore())
        other.import_file(file)
        ids = [entry.id for entry in other.entries()]  # a checkpoint has another id in other packs
        self.say("undoing", *ids)
        self.tracker.import_file(file)
        self.say("saved", *ids)

    def push(self) -> None:
        there = [entry.id for entry in self.tracker.entries()]
        self.say("pushing", *there)
        self.ask("push", str(self.folder / "remote"))
        self.say("pushed", *there)

    def pull(self) -> None:
        self.say("pulling")
        self.ask("pull", str(self.folder / "remote"))

    def run(self) -> None:
        self.next += 1
        name = f"e{self.next}"
        nbckpt.run(train, {"x": nbckpt.grid_search([1, 2])}, name=name, executor="inline")
        self.say("ran", name)

    def save_states(self) -> None:
        self.state.value["saved"] += 1
        save_all_states()
        self.say("states", self.state.value["saved"])


def main(folder: Path, seed: int) -> None:
    os.environ["NBCKPT_STORE"] = str(folder / "store")
    os.environ["NBCKPT_CHECKPOINT_PATH"] = str(folder / "states")
    work = TransferPool(folder, seed)
    work.save()
    acts: list[Callable[[], None]] = [
        *[work.save] * 4, *[work.remove] * 2, *[work.restore] * 2, work.tag, work.collect,
        work.export, work.push, work.pull, work.run, *[work.save_states] * 2,
    ]  # fmt: skip
    while True:
        act = work.draw.choice(acts)
        try:
            act()
        except NotFoundError as error:
            # A store without checkpoints, and an undo whose checkpoint `gc` has taken.
            work.say("nothing", act.__name__, error)
        except NbckptError as error:
            work.say("error", act.__name__, type(error).__name__, error)
            raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
