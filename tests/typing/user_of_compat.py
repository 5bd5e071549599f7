"""A program for Ray Tune with nbckpt's imports, as mypy sees it."""

from __future__ import annotations

from typing import IO, Any, assert_type

from nbckpt.compat import ray_air as air
from nbckpt.compat import ray_tune as tune
from nbckpt.compat.adaptdl import checkpoint, env


class Counter(checkpoint.State):
    """A state of AdaptDL."""

    def save(self, fileobj: IO[bytes]) -> None:
        """Write the rank."""
        fileobj.write(bytes([env.replica_rank()]))


def train(config: dict[str, Any]) -> None:
    """Report results with the functions of both versions."""
    latest = assert_type(air.session.get_checkpoint(), air.Checkpoint | None)
    step: int = 0 if latest is None else latest.to_dict()["step"]
    with tune.checkpoint_dir(step=step) as folder:
        assert_type(folder, str)
    tune.report(loss=config["lr"])
    air.session.report({"loss": 0.1}, checkpoint=air.Checkpoint.from_dict({"step": step + 1}))


def run_both() -> float:
    """Run trials with the functions of both versions."""
    space = {"lr": tune.loguniform(1e-4, 1), "width": tune.quniform(0, 1, 0.25), "seed": tune.randint(0, 9)}
    analysis = tune.run(train, config=space, metric="loss", mode="min", resources_per_trial={"cpu": 1})
    assert_type(analysis, tune.ExperimentAnalysis)
    assert_type(analysis.best_config, dict[str, Any])
    settings = tune.TuneConfig(metric="loss", mode="min", num_samples=2)
    grid = tune.Tuner(train, param_space=space, tune_config=settings).fit()
    best = assert_type(grid.get_best_result(), tune.Result)
    assert_type(best.checkpoint, air.Checkpoint | None)
    loss: float = best.metrics["loss"]
    checkpoint.load_state(Counter("n"), trust=True)
    return loss
