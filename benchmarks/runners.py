"""Runners: libraries that run a function as trials. Each is measured in its own process.

`python -m benchmarks.runners NAME FOLDER` prints the seconds as a line of JSON. Python 3.8 must be
able to run this module too.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_WARM_UP = 50


def nbckpt(folder: Path) -> dict[str, float]:
    """Measure nbckpt, which writes its journal."""
    os.environ["NBCKPT_STORE"] = str(folder)
    import nbckpt as ours

    def empty(config: dict[str, Any]) -> None:
        """Run a trial that reports nothing."""

    def report(executor: str, count: int) -> float:
        def train(config: dict[str, Any]) -> None:
            seconds = _per_call(lambda: ours.report(loss=0.5), count)
            ours.report(seconds=seconds)

        (trial,) = _finished(ours.run(train, executor=executor)).trials
        return float(trial.metrics["seconds"])

    def tracked(metrics: int, count: int) -> float:
        values = {f"m{number}": 0.5 for number in range(metrics)}
        with ours.track("tracked") as run:
            return _per_call(lambda: run.report(values), count)

    return {
        "tracked": tracked(1, 10_000),
        "tracked, 11 metrics": tracked(11, 10_000),
        "switches": _two_switches(10_000),
        "sync": _sync(folder / "floor", 100),
        "report": report("thread", 10_000),
        "report, process": report("process", 1_000),
        "trial": _seconds(lambda: _finished(ours.run(empty, num_samples=1000))) / 1000,
    }


def ray_tune_1(folder: Path) -> dict[str, float]:
    """Measure the FunctionRunner of Ray 1.0.0 without a cluster. It writes nothing."""
    from ray import tune
    from ray.tune.function_runner import wrap_function
    from ray.tune.logger import NoopLogger

    count, results = 5_000, []

    def train(config: dict[str, Any]) -> None:
        results.append(_per_call(lambda: tune.report(loss=0.5), count))

    runner = wrap_function(train, warn=False)({}, lambda config: NoopLogger(config, str(folder)))
    for _ in range(_WARM_UP + count):
        runner.train()
    runner.train()
    runner.stop()
    return {"report": results[0]}


def ray_tune(folder: Path) -> dict[str, float]:
    """Measure the current Ray Tune on a local cluster."""
    import ray
    from ray import tune

    def empty(config: dict[str, Any]) -> None:
        tune.report({"loss": 0.5})

    def train(config: dict[str, Any]) -> None:
        seconds = _per_call(lambda: tune.report({"loss": 0.5}), 300)
        tune.report({"seconds": seconds})

    def fit(function: Callable[[dict[str, Any]], None], trials: int) -> Any:
        settings = tune.TuneConfig(num_samples=trials)
        place = tune.RunConfig(storage_path=str(folder), verbose=0)
        results = tune.Tuner(function, tune_config=settings, run_config=place).fit()
        for error in results.errors:
            raise error
        return results

    ray.init("local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        reported = fit(train, 1)[0].metrics["seconds"]
        return {"report": float(reported), "trial": _seconds(lambda: fit(empty, 8)) / 8}
    finally:
        ray.shutdown()


RUNNERS: dict[str, Callable[[Path], dict[str, float]]] = {
    "nbckpt": nbckpt,
    "ray-tune": ray_tune,
    "ray-tune-1.0.0": ray_tune_1,
}


def _two_switches(turns: int) -> float:
    """Return the seconds of a hand-over to another thread and back: the lower bound for a report."""
    asked, ready = threading.Lock(), threading.Lock()
    asked.acquire()
    ready.acquire()

    def answer() -> None:
        for _ in range(_WARM_UP + turns):
            asked.acquire()
            ready.release()

    def ask() -> None:
        asked.release()
        ready.acquire()

    thread = threading.Thread(target=answer)
    thread.start()
    seconds = _per_call(ask, turns)
    thread.join()
    return seconds


def _sync(file: Path, count: int) -> float:
    """Return the seconds to append a line to a file and sync it: the lower bound for a durable trial end."""

    def append() -> None:
        opened.write(b"{}\n")
        os.fsync(opened.fileno())

    with file.open("ab", buffering=0) as opened:
        return _per_call(append, count)


def _per_call(call: Callable[[], object], count: int) -> float:
    for _ in range(_WARM_UP):
        call()
    return _seconds(lambda: [call() for _ in range(count)]) / count


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _finished(experiment: Any) -> Any:
    experiment.wait()
    bad = [trial for trial in experiment.trials if trial.status != "TERMINATED"]
    if bad:
        raise RuntimeError(f"{bad[0]} failed: {bad[0].error}")
    return experiment


def _version(name: str) -> str:
    from importlib.metadata import version

    return version("ray" if name.startswith("ray") else name)


def main(arguments: list[str]) -> None:
    """Measure one runner and print the result."""
    name, folder = arguments
    seconds = RUNNERS[name](Path(folder))
    print(json.dumps({"seconds": seconds, "version": _version(name)}))


if __name__ == "__main__":
    main(sys.argv[1:])
