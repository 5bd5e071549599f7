"""Jobs that end and are started again with another number of replicas: nothing is lost or done twice."""

from __future__ import annotations

import os
import pickle
import random
from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

import nbckpt
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
