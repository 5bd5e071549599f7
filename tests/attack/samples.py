"""Samples of every kind of file, as this code writes them; `tests/format/v1` has those of format 1."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import nbckpt
from attack.asking import Asking
from attack.powercut import Disk
from format import make_samples, test_format
from nbckpt.commands import TABLE, Session, parse
from nbckpt.core import gc, removals, renewal
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.history import History
from nbckpt.core.trust import open_signer
from nbckpt.errors import CorruptError
from nbckpt.media import Image, Table
from nbckpt.mirror import AutoMirror, note
from nbckpt.provenance import background
from nbckpt.provenance.trial import read_attempts
from nbckpt.render import html_of
from nbckpt.states.save import Save
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.sync.index import Index
from nbckpt.tracker import Tracker
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.engine import control
from nbckpt.trials.model import annotation, spec_file, summary_file
from nbckpt.trials.model.trial import Trial, state_of

V1 = Path(test_format.__file__).parent / "v1"
CELL = "y = [k] * 3000"
"""The cell whose results are kept in the samples, for k from 0 to 1."""

RAMP = np.arange(64, dtype=np.uint8).reshape(8, 8)
REQUEST = control.ControlRequest("stop", "t1", by="somebody")


def make(target: Path) -> None:
    """Write them all into a new folder; the secret is that of the frozen samples."""
    before = dict(os.environ)
    try:
        test_format.make(target)
        make_samples.main(target, frozen=False)
        experiments = target / "machine" / "experiments"
        control.ask(experiments / "counts", REQUEST)
        Catalog(experiments).remove("by-value")
        _make_points(target / "points")
        _make_documented(target / "documented")
        _make_listed(target / "listed")
    finally:
        os.environ.clear()
        os.environ.update(before)


def ask(tracker: Tracker, words: str, namespace: dict[str, Any] | None = None) -> str:
    """Run the line of a command, and return all that a person would see of its result."""
    auto = AutoMirror(tracker.store, in_background=False)
    result = parse(TABLE, words.split(), "%ckpt").run(
        Session(tracker, auto, {} if namespace is None else namespace)
    )
    return f"{result}{html_of(result)}"


def _make_points(folder: Path) -> None:
    """Write a store with points, removed ones too, and with kept results of cells."""
    with mock.patch.object(gc, "GRACE_S", gc.GRACE_S):  # a notebook of Asking has none
        ask = Asking(folder, Disk(str(folder)))
        ask("auto on --budget 1000000% --keep 4")
        for number in range(6):
            ask.point(number=number, noise=ask.noise(20_000, number))
        ask("undo")
        ask.point(number=9, noise=ask.noise(20_000, 9))
        for number in range(2):
            ask.names["k"] = number
            ask.cell("cell prep", CELL)
        ask("auto off")


def _make_documented(folder: Path) -> None:
    """Write an experiment with media, provenance, inputs, a note, tags and a checkpoint to start from."""
    os.environ |= {"NBCKPT_PROVENANCE": "1", "NBCKPT_STORE": str(folder)}
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "in.csv").write_text("a,b\n1,2\n")

    def train(config: dict[str, Any]) -> None:
        nbckpt.data(folder / "data" / "in.csv")
        for step in range(3):
            nbckpt.report(loss=config["lr"] / (step + 1), ramp=Image(RAMP + step), rows=Table([{"n": step}]))

    start = Checkpoint.from_dict({"start": 1})
    nbckpt.run(train, {"lr": 0.5}, name="e", executor="inline", restore=start)
    background.settle()
    tracker = Tracker(folder)
    for words in ("note e/t0 better edges", "tag e/t0 good"):
        ask(tracker, words)


class ListedStore(LocalStore):
    """A folder that has a catalogue, as a store at a URL has."""

    lists_in_pages = True


def _make_listed(folder: Path) -> None:
    tracker = Tracker(ListedStore(folder))
    for number in range(4):
        tracker.save({"number": number}, "n", variables=["number"])
    tracker.remove(["n@2"])
    with mock.patch.object(renewal, "SMALLEST", 0):
        tracker.collect()
    tracker.save({"number": 4}, "n", variables=["number"])
    assert {"tops", "parts", "added"} <= {key.split("/")[1] for key in tracker.store.keys("catalogue/")}


# What a program gets from each kind of file, as something that can be compared.

Reader = Callable[[Path], Any]


def _trial(file: Path) -> Any:
    trial = Trial.read(file.parent)
    if trial.damage:
        raise CorruptError(trial.damage)
    return {name: value for name, value in vars(state_of(trial)).items() if name != "read_at"}, trial.results


def _summary(file: Path) -> Any:
    trial = summary_file.read(file.parent)
    if trial is None:
        raise CorruptError("the journal is read instead")
    return {name: value for name, value in vars(state_of(trial)).items() if name != "read_at"}


def _manifest(file: Path) -> Any:
    history = History(LocalStore(file.parents[1]), open_signer)
    entry = next(entry for entry in history.entries(file.parent.name) if entry.id in file.name)
    read = history.read(entry)
    return replace(read, signature=None)  # one that does not match is nobody's


def _note(file: Path) -> Any:
    if (content := note.read(file)) is None:
        raise CorruptError("sync.json is not read")  # the log says why
    return content


def _removal(file: Path) -> Any:
    removal = removals.last_removal(History(LocalStore(file.parents[1]), open_signer))
    if removal is not None and not removal.is_whole:
        raise CorruptError(str(removal))
    return removal


def _spec(file: Path) -> Any:
    kept = spec_file.read(file.parent)
    return str(kept), open_signer().signed_bytes("experiment", kept._pickle, kept._signature)


def _user_note(file: Path) -> Any:
    if (read := annotation.read(file.parent)).damage:
        raise CorruptError(read.damage)
    return read


def _attempts(file: Path) -> Any:
    """Return what is known of how the only trial of an experiment came about."""
    attempts = read_attempts(file.parents[1] / "t0")
    warnings = [warning for attempt in attempts for warning in attempt.document.get("notes", ())]
    if any("cannot be read" in warning for warning in warnings):
        raise CorruptError(str(warnings))
    return [(one.document, one.patch, one.packages, one.cells, one.seeds) for one in attempts]


def _media(file: Path) -> Any:
    (trial,) = Catalog(file.parents[2]).open("e").trials
    return [one.read() for one in trial.media]


def _fields(checkpoint: Checkpoint) -> str:
    return repr({key: value for key, value in checkpoint.to_dict().items() if isinstance(key, str)})


def _exported(file: Path) -> Any:
    tracker, namespace = Tracker(MemoryStore()), dict[str, Any]()
    tracker.import_file(file)
    tracker.restore("latest", namespace)
    return repr(namespace)


def _values(file: Path) -> Any:
    """Return the values of all checkpoints of the store that a pack or a table is in."""
    tracker, values = Tracker(LocalStore(file.parents[2])), list[str]()
    for entry in tracker.entries():
        restored = tracker.restore(entry.id, namespace := {})
        if restored.failed:
            raise CorruptError(str(restored.failed))
        values.append(repr(namespace))
    return values


KINDS: dict[str, tuple[str, Reader]] = {
    "configuration": ("machine/experiments/counts/t1/params.json", _trial),
    "journal": ("machine/experiments/*/t*/events.jsonl", _trial),
    "experiment": ("machine/experiments/*/experiment.json", _spec),
    "record": (
        "machine/experiments/*/t0/checkpoint_*.json",
        lambda file: CheckpointFolder(file.parent).read(file.stem),
    ),
    "checkpoint of a trial": (
        "machine/experiments/counts/t0/checkpoint_000003/.nbckpt/checkpoint.json",
        lambda file: _fields(Checkpoint.from_directory(file.parents[1])),
    ),
    "summary": ("machine/experiments/counts/t[0-2]/.nbckpt-cache.json", _summary),
    "point": ("points/points/*.json", _manifest),
    "kept result of a cell": ("points/cells/*.json", _manifest),
    "note and tags": ("documented/experiments/e/t0/notes.json", _user_note),
    "provenance": ("documented/experiments/e/t0/provenance.json", _attempts),
    "object of the provenance": ("documented/experiments/e/provenance/*", _attempts),
    "inputs": ("documented/experiments/e/t0/inputs.jsonl", _attempts),
    "media": ("documented/experiments/e/media/*", _media),
    "request": ("machine/experiments/counts/requests/*.json", control.read),
    "manifest": ("store/checkpoints/*.json", _manifest),
    "removed manifest": ("store/trash/*.json", _manifest),
    "note of a removal": ("store/removals/*", _removal),
    "pack": ("machine/packs/*/*.pack", _values),
    "saved state": ("states/*/*", lambda file: Save.read(file.parent).check().states),
    "index of a target": (
        "target/experiments/*/.nbckpt-sync/index.json",
        lambda file: Index.read(LocalStore(file.parents[1])),
    ),
    "note of a sync": ("sync.json", _note),
    "export": ("two.ckpt", _exported),
}
"""For each kind of file: where the samples are, and what reads one. A changed byte of it is always found."""


def files(target: Path, kind: str) -> Iterator[tuple[Path, Reader]]:
    """Yield the samples of one kind, each with what reads it."""
    pattern, reader = KINDS[kind]
    files = sorted(path for path in target.glob(pattern) if path.is_file())
    assert files, f"there is no sample of: {kind}"
    for file in files:
        yield file, reader
