"""Which replica this is, and jobs that start again with another number of replicas."""

from __future__ import annotations

import os
import pickle
import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

import nbckpt
from nbckpt import UsageError
from nbckpt.states import replica
from state.elastic import Group, generation, run
from state.examples import Data, Epochs, Sums


class Number(nbckpt.State):
    """A number that notes what is asked of it."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name)
        self.number = number
        self.calls: list[str] = []

    def sync(self) -> None:
        self.calls.append("sync")

    def save(self, fileobj: IO[bytes]) -> None:
        self.calls.append("save")
        pickle.dump(self.number, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        self.number = pickle.load(fileobj)


@pytest.mark.slow
@pytest.mark.parametrize("names", ["NBCKPT", "ADAPTDL"])
def test_two_replicas_load_the_save_of_one(tmp_path: Path, names: str) -> None:
    def job(group: Group) -> int:
        del group
        one, two = Number("one", 1), Number("two", 2)
        if replica.restarts() == 0:
            one.number, two.number = 10, 20
            assert nbckpt.save_all_states() == str(replica.checkpoint_path() / "checkpoint-1")
            return 2
        assert nbckpt.load_state(one)
        assert nbckpt.load_state(two)
        assert (one.number, two.number) == (10, 20)
        return 0

    assert run(job, tmp_path, names) == [2, 0]


@pytest.mark.slow
def test_every_replica_syncs_every_state_and_the_first_one_saves(tmp_path: Path) -> None:
    def job(group: Group) -> list[Any]:
        states = [Number("one", 1), Number("two", 2)]
        saved = nbckpt.save_all_states()
        return group.gather((saved is not None, [state.calls for state in states]))

    done = generation(job, tmp_path, 3).value
    assert done == [(True, [["sync", "save"]] * 2), (False, [["sync"]] * 2), (False, [["sync"]] * 2)]


@pytest.mark.slow
def test_after_a_save_every_replica_finds_it(tmp_path: Path) -> None:
    def job(group: Group) -> list[int]:
        del group
        state, numbers = Number("number", 0), []
        for number in range(1, 6):
            state.number = number
            nbckpt.save_all_states()
            state.number = -1
            assert nbckpt.load_state(state)
            numbers.append(state.number)
        return numbers

    assert generation(job, tmp_path, 3).value == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_sums_are_complete_after_each_restart(tmp_path: Path) -> None:
    def job(group: Group) -> int:
        sums = Sums("sums", Epochs(), group.gather)
        if replica.restarts() == 0:
            sums.add("a", 15)
            sums.add("b", -5)
            nbckpt.save_all_states()  # these two are not brought together before
            return 4
        assert sums.together() == {"a": 15, "b": -5}
        if replica.restarts() == 1:
            sums.add("a", replica.rank())
            assert sums.together() == {"a": 21, "b": -5}
            sums.add("b", 1)
            nbckpt.save_all_states()
            return 2
        sums.add("a", 1000)  # was added before the second result, which is known
        assert sums.together() == {"a": 21, "b": -5}
        sums.add("c", 1)
        assert sums.together() == {"a": 21, "b": -1, "c": 2}
        return 0

    assert run(job, tmp_path) == [4, 2, 0]


SAMPLES, EPOCHS = 103, 3


def train(group: Group) -> tuple[Counter[Any], list[int], int]:
    """Return how often each sample was read in each epoch, what each epoch summed up, and the weight."""
    with nbckpt.states.save_on_signal():
        epochs = Epochs()
        data = Data("data", range(SAMPLES), epochs, group.any)
        read = Sums("read", epochs, group.gather)
        sums = nbckpt.State.of("sums of epochs", [])
        weight = np.zeros(3, int)
        state = nbckpt.State.of("weight", weight)
        for number in (sums, state):
            nbckpt.load_state(number)
        assert group.gather(weight.tolist()) == [weight.tolist()] * replica.count()
        for epoch in epochs.until(EPOCHS):
            for batch in data:
                for sample in batch:
                    read.add((epoch, sample))
                    read.add(epoch, sample)
                weight += group.all_reduce(sum(batch))
            sums.value.append(read.together()[epoch])
            del sums.value[epoch + 1 :]
        return read.together(), sums.value, weight.tolist()


def check_trained(value: Any) -> None:
    counts, sums, weight = value
    total = sum(range(SAMPLES))
    samples = {key: value for key, value in counts.items() if isinstance(key, tuple)}
    assert samples == {(epoch, sample): 1 for epoch in range(EPOCHS) for sample in range(SAMPLES)}
    assert sums == [total] * EPOCHS
    assert weight == [total * EPOCHS] * 3


@pytest.mark.slow
def test_a_changing_number_of_replicas_trains_like_one(tmp_path: Path) -> None:
    for restarts, (replicas, end) in enumerate([(1, (0, 90)), (2, (1, 150)), (5, (3, 30))]):
        done = generation(train, tmp_path, replicas, restarts=restarts, end=end)
        assert done.codes == [143] * replicas
    done = generation(train, tmp_path, 1, restarts=3)
    assert done.codes == [0]
    check_trained(done.value)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_job_terminated_at_any_moment_loses_nothing(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    ended = 0
    for restarts in range(100):
        replicas = drawn.randint(1, 4)
        end = (drawn.randrange(replicas), drawn.randint(2, 120))
        done = generation(train, tmp_path, replicas, restarts=restarts, end=end)
        if done.codes == [0] * replicas:
            break
        assert done.codes == [143] * replicas
        ended += 1
    assert ended > 1
    check_trained(done.value)


@pytest.mark.slow
def test_a_failed_replica_ends_all_replicas(tmp_path: Path) -> None:
    def job(group: Group) -> None:
        (tmp_path / f"{replica.rank()}").write_text(str(os.getpid()))
        group.barrier()
        if replica.rank() == 1:
            raise ZeroDivisionError
        group.barrier()

    with pytest.raises(AssertionError, match="replica 1 of 3 ended with 1"):
        generation(job, tmp_path, 3)
    for rank in range(3):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"{rank}").read_text()), 0)


def cells_of(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("|").split("|")]


ROWS = [cells_of(line) for line in (replica.__doc__ or "").splitlines() if line.startswith("| `")]
CALLS: dict[str, Callable[[], Any]] = {row[0]: getattr(replica, row[0].removesuffix("()")) for row in ROWS}
ORDER = [(row[0], [name for name in row[1:4] if name]) for row in ROWS]
NUMBERS = [row for row in ORDER if row[0] != "checkpoint_path()"]


@pytest.fixture(autouse=True)
def enough_replicas(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let there be more replicas than a rank that is read."""
    if "rank()" in request.node.name:
        monkeypatch.setenv("NBCKPT_NUM_REPLICAS", "100")


def test_the_table_has_a_row_for_every_function() -> None:
    assert [*CALLS] == ["rank()", "count()", "restarts()", "checkpoint_path()"]
    assert [len(names) for _, names in ORDER] == [3, 3, 3, 2]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_without_variables_each_function_has_its_default(
    row: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBCKPT_NUM_REPLICAS", raising=False)
    assert str(CALLS[row[0]]()) == row[4]


@pytest.mark.parametrize(("call", "names"), ORDER, ids=[call for call, _ in ORDER])
def test_the_first_variable_of_the_table_that_is_set_counts(
    call: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, name in enumerate(reversed(names), 5):
        monkeypatch.setenv(name, str(value))
        assert str(CALLS[call]()) == str(value)
    for name, then in pairwise(names):
        monkeypatch.setenv(name, "")
        value = 5 + names[::-1].index(then)
        assert str(CALLS[call]()) == str(value)


def test_every_call_reads_the_environment_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("3", "4", "5"):
        monkeypatch.setenv("WORLD_SIZE", value)
        monkeypatch.setenv("ADAPTDL_CHECKPOINT_PATH", f"/job/{value}")
        assert (replica.count(), replica.checkpoint_path()) == (int(value), Path("/job") / value)


def test_an_invalid_number_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    values = ("-1", "1.0", "one", "0x1", "1_0", "\u0663", "1 2", "9" * 5000, "nan")
    for (call, names), value in product(NUMBERS, values):
        for name in names:
            wrong = re.escape(f"{name}={value!r} in the environment is not a whole number")
            with subtests.test(f"{name}={value[:9]}"), monkeypatch.context() as patch:
                patch.setenv(name, value)
                with pytest.raises(UsageError, match=wrong):
                    CALLS[call]()


def test_a_number_may_have_space_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("7", " 7 ", "007", "7\n"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", value)
        assert replica.restarts() == 7


def test_a_rank_is_below_the_number_of_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(UsageError, match="RANK=2, but there are 1 replicas"):
        replica.rank()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="RANK=2, but there are 2 replicas: ranks are below their number"):
        replica.rank()
    monkeypatch.setenv("NBCKPT_NUM_REPLICAS", "3")
    assert replica.rank() == 2


def test_there_is_one_replica_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTDL_NUM_REPLICAS", "0")
    with pytest.raises(UsageError, match="ADAPTDL_NUM_REPLICAS=0: a job has one replica at least"):
        replica.count()
