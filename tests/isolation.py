"""What each test gets of its own: environment, folders, signals, stores, figures, states and threads."""

from __future__ import annotations

import gc
import itertools
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbckpt._private_apis import target_of
from nbckpt.core.packs import pools
from nbckpt.states import use_folder

ENDS_S = 20.0
MANY_OBJECTS = 50_000


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield paths of new folders. `mktemp` would list the folders of all former tests for each."""
    top = tmp_path_factory.mktemp("homes")
    return (top / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, homes: Iterator[Path]) -> Path:
    """Give the test a secret and a folder for temporary files, and none of the user's settings."""
    home = next(homes)
    for name in ("NBCKPT_STORE", "NBCKPT_TEMPLATES", "NBCKPT_MMAP", "NBCKPT_CACHE", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    # Only the tests of provenance ask git: others compare folders, and would ask about this repository.
    monkeypatch.setenv("NBCKPT_PROVENANCE", "0")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(home / "secret"))
    monkeypatch.setenv("NBCKPT_CACHE", str(home / "cache"))
    (home / "tmp").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(home / "tmp"))
    return home


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Hold that no test keeps Ctrl-C, and give it to the next: nbclient keeps it if its kernel dies."""
    before = signal.getsignal(signal.SIGINT)
    yield
    kept = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert kept is before


@pytest.fixture(autouse=True)
def own_memory() -> Iterator[None]:
    """Forget what the test put at `memory://`, which fsspec keeps for the whole process."""
    yield
    if fsspec := sys.modules.get("fsspec.implementations.memory"):
        fsspec.MemoryFileSystem.store.clear()
        fsspec.MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(autouse=True)
def own_figures() -> Iterator[None]:
    """Close the figures that the test left open: the analysis of each cell looks at all of them."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(autouse=True)
def own_states() -> Iterator[None]:
    """Give the test a registry of states of its own."""
    with use_folder():
        yield


@pytest.fixture(autouse=True)
def own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no thread count as the user's that was there before the test, such as a server of many tests."""
    before, is_harmless = {*threading.enumerate()} - {threading.main_thread()}, pools.is_harmless
    monkeypatch.setattr(pools, "is_harmless", lambda thread: thread in before or is_harmless(thread))


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Hold that nothing of ours goes on after a test. A thread that was told to end may need a moment."""
    yield
    left = [thread for thread in threading.enumerate() if thread.name.startswith("nbckpt")]
    for thread in left:
        if thread.name == "nbckpt-point-at-end" and (wait := target_of(thread)) is not None:
            wait.__self__.end()  # type: ignore[attr-defined]  # the test left %ckpt auto on
        thread.join(ENDS_S)
    assert not [thread.name for thread in left if thread.is_alive()]


@pytest.fixture(scope="module", autouse=True)
def former_objects() -> Iterator[None]:
    """Let the garbage collector not look at what former modules left, which is mostly libraries."""
    yield
    if len(gc.get_objects(generation=2)) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()
