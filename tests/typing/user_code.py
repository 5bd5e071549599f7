"""Code of a user of nbckpt. mypy checks that the public names have the types that a user relies on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import nbckpt


class Counter(nbckpt.Trainable):
    """Count to ten."""

    def setup(self, config: dict[str, Any]) -> None:
        """Begin at 0."""
        self.count = 0

    def step(self) -> dict[str, Any]:
        """Count up."""
        self.count += 1
        return {"count": self.count, "done": self.count == 10}


def train(config: dict[str, Any]) -> None:
    """Report a loss, with a checkpoint if one is due."""
    checkpoint = nbckpt.get_checkpoint()
    start = checkpoint.to_dict()["step"] + 1 if checkpoint else 0
    for step in range(start, 3):
        due = nbckpt.Checkpoint.from_dict({"step": step}) if nbckpt.should_checkpoint() else None
        nbckpt.report(loss=config["lr"] * step, checkpoint=due)


def start_an_experiment(folder: Path) -> float:
    """Run trials, wait for them, and return the best loss."""
    experiment = nbckpt.run(
        train,
        {"lr": nbckpt.loguniform(1e-4, 1e-1), "depth": nbckpt.grid_search([1, 2])},
        name="grid",
        keep_checkpoints=nbckpt.RetentionPolicy(2, metric="loss"),
        sync_config=nbckpt.SyncConfig(upload_dir="s3://bucket/grid", sync_period=60),
        folder=folder,
    )
    nbckpt.run(Counter, max_concurrent=1, stop={"count": 5})
    experiment.wait()
    assert_type(experiment.name, str)
    return float(experiment.best("loss", "min").last_result["loss"])


def save_and_restore(folder: Path) -> dict[str, Any]:
    """Save variables and a state, and restore both."""
    tracker = nbckpt.Tracker(folder)
    namespace: dict[str, Any] = {"a": 1}
    tracker.save(namespace, "first")
    tracker.restore("first", namespace)
    state = nbckpt.State.of("epoch", 0)
    nbckpt.save_all_states()
    nbckpt.load_state(state)
    try:
        return nbckpt.Checkpoint.from_directory(folder).to_dict()
    except nbckpt.NbckptError as error:
        return {"error": str(error)}
