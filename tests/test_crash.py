"""Crashes: whatever moment a process ends at, the store is as it was before or as it would be after."""

from __future__ import annotations

import functools
import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attack import share
from nbckpt import Checkpoint
from nbckpt.core.gc import collect
from nbckpt.settings import Settings
from nbckpt.store import LocalStore, MemoryStore, Store
from nbckpt.testing import RecordingStore
from nbckpt.tracker import Tracker

SECONDS = float(os.environ.get("NBCKPT_TEST_SECONDS") or share.of(60, 10))
"""How long each of the tests with real processes goes on."""

KB = 1 << 10
A, B = (np.random.default_rng(seed).integers(0, 256, 300 * KB, dtype=np.uint8) for seed in range(2))


def view(store: Store) -> tuple[object, ...]:
    """Return what a user can see of a store: the checkpoints, their names, and whether all is whole."""
    tracker = Tracker(store)
    assert tracker.verify().damages == []
    rows = []
    for entry in tracker.entries():
        manifest = tracker.history.read(entry)
        names = [str(ref) for ref in tracker.history.refs() if ref.id == entry.id]
        contents = tuple(value.digest for value in manifest.values)
        rows.append((tuple(names), manifest.message, contents, tracker.history.trusted(manifest)))
    return tuple(rows)


@functools.lru_cache(maxsize=1)
def saved(secret: str) -> dict[str, bytes]:
    """Return the contents of a store with checkpoints that this secret signed."""
    store = MemoryStore()
    tracker = Tracker(store, settings=Settings(store="", secret_file=Path(secret)))
    tracker.save({"a": A, "small": 1}, "one", variables=["a", "small"])
    tracker.save({"a": A, "b": B}, "two", variables=["a", "b"])
    tracker.save({"a": A[: 5 * KB]}, "gone", variables=["a"])
    tracker.save({"b": B[: 200 * KB]}, "gone", variables=["b"])
    return {key: store.get(key) for key in list(store.keys())}


def filled() -> tuple[MemoryStore, Tracker]:
    """Return a store with checkpoints in it, some of them removed, and a tracker that can undo that."""
    store = MemoryStore()
    for key, data in saved(os.environ["NBCKPT_SECRET_FILE"]).items():
        store.put(key, data)
    tracker = Tracker(store)
    tracker.remove(["gone@2"])
    return store, tracker


def on(tracker: Tracker, store: Store) -> Tracker:
    """Return the tracker with its state, on another store."""
    tracker.store = tracker.history.store = store
    return tracker


COMMANDS: dict[str, Callable[[Tracker, Path], object]] = {
    "save": lambda tracker, _: tracker.save({"a": A + 1, "b": B}, "one", variables=["a", "b"]),
    "save small": lambda tracker, _: tracker.save({"x": 1}, "new", variables=["x"]),
    "to_store": lambda tracker, _: Checkpoint.from_dict({"a": A + 2, "n": 1}).to_store(tracker.store, "one"),
    "restore": lambda tracker, _: tracker.restore("two", {}),
    "tag": lambda tracker, _: tracker.tag("two", "best"),
    "rm": lambda tracker, _: tracker.remove(["two"]),
    "rm by id": lambda tracker, _: tracker.remove([tracker.find("one").id]),
    "undo": lambda tracker, _: tracker.undo({}),
    "gc": lambda tracker, _: collect(tracker.history, wait=lambda _: None),
    "import": lambda tracker, file: tracker.import_file(file),
    "trust": lambda tracker, file: tracker.trust(["stranger"]),
    "verify": lambda tracker, _: tracker.verify(),
    "export": lambda tracker, file: tracker.export("two", file.with_name("out"), overwrite=True),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give an exported checkpoint."""
    there = Tracker(MemoryStore())
    there.save({"c": A[::-1].copy(), "d": 1}, "imported", variables=["c", "d"])
    there.export("imported", tmp_path / "x.ckpt")
    return tmp_path / "x.ckpt"


def add_stranger(store: Store, tmp_path: Path) -> None:
    other = Tracker(store, settings=Settings(store="", secret_file=tmp_path / "other"))
    other.save({"s": 1}, "stranger", variables=["s"])


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_crash_leaves_the_old_or_the_new_store(command: str, file: Path, tmp_path: Path) -> None:
    store, tracker = filled()
    add_stranger(store, tmp_path)
    recording = RecordingStore(store)
    before = view(recording)
    recording.calls.clear()
    COMMANDS[command](on(tracker, recording), file)
    after = view(recording)
    for crashed in recording.crashes():
        assert view(crashed) in (before, after)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["save", "save small", "tag", "rm", "gc", "import", "trust"])
def test_a_crashed_operation_can_be_repeated(command: str, file: Path, tmp_path: Path) -> None:
    store, tracker = filled()
    add_stranger(store, tmp_path)
    recording = RecordingStore(store)
    COMMANDS[command](on(tracker, recording), file)
    done = view(recording)
    for crashed in recording.crashes():
        if len(view(crashed)) == len(done) and command != "gc":
            continue
        COMMANDS[command](Tracker(crashed), file)
        assert len(view(crashed)) == len(done)


def test_the_first_save_ever_may_crash_too() -> None:
    recording = RecordingStore(MemoryStore())
    Tracker(recording).save({"a": A}, "s", variables=["a"])
    for crashed in recording.crashes():
        assert len(view(crashed)) in (0, 1)
        Tracker(crashed).save({"a": A}, "s", variables=["a"])
        assert Tracker(crashed).restore("s", {}).failed == ()


def orders(recording: RecordingStore) -> Iterator[list[Any]]:
    """Yield what may be there after a crash: any of the packs, since they are put at once."""
    packs = [call for call in recording.changes if call.key.startswith("packs/")]
    rest = [call for call in recording.changes if call not in packs]
    for count in range(len(packs) + 1):
        for some in itertools.combinations(packs, count):
            yield list(some)
    for count in range(len(rest) + 1):
        yield packs + rest[:count]


@pytest.mark.slow
def test_packs_may_arrive_in_any_order() -> None:
    store = MemoryStore()
    Tracker(store).save({"a": A}, "old", variables=["a"])
    recording = RecordingStore(store)
    before = view(recording)
    big = np.random.default_rng(5).integers(0, 256, 270 << 20, dtype=np.uint8)
    Tracker(recording).save({"big": big}, "new", variables=["big"])
    changes = recording.changes
    assert sum(call.key.startswith("packs/") for call in changes) == 5
    last = max(at for at, call in enumerate(changes) if call.key.startswith("packs/"))
    first = min(at for at, call in enumerate(changes) if call.key.startswith(("checkpoints/", "refs/")))
    assert last < first
    after = tuple(ref.name for ref in Tracker(recording).history.refs())
    for there in itertools.islice(orders(recording), 12):
        crashed = recording.replay(0)
        for call in there:
            crashed.put(call.key, call.data)
        assert view(crashed) == before
    assert after == ("new", "old")


# Real processes.

SAVING = """
    import sys
    import numpy as np
    from nbckpt import Tracker

    rng = np.random.default_rng(int(sys.argv[2]))
    namespace = {f"array{n}": rng.integers(0, 256, 1 << 20, dtype=np.uint8) for n in range(24)}
    namespace |= {f"small{n}": list(range(n)) for n in range(200)}
    tracker = Tracker(sys.argv[1])
    for n in range(10_000):
        namespace[f"array{n % 24}"] += 1
        namespace["n"] = n
        made = tracker.save(namespace, "loop", variables=["*"])
        print(made.manifest.id, flush=True)
"""


def started(code: str, *arguments: object, **more: Any) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True, **more)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_kill_9_at_any_moment_of_a_save_loses_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "s")
    end = time.monotonic() + SECONDS
    rounds, made = 0, 0
    while time.monotonic() < end:
        process = started(SAVING, store.folder, rounds)
        assert process.stdout
        acknowledged = [process.stdout.readline().strip()]
        time.sleep(random.random() * 0.4)
        process.kill()
        acknowledged += process.stdout.read().split()
        process.wait()
        process.stdout.close()
        tracker = Tracker(store)
        assert tracker.verify().damages == []
        ids = {entry.id for entry in tracker.entries()}
        assert {key for key in acknowledged if len(key) == 64} <= ids
        assert {ref.id for ref in tracker.history.refs("loop")} >= ids
        namespace: dict[str, Any] = {}
        assert tracker.restore("loop", namespace).failed == ()
        assert len(namespace) == 225
        rounds, made = rounds + 1, made + len(acknowledged)
        if rounds % 3 == 0:
            tracker.remove([entry.id for entry in tracker.entries()[2:]])
            collect(tracker.history, wait=lambda _: None)
            assert tracker.verify().damages == []
    assert rounds
    assert made >= rounds


AT_ONCE = """
    import random, sys, time
    import numpy as np
    from nbckpt import Tracker
    from nbckpt.core import gc
    from nbckpt.errors import NbckptError

    where, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    rng, end = random.Random(name), time.monotonic() + seconds
    tracker, mine = Tracker(where), {}
    while time.monotonic() < end:
        # Both draw from the same few arrays, so that they share packs all the time.
        chosen = rng.sample(range(12), 4)
        namespace = {f"a{n}": np.random.default_rng(n).integers(0, 256, 200_000, np.uint8) for n in chosen}
        made = tracker.save(namespace, name, variables=["*"])
        mine[made.manifest.id] = chosen
        if len(mine) > 3:
            gone = rng.choice(sorted(mine))
            del mine[gone]
            tracker.remove([gone])
        if rng.random() < 0.3:
            gc.collect(tracker.history, wait=lambda _: time.sleep(0.05))
        got = {}
        checked = rng.choice(sorted(mine))
        restored = Tracker(where).restore(checked, got)
        assert not restored.failed, restored.failed
        assert sorted(got) == sorted(f"a{n}" for n in mine[checked])
    print(*sorted(mine), flush=True)
"""


@pytest.mark.slow
def test_two_processes_that_save_and_collect_lose_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "s")
    processes = [started(AT_ONCE, store.folder, name, SECONDS, stderr=subprocess.PIPE) for name in ("p", "q")]
    mine: set[str] = set()
    for process in processes:
        out, err = process.communicate(timeout=SECONDS + 60)
        assert process.returncode == 0, err
        mine |= set(out.split())
    tracker = Tracker(store)
    assert {entry.id for entry in tracker.entries()} == mine
    assert tracker.verify().damages == []
    collect(tracker.history, wait=lambda _: None)
    assert tracker.verify().damages == []
    for target in mine:
        namespace: dict[str, Any] = {}
        assert tracker.restore(target, namespace).failed == ()
        for name, array in namespace.items():
            expected = np.random.default_rng(int(name[1:])).integers(0, 256, 200_000, np.uint8)
            assert np.array_equal(array, expected)


def test_an_interrupted_save_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    class Interrupting(LocalStore):
        def put(self, key: str, data: Any) -> None:
            if key.startswith(self.at):
                raise KeyboardInterrupt
            super().put(key, data)

        at = "never"

    store = Interrupting(tmp_path / "s")
    tracker = Tracker(store)
    tracker.save({"a": A}, "s", variables=["a"])
    before = view(store)
    namespace = {"b": B, "c": [1]}
    for at in ("packs/", "refs/", "checkpoints/"):
        store.at = at
        with pytest.raises(KeyboardInterrupt):
            tracker.save(namespace, "s", variables=["b", "c"])
        store.at = "never"
        assert view(store) == before
        assert list((tmp_path / "s" / ".nbckpt-tmp").iterdir()) == []
    assert namespace.keys() == {"b", "c"}
    assert tracker.save(namespace, "s", variables=["b", "c"]).ref.version == 2
