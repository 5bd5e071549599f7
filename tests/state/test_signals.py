"""Signals: asked to end, a job saves after the same step on every replica, and ends with 143."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kernels
import nbckpt
from nbckpt import UsageError
from state.conftest import Number, restarted

BOTH = [signal.SIGTERM, signal.SIGINT]


class AskedError(Exception):
    """A handler of before was called."""


def raises_asked(number: int, frame: object) -> None:
    raise AskedError(number)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Have both signals raise `AskedError`, and hold that they do so again at the end."""
    before = {number: signal.signal(number, raises_asked) for number in BOTH}
    yield
    left = [signal.signal(number, handler) for number, handler in before.items()]
    assert left == [raises_asked, raises_asked]


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_sets_a_flag_and_a_second_has_its_former_effect(number: signal.Signals) -> None:
    with nbckpt.states.save_on_signal() as flag:
        assert not nbckpt.states.should_stop()
        signal.raise_signal(number)
        assert nbckpt.states.should_stop()
        assert flag.came == number
        for number in BOTH:
            with pytest.raises(AskedError):
                signal.raise_signal(number)
        assert nbckpt.states.should_stop()
    assert not nbckpt.states.should_stop()


def test_signal_handlers_are_restored_after_a_block_that_fails() -> None:
    with pytest.raises(ZeroDivisionError), nbckpt.states.save_on_signal():
        raise ZeroDivisionError
    for number in BOTH:
        with pytest.raises(AskedError):
            signal.raise_signal(number)


def test_only_the_signals_that_were_named_are_handled() -> None:
    with nbckpt.states.save_on_signal(signal.SIGTERM):
        with pytest.raises(AskedError):
            signal.raise_signal(signal.SIGINT)
        assert not nbckpt.states.should_stop()
        signal.raise_signal(signal.SIGTERM)
        assert nbckpt.states.should_stop()


def test_without_a_block_save_on_signal_stays_active() -> None:
    flag = nbckpt.states.save_on_signal()
    signal.raise_signal(signal.SIGTERM)
    assert nbckpt.states.should_stop()
    flag.__exit__(None, None, None)


def test_a_signal_in_an_inner_block_ends_the_outer_one_too() -> None:
    with nbckpt.states.save_on_signal() as outer:
        with nbckpt.states.save_on_signal():
            signal.raise_signal(signal.SIGTERM)
            assert outer.came is None
        assert nbckpt.states.should_stop()
        assert outer.came == signal.SIGTERM


def test_an_inner_block_does_not_change_the_outer_block() -> None:
    with nbckpt.states.save_on_signal():
        with nbckpt.states.save_on_signal():
            assert not nbckpt.states.should_stop()
        assert not nbckpt.states.should_stop()
        signal.raise_signal(signal.SIGINT)
        assert nbckpt.states.should_stop()


def test_without_save_on_signal_nothing_asks_to_stop() -> None:
    assert not nbckpt.states.should_stop()
    assert nbckpt.states.should_stop(lambda asked: True)


def in_a_thread(call: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(call).result()
        except UsageError as error:
            return str(error)


def test_only_the_main_thread_can_ask_for_signals() -> None:
    refusal = "save_on_signal() handles signals: call it in the main thread"
    assert in_a_thread(nbckpt.states.save_on_signal) == refusal


def test_every_thread_sees_the_flag() -> None:
    with nbckpt.states.save_on_signal():
        assert in_a_thread(nbckpt.states.should_stop) is False
        signal.raise_signal(signal.SIGTERM)
        assert in_a_thread(nbckpt.states.should_stop) is True


@pytest.mark.parametrize("of_another", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_should_stop_passes_its_answer_to_the_reduce_function(own: bool, of_another: bool) -> None:
    """It returns the answer of the reduce function."""
    given: list[bool] = []

    def any_of(asked: bool) -> int:
        given.append(asked)
        return int(asked or of_another)

    with nbckpt.states.save_on_signal():
        if own:
            signal.raise_signal(signal.SIGTERM)
        assert nbckpt.states.should_stop(any_of) is (own or of_another)
    assert given == [own]


def test_save_and_exit_saves_everything_and_ends_with_143(job: Path) -> None:
    state = Number("n", 5)
    passed: list[None] = []
    with pytest.raises(SystemExit) as ended:
        nbckpt.states.save_and_exit(barrier=lambda: passed.append(None), keep=1)
    assert (ended.value.code, len(passed), state.value) == (143, 2, 5)
    assert restarted(job) == (True, 5)


PROGRAM = """
    import pickle, sys
    import nbckpt

    class Step(nbckpt.State):
        value = 0
        def save(self, file):
            pickle.dump(self.value, file)
        def load(self, file):
            self.value = pickle.load(file)

    step = Step("step")
    nbckpt.load_state(step)
    print(step.value, flush=True)
    nbckpt.states.save_on_signal()
    while True:
        step.value += 1
        print(step.value, flush=True)
        if nbckpt.states.should_stop():
            nbckpt.states.save_and_exit()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", BOTH)
def test_a_terminated_job_saves_its_last_step_and_exits_with_143(
    tmp_path: Path, number: signal.Signals
) -> None:
    env = os.environ | {"ADAPTDL_CHECKPOINT_PATH": str(tmp_path)}
    last = 0
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)], env=env, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert int(process.stdout.readline()) == last
            said = [process.stdout.readline()]
            process.send_signal(number)
            last = int((said + process.stdout.readlines())[-1])
        assert process.returncode == 143


CELLS = """
    import nbckpt, signal
    class Step(nbckpt.State):
        value = 0
        def save(self, file): file.write(b"%d" % self.value)
    step = Step("step")
    before = signal.getsignal(signal.SIGTERM)
    print("ready")
    # %%
    with nbckpt.states.save_on_signal():
        while not nbckpt.states.should_stop():
            step.value += 1
            if step.value == 3:
                print("running", flush=True)
        nbckpt.states.save_and_exit()
    # %%
    (signal.getsignal(signal.SIGTERM) is before, nbckpt.states.should_stop(), step.value > 2)
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """Give a real kernel and its client."""
    monkeypatch.setenv("NBCKPT_CHECKPOINT_PATH", str(tmp_path / "job"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    with kernels.lent(tmp_path) as lent:
        yield lent


@pytest.mark.slow
def test_an_interrupt_saves_and_ends_the_cell_not_the_kernel(kernel: tuple[Any, Any], tmp_path: Path) -> None:
    manager, client = kernel
    define, train, look = textwrap.dedent(CELLS).split("# %%\n")
    client.execute_interactive(define, timeout=60)

    def interrupt_when_running(message: dict[str, object]) -> None:
        if message["msg_type"] == "stream" and "running" in str(message["content"]):
            manager.interrupt_kernel()

    reply = client.execute_interactive(train, timeout=60, output_hook=interrupt_when_running)
    assert "Interrupt" in reply["content"]["ename"]
    assert "all states are saved" in reply["content"]["evalue"]
    shown: list[str] = []
    client.execute_interactive(
        look, timeout=60, output_hook=lambda message: shown.append(str(message["content"]))
    )
    assert "(True, False, True)" in "".join(shown)
    steps = [int(file.read_bytes()) for file in (tmp_path / "job").rglob("step.state")]
    assert len(steps) == 1
    assert steps[0] >= 3
