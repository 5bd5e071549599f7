"""How the tests are chosen and ordered. `isolation.py` has what each test gets of its own."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from nbckpt.core import gc as collector
from nbckpt.trials.engine import shutdown
from spread import spread

pytest_plugins = ["isolation", "servers.azure", "servers.s3", "servers.sftp"]

QUICK = "not slow and not browser"
MEMORY, ROOM = "/dev/shm", 4 << 30

# A busy machine is not a failure.
settings.register_profile("nbckpt", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nbckpt")


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


def let_signals_arrive() -> None:
    """Let programs that tests start meet Ctrl-C and the end of a terminal.

    A shell starts a background job with Ctrl-C ignored, `nohup` does so with the end of the terminal, and
    programs inherit both.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def write_to_memory() -> None:
    """Let pytest make its temporary folders in memory, where a sync costs nothing, if there is room."""
    with suppress(OSError, AttributeError):  # another system
        room = os.statvfs(MEMORY)
        if room.f_bavail * room.f_frsize >= ROOM and not room.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the garbage collector not look, again and again, at all that collection makes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker begin with long tests."""
    if worker := getattr(config, "workerinput", None):
        items[:] = spread(items, worker["workercount"])


def pytest_report_header(config: pytest.Config) -> str:
    chosen = config.option.markexpr
    return f'tests: -m "{chosen}" (--all runs every test)' if chosen else "tests: all"


def pytest_sessionfinish() -> None:
    """Let the interpreter end although a test that failed left a trial that waits for it."""
    shutdown.live.clear()


@pytest.fixture
def gc_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `gc` not wait for saves that began before its mark: in this test none runs beside it."""
    monkeypatch.setattr(collector, "GRACE_S", 0.0)
