"""Crashes: wherever a save fails or its process ends, the saves before it are whole, and the next works."""

from __future__ import annotations

import io
import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import nbckpt
from attack import share
from attack.syscalls import ERRORS, Faults
from nbckpt.errors import StoreError
from nbckpt.states.folder import StateFolder
from state.conftest import Number, restarted, saves

ROUNDS = share.of(60, 12)

CALLS = {
    os: ("open", "mkdir", "rename", "unlink", "fsync", "scandir", "listdir", "rmdir", "stat", "lstat"),
    io: ("open",),
}
"""What a save asks of the system, as far as it can be replaced."""


class Crash(BaseException):
    """The process ends here."""


def faults(error: Callable[[], BaseException], **how: bool) -> Iterator[Faults]:
    """Yield a fault for each call of what is done with it; the last of them comes too late."""
    for at in itertools.count(1):
        fault = Faults(at, error, calls=CALLS, **how)
        yield fault
        if not fault.reached:
            assert at > 20
            return


@contextmanager
def two_states(value: int) -> Iterator[None]:
    kept = Number("n", value), Number("Other/ü", value)
    yield
    for state in kept:
        state.close()


def both(job: Path) -> int:
    """Return the number that both states were saved with."""
    (loaded, one), other = restarted(job), restarted(job, "Other/ü")
    assert loaded
    assert other == (True, one)
    return one


STATE_ERRORS = ERRORS | {"gone": lambda: FileNotFoundError(2, "No such file or directory")}


@pytest.mark.slow
@pytest.mark.parametrize("error", STATE_ERRORS)
@pytest.mark.parametrize("keep", [1, 2])
def test_a_failed_call_of_a_save_keeps_the_former_save_whole(job: Path, keep: int, error: str) -> None:
    """The next save works."""
    values = itertools.count(1)
    for fault in faults(STATE_ERRORS[error]):
        with two_states(before := next(values)):
            nbckpt.save_all_states(keep=keep)
        with two_states(tried := next(values)):
            try:
                with fault:
                    nbckpt.save_all_states(keep=keep)
            except StoreError:
                # The very last step may fail after the save is there.
                assert both(job) in {before, tried}
            else:
                assert both(job) == tried
        with two_states(after := next(values)):
            nbckpt.save_all_states(keep=keep)
        assert both(job) == after
        assert len(saves(job)) <= keep
        assert all(name.startswith("checkpoint-") for name in saves(job))


@pytest.mark.slow
def test_a_crash_at_any_call_leaves_the_former_or_the_new_save(job: Path) -> None:
    values = itertools.count(1)
    seen = set()
    for fault in faults(Crash, from_then_on=True):
        with two_states(before := next(values)):
            nbckpt.save_all_states(keep=1)
        with two_states(tried := next(values)):
            try:
                with fault:
                    nbckpt.save_all_states(keep=1)
            except Crash:
                seen.add(both(job) - before)
            else:
                assert both(job) == tried
        assert both(job) in {before, tried}
        with two_states(after := next(values)):
            nbckpt.save_all_states(keep=1)
        assert both(job) == after
        assert len(saves(job)) == 1
    assert seen == {0, 1}


@pytest.mark.parametrize("error", ["broken", "forbidden", "handles"])
def test_a_failed_call_of_a_load_raises_the_documented_error(job: Path, error: str) -> None:
    """If the load returns, the state is complete."""
    for value in (1, 2):
        with two_states(value):
            nbckpt.save_all_states()
    for fault in faults(STATE_ERRORS[error]):
        state = Number("n", -1)
        try:
            with nbckpt.states.use_folder(job), fault:
                assert nbckpt.load_state(state)
        except StoreError:
            assert state.value == -1
        else:
            assert state.value == 2
        state.close()
        if not fault.reached:
            return


# Real processes.

HEAD = """
    import os, pickle, signal, sys
    import nbckpt

    class Number(nbckpt.State):
        value = 0
        def save(self, fileobj):
            pickle.dump(self.value, fileobj)
            fileobj.write(bytes(100_000))
        def load(self, fileobj):
            self.value = pickle.load(fileobj)

    one, other = Number("n"), Number("Other/ü")
    nbckpt.load_state(one)
"""
LOOP = """
    while True:
        one.value += 1
        other.value = one.value
        nbckpt.save_all_states()
        print(one.value, flush=True)
"""
EACH_CALL = """
    import io, itertools

    def save_and_die(at):
        calls = itertools.count(1)
        def deadly(real):
            def call(*args, **options):
                if next(calls) == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **options)
            return call
        for module, names in {CALLS}:
            for name in names:
                setattr(module, name, deadly(getattr(module, name)))
        one.value = other.value = int(sys.argv[1]) + at
        nbckpt.save_all_states()

    for at in itertools.count(1):
        child = os.fork()
        if not child:
            save_and_die(at)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        print(status, flush=True)
        sys.stdin.readline()
"""


@contextmanager
def started(job: Path, code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HEAD) + textwrap.dedent(code), *arguments],
        env=os.environ | {"NBCKPT_CHECKPOINT_PATH": str(job)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


needs_kill = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no kill -9")


@pytest.mark.slow
@needs_kill
def test_kill_9_at_random_moments_leaves_the_last_or_next_save(tmp_path: Path) -> None:
    """The last save is the last one that returned."""
    job = tmp_path / "job"
    draw = random.Random(4)
    last = 0
    for _ in range(ROUNDS):
        with started(job, LOOP) as process:
            assert process.stdout is not None
            said = [process.stdout.readline()]
            assert said[0] == f"{last + 1}\n"
            time.sleep(draw.random() / 20)  # the moment does not matter, so it need not be known
            process.send_signal(signal.SIGKILL)
            said += process.stdout.readlines()
        returned = int(said[-1])
        last = both(job)
        assert last in {returned, returned + 1}
        assert sum(name.startswith("checkpoint-") for name in saves(job)) <= 3


@pytest.mark.slow
@needs_kill
def test_kill_9_at_each_call_leaves_the_former_or_the_new_save(tmp_path: Path) -> None:
    job = tmp_path / "job"
    base = 1000
    with nbckpt.states.use_folder(job), two_states(base):
        nbckpt.save_all_states()
    calls = repr({f"{call.__name__}": names for call, names in CALLS.items()})
    code = EACH_CALL.replace("{CALLS}", f"[(globals()[it], names) for it, names in {calls}.items()]")
    before, seen = base, []
    with started(job, code, str(base)) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for at in itertools.count(1):
            status = int(process.stdout.readline())
            seen.append(both(job) == base + at)
            assert both(job) in {before, base + at}
            before = both(job)
            if status == 0:
                break
            assert status == signal.SIGKILL
            process.stdin.write("\n")
            process.stdin.flush()
    assert len(seen) > 20
    # Up to the rename nothing of the new save is seen, after it all of it.
    assert seen == sorted(seen)
    newest = StateFolder(job).newest()
    assert newest is not None
    assert len(saves(job)) == 2


@needs_kill
def test_a_forked_process_saves_a_large_state_after_its_parent(tmp_path: Path) -> None:
    code = """
        one.save = lambda file: file.write(bytes(5_000_000))
        nbckpt.save_all_states()
        child = os.fork()
        if not child:
            nbckpt.save_all_states()
            os._exit(0)
        print(os.waitpid(child, 0)[1], flush=True)
    """
    with started(tmp_path / "job", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
    assert saves(tmp_path / "job") == ["checkpoint-1", "checkpoint-2"]
