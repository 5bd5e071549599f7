"""A job of torchrun: killed in the middle of a save, and started again with one replica more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

import nbckpt
from nbckpt.states import replica

if TYPE_CHECKING:
    from collections.abc import Iterator

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)

STEPS, EVERY, ROWS = 10, 2, 12
HELD_AT, HELD_OF = 6, 2


class Held(nbckpt.State):
    """A state whose save never ends, at one step of the job of two replicas."""

    def __init__(self, progress: dict[str, int]) -> None:
        super().__init__("held")
        self.progress = progress

    def save(self, fileobj: IO[bytes]) -> None:
        fileobj.write(b"half of ")
        if (self.progress["step"], replica.count()) == (HELD_AT, HELD_OF):
            fileobj.flush()
            say({"held": os.getpid()})
            signal.pause()
        fileobj.write(b"it")


def say(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


def parts(seed: int) -> tuple[Any, Any]:
    import torch

    torch.manual_seed(seed)
    model = torch.nn.Linear(4, 1)
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def step(model: Any, optimizer: Any, number: int, rank: int = 0, count: int = 1) -> None:
    """Learn from this replica's rows of the step's batch."""
    import torch

    batch = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(number))[rank::count]
    optimizer.zero_grad()
    (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()


def train() -> None:
    """Be one replica of the job."""
    import torch
    import torch.distributed as dist

    def weights() -> list[Any]:
        """Return the parameters of every replica's model."""
        weights: list[Any] = [None] * replica.count()
        dist.all_gather_object(weights, [parameter.tolist() for parameter in model.parameters()])
        return weights

    dist.init_process_group("gloo")
    model, optimizer = parts(seed=replica.rank())
    progress = {"step": 0}
    with nbckpt.states.use_folder(barrier=dist.barrier):
        states = [
            nbckpt.State.of("model", model),
            Held(progress),
            nbckpt.State.of("optimizer", optimizer),
            nbckpt.State.of("progress", progress),
        ]
        loaded = [nbckpt.load_state(state) for state in states]
        begun = {"begun": progress["step"], "loaded": loaded, "weights": weights()}
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        while progress["step"] < STEPS:
            step(parallel, optimizer, progress["step"], replica.rank(), replica.count())
            progress["step"] += 1
            if progress["step"] % EVERY == 0:
                nbckpt.save_all_states()
        ended = weights()
    if replica.rank() == 0:
        say(begun)
        say({"weights": ended})
    dist.destroy_process_group()


@contextmanager
def torchrun(replicas: int, folder: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Start the job, and end all of it."""
    environment = os.environ | {"NBCKPT_CHECKPOINT_PATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={replicas}", __file__]
    with subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.terminate()  # torchrun ends its replicas, a SIGKILL would leave them


def saves(folder: Path) -> list[str]:
    return sorted(save.name for save in folder.glob("checkpoint-*"))


@pytest.mark.slow
def test_a_job_killed_in_a_save_resumes_from_the_former_save(tmp_path: Path) -> None:
    folder = tmp_path / "states"
    with torchrun(2, folder) as (job, said):
        held = json.loads(said.readline())["held"]
        assert saves(folder) == ["checkpoint-1", "checkpoint-2"]
        os.kill(held, signal.SIGKILL)
        assert job.wait() != 0
    assert saves(folder) == ["checkpoint-1", "checkpoint-2"]
    (left,) = folder.glob(".nbckpt-tmp-*")
    assert (left / "held.state").read_bytes() == b"half of "

    with torchrun(3, folder) as (job, said):
        begun, ended = map(json.loads, said)
        assert job.wait() == 0
    assert begun["begun"] == HELD_AT - EVERY
    assert begun["loaded"] == [True] * 4
    for weights in (begun["weights"], ended["weights"]):
        assert len(weights) == 3
        assert weights == weights[:1] * 3
    assert saves(folder) == ["checkpoint-4", "checkpoint-5"]
    assert list(folder.glob(".nbckpt-tmp-*")) == []
    check_learned(ended["weights"][0])


def check_learned(weights: list[Any]) -> None:
    """Hold that the weights are those of one process that nobody killed."""
    import torch

    model, optimizer = parts(seed=0)
    for number in range(STEPS):
        step(model, optimizer, number)
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        torch.testing.assert_close(torch.tensor(weight), parameter.detach())


if __name__ == "__main__":
    train()
