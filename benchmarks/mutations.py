"""Mutations: faults that are put into nbckpt one at a time, and whether a test finds each of them.

    python -m benchmarks.mutations map --tree . --python .venv/bin/python --data FOLDER
    python -m benchmarks.mutations draw --tree . --data FOLDER --seed 40 --count 100
    python -m benchmarks.mutations try --tree . --python .venv/bin/python --data FOLDER --out results.tsv
    python -m benchmarks.mutations table before.tsv after.tsv

`map` finds out which tests run which lines (see coverage_map.py) and needs coverage.py; FOLDER is outside the
repository. `draw` writes mutations.json and keeps the mutations in it that are marked `hand`. `try` changes a
copy of the tree and runs the tests that run the changed line. It appends each result to its file, and after a
stop it continues there. `table` compares two suites. It fails if the second one misses a mutation that the
first one found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import coverage_map
from benchmarks.operators import OPERATORS, Fault, Source, faults, optional_keywords, put

MUTATIONS = Path(__file__).with_suffix(".json")

_MOST_PER_FILE = 2
_FIRST, _MOST, _SECONDS = 40, 300, 60  # tests for a mutation, and their time under coverage.py
_NEAR = 4  # tests of a folder with the name of the mutation's folder count as this many times more specific
_LIMIT_S, _LONG_LIMIT_S, _TEST_S = 150, 420, 60
_LINES_UP, _FLAWED = 12, 5
_UNKNOWN = "exit "
_TESTING = "nbckpt/testing/"  # tests for users, not what the tests here are about
_FAILED = re.compile(r"^(?:FAILED|ERROR|SUBFAILED.*?) (\S+\.py(?:::[^\[\s]+)?)", re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """A numbered fault in a file.

    Attributes:
        number: The number in the table.
        file: The path of the file in the repository.
        fault: The change.
        tests: Further files of tests that can find it, with their slow tests.
    """

    number: int
    file: str
    fault: Fault
    tests: tuple[str, ...] = ()


class Map:
    """The tests that run each line: see coverage_map.py.

    Args:
        data: The folder of the map.
        seconds: How long the tests of one mutation may take.
    """

    def __init__(self, data: Path, seconds: int = _SECONDS) -> None:
        self.seconds = seconds
        self._lines = json.loads((data / coverage_map.LINES).read_text())
        measured: dict[str, tuple[int, float]] = json.loads((data / coverage_map.TESTS).read_text())
        self._names, self._measured = list(measured), measured

    def covering(self, file: str, line: int, up: int = 0) -> list[str]:
        """Return the tests that run a line, or the nearest line before it that any test runs."""
        lines = self._lines.get(file, {})
        for at in range(line, line - up - 1, -1):
            if numbers := lines.get(str(at)):
                return [self._names[number] for number in numbers]
        return []

    def chosen(self, file: str, line: int) -> list[str]:
        """Return the most specific tests that run a line: those that run few other lines."""
        folders = {*Path(file).parts[1:-1], f"test_{Path(file).stem}.py"}

        def rank(name: str) -> float:
            is_near = not folders.isdisjoint(name.partition("::")[0].split("/"))
            return self._measured[name][0] / (_NEAR if is_near else 1)

        seconds, names = 0.0, list[str]()
        for name in sorted(self.covering(file, line, _LINES_UP), key=rank):
            took = self._measured[name][1]
            if len(names) < _MOST and (seconds + took <= self.seconds or not names):
                seconds, names = seconds + took, [*names, name]
        files = list(dict.fromkeys(name.partition("::")[0] for name in names[:_FIRST]))
        first = sorted(names[:_FIRST], key=lambda name: files.index(name.partition("::")[0]))
        return first + sorted(names[_FIRST:])


def read_mutations() -> list[Mutation]:
    """Return the mutations of mutations.json."""
    rows: list[dict[str, Any]] = json.loads(MUTATIONS.read_text()) if MUTATIONS.exists() else []
    made = []
    for row in rows:
        number, file, tests = row.pop("number"), row.pop("file"), tuple(row.pop("tests", ()))
        made.append(Mutation(number, file, Fault(**row, line=0), tests))
    return made


def write_mutations(mutations: Collection[Mutation]) -> None:
    """Write mutations.json."""
    rows = []
    for mutation in mutations:
        fault = {name: value for name, value in vars(mutation.fault).items() if name != "line"}
        more = {"tests": mutation.tests} if mutation.tests else {}
        rows.append({"number": mutation.number, "file": mutation.file, **fault, **more})
    MUTATIONS.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def draw(tree: Path, lines: Map, seed: int, count: int) -> list[Mutation]:
    """Draw faults, about as many of each operator, from the lines that a test runs."""
    paths = sorted(path.relative_to(tree).as_posix() for path in (tree / "nbckpt").rglob("*.py"))
    sources = {path: Source((tree / path).read_text()) for path in paths if not path.startswith(_TESTING)}
    optional = optional_keywords([source.tree for source in sources.values()])
    piles: dict[str, list[tuple[str, Fault]]] = {operator: [] for operator in OPERATORS}
    for file, source in sources.items():
        for fault in faults(source, optional):
            if lines.covering(file, fault.line):
                piles[fault.operator].append((file, fault))
    chance, files, functions = random.Random(seed), Counter[str](), set[tuple[str, str]]()
    for pile in piles.values():
        chance.shuffle(pile)
    drawn: list[Mutation] = []
    while len(drawn) < count and any(piles.values()):
        for pile in filter(None, piles.values()):
            while pile:
                file, fault = pile.pop()
                is_new = files[file] < _MOST_PER_FILE and (file, fault.function) not in functions
                if is_new and is_valid(sources[file], fault):
                    drawn.append(Mutation(len(drawn) + 1, file, fault))
                    files[file] += 1
                    functions.add((file, fault.function))
                    break
    return drawn[:count]


def is_valid(source: Source, fault: Fault) -> bool:
    """Tell whether Python accepts the module with the fault."""
    try:
        return put(source, fault) is not None
    except SyntaxError:
        return False


class Bench:
    """Try mutations in a copy of a tree.

    Args:
        copy: The folder of the copy.
        python: The interpreter that has the tests' libraries.
        lines: The map of the tree's tests.
    """

    def __init__(self, copy: Path, python: str, lines: Map) -> None:
        self._copy, self._python, self._lines = copy, python, lines
        self._sound: dict[str, bool] = {}

    def attempt(self, mutation: Mutation) -> tuple[str, str, int]:
        """Return the result, the test that failed, and the number of tests."""
        path = self._copy / mutation.file
        text = path.read_text() if path.exists() else ""
        changed = put(Source(text), mutation.fault)
        if changed is None:
            return "not applicable", "", 0
        pairs = enumerate(zip(text.splitlines(), changed.splitlines(), strict=False), 1)
        line = next((at for at, (old, new) in pairs if old != new), 1)
        names, is_all = [*self._lines.chosen(mutation.file, line), *mutation.tests], bool(mutation.tests)
        flawed: list[str] = []
        while len(flawed) < _FLAWED:  # a test that also fails without the mutation is left out
            with replaced(path, changed, mutation.number):
                state, failed = self._run(names, flawed, is_all=is_all)
            there = [name for name in names if f"{name}\n" not in failed]
            if len(there) < len(names):  # the mutation changed the condition on which a file has tests
                names = there
                continue
            is_known = not failed.startswith(_UNKNOWN)
            if state != "found" or self._is_sound([failed] if is_known else names, is_all=is_all):
                return state, failed if is_known else " ".join(failed[-200:].split()), len(names)
            if not is_known:
                return "error", " ".join(failed[-200:].split()), len(names)
            flawed.append(failed)
        return "error", "too many tests fail without the mutation", len(names)

    def _is_sound(self, tests: list[str], *, is_all: bool) -> bool:
        """Tell whether tests pass without a mutation."""
        key = "\n".join(tests)
        if key not in self._sound:
            self._sound[key] = self._run(tests, [], is_all=is_all)[0] == "survived"
        return self._sound[key]

    def _run(self, names: list[str], left_out: list[str], *, is_all: bool) -> tuple[str, str]:
        """Run tests until one fails. Return the result and that test."""
        if not names:
            return "survived", ""
        arguments = self._copy / "chosen-tests"
        arguments.write_text("\n".join(names))
        words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--timeout={_TEST_S}"]
        words += ["--all"] if is_all else ["-m", coverage_map.QUICK]
        words += [f"--deselect={name}" for name in left_out]
        limit_s = max(_LONG_LIMIT_S if is_all else _LIMIT_S, 2 * self._lines.seconds)
        child = subprocess.Popen(
            [self._python, *words, f"@{arguments}"],
            cwd=self._copy,
            env=coverage_map.environment(self._copy),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return "timeout", ""
        if child.returncode in {0, 5}:  # 5: all are slow
            return "survived", ""
        failed = _FAILED.search(output)
        return "found", failed[1] if failed else f"{_UNKNOWN}{child.returncode}: {output[-2000:]}"


class replaced:  # noqa: N801  # used like a function
    """Give a file another text for the block, with another time, so that Python compiles it again."""

    def __init__(self, path: Path, text: str, number: int) -> None:
        self._path, self._text, self._number = path, text, number

    def __enter__(self) -> None:
        self._former, self._stat = self._path.read_text(), self._path.stat()
        self._write(self._text, 10**18 + self._number * 10**10)

    def __exit__(self, *_: object) -> None:
        self._write(self._former, self._stat.st_mtime_ns)

    def _write(self, text: str, time_ns: int) -> None:
        self._path.write_text(text)
        os.utime(self._path, ns=(time_ns, time_ns))


def try_all(options: argparse.Namespace) -> None:
    """Try mutations and append the results to a file."""
    done = read_results(options.out) if options.out.exists() else {}
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder, options.out.open("a") as out:
        copy = Path(folder).resolve() / "tree"
        coverage_map.copy_tree(options.tree, copy)
        bench = Bench(copy, str(options.python.absolute()), Map(options.data, options.seconds))
        for mutation in read_mutations():
            if mutation.number in done or (options.only and mutation.number not in options.only):
                continue
            began = time.monotonic()
            state, test, count = bench.attempt(mutation)
            took = f"{time.monotonic() - began:.1f}"
            row = "\t".join([str(mutation.number), state, test, str(count), took])
            print(row, file=out, flush=True)
            print(row, mutation.file, mutation.fault.function, flush=True)


def read_results(file: Path) -> dict[int, tuple[str, str]]:
    """Return the result and the test of each mutation that was tried."""
    rows = (line.split("\t") for line in file.read_text().splitlines())
    return {int(number): (state, test) for number, state, test, *_ in rows}


def table(before: Path, after: Path) -> Iterator[str]:
    """Yield the lines of a Markdown table of two suites."""
    results = [read_results(file) for file in (before, after)]
    yield "| number | place | change | before | after |\n|---|---|---|---|---|"
    for mutation in read_mutations():
        fault = mutation.fault
        place = f"{mutation.file.removeprefix('nbckpt/')} {fault.function}"
        states = [result.get(mutation.number, ("not tried", ""))[0] for result in results]
        yield f"| {mutation.number} | {place} | {fault.operator}: {change(fault)} | {' | '.join(states)} |"


def change(fault: Fault) -> str:
    """Return the part of a fault that differs, on one line."""
    old, new = (" ".join(text.split()) for text in (fault.before, fault.after))
    start = len(os.path.commonprefix([old, new]))
    end = min(len(os.path.commonprefix([old[::-1], new[::-1]])), len(old) - start, len(new) - start)
    parts = [f"`{text[max(0, start - 25) : len(text) - end + 25]}`" for text in (old, new)]
    return " to ".join(part.replace("|", "\\|") for part in parts)


def lost(before: Path, after: Path) -> list[int]:
    """Return the mutations that the first suite finds and the second one does not."""
    seen = {"found", "timeout"}
    first, second = read_results(before), read_results(after)
    return [at for at, (state, _) in first.items() if state in seen and second.get(at, ("",))[0] not in seen]


def main() -> int:
    """Run one step. Return 1 if `table` shows that a find is lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations")
    steps = parser.add_subparsers(dest="step", required=True)
    for name in ("map", "draw", "try"):
        step = steps.add_parser(name)
        step.add_argument("--tree", type=Path, required=True, help="the working tree")
        step.add_argument("--data", type=Path, required=True, help="the folder of the map")
        step.add_argument("--python", type=Path, default=Path(sys.executable), help="runs the tests")
        step.add_argument("--workers", type=int, default=2, help="of map: processes")
        step.add_argument("--seed", type=int, default=40, help="of draw")
        step.add_argument("--count", type=int, default=100, help="of draw: how many")
        step.add_argument("--out", type=Path, help="of try: the file of the results")
        step.add_argument("--only", type=lambda text: {*map(int, text.split(","))}, help="of try: numbers")
        step.add_argument("--seconds", type=int, default=_SECONDS, help="of try: the tests of one mutation")
    step = steps.add_parser("table")
    step.add_argument("before", type=Path)
    step.add_argument("after", type=Path)
    options = parser.parse_args()
    match options.step:
        case "map":
            coverage_map.make(options.tree, str(options.python.absolute()), options.data, options.workers)
        case "draw":
            hand = [mutation for mutation in read_mutations() if mutation.fault.operator == "hand"]
            write_mutations([*draw(options.tree, Map(options.data), options.seed, options.count), *hand])
        case "try":
            try_all(options)
        case "table":
            print("\n".join(table(options.before, options.after)))
            if missed := lost(options.before, options.after):
                print(f"\nfound before, but not after: {', '.join(map(str, missed))}")
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
