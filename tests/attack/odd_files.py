"""Odd files: run as a module, it puts links, pipes and devices in place of a trial's files, and uses them.

A line that begins with WRONG says what ended in an error that is not nbckpt's, or told what is outside.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import nbckpt
from attack import share
from attack.limits import begin, limit_memory
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import NbckptError
from nbckpt.mirror import AutoMirror
from nbckpt.trials import Catalog
from nbckpt.trials.engine import control
from nbckpt.trials.model.trial import Status

PRIVATE = "PRIVATE-b9f2"
PLACES = [
    *("experiment.json", "requests", "t0", "t0/params.json", "t0/events.jsonl", "t0/log.txt"),
    *("t0/checkpoint_000001.json", "t0/checkpoint_000001", "t0/checkpoint_000001/.nbckpt"),
    "t0/checkpoint_000001/.nbckpt/checkpoint.json",
]
KINDS: dict[str, Callable[[Path, Path], object]] = {
    "a device": lambda place, _: place.symlink_to("/dev/zero"),
    "a link to a pipe outside": lambda place, top: place.symlink_to(top / "pipe"),
    "a link to a pipe inside": lambda place, _: (
        os.mkfifo(place.with_name("pipe")),
        place.symlink_to("pipe"),
    ),
    "a pipe": lambda place, _: os.mkfifo(place),
    "a link to a folder inside": lambda place, _: place.symlink_to("."),
    "a link to a folder outside": lambda place, top: place.symlink_to(top / "theirs"),
    "a link to a file outside": lambda place, top: place.symlink_to(top / "private"),
    "a folder": lambda place, _: place.mkdir(),
    "a link to itself": lambda place, _: place.symlink_to(place.name),
}
COMMANDS = [
    *("", "trials", "trials e", "show e", "show t0", "show t0@1", "ls --all", "ls --all --find x", "best"),
    *("plot e", "diff t0@1 t1@1", "restore t0@1", "trust e", "verify", "gc --dry-run", "push URL", "sync"),
    *("pause e", "stop e/t0", "checkpoint e", "rm e/t0@1", "resume e --errored --wait", "rm e"),
]


def train(config: dict[str, int]) -> None:
    print("prints")
    nbckpt.report(loss=config["lr"], checkpoint={"i": config["lr"]})


def odd(top: Path, store: Path, path: str, kind: str) -> None:
    """Copy the store with something odd in the place of a file."""
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(top / "sound", store)
    place = store / "experiments" / "e" / path
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    KINDS[kind](place, top)


def use(store: Path, url: str) -> None:
    """Run every command on the store; whichever refuses says so with an error of nbckpt's."""
    with nbckpt.Tracker(str(store)) as tracker:
        session = Session(tracker, AutoMirror(tracker.store, in_background=False), {})
        for words in COMMANDS:
            try:
                command = parse(TABLE, words.replace("URL", url).split(), "%ckpt")
                shown = f"{command.run(session)}"
            except NbckptError as error:
                shown = str(error)
            except Exception as error:
                shown = ""
                print(f"WRONG {words!r}: {type(error).__name__}: {error}", flush=True)
            if PRIVATE in shown:
                print(f"WRONG {words!r} shows what is outside", flush=True)


def look(store: Path, path: str) -> None:
    """Hold that the odd file makes one damaged row, and the other trial is as it was."""
    library = Catalog(store / "experiments")
    if "e" not in library.names():
        return
    control.pending(library.folder / "e")
    experiment = library.open("e")
    if path in {"t0/params.json", "t0/events.jsonl"} and not experiment.trial("t0").damage:
        print("WRONG t0 is not damaged", flush=True)
    if experiment.trial("t1").status != Status.TERMINATED:
        print("WRONG t1 is not read", flush=True)


def main(top: Path) -> None:
    (top / "theirs").mkdir()
    for name in ("theirs/file", "private"):
        (top / name).write_text(PRIVATE)
    os.mkfifo(top / "pipe")
    os.environ["NBCKPT_STORE"] = str(top / "store")
    nbckpt.run(train, {"lr": nbckpt.grid_search([1, 2])}, name="e", executor="inline").wait(60)
    (top / "store").rename(top / "sound")
    limit_memory()
    # 5 and the number of kinds have no common divisor, so a share has every place and every kind.
    for number, (path, kind) in enumerate([*itertools.product(PLACES, KINDS)][:: share.of(1, 5)]):
        begin(f"{path} is {kind}")
        store = top / f"{path.replace('/', '-')}-{number}" / "store"
        os.environ["NBCKPT_STORE"] = str(store)
        odd(top, store, path, kind)
        look(store, path)
        use(store, f"{store.parent}/url")
        for file in filter(Path.is_file, Path(store.parent, "url").rglob("*")):
            if PRIVATE.encode() in file.read_bytes():
                print(f"WRONG {file} was sent", flush=True)
        shutil.rmtree(store.parent)
    for name in ("theirs/file", "private"):
        if (top / name).read_text() != PRIVATE:
            print(f"WRONG {name} was changed", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
