"""The command: `python -m benchmarks [--quick] [--peers all]`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import (
    cells,
    contest,
    far,
    histories,
    kept,
    many,
    panel,
    report,
    search,
    small,
    starts,
    syncs,
    travel,
    trials,
    unwritten,
)
from benchmarks.peers import HERE, OWN, PEERS, RUNNERS, SEARCHERS, SYNCERS, InstallError, install, interpreter
from benchmarks.suite import OURS, Bench, Suite

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARTS = (
    *("starts", "history", "arrays", "mixed", "memory", "small", "unwritten", "kept", "travel", "far"),
    *("trials", "many", "search", "contest", "panel", "sync"),
)
_QUICK_MIB = 64
_REST_S = 3.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables and write the JSON. Return 1 if nbckpt failed, but 0 for a missed budget."""
    options = _parser().parse_args(arguments)
    size = _QUICK_MIB if options.quick else options.size
    pythons, missing = _pythons(options.peers, options.python)
    folder = _work_folder(options.folder)
    saving = {name: value for name, value in pythons.items() if name not in {*RUNNERS, *SEARCHERS, *SYNCERS}}
    suite = Suite(folder, saving, options.rounds, _say, 0.0 if options.quick else _REST_S)
    suite.measured.failed |= missing
    bench = Bench(suite.measured, folder, options.rounds, _say)
    try:
        if "starts" in options.only:
            starts.measure(bench)
        if "history" in options.only:
            versions = histories.QUICK if options.quick else histories.MANY
            histories.measure(bench, versions)
        for workload in (cells.arrays(size), cells.mixed(size)):
            if workload.name in options.only:
                suite.times(workload)
        for workload in (cells.arrays(size), cells.mixed(size)):
            if "memory" in options.only:
                suite.memory(workload)
        if "small" in options.only:
            small.measure(bench)
        if "kept" in options.only:
            kept.measure(bench, size // 4)
        if "unwritten" in options.only:
            unwritten.measure(bench, size)
        if "travel" in options.only:
            sizes = size, travel.QUICK_ROUNDS if options.quick else travel.ROUNDS
            travel.measure(bench, sizes)
        if "far" in options.only:
            far.measure(bench)
        if "trials" in options.only:
            running = {name: value for name, value in pythons.items() if name in (OURS, *RUNNERS)}
            trials.measure(bench, running)
        if "many" in options.only:
            sizes = (many.QUICK_TRIALS, many.QUICK_REPORTS) if options.quick else (many.TRIALS, many.REPORTS)
            many.measure(bench, sizes)
        if "search" in options.only:
            search.measure(bench, search.QUICK_TRIALS if options.quick else search.TRIALS)
        if "contest" in options.only:
            searching = {name: value for name, value in pythons.items() if name in (OURS, *SEARCHERS)}
            configurations = contest.QUICK_TRIALS if options.quick else contest.TRIALS
            contest.measure(bench, searching, configurations)
        if "panel" in options.only:
            count = panel.QUICK_TRIALS if options.quick else panel.TRIALS
            panel.measure(bench, count)
        if "sync" in options.only:
            syncing = {name: value for name, value in pythons.items() if name in (OURS, *SYNCERS)}
            files = syncs.QUICK_FILES if options.quick else syncs.FILES
            syncs.measure(bench, syncing, (files, size))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = report.rows(suite.measured, options.only)
    print(f"{size} MiB of arrays, {options.rounds} rounds\n")
    print(report.text(rows, suite.measured))
    _keep({"size_mib": size, "rounds": options.rounds, **report.as_json(rows, suite.measured)})
    return 1 if OURS in suite.measured.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure nbckpt against its budgets."
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{_QUICK_MIB} MiB: shows that it works, not how fast"
    )
    parser.add_argument("--size", type=int, default=cells.FULL_MIB, metavar="MIB", help="of arrays")
    parser.add_argument("--rounds", type=int, default=5, help="how many; the median counts")
    parser.add_argument(
        "--peers", default="here",
        help="here (what is installed; the default), none, all (makes what is missing), or some of "
        + ", ".join(PEERS),
    )  # fmt: skip
    parser.add_argument("--python", help="the interpreter to make the peers' own environments with")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=_PARTS,
        default=_PARTS,
    )
    return parser


def _pythons(peers: str, python: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the interpreter of each available contender, and why the others are not available."""
    pythons, missing = {OURS: sys.executable}, {}
    names = {"here": PEERS, "all": PEERS, "none": ()}.get(peers, tuple(peers.split(",")))
    for name in names:
        if name not in PEERS:
            raise SystemExit(f"no peer {name!r}: there are {', '.join(PEERS)}")
        installed = interpreter(name)
        if installed is None and peers != "here" and name in OWN:
            _say(f"installing {name}")
        try:
            pythons[name] = (
                installed or install(name, python) if peers != "here" else installed or _absent(name)
            )
        except InstallError as error:
            missing[name] = f"not installed: {error}"
    return pythons, missing


def _absent(name: str) -> str:
    raise InstallError(
        f"--peers {name} makes an environment for it" if name in OWN else f"pip install {name}"
    )


def _work_folder(given: Path | None) -> Path:
    folder = (given or HERE / ".work").resolve() / f"{time.time_ns():x}"
    folder.mkdir(parents=True)
    return folder


def _keep(content: dict[str, object]) -> None:
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    file = results / time.strftime("%Y%m%d-%H%M%S.json")
    file.write_text(json.dumps(content, indent=1))
    print(f"\n{file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}")


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
