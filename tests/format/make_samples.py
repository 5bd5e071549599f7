"""Make the frozen samples of `v1` that `test_samples.py` reads: experiments, states, a sync target, a note.

    python tests/format/make_samples.py FOLDER

They were made once, with the code that wrote format 1 first, and are not made again.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
os.environ["NBCKPT_SECRET_FILE"] = str(HERE / "v1" / "secret")
os.environ["NBCKPT_CACHE"] = "0"

import nbckpt  # noqa: E402
from format import trainables  # noqa: E402
from nbckpt.mirror import Mirror, note  # noqa: E402
from nbckpt.states import save_all_states, use_folder  # noqa: E402
from nbckpt.store import LocalStore  # noqa: E402

CELL = """
def train(config):
    nbckpt.report(x=config["x"])
"""


def make_experiments(store: Path) -> None:
    os.environ["NBCKPT_STORE"] = str(store)
    space = {
        "kind": nbckpt.grid_search(["done", "fails", "paused", "interrupted"]),
        "lr": nbckpt.uniform(0.1, 0.2),
        "layers": nbckpt.choice([[1, 2], [3]]),
    }
    runs = nbckpt.run(trainables.count, space, name="counts", seed=7, metric="loss", mode="min")
    trainables.on_second_step = lambda: runs.pause("t2")
    runs.wait()
    interrupt(store / "experiments" / "counts" / "t3")
    nbckpt.run(
        trainables.count_states, {"until": 9}, name="states", checkpoint_every=2, stop={"steps": 3}
    ).wait()
    nbckpt.run(
        trainables.Counter,
        {},
        name="class",
        checkpoint_every=2,
        keep_checkpoints=nbckpt.trials.RetentionPolicy(2),
        sync_config=nbckpt.SyncConfig(upload_dir="memory://samples"),
    ).wait()
    cell: dict[str, Any] = {"__name__": "__main__", "nbckpt": nbckpt}
    exec(compile(CELL, "<cell>", "exec"), cell)  # as a notebook defines it, so that it is kept by value
    nbckpt.run(cell["train"], {"x": 1}, name="by-value").wait()


def interrupt(trial: Path) -> None:
    """Leave a trial as a kernel that died after its second step, in the middle of an event."""
    lines = (trial / "events.jsonl").read_bytes().splitlines(keepends=True)
    (trial / "events.jsonl").write_bytes(b"".join(lines[:5]) + b'{"event":"resu')
    for step in (3, 4):
        shutil.rmtree(trial / f"checkpoint_{step:06d}")
        (trial / f"checkpoint_{step:06d}.json").unlink()


def make_states(folder: Path) -> None:
    os.environ["NBCKPT_CHECKPOINT_PATH"] = str(folder)
    with use_folder():
        steps = trainables.Steps()
        model = nbckpt.State.of("Größe", {"weights": np.arange(6.0), "name": "net"})
        for done in (1, 2):
            steps.done = done
            model.value["weights"] += 1
            save_all_states()


def make_durable(target: Path, scratch: Path) -> None:
    """Save a Trainable's checkpoint at a URL too."""
    counter = trainables.DurableCounter(str(target), {}, str(scratch))
    counter.train()
    counter.train()
    counter.save()
    counter.train()
    counter.save()
    counter.stop()


def without_paths(folder: Path) -> None:
    """Take the place of this checkout out of tracebacks."""
    for journal in folder.rglob("events.jsonl"):
        journal.write_text(journal.read_text().replace(f"{HERE.parent.parent}/", ""))


def main(target: Path, *, frozen: bool = True) -> None:
    """Write them into a folder; those that are not going to be *frozen* may name this one."""
    machine = target / "machine"
    with nbckpt.Tracker(machine) as tracker:
        tracker.save({"numbers": [1, 2], "array": np.arange(30_000)}, "first")
    make_experiments(machine)
    if frozen:
        without_paths(machine)
    make_states(target / "states")
    with tempfile.TemporaryDirectory() as scratch:
        make_durable(target / "durable", Path(scratch))
    Mirror(LocalStore(machine), machine / "experiments", target / "target").push()
    note.write(target / "sync.json", note.Note("memory://samples", 300.0))
    for left in {*target.rglob(".nbckpt-tmp*"), *target.rglob("*.lock")}:
        shutil.rmtree(left) if left.is_dir() else left.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
