"""Searchers: libraries that search by successive halving. Each is measured in its own process.

`python -m benchmarks.searchers NAME FOLDER SEED TRIALS` prints the seconds, the epochs and the best
last loss as a line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCHS, ETA, WORKERS, EPOCH_S = 27, 3, 2, 0.005
"""The epochs of a trial, the reduction factor, the workers of each searcher, and the seconds of an epoch."""


@dataclass(frozen=True)
class Problem:
    """Learning curves that cross: a high rate learns fast, and a rate in the middle learns best.

    Attributes:
        seed: The seed of the configurations and of the noise.
        trials: The number of configurations.
        log: The file that takes a line of each epoch. All workers append to it.
    """

    seed: int
    trials: int
    log: Path

    def train(self, number: int, epoch: int) -> float:
        """Wait for one epoch, write it to the log and return its loss."""
        time.sleep(EPOCH_S)
        loss = self.loss(number, epoch)
        with self.log.open("ab", buffering=0) as log:
            log.write(f"{epoch} {loss!r}\n".encode())
        return loss

    def loss(self, number: int, epoch: int) -> float:
        """Return the loss of a configuration after an epoch; it is the same in each call."""
        drawn = random.Random(f"{self.seed}/{number}")
        rate, decay = 10 ** drawn.uniform(-4, 0), 10 ** drawn.uniform(-5, -1)
        reach = 0.1 + 0.05 * (log10(rate) + 2) ** 2 + 0.02 * abs(log10(decay) + 3)
        noise = random.Random(f"{self.seed}/{number}/{epoch}").gauss(0, 0.01)
        return reach + (1 + epoch) ** -(0.3 + rate**0.25) + noise

    def spent(self) -> dict[str, float]:
        """Return the number of epochs, and the best loss of the trials that had all epochs."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return {
            "epochs": len(lines),
            "best": min(float(loss) for epoch, loss in lines if epoch == str(EPOCHS)),
        }


def nbckpt(problem: Problem, rule: str = "", executor: str = "thread") -> float:
    """Search with nbckpt: ASHA by a rule, or without a rule the whole grid."""
    os.environ["NBCKPT_STORE"] = str(problem.log.parent)
    import nbckpt as ours

    def train(config: dict[str, Any]) -> None:
        saved = ours.get_checkpoint()
        done = saved.to_dict()["epoch"] if saved else 0
        for epoch in range(done + 1, EPOCHS + 1):
            loss = problem.train(config["number"], epoch)
            ours.report(loss=loss, checkpoint={"epoch": epoch} if ours.should_checkpoint() else None)

    space = {"number": ours.grid_search(list(range(problem.trials)))}
    began = time.perf_counter()
    experiment = ours.run(
        train, space, executor=executor, max_concurrent=WORKERS, metric="loss", mode="min",
        scheduler=ours.trials.ASHA(EPOCHS, reduction_factor=ETA, rule=rule) if rule else None,
    )  # fmt: skip
    experiment.wait()
    seconds = time.perf_counter() - began
    for trial in experiment.trials:
        if trial.error:
            raise RuntimeError(f"{trial} failed: {trial.error}")
    return seconds


def ray_tune(problem: Problem) -> float:
    """Search with Ray Tune's ASHA. Its start does not count, and its processes run many trials."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    def train(config: dict[str, Any]) -> None:
        for epoch in range(1, EPOCHS + 1):
            tune.report({"loss": problem.train(config["number"], epoch)})

    asha = ASHAScheduler(max_t=EPOCHS, grace_period=1, reduction_factor=ETA)
    settings = tune.TuneConfig(
        metric="loss", mode="min", scheduler=asha, max_concurrent_trials=WORKERS, reuse_actors=True
    )
    place = tune.RunConfig(storage_path=str(problem.log.parent), verbose=0)
    space = {"number": tune.grid_search(list(range(problem.trials)))}
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        ray.get(ray.remote(lambda: None).remote())
        began = time.perf_counter()
        results = tune.Tuner(train, param_space=space, tune_config=settings, run_config=place).fit()
        seconds = time.perf_counter() - began
    finally:
        ray.shutdown()
    for error in results.errors:
        raise error
    return seconds


def optuna(problem: Problem) -> float:
    """Search with Optuna's successive halving, in threads and in memory."""
    import optuna as library

    def train(trial: library.Trial) -> float:
        number, loss = trial.suggest_int("number", 0, problem.trials - 1), 0.0
        for epoch in range(1, EPOCHS + 1):
            loss = problem.train(number, epoch)
            trial.report(loss, epoch)
            if epoch < EPOCHS and trial.should_prune():
                raise library.TrialPruned
        return loss

    library.logging.set_verbosity(library.logging.ERROR)
    pruner = library.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=ETA)
    study = library.create_study(pruner=pruner)
    for number in range(problem.trials):
        study.enqueue_trial({"number": number})
    began = time.perf_counter()
    study.optimize(train, n_trials=problem.trials, n_jobs=WORKERS)
    return time.perf_counter() - began


GRID, PROMOTE, PROMOTE_PROCESS, RAY = "grid", "nbckpt promote", "nbckpt promote, process", "ray-tune"
SEARCHES: dict[str, tuple[str, Callable[[Problem], float]]] = {
    GRID: ("nbckpt", nbckpt),
    PROMOTE: ("nbckpt", partial(nbckpt, rule="promote")),
    PROMOTE_PROCESS: ("nbckpt", partial(nbckpt, rule="promote", executor="process")),
    "nbckpt stop": ("nbckpt", partial(nbckpt, rule="stop")),
    RAY: ("ray-tune", ray_tune),
    "optuna": ("optuna", optuna),
}
"""The library of each searcher, and the search, which returns its seconds."""


def main(arguments: list[str]) -> None:
    """Search once and print the result."""
    name, folder, seed, trials = arguments
    library, search = SEARCHES[name]
    problem = Problem(int(seed), int(trials), Path(folder) / "epochs.log")
    seconds = search(problem)
    package = "ray" if library == "ray-tune" else library
    print(json.dumps({"seconds": seconds, "version": version(package), **problem.spent()}))


if __name__ == "__main__":
    main(sys.argv[1:])
