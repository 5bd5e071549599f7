"""Search: what a scheduler costs beside many trials. Processor time, so that other work does not count."""

from __future__ import annotations

from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.rows import Row, ratios
from benchmarks.starts import run_python
from benchmarks.suite import OURS

if TYPE_CHECKING:
    from benchmarks.suite import Bench, Measured

WORKLOAD = "search"
"""The name of the workload in the measurements."""
TRIALS, QUICK_TRIALS = 10_000, 300
REPORTS = 100
SCHEDULERS = ("asha", "median", "pbt")
PRUNERS = ("hyperband", "percentile")
"""Those of Optuna. All have `decide`, `resume`, `parse` and `turn` in seconds, and `memory` in bytes."""

_DECISION_US, _MEMORY_MIB = 100, 64
_US, _MIB = 1e-6, 1 << 20

_MAKE = """
import sys
import nbckpt

reports = int(sys.argv[2])

def train(config):
    for step in range(1, reports + 1):
        nbckpt.report(loss=config["x"] + 1 / step)

nbckpt.run(
    train, {"x": nbckpt.uniform(0, 1)}, num_samples=int(sys.argv[1]), name="search", seed=1,
    executor="inline", metric="loss", mode="min", provenance=False,
)
"""
_DECIDE = """
import gc, random, sys, time
from pathlib import Path
import nbckpt
from nbckpt.trials import ASHA, PBT, MedianStopping, OptunaPruner
from nbckpt.trials.model import journal
from nbckpt.trials.model.trial import Trial, state_of

reports, new = int(sys.argv[2]), 200

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def parse(folder):
    for file in folder.glob("t*/events.jsonl"):
        for event in journal.read(file):
            pass

made = {
    "asha": lambda: ASHA(metric="loss", mode="min"),
    "median": lambda: MedianStopping(metric="loss", mode="min"),
    "pbt": lambda: PBT(interval=10, metric="loss", mode="min"),
    "hyperband": lambda: OptunaPruner("hyperband", max_resource=reports, metric="loss", mode="min"),
    "percentile": lambda: OptunaPruner("percentile", percentile=25, metric="loss", mode="min"),
}
folder = nbckpt.open_experiment("search").folder
parse(folder)
began = time.process_time()
parse(folder)
parsed = time.process_time() - began
draw, scheduler = random.Random(1), made[sys.argv[3]]()
began = time.process_time()
experiment = nbckpt.trials.Catalog(folder.parent).open("search")
experiment.trials
opened, before = time.process_time() - began, resident()
began = time.process_time()
scheduler.setup(experiment)
resumed = opened + time.process_time() - began
memory = resident() - before
decided = asked = 0
for number in range(len(experiment.trials), len(experiment.trials) + new):
    trial, x = Trial(Path(f"t{number}"), {}), draw.random()
    state = state_of(trial)
    for step in range(1, reports + 1):
        state.iteration = step
        state.last_result = {"training_iteration": step, "loss": x + 1 / step}
        began = time.process_time()
        decision = scheduler.reported(trial)
        scheduler.wants_checkpoint(trial)
        decided += time.process_time() - began
        asked += 1
        if decision is not None and decision.do in {"stop", "end"}:
            break

class Running:  # an experiment in which all trials have trained a generation, and wait
    trials, spec = (), experiment.spec
    members = {f"t{number}": Trial(Path(f"t{number}"), {"x": 0.5}) for number in range(int(sys.argv[1]))}

    @classmethod
    def trial(cls, name):
        return cls.members[name]

took, held = 0, {}
if sys.argv[3] in {"asha", "pbt"}:
    scheduler = made[sys.argv[3]]()
    scheduler.setup(Running)
    for name, trial in Running.members.items():
        state = state_of(trial)
        state.iteration, state.checkpoint = 10, "checkpoint_000001"
        state.last_result = {"training_iteration": 10, "loss": draw.random()}
        began = time.process_time()
        decision = scheduler.reported(trial)
        took += time.process_time() - began
        fields = {"rung": decision.rung, "reason": decision.reason, "value": decision.value}
        state.fold({"event": "decision", "do": decision.do, **fields})
        if decision.do in {"pause", "yield"}:
            held[name] = trial
turn = took / len(Running.members)
for _ in range(new if held else 0):
    began = time.process_time()
    pick = scheduler.next_trial(held)
    turn += (time.process_time() - began) / new
    if pick is not None:
        del held[pick[0].id]
print(decided / asked, resumed, parsed, memory, turn)
"""


def measure(bench: Bench, trials: int) -> None:
    """Measure the decisions, the resume and the memory of schedulers.

    Args:
        bench: Where and how to measure.
        trials: The number of trials that have ended before.
    """
    sizes = str(trials), str(REPORTS)
    bench.say(f"{WORKLOAD}: {trials} trials")
    run_python(bench.folder, "-c", _MAKE, *sizes)
    for _ in bench.each_round(WORKLOAD):
        for scheduler in (*SCHEDULERS, *(PRUNERS if find_spec("optuna") else ())):
            values = map(float, run_python(bench.folder, "-c", _DECIDE, *sizes, scheduler).split()[-5:])
            for task, value in zip(("decide", "resume", "parse", "memory", "turn"), values, strict=True):
                bench.measured.seconds[WORKLOAD, OURS, f"{task}, {scheduler}"].append(value)


def search_rows(measured: Measured) -> list[Row]:
    """Return the rows of the schedulers: a decision, the resume and the memory."""

    def samples(task: str, scheduler: str, unit: float = 1) -> list[float]:
        return [value / unit for value in measured.seconds.get((WORKLOAD, OURS, f"{task}, {scheduler}"), [])]

    made = []
    for name in (*SCHEDULERS, *PRUNERS):
        resumed, parsed = samples("resume", name), samples("parse", name)
        note = f"{median(resumed):.1f} s" if resumed else ""
        turns = [value for value in samples("turn", name, _US) if value]
        made += [
            Row.of(f"a decision of {name}, many trials", "us", samples("decide", name, _US), _DECISION_US),
            *([Row.of("- one and a turn, all wait", "us", turns, _DECISION_US)] if turns else []),
            Row.of(
                f"- a resume, {REPORTS} reports each",
                "parsing all journals",
                ratios(resumed, parsed),
                1.5,
                note,
            ),
            Row.of("- memory", "MiB", samples("memory", name, _MIB), _MEMORY_MIB),
        ]
    return made
