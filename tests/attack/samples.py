"""Samples of every kind of file, as this code writes them; `tests/format/v1` has those of format 1."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from format import make_samples, test_format
from nbckpt.core import removals
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.history import History
from nbckpt.core.trust import open_signer
from nbckpt.errors import CorruptError
from nbckpt.mirror import note
from nbckpt.states.save import Save
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.sync.index import Index
from nbckpt.tracker import Tracker
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.engine import control
from nbckpt.trials.model import spec_file, summary_file
from nbckpt.trials.model.trial import Trial, state_of

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
    finally:
        os.environ.clear()
        os.environ.update(before)


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
