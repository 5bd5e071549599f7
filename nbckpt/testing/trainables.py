"""Trainables for the suite of executors. They are local, so they travel by value to any worker."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from nbckpt.trials import Trainable
from nbckpt.trials.training.session import get_checkpoint, get_context, report, should_checkpoint


def counting() -> Callable[[dict[str, Any]], None]:
    """Return a function that reports 1 to 6, with a checkpoint of each second number.

    In its first attempt it fails, dies or hangs after the number that the configuration names.
    """

    def train(config: dict[str, Any]) -> None:
        checkpoint, context = get_checkpoint(), get_context()
        first = checkpoint.to_dict()["n"] + 1 if checkpoint else 1
        who = f"{context.id} {context.name} {config.get('x')}"
        for n in range(first, 7):
            saved = {"n": n} if n % 2 == 0 else None
            report(n=n, first=first, who=who, pid=os.getpid(), checkpoint=saved)
            if first == 1 and n == config.get("fails_at"):
                raise ValueError("once")
            if first == 1 and n == config.get("dies_at"):
                os._exit(1)
            if n == config.get("hangs_at"):
                config["file"].touch()
                threading.Event().wait()

    return train


def offering() -> Callable[[dict[str, Any]], None]:
    """Return a function that reports 1 to 4, with a checkpoint when one is asked for."""

    def train(config: dict[str, Any]) -> None:
        checkpoint = get_checkpoint()
        for n in range(checkpoint.to_dict()["n"] + 1 if checkpoint else 1, 5):
            saved = {"n": n} if should_checkpoint() else None
            report(n=n, loss=config.get("x", 0) + 1 / n, checkpoint=saved)

    return train


def steps() -> type[Trainable]:
    """Return a class that takes five steps, and prints wherever it runs.

    It fails in the step that the configuration names, unless it was restored; 0 stands for `setup`.
    """

    class Steps(Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            print("set up", config.get("x"))
            if config.get("fails_at") == 0:
                raise ValueError("in setup")
            self.n, self.is_new = 0, True

        def step(self) -> dict[str, Any]:
            print("step", self.config.get("x"))
            self.n += 1
            if self.is_new and self.n == self.config.get("fails_at"):
                raise ValueError("once")
            return {"n": self.n, "done": self.n == 5}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {"n": self.n}

        def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            self.n, self.is_new = checkpoint["n"], False

        def cleanup(self) -> None:
            print("clean", self.config.get("x"))

    return Steps
