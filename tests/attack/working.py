"""A process that works on one store until it is killed, and says what it begins and what is done.

    python working.py FOLDER SEED [once]

With `once`, it does each of its acts once and ends. Every checkpoint holds a number and values made from it,
so that a reader can check it alone.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nbckpt
from nbckpt.cells.key import CellCode
from nbckpt.commands import TABLE, Session, parse
from nbckpt.commands.caching import keep
from nbckpt.commands.table import Body
from nbckpt.core.gc import collect
from nbckpt.core.packs.format import pack_key
from nbckpt.errors import NbckptError, NotFoundError
from nbckpt.mirror import AutoMirror
from nbckpt.settings import Settings
from nbckpt.states import save_all_states
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.tracker import Saved, Tracker
from nbckpt.tracker.cell_run import CellEnd
from nbckpt.tracker.cells import CellResults
from nbckpt.trials import Catalog, Experiment, Status
from nbckpt.trials.engine import control

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


def train_until_asked(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    step = checkpoint.to_dict()["step"] if checkpoint else 0
    while True:
        step += 1
        nbckpt.report(step=step, checkpoint={"step": step})
        threading.Event().wait(0.01)


def train_and_save_when_asked(config: dict[str, Any]) -> None:
    for step in itertools.count(1):
        nbckpt.report(step=step, checkpoint={"step": step} if nbckpt.should_checkpoint() else None)
        threading.Event().wait(0.01)


def until(holds: Callable[[], object]) -> None:
    while not holds():
        threading.Event().wait(0.01)


class Worker:
    """The commands, each on a tracker of this process."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.draw = random.Random(seed)
        self.remote = str(folder / "remote")
        self.store = LocalStore(folder / "store")
        self.tracker = Tracker(self.store)
        self.library = Catalog(folder / "store" / "experiments")
        self.namespace: dict[str, Any] = {}
        self.next = seed * 1000
        self.state = nbckpt.State.of("count", {"saved": seed * 1000})

    def ask(self, *words: str, code: str = "") -> Any:
        mirror = AutoMirror(self.store, in_background=False)
        body = Body(CellCode(code, str), CellResults)
        session = Session(self.tracker, mirror, self.namespace, body=body)
        return parse(TABLE, list(words), "%ckpt").run(session)

    def some_id(self) -> str:
        entries = self.tracker.entries()
        if not entries:
            raise NotFoundError("there are no checkpoints")
        return self.draw.choice(entries).id

    def some_experiment(self, is_wanted: Callable[[Experiment], bool]) -> Experiment:
        experiments = [*filter(is_wanted, map(self.library.open, self.library.names()))]
        if not experiments:
            raise NotFoundError("there are no such experiments")
        return self.draw.choice(experiments)

    def say(self, *words: object) -> None:
        print(*words, flush=True)

    def say_saved(self, made: Saved) -> None:
        self.say("saved", made.manifest.id)
        self.say("named", made.ref, made.manifest.id)

    def save(self) -> None:
        self.next += 1
        self.namespace.clear()
        self.namespace.update(values(self.next))
        made = self.tracker.save(self.namespace, self.draw.choice(NAMES), variables=["*"])
        self.say_saved(made)

    def remove(self) -> None:
        target = self.some_id()
        self.say("removing", target)
        ((_, refs),) = self.tracker.remove([target])
        self.say("removed", target)
        if self.draw.random() < 0.5:
            self.say("undoing", target)
            self.tracker.undo(self.namespace)
            self.say("saved", target)
            for ref in refs:
                self.say("named", ref, target)

    def restore(self) -> None:
        got: dict[str, Any] = {}
        Tracker(self.store).restore(self.some_id(), got, trust=True)
        assert np.array_equal(got["array"], values(got["number"])["array"])

    def tag(self) -> None:
        target = self.some_id()
        self.say("named", self.tracker.tag(target, "best"), target)

    def trust(self) -> None:
        self.next += 1
        settings = Settings(store="", secret_file=self.folder / "other")
        made = Tracker(self.store, settings=settings).save(values(self.next), "stranger", variables=["*"])
        self.say_saved(made)
        assert self.tracker.trust([made.manifest.id])
        self.say("trusted", made.manifest.id)

    def repair(self) -> None:
        self.push()
        packs = sorted(self.tracker.manifest(self.some_id()).packs())
        files = [self.store.path(pack_key(pack)) for pack in packs if self.store.exists(pack_key(pack))]
        if not files:
            raise NotFoundError("the store lacks a pack to damage")
        self.say("spoiling")
        with files[0].open("r+b") as file:
            file.seek(files[0].stat().st_size // 2)
            file.write(b"damage")
        assert self.tracker.verify(repair_from=self.remote).repaired
        self.say("repaired")

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
        self.ask("push", self.remote)
        self.say("pushed", *there)

    def pull(self) -> None:
        self.say("pulling")
        self.ask("pull", self.remote)

    def sync(self) -> None:
        there = [entry.id for entry in self.tracker.entries()]
        self.say("syncing")
        self.say("pushing", *there)
        self.ask("sync", self.remote)
        self.say("synced", self.remote)

    def stop_sync(self) -> None:
        self.say("syncing")
        self.ask("sync", "off")
        self.say("synced", "off")

    def run(self) -> None:
        self.next += 1
        name = f"e{self.next}"
        nbckpt.run(train, {"x": nbckpt.grid_search([1, 2])}, name=name, executor="inline")
        self.say("ran", name)

    def pause(self) -> None:
        self.next += 1
        name = f"p{self.next}"
        experiment = nbckpt.run(train_until_asked, {"x": 1}, name=name, executor="thread")
        control.ask(experiment.folder, control.ControlRequest("pause"))
        assert experiment.wait(60)
        self.say("paused", name, experiment.trial("t0").iteration)

    def resume(self) -> None:
        experiment = self.some_experiment(
            lambda one: one.name[0] in "ep" and not all(trial.finished for trial in one.trials)
        )
        self.say("resuming", experiment.name)
        experiment.resume()
        if experiment.name[0] == "p":
            control.ask(experiment.folder, control.ControlRequest("stop"))
        assert experiment.wait(60)
        trial = experiment.trial("t0")
        # The request of a killed process may have paused it again.
        self.say("paused" if trial.status == Status.PAUSED else "ended", experiment.name, trial.iteration)

    def remove_experiment(self) -> str:
        experiment = self.some_experiment(
            lambda one: (
                one.name != "loop" and bool(one.trials) and all(trial.finished for trial in one.trials)
            )
        )  # `track` would make another experiment of that name
        self.say("dropping", experiment.name)
        self.ask("rm", experiment.name)
        self.say("dropped", experiment.name)
        return experiment.name

    def bring_back_experiment(self) -> None:
        name = self.remove_experiment()
        self.say("dropping", name)
        self.ask("undo")
        self.say("ended", name, self.library.open(name).trial("t0").iteration)

    def annotate(self) -> None:
        trial = f"{self.some_experiment(lambda one: bool(one.trials)).name}/t0"
        self.next += 1
        self.say("noting", trial)
        self.ask("note", trial, f"n{self.next}")
        self.say("noted", trial, f"n{self.next}")

    def label(self) -> None:
        trial = f"{self.some_experiment(lambda one: bool(one.trials)).name}/t0"
        self.say("labelling", trial)
        for word, tag in ("tag", "good"), ("tag", "blue"), ("untag", "good"):
            self.ask(word, trial, tag)
        self.say("labelled", trial)

    def ask_for_checkpoint(self) -> None:
        self.next += 1
        name = f"c{self.next}"
        experiment = nbckpt.run(train_and_save_when_asked, name=name, executor="thread")
        trial = experiment.trial("t0")
        until(lambda: trial.status == Status.RUNNING)
        self.ask("checkpoint", name)
        until(trial.checkpoints.records)
        self.say("stepped", name, trial.checkpoints.records()[0].iteration)
        self.ask("stop", name)
        assert experiment.wait(60)
        self.say("ended", name, trial.iteration)

    def write_page(self) -> None:
        name = self.some_experiment(lambda one: bool(one.trials)).name
        self.ask("export", name, str(self.folder / "page.html"), "--overwrite")
        self.say("paged")

    def reproduce(self) -> None:
        self.next += 1
        folder = f"again{self.next}"
        os.environ["NBCKPT_PROVENANCE"] = "1"
        try:
            made = self.tracker.save({"number": self.next, **values(self.next)}, "again", variables=["*"])
            self.say_saved(made)
            self.ask("reproduce", made.manifest.id, "-o", str(self.folder / folder))
        finally:
            os.environ["NBCKPT_PROVENANCE"] = "0"
        self.say("reproduced", folder)

    def track(self) -> None:
        with nbckpt.track("loop", x=self.next) as trial:
            for step in range(1, STEPS + 1):
                trial.report(step=step, checkpoint={"step": step})
                self.say("reported", trial.trial_name, step)

    def cell(self) -> None:
        self.next += 1
        self.namespace.clear()
        self.namespace["k"] = self.next
        code = "y = [k] * 9000"
        run = self.ask("cell", "prep", code=code).run
        exec(code, self.namespace)
        kept = keep(run, CellEnd([], None, [], [], {"__builtins__"}))
        assert kept.manifest is not None, kept.problem
        self.say("kept", kept.manifest.id)

    def save_states(self) -> None:
        self.state.value["saved"] += 1
        save_all_states()
        self.say("states", self.state.value["saved"])


OFTEN: dict[Callable[[Worker], object], tuple[str, ...]] = {
    Worker.save: ("save",),
    Worker.remove: ("rm", "undo"),
    Worker.restore: ("restore",),
    Worker.save_states: (),
}
SELDOM: dict[Callable[[Worker], object], tuple[str, ...]] = {
    Worker.tag: ("tag",),
    Worker.collect: ("gc",),
    Worker.export: ("export", "import"),
    Worker.push: ("push",),
    Worker.pull: ("pull",),
    Worker.run: ("run",),
    Worker.trust: ("trust",),
    Worker.repair: ("verify",),
    Worker.stop_sync: ("sync",),
    Worker.sync: ("sync",),
    Worker.pause: ("pause",),
    Worker.resume: ("resume", "stop"),
    Worker.bring_back_experiment: ("undo",),
    Worker.remove_experiment: ("rm",),
    Worker.annotate: ("note",),
    Worker.label: ("tag", "untag"),
    Worker.ask_for_checkpoint: ("checkpoint", "stop"),
    Worker.write_page: ("export",),
    Worker.reproduce: ("reproduce",),
    Worker.track: ("track",),
    Worker.cell: ("cell",),
}
"""What a process does, each act with the commands whose writes it makes."""


def main(folder: Path, seed: int, *, once: bool) -> None:
    os.environ["NBCKPT_STORE"] = str(folder / "store")
    os.environ["NBCKPT_CHECKPOINT_PATH"] = str(folder / "states")
    work = Worker(folder, seed)
    work.save()
    if once:
        for act in (*OFTEN, *OFTEN, Worker.save, *SELDOM, Worker.pause, Worker.resume, Worker.pause):
            act(work)
        return
    often = [*[Worker.save] * 6, *[Worker.remove] * 3, *[Worker.restore] * 2, *[Worker.save_states] * 2]
    while True:
        act = work.draw.choice([*often, *SELDOM])
        try:
            act(work)
        except NotFoundError as error:
            # A store without checkpoints, and an undo whose checkpoint `gc` has taken.
            work.say("nothing", act.__name__, error)
        except NbckptError as error:
            work.say("error", act.__name__, type(error).__name__, error)
            raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), once="once" in sys.argv)
