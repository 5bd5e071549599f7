"""Report: compare the measurements with the budgets, as a table and as JSON."""

from __future__ import annotations

import platform
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from benchmarks.cells import MIB
from benchmarks.contest import TASKS as CONTEST_TASKS
from benchmarks.contest import WORKLOAD as CONTEST
from benchmarks.contest import contest_rows
from benchmarks.far import IN_A_ROW
from benchmarks.far import WORKLOAD as FAR
from benchmarks.histories import FEW, MANY
from benchmarks.histories import WORKLOAD as HISTORY
from benchmarks.kept import PLAIN
from benchmarks.kept import WORKLOAD as KEPT
from benchmarks.many import WORKLOAD as MANY_TRIALS
from benchmarks.panel import SORTED, TASKS
from benchmarks.panel import WORKLOAD as PANEL
from benchmarks.peers import RUNNERS
from benchmarks.rows import Row, ratios
from benchmarks.search import search_rows
from benchmarks.small import ALONE, WITHOUT
from benchmarks.small import WORKLOAD as SMALL
from benchmarks.starts import IPYTHON
from benchmarks.starts import WORKLOAD as STARTS
from benchmarks.suite import HASH, HASH_TWO, OURS, WRITE, Measured
from benchmarks.syncs import WORKLOAD as SYNC
from benchmarks.travel import travel_rows
from benchmarks.trials import WORKLOAD
from benchmarks.unwritten import FLOOR, HASHING
from benchmarks.unwritten import WORKLOAD as UNWRITTEN

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEMORY_MIB = 64
_LAZY_MS = 50
_REPORT_US = 10
_METRIC_US = 0.7
_TRIAL_MS = 2
_PROVENANCE_MS = 5
_LONGEST_TASK_MS = 100
_MS, _US = 1e-3, 1e-6
_MANY = {"table": "trials --where --sort", "find": "find_trials(where)"}
_HISTORY = {"restore": 7.0, "save": 2.0}  # 2 us for each version
_TUNE, _TUNE_1 = RUNNERS
_CALLS = {"report": "report()", "report, process": "in a process", "trial": "an empty trial"}
_SYNCS = {
    "files": "small files",
    "files again": "again",
    "large": "one large file",
    "large again": "again",
}
_UNWRITTEN = {"again": ("nothing written", 8.0), "changed": ("1 % of one array written", 5.0)}
_AGAIN_MS = 10.0
_TASKS = {"save": "save", "again": "save again", "changed": "1 % changed", "restore": "restore"}


def rows(measured: Measured, parts: Sequence[str]) -> list[Row]:
    """Return the rows of the budgets of some parts, in a fixed order."""
    made = {
        "starts": _start_rows,
        "panel": _panel_rows,
        "history": _history_rows,
        "arrays": _array_rows,
        "mixed": _mixed_rows,
        "memory": _memory_rows,
        "small": _small_rows,
        "unwritten": _unwritten_rows,
        "kept": _kept_rows,
        "travel": travel_rows,
        "far": _far_rows,
        "trials": _trial_rows,
        "many": _many_rows,
        "search": search_rows,
        "contest": contest_rows,
        "sync": _sync_rows,
    }
    return [row for part, make in made.items() if part in parts for row in make(measured)]


def text(rows: Sequence[Row], measured: Measured) -> str:
    """Return the tables as text."""
    table = [
        (
            row.label,
            row.against,
            _number(row.value),
            _span(row),
            _number(row.budget),
            row.verdict,
            row.note,
        )
        for row in rows
    ]
    headers = ("what", "in units of", "median", "low - high", "budget", "", "note")
    parts = [
        tabulate(table, headers, disable_numparse=True),
        *_seconds_tables(measured),
        *_traffic_table(measured),
    ]
    parts += [f"{name} failed: {reason}" for name, reason in measured.failed.items()]
    parts += [
        f"{name} restored something else than the {workload}: {how}"
        for (workload, name), how in measured.differs.items()
    ]
    parts.append(", ".join(f"{name} {version}" for name, version in measured.versions.items()))
    return "\n\n".join(parts)


def as_json(rows: Sequence[Row], measured: Measured) -> dict[str, Any]:
    """Return all measurements as plain JSON."""
    return {
        "machine": {"system": platform.platform(), "processor": platform.machine()},
        "versions": measured.versions,
        "budgets": [asdict(row) | {"verdict": row.verdict} for row in rows],
        "seconds": [
            {"workload": workload, "contender": name, "task": task, "samples": samples}
            for (workload, name, task), samples in measured.seconds.items()
        ],
        "memory": [
            {"workload": workload, "task": task, "bytes": samples}
            for (workload, task), samples in measured.memory.items()
        ],
        "growth": measured.growth,
        "traffic": [
            {"workload": workload, "contender": name, "task": task, **asdict(traffic)}
            for (workload, name, task), traffic in measured.traffic.items()
        ],
        "failed": measured.failed,
        "differs": {f"{workload}, {name}": how for (workload, name), how in measured.differs.items()},
    }


def _array_rows(measured: Measured) -> list[Row]:
    ours = {task: measured.seconds.get(("arrays", OURS, task), []) for task in ("save", "again", "changed")}
    restored = measured.seconds.get(("arrays", OURS, "restore"), [])
    lazily = [1000 * seconds for seconds in measured.seconds.get(("arrays", OURS, "restore lazily"), [])]
    write, one, two = (measured.seconds.get(("arrays", name, "save"), []) for name in (WRITE, HASH, HASH_TWO))

    def hashes(label: str, samples: list[float], budget: float) -> Row:
        both = Row.of("", "", ratios(samples, two), 0)
        note = f"{_number(both.value)} of a pass on two threads"
        return Row.of(label, "a BLAKE3 pass", ratios(samples, one), budget, note)

    return [
        Row.of("save arrays, durable", "write + fsync", ratios(ours["save"], write), 1.2),
        _fastest_peer(measured),
        hashes("save again, nothing changed", ours["again"], 1.3),
        hashes("save again, 1 % of one array changed", ours["changed"], 1.5),
        Row.of("- bytes that it adds", "bytes changed", measured.growth.get("arrays", []), 2),
        hashes("restore arrays, verified", restored, 1.3),
        Row.of("restore arrays, lazily", "ms", lazily, _LAZY_MS),
    ]


def _fastest_peer(measured: Measured) -> Row:
    ours = measured.seconds.get(("arrays", OURS, "save"), [])
    peers = {
        name: samples
        for (workload, name, task), samples in measured.seconds.items()
        if workload == "arrays" and task == "save" and name not in {OURS, WRITE, HASH, HASH_TWO}
    }
    if not peers:
        return Row.of("- no peer faster", "no peer here", [], 1)
    fastest = min(peers, key=lambda name: median(peers[name]))
    return Row.of("- no peer faster", fastest, ratios(ours, peers[fastest]), 1)


def _mixed_rows(measured: Measured) -> list[Row]:
    budgets = (
        ("cloudpickle", "save", 0.75),
        ("cloudpickle", "restore", 0.5),
        ("kishu", "save", 1 / 30),
        ("kishu", "changed", 1 / 30),
        ("kishu", "restore", 1 / 30),
    )
    lines = []
    for peer, task, budget in budgets:
        ours, theirs = (measured.seconds.get(("mixed", name, task), []) for name in (OURS, peer))
        against = f"{peer} + fsync" if (peer, task) == ("cloudpickle", "save") else peer
        label = "save 1 % changed of" if task == "changed" else task
        lines.append(Row.of(f"{label} the mixed namespace", against, ratios(ours, theirs), budget))
    return lines


def _memory_rows(measured: Measured) -> list[Row]:
    lines = []
    for workload in ("arrays", "mixed"):
        for task in ("save", "restore"):
            samples = [peak / MIB for peak in measured.memory.get((workload, task), [])]
            lines.append(Row.of(f"peak memory above the {workload}, {task}", "MiB", samples, _MEMORY_MIB))
    return lines


def _start_rows(measured: Measured) -> list[Row]:
    def samples(name: str, task: str) -> list[float]:
        return measured.seconds.get((STARTS, name, task), [])

    loading = ratios(samples(OURS, "load_ext"), samples(IPYTHON, "import"))
    listing = ratios(samples(OURS, "ls"), samples(IPYTHON, "process"))
    return [
        Row.of("%load_ext nbckpt", "import of IPython", loading, 0.3),
        Row.of("nbckpt ls", "a process that imports IPython", listing, 2),
    ]


def _panel_rows(measured: Measured) -> list[Row]:
    lines = []
    for task in TASKS:
        ours, plain = (measured.seconds.get((PANEL, name, task), []) for name in (OURS, SORTED))
        note = f"a sort by name: {median(plain) / _MS:.0f} ms" if plain else ""
        label = f"{task} 10,000 trials in the panel, longest task"
        lines.append(Row.of(label, "ms", [seconds / _MS for seconds in ours], _LONGEST_TASK_MS, note))
    return lines


def _small_rows(measured: Measured) -> list[Row]:
    lines = []
    for step in ("save", "restore"):
        ours, alone = (measured.seconds.get((SMALL, name, step), []) for name in (OURS, ALONE))
        lines.append(Row.of(f"{step} 5,000 small variables", "cloudpickle for each", ratios(ours, alone), 8))
    kept, bare = (measured.seconds.get((SMALL, name, "provenance"), []) for name in (OURS, WITHOUT))
    lines.append(Row.of("a small save with provenance", "without it", ratios(kept, bare), 2))
    for task, label in {"provenance": "a save", "start": "a trial's start"}.items():
        kept, bare = (measured.seconds.get((SMALL, name, task), []) for name in (OURS, WITHOUT))
        added = [(one - two) / _MS for one, two in zip(kept, bare, strict=True)]
        lines.append(Row.of(f"- provenance adds to {label}", "ms", added, _PROVENANCE_MS))
    return lines


def _far_rows(measured: Measured) -> list[Row]:
    ours, in_a_row = (measured.seconds.get((FAR, name, "restore"), []) for name in (OURS, IN_A_ROW))
    label = "restore 256 MiB, 50 ms for each answer"
    return [Row.of(label, "the answers in a row", ratios(ours, in_a_row), 0.6)]


def _history_rows(measured: Measured) -> list[Row]:
    def samples(task: str) -> list[float]:
        return measured.seconds.get((HISTORY, OURS, task), [])

    return [
        Row.of(
            f"{task} by name, {MANY:,} versions",
            f"with {FEW}",
            ratios(samples(f"{task}, many"), samples(f"{task}, few")),
            budget,
        )
        for task, budget in _HISTORY.items()
    ]


def _unwritten_rows(measured: Measured) -> list[Row]:
    rows = []
    for task, (written, most) in _UNWRITTEN.items():
        ours, hashing, floor = (
            measured.seconds.get((UNWRITTEN, name, task), []) for name in (OURS, HASHING, FLOOR)
        )
        action, note = f"save again, {written}", f"{median(ours) / _MS:.1f} ms" if ours else ""
        rows += [
            Row.of(action, "the new bytes, durable", ratios(ours, floor), most, note),
            Row.of(action, "without the page record", ratios(ours, hashing), 0.2),
        ]
        if task == "again":
            rows.append(Row.of(action, "ms", [seconds / _MS for seconds in ours], _AGAIN_MS))
    return rows


def _kept_rows(measured: Measured) -> list[Row]:
    ours, plain = (measured.seconds.get((KEPT, name, "restore"), []) for name in (OURS, PLAIN))
    note = f"{median(ours) / _MS:.0f} ms" if ours else ""
    return [Row.of("restore a kept cell", "a restore of the same", ratios(ours, plain), 1.3, note)]


def _many_rows(measured: Measured) -> list[Row]:
    def samples(task: str) -> list[float]:
        return measured.seconds.get((MANY_TRIALS, OURS, task), [])

    listed = [
        Row.of(f"{label}, many trials", "reading the summaries", ratios(samples(task), samples("read")), 3.0)
        for task, label in _MANY.items()
    ]
    late, early = samples("report, late"), samples("report, early")
    note = f"{median(late) / _US:.1f} us" if late else ""
    return [*listed, Row.of("a report of 20 metrics, the last", "the first", ratios(late, early), 1.2, note)]


def _trial_rows(measured: Measured) -> list[Row]:
    def samples(name: str, task: str, unit: float = 1) -> list[float]:
        return [seconds / unit for seconds in measured.seconds.get((WORKLOAD, name, task), [])]

    report, process, trial = (samples(OURS, task) for task in ("report", "report, process", "trial"))
    tracked = samples(OURS, "tracked")
    pairs = list(zip(samples(OURS, "tracked, 11 metrics"), tracked, strict=True))
    switches = Row.of("", "", samples(OURS, "switches", _US), 0)
    sync = Row.of("", "", samples(OURS, "sync", _MS), 0)
    bare = f"a hand-over to another thread alone: {_number(switches.value)} us"
    trials, synced = (
        "1,000 trials of an empty function",
        f"one line and fsync alone: {_number(sync.value)} ms",
    )
    return [
        Row.of("report(), thread", "Ray Tune 1.0.0", ratios(report, samples(_TUNE_1, "report")), 0.5),
        Row.of("- journal line included", "us", samples(OURS, "report", _US), _REPORT_US, bare),
        Row.of("- no peer faster", "Ray Tune", ratios(report, samples(_TUNE, "report")), 1),
        Row.of("report() of a tracked loop", "report(), thread", ratios(tracked, report), 1.1),
        Row.of("- each further metric", "us", [(one - two) / 10 / _US for one, two in pairs], _METRIC_US),
        Row.of("report(), process", "Ray Tune", ratios(process, samples(_TUNE, "report")), 1),
        Row.of(trials, "ms each", samples(OURS, "trial", _MS), _TRIAL_MS, synced),
        Row.of("- no peer faster", "Ray Tune", ratios(trial, samples(_TUNE, "trial")), 1),
    ]


def _sync_rows(measured: Measured) -> list[Row]:
    def samples(name: str, task: str) -> list[float]:
        return measured.seconds.get((SYNC, name, task), [])

    again = measured.traffic.get((SYNC, OURS, "files again"))
    uploads, listings = ([], []) if again is None else ([again.uploads], [again.listings])
    ours, theirs = samples(OURS, "files again"), samples("awscli", "files again")
    return [
        Row.of("second sync of unchanged small files", "uploads", uploads, 0),
        Row.of("- one listing", "listings", listings, 1),
        Row.of("- no peer faster", "aws s3 sync", ratios(ours, theirs), 1),
    ]


def _seconds_tables(measured: Measured) -> list[str]:
    """Return a table of times per workload: the median of each contender and its minimum in brackets."""
    tables = []
    workloads = (
        ("arrays", "s", _TASKS),
        ("mixed", "s", _TASKS),
        (WORKLOAD, "ms", _CALLS),
        (SYNC, "s", _SYNCS),
        (CONTEST, "beside the grid", CONTEST_TASKS),
    )
    for workload, unit, tasks in workloads:
        names = dict.fromkeys(
            name for measured_workload, name, _ in measured.seconds if measured_workload == workload
        )
        table = [[name, *(_times(measured, workload, name, task) for task in tasks)] for name in names]
        headers = (f"{workload}, {unit}: median (best)", *tasks.values())
        if table:
            tables.append(tabulate(table, headers, disable_numparse=True))
    return tables


def _traffic_table(measured: Measured) -> list[str]:
    """Return a table of the requests that each syncer made to the server."""
    traffic = {(name, task): value for (_, name, task), value in measured.traffic.items()}
    table = []
    for name in dict.fromkeys(name for name, _ in traffic):
        asked = (traffic.get((name, task)) for task in _SYNCS)
        cells = (
            f"{sums.requests:,} ({sums.uploads:,}, {sums.sent / MIB:,.0f})" if sums else "-" for sums in asked
        )
        table.append([name, *cells])
    headers = ("sync: requests (uploads, MiB sent)", *_SYNCS.values())
    return [tabulate(table, headers, disable_numparse=True)] if table else []


def _times(measured: Measured, workload: str, name: str, task: str) -> str:
    unit = _MS if workload == WORKLOAD else 1
    samples = [seconds / unit for seconds in measured.seconds.get((workload, name, task), [])]
    return f"{median(samples):.3f} ({min(samples):.3f})" if samples else "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _span(row: Row) -> str:
    return f"{_number(row.low)} - {_number(row.high)}"
