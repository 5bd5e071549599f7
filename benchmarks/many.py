"""Many: an experiment of many trials, listed, filtered and sorted; and a trial that reports very often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.starts import run_python
from benchmarks.suite import OURS

if TYPE_CHECKING:
    from benchmarks.suite import Bench

WORKLOAD = "many"
"""The name of the workload in the measurements."""
TRIALS, QUICK_TRIALS = 10_000, 500
REPORTS, QUICK_REPORTS = 100_000, 10_000
_LISTED, _REPORTED = ("read", "table", "find"), ("report, early", "report, late")

_MAKE = """
import sys
import nbckpt
from nbckpt.trials.model import params, summary_file
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.trial import Trial

def train(config):
    nbckpt.report(loss=1.0)

experiment = nbckpt.run(train, name="many")
experiment.wait()
for number in range(1, int(sys.argv[1])):
    folder = experiment.folder / f"t{number}"
    folder.mkdir()
    config = {"lr": number / 10_000, "layers": number % 7}
    (folder / params.FILE).write_bytes(params.encode(config, folder.name))
    journal = Journal(folder / "events.jsonl")
    journal.append({"event": "start", "executor": "thread", "from": None, "iteration": 0, "at": 1.0})
    for step in range(1, 31):
        counts = {"training_iteration": step, "time_total_s": 0.1 * step, "timestamp": 1.0 * step}
        journal.append({"event": "result", "result": {"loss": number / step, "acc": step / 30, **counts}})
    journal.append({"event": "end", "note": "done", "early": False, "at": 2.0})
    journal.close()
    summary_file.write(Trial.read(folder))
"""
_LIST = """
import sys, time
import pandas
import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.mirror import AutoMirror
from nbckpt.trials.home import experiments_folder
from nbckpt.trials.model import summary_file

folder = experiments_folder() / "many"
names = [folder / f"t{number}" for number in range(int(sys.argv[1]))]
tracker = nbckpt.Tracker()
session = Session(tracker, AutoMirror(tracker.store), namespace={})
where = "lr < 0.5 and layers == 3"

def read():
    assert all(map(summary_file.read, names))

def table():
    str(parse(TABLE, ["trials", "many", "--where", where, "--sort", "loss"], "%ckpt").run(session))

def find():
    nbckpt.find_trials(where=where).sort_values("loss")

for task in (read, read, table, find):
    began = time.perf_counter()
    task()
    print(time.perf_counter() - began)
"""
_REPORT = """
import sys, time
import nbckpt

tenth = int(sys.argv[1]) // 10
values = {f"m{number}": float(number) for number in range(20)}
seconds = []

def train(config):
    for _ in range(10):
        began = time.thread_time()
        for _ in range(tenth):
            nbckpt.report(values)
        seconds.append(time.thread_time() - began)

nbckpt.run(train, executor="inline")
print(seconds[1] / tenth, seconds[-1] / tenth)
"""


def measure(bench: Bench, sizes: tuple[int, int]) -> None:
    """Measure a table of many trials and a trial of many reports, and add the times.

    Args:
        bench: Where and how to measure.
        sizes: The number of trials and of reports.
    """
    trials, reports = map(str, sizes)
    bench.say(f"many: {trials} trials")
    run_python(bench.folder, "-c", _MAKE, trials)
    for _ in bench.each_round("many"):
        for names, program, size in ((_LISTED, _LIST, trials), (_REPORTED, _REPORT, reports)):
            times = map(float, run_python(bench.folder, "-c", program, size).split()[-len(names) :])
            for task, seconds in zip(names, times, strict=True):
                bench.measured.seconds[WORKLOAD, OURS, task].append(seconds)
