"""The trainables of the frozen experiments. Their pickles name this module, so nothing here may move."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import IO, Any

import nbckpt

on_second_step: Callable[[], None] = lambda: None  # noqa: E731  the script that made the samples replaces it


def count(config: dict[str, Any]) -> None:
    """Count to four with a checkpoint at each step; the trial called `fails` fails after two."""
    checkpoint = nbckpt.get_checkpoint()
    done = checkpoint.to_dict()["done"] if checkpoint else 0
    while done < 4:
        done += 1
        print(f"{config['kind']}: step {done}")
        if config["kind"] == "paused" and done == 2:
            on_second_step()
        if config["kind"] == "fails" and done == 3:
            raise ValueError("on purpose")
        nbckpt.report(loss=config["lr"] / done, more={"done": done}, checkpoint={"done": done})


class Steps(nbckpt.State):
    """A state that writes itself."""

    def __init__(self) -> None:
        super().__init__("steps")
        self.done = 0

    def save(self, fileobj: IO[bytes]) -> None:
        pickle.dump(self.done, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        self.done = pickle.load(fileobj)


def count_states(config: dict[str, Any]) -> None:
    """Count to three in a state, which `checkpoint_every` saves."""
    steps = Steps()
    nbckpt.load_state(steps)
    while steps.done < config["until"]:
        steps.done += 1
        nbckpt.report(steps=steps.done)


class Counter(nbckpt.trials.Trainable):
    """A Trainable whose checkpoint is a file."""

    def setup(self, config: dict[str, Any]) -> None:
        self.done = 0

    def step(self) -> dict[str, Any]:
        self.done += 1
        return {"count": self.done, "done": self.done >= 4}

    def save_checkpoint(self, checkpoint_dir: str) -> str:
        with open(f"{checkpoint_dir}/count.txt", "w") as file:  # noqa: PTH123  as the old interface gives it
            file.write(str(self.done))
        return checkpoint_dir

    def load_checkpoint(self, checkpoint: str) -> None:
        with open(f"{checkpoint}/count.txt") as file:  # noqa: PTH123  as the old interface gives it
            self.done = int(file.read())


class DurableCounter(Counter, nbckpt.trials.DurableTrainable):
    """The same, kept at a URL too."""
