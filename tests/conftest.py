"""Fixtures for every test: a clean environment, a secret and temporary folders of the test's own."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from nbckpt._private_apis import target_of
from nbckpt.core import gc as collector
from nbckpt.core.packs import pools
from nbckpt.states import use_folder
from nbckpt.trials.engine import shutdown
from spread import spread

ENDS_S = 20.0
MANY_OBJECTS = 50_000
STACK_SLOTS = 66_000  # a little more than half of a MiB, so that the other half is free
MEMORY, ROOM = "/dev/shm", 4 << 30

QUICK = "not slow and not browser"

# A busy machine is not a failure.
settings.register_profile("nbckpt", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nbckpt")

pytest_plugins = ["servers.azure", "servers.s3", "servers.sftp"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run slow tests and browser tests too")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the quick tests, unless the command line asks for all, has its own `-m` or names one test."""
    named = any("::" in argument for argument in config.args)
    if not (config.option.all or config.option.markexpr or named):
        config.option.markexpr = QUICK
    let_signals_arrive()
    write_to_memory()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of programs would compile all modules each
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # beside other workers, threads of BLAS wait in loops


def write_to_memory() -> None:
    """Let pytest make its temporary folders in memory, where a sync costs nothing, if there is room."""
    with suppress(OSError, AttributeError):  # another system
        room = os.statvfs(MEMORY)
        if room.f_bavail * room.f_frsize >= ROOM and not room.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def let_signals_arrive() -> None:
    """Let programs that tests start meet Ctrl-C and the end of a terminal.

    A shell starts a background job with Ctrl-C ignored, `nohup` does so with the end of the terminal, and
    programs inherit both.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let the garbage collector not look, again and again, at all that collection makes."""
    session.perform_collect = with_room(session.perform_collect)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def with_room(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that leaves much of Python's stack free for the calls below it.

    Python maps its stack in pieces of 16 KiB, and gives a piece back as soon as its first call returns.
    Collection meets the end of a piece 470,000 times, which takes a third of its time. A piece is larger
    if its first call asks for more.
    """

    def call_it(*given: Any, **named: Any) -> Any:
        return call(*given, **named)

    call_it.__code__ = call_it.__code__.replace(co_stacksize=STACK_SLOTS)
    return call_it


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker begin with long tests."""
    if worker := getattr(config, "workerinput", None):
        items[:] = spread(items, worker["workercount"])


def pytest_report_header(config: pytest.Config) -> str:
    return (
        f'tests: -m "{config.option.markexpr}" (--all runs every test)'
        if config.option.markexpr
        else "tests: all"
    )


@pytest.fixture(scope="module", autouse=True)
def former_objects() -> Iterator[None]:
    """Let the garbage collector not look at what former modules left, which is mostly libraries."""
    yield
    if len(gc.get_objects(generation=2)) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()


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


@pytest.fixture
def gc_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `gc` not wait for saves that began before its mark: in this test none runs beside it."""
    monkeypatch.setattr(collector, "GRACE_S", 0.0)


def pytest_sessionfinish() -> None:
    """Let the interpreter end although a test that failed left a trial that waits for it."""
    shutdown.live.clear()


@pytest.fixture(autouse=True)
def own_states() -> Iterator[None]:
    """Give the test a registry of states of its own."""
    with use_folder():
        yield


@pytest.fixture(autouse=True)
def own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no thread count as the user's that was there before the test, such as a server of many tests."""
    before, is_harmless = {*threading.enumerate()} - {threading.main_thread()}, pools._is_harmless
    monkeypatch.setattr(pools, "_is_harmless", lambda thread: thread in before or is_harmless(thread))


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
