"""What reads each kind of file. Each reader yields what is wrong.

An `NbckptError` ends the one question that raised it.
"""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from attack import samples
from attack.asking import Asking
from attack.powercut import Disk
from attack.samples import V1, ask
from format import test_format, trainables
from nbckpt import Checkpoint, State, load_state
from nbckpt.core.references import Entry
from nbckpt.errors import NbckptError
from nbckpt.mirror import Mirror, note
from nbckpt.states import use_folder
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.tracker import Tracker
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.engine import control

NAMED = {"one": test_format.ONE, "two@1": None, "two@2": test_format.TWO, "kept": {"kept": test_format.KEPT}}
IDS = {entry.id for entry in Tracker(V1 / "store").entries()}
MEDIA: dict[tuple[str, int], bytes] = {}
"""The media of the samples, by name and step."""

_PRISTINE = {
    "folder": repr(
        {
            key: value
            for key, value in Checkpoint.from_directory(V1 / "folder", trust=True).to_dict().items()
            if isinstance(key, str)
        }
    )
}


Ask = Callable[[Path], Iterator[str]]


def equal(one: Any, other: Any) -> bool:
    if isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and np.array_equal(one, other)
    return bool(type(one) is type(other) and one == other)


def tried(work: Callable[[], object], label: str) -> Iterator[str]:
    try:
        work()
    except NbckptError as error:
        str(error)
    except AssertionError as error:
        yield f"{label}: wrong data: {error}"
    except Exception:
        yield f"{label}: {traceback.format_exc(limit=-3)}"


def restored(folder: Path, ref: str, expected: dict[str, Any] | None) -> None:
    namespace: dict[str, Any] = {}
    tracker = Tracker(folder)
    tracker.restore(ref, namespace, trust=True)
    for name, value in (expected or {}).items():
        assert name not in namespace or equal(namespace[name], value), f"{ref}: {name}"


def exported(folder: Path) -> None:
    file = folder / "out.ckpt"
    file.unlink(missing_ok=True)
    Tracker(folder).export("one", file)
    there = Tracker(MemoryStore())
    there.import_file(file)
    namespace: dict[str, Any] = {}
    there.restore("latest", namespace, trust=True)
    assert all(equal(namespace.get(name), value) for name, value in test_format.ONE.items()), "exported"


def pulled(folder: Path) -> None:
    """Pull from a hostile store, and check that the user's own store works as before."""
    own = folder / "own"
    shutil.rmtree(own, ignore_errors=True)
    Tracker(own).save({"mine": 1}, "mine")
    try:
        Mirror(LocalStore(own), own / "experiments", folder / "store").pull()
    finally:
        try:
            namespace: dict[str, Any] = {}
            Tracker(own).restore("mine", namespace)
            ask(Tracker(own), "ls -n 0")
            Tracker(own).save({"mine": 2}, "mine2")
        except NbckptError as error:
            raise AssertionError(f"after a pull the user's own store fails: {error}") from error
        assert namespace == {"mine": 1}, "after a pull"


def undone(store: Path) -> None:
    """Undo the removal of a version."""
    ask(Tracker(store), "undo")
    restored(store, "two@3", {"gone": 1})


def ask_store(folder: Path) -> Iterator[str]:
    store = folder / "store"
    for words in (
        "",
        "ls -n 0",
        "verify",
        "gc --dry-run",
        "show one",
        "show kept",
        "diff one two",
        "rm two --dry-run",
    ):
        yield from tried(lambda words=words: ask(Tracker(store), words), words)
    for ref, expected in NAMED.items():
        yield from tried(lambda ref=ref, expected=expected: restored(store, ref, expected), f"restore {ref}")
    yield from tried(lambda: exported(store), "export")
    yield from tried(lambda: pulled(folder), "pull")
    yield from tried(lambda: undone(store), "undo")


def ask_resealed(folder: Path) -> Iterator[str]:
    """Ask a store in which a manifest was written anew, right in itself."""
    store = folder / "store"
    ids = [entry.id for entry in Tracker(store).entries()]
    for words in ("ls -n 0", "verify", "gc --dry-run"):
        yield from tried(lambda words=words: ask(Tracker(store), words), words)
    (new,) = [name for name in ids if name not in IDS] or ids[:1]
    for words in (
        f"show {new}",
        f"restore {new} --trust",
        f"diff {new} one",
        f"diff {new}",
        f"rm {new}",
        "gc --dry-run",
    ):
        yield from tried(lambda words=words: ask(Tracker(store), words), words)


def ask_archive(folder: Path) -> Iterator[str]:
    file = folder / "two.ckpt"

    def imported() -> None:
        there, namespace = Tracker(MemoryStore()), {}
        there.import_file(file)
        there.restore("latest", namespace, trust=True)
        assert all(equal(namespace.get(name), value) for name, value in test_format.TWO.items()), "imported"

    def opened() -> None:
        fields = Checkpoint.from_bytes(file.read_bytes(), trust=True).to_dict()
        assert all(equal(fields.get(name), value) for name, value in test_format.TWO.items()), "from_bytes"

    yield from tried(imported, "import")
    if file.is_file():
        yield from tried(opened, "from_bytes")


def ask_folder(folder: Path) -> Iterator[str]:
    def opened() -> None:
        checkpoint = Checkpoint.from_directory(folder / "folder", trust=True)
        fields = checkpoint.to_dict()
        checkpoint.digest(), checkpoint.to_bytes(), checkpoint.page()
        fields = {key: value for key, value in fields.items() if isinstance(key, str)}
        assert not fields or repr(fields) == _PRISTINE["folder"], "from_directory"

    yield from tried(opened, "from_directory")


def ask_experiments(folder: Path) -> Iterator[str]:
    machine = folder / "machine"
    words = [
        "",
        "ls --all",
        "trials counts",
        "show counts/t0",
        "show counts/t1",
        "show class/t0",
        "best counts",
    ]
    words += [
        "restore counts/t0@3 --trust",
        "trials class",
        "trials states",
        "show states/t0",
        "show counts/t2",
    ]
    words += ["tag counts/t0@2 kept", "rm counts/t1 --dry-run", "rm counts --dry-run"]
    for one in words:
        yield from tried(lambda one=one: ask(Tracker(machine), one), one)
    for file in control.pending(machine / "experiments" / "counts"):
        yield from tried(lambda file=file: requested(file), "request")
    yield from tried(lambda: ask(Tracker(machine), "undo"), "undo")


def requested(file: Path) -> None:
    assert control.read(file) == samples.REQUEST, control.read(file)


def ask_states(folder: Path) -> Iterator[str]:
    def loaded() -> None:
        with use_folder():
            steps = trainables.Steps()
            model = State.of("Größe", {"weights": np.zeros(6), "name": ""})
            if load_state(steps):
                assert steps.done in {1, 2}, f"steps {steps.done}"
            if load_state(model):
                weights = model.value["weights"]
                assert any(np.array_equal(weights, np.arange(6.0) + done) for done in (1, 2)), "weights"

    yield from tried(loaded, "load_state")


def ask_target(folder: Path) -> Iterator[str]:
    own = folder / "own"

    def pull() -> None:
        shutil.rmtree(own, ignore_errors=True)
        Mirror(LocalStore(own), own / "experiments", folder / "target").pull()
        namespace: dict[str, Any] = {}
        Tracker(own).restore("first", namespace, trust=True)
        assert namespace["numbers"] == [1, 2], "pulled"

    yield from tried(pull, "pull")
    if own.exists():
        for words in ("ls -n 0", "trials counts", "verify"):
            yield from tried(lambda words=words: ask(Tracker(own), words), words)


def ask_note(folder: Path) -> Iterator[str]:
    file = folder / "machine" / "sync.json"

    def status() -> None:
        assert note.read(file) in {None, ("memory://samples", 300.0, True)}, note.read(file)
        for words in ("", "sync --status", "ls"):
            ask(Tracker(folder / "machine"), words)

    if (folder / "sync.json").is_file():
        shutil.copy(folder / "sync.json", file)
        yield from tried(status, "status")
        file.unlink()


def ask_durable(folder: Path) -> Iterator[str]:
    def restore() -> None:
        shutil.rmtree(folder / "trial", ignore_errors=True)
        counter = trainables.DurableCounter(str(folder / "durable"), {}, str(folder / "trial"))
        try:
            counter.restore(str(folder / "trial" / "checkpoint_000003"))
            assert counter.done == 3, f"done {counter.done}"
        finally:
            counter.stop()

    yield from tried(restore, "restore")


def ask_points(folder: Path) -> Iterator[str]:
    """Ask for points and for kept results of cells, in a new notebook."""
    top = folder / "points"
    asking = Asking(top, Disk(str(top)))

    def went(ref: str) -> None:
        asking.names.clear()
        asking.start(f"checkout {ref}")
        names = asking.names
        if {"number", "noise"} <= names.keys():
            assert names["noise"] == asking.noise(20_000, names["number"]), f"{ref}: {names['number']}"
        assert not {"number", "noise"} & names.keys() or names["number"] in {*range(6), 9}, ref

    def kept(number: int) -> None:
        asking.names |= {"k": number}
        asking.names.pop("y", None)
        if asking.start("cell prep", samples.CELL).kept:
            assert asking.names["y"] == [number] * 3000, f"kept {number}"

    for words in ("history", "ls --auto", "ls -n 0", "verify", "gc --dry-run"):
        yield from tried(lambda words=words: str(asking.start(words)), words)
    points: list[Entry] = []
    yield from tried(lambda: points.extend(asking.tracker.history.entries("points")), "points")
    for point in points:
        yield from tried(lambda point=point: went(point.id), "checkout")
    for words in ("undo", "redo"):
        yield from tried(lambda words=words: asking.start(words), words)
    for number in range(2):
        yield from tried(lambda number=number: kept(number), "cell")


def ask_documented(folder: Path) -> Iterator[str]:
    """Ask for what is known of a trial beside its results."""
    top = folder / "documented"
    new = top / "again"
    for words in (
        "trials e",
        "show e/t0",
        "results e/t0",
        "find lr=0.5",
        "compare e/t0 e/t0",
        f"export e {top}/e.html",
        f"reproduce e/t0 -o {new}",
        "note e/t0 other words",
        "untag e/t0 good",
    ):
        yield from tried(lambda words=words: ask(Tracker(top), words), words)
        shutil.rmtree(new, ignore_errors=True)

    def seen() -> None:
        for key, data in media_of(top / "experiments"):
            assert data == MEDIA[key], key

    yield from tried(seen, "media")


def media_of(experiments: Path) -> Iterator[tuple[tuple[str, int], bytes]]:
    """Yield the name, the step and the bytes of each of the media of the experiment e."""
    for trial in Catalog(experiments).open("e").trials:
        for one in trial.media:
            with suppress(NbckptError):
                yield (one.name, one.step), one.read()


def ask_listed(folder: Path) -> Iterator[str]:
    """Ask a store that has a catalogue."""
    listed = samples.ListedStore(folder / "listed")
    for words in ("ls -n 0", "verify", "gc --dry-run"):
        yield from tried(lambda words=words: ask(Tracker(listed), words), words)
    for ref, number in (("n@5", 4), ("n@1", 0), ("n@3", 2), ("n@4", 3)):
        yield from tried(lambda ref=ref, number=number: listed_has(listed, ref, number), ref)
    yield from tried(lambda: ask(Tracker(listed), "gc"), "gc")
    yield from tried(lambda: listed_has(listed, "n@5", 4), "after gc")


def listed_has(listed: LocalStore, ref: str, number: int) -> None:
    namespace: dict[str, Any] = {}
    Tracker(listed).restore(ref, namespace)
    assert namespace == {"number": number}, f"{ref}: {namespace}"


READERS: dict[str, Ask] = {
    "store": ask_store,
    "two.ckpt": ask_archive,
    "folder": ask_folder,
    "machine/experiments": ask_experiments,
    "states": ask_states,
    "target": ask_target,
    "sync.json": ask_note,
    "durable": ask_durable,
    "points": ask_points,
    "documented": ask_documented,
    "listed": ask_listed,
}
"""What reads the samples of each place."""
