"""Trainable and DurableTrainable by Ray's names, with the hooks of every version."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from nbckpt.trials.training import durable as own_durable
from nbckpt.trials.training import trainable as own


class Trainable(own.Trainable):
    """An `nbckpt.trials.Trainable` whose hooks may be `_setup`, `_train`, `_save`, `_restore` and `_stop`."""

    def setup(self, config: dict[str, Any]) -> None:
        """See `nbckpt.trials.Trainable.setup`."""
        self._setup(config)

    def step(self) -> Mapping[str, Any]:
        """See `nbckpt.trials.Trainable.step`."""
        return self._train()

    def save_checkpoint(self, checkpoint_dir: str) -> Mapping[str, Any] | str | os.PathLike[str] | None:
        """See `nbckpt.trials.Trainable.save_checkpoint`."""
        return self._save(checkpoint_dir)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """See `nbckpt.trials.Trainable.load_checkpoint`."""
        self._restore(checkpoint)

    def cleanup(self) -> None:
        """See `nbckpt.trials.Trainable.cleanup`."""
        self._stop()

    def _setup(self, config: dict[str, Any]) -> None:
        super().setup(config)

    def _train(self) -> Mapping[str, Any]:
        return super().step()

    def _save(self, checkpoint_dir: str) -> Mapping[str, Any] | str | os.PathLike[str] | None:
        return super().save_checkpoint(checkpoint_dir)

    def _restore(self, checkpoint: Any) -> None:
        super().load_checkpoint(checkpoint)

    def _stop(self) -> None:
        super().cleanup()


class DurableTrainable(own_durable.DurableTrainable, Trainable):
    """An `nbckpt.trials.DurableTrainable` with Ray's hooks.

    `tune.run(…, sync_config=SyncConfig(upload_dir=URL))` keeps the checkpoints of each trial below the URL.
    """


def durable(trainable: Callable[..., Any] | type[own.Trainable]) -> Any:
    """Return a trainable whose checkpoints `tune.run` keeps below the `upload_dir` of its SyncConfig."""
    return Durable(trainable)


class Durable:
    """A trainable that gets its URL from `tune.run`."""

    def __init__(self, trainable: Callable[..., Any] | type[own.Trainable]) -> None:
        self.trainable = trainable
