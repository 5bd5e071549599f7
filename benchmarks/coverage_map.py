"""Coverage map: which quick tests run which lines of nbckpt, and how long each test takes.

A test is a function in a file: `tests/test_json.py::test_a_name`, without its parameters. Tests run in
a copy of the tree. Lines that a test runs in other processes count for that test too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

QUICK = "not slow and not browser"
TESTS, LINES = "tests.json", "lines.json"

_PLUGIN_NAME = "mutation_contexts"
_PLUGIN = """
import os, time, coverage, pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    name, began = item.nodeid.partition("[")[0], time.perf_counter()
    os.environ["MUTATION_CONTEXT"] = name
    coverage.Coverage.current().switch_context(name)
    try:
        return (yield)
    finally:
        coverage.Coverage.current().switch_context("")
        with open(f"{os.environ['MUTATION_TIMES']}-{os.getpid()}", "a") as file:
            file.write(f"{time.perf_counter() - began:.3f} {name}\\n")
"""
_SETTINGS = """
[run]
source = {package}
data_file = {data}/raw/coverage
parallel = true
patch = _exit
context = ${{MUTATION_CONTEXT-}}
disable_warnings = no-data-collected,module-not-measured,module-not-imported
"""


def copy_tree(tree: Path, target: Path) -> None:
    """Copy the files of a working tree that Git tracks, or does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (source := tree / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


def environment(copy: Path, **more: str) -> dict[str, str]:
    """Return environment variables with which Python imports nbckpt from a copy, also in subprocesses."""
    return os.environ | {"PYTHONPATH": str(copy)} | more


def make(tree: Path, python: str, data: Path, workers: int) -> None:
    """Run the quick tests of a tree under coverage.py, and write the map into a folder.

    Args:
        tree: The working tree.
        python: The interpreter that has the tests' libraries and coverage.py.
        data: The folder for the map.
        workers: The number of processes of pytest.
    """
    copy, raw = data / "tree", data / "raw"
    for folder in (copy, raw):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    copy_tree(tree, copy)
    plugins = data / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / f"{_PLUGIN_NAME}.py").write_text(_PLUGIN)
    settings = data / "coverage.ini"
    settings.write_text(_SETTINGS.format(package=copy / "nbckpt", data=data))
    variables = environment(copy, COVERAGE_PROCESS_START=str(settings), MUTATION_TIMES=str(raw / "times"))
    variables["PYTHONPATH"] += os.pathsep + str(plugins)
    words = ["-q", "-p", "no:cacheprovider", "-p", _PLUGIN_NAME, "-n", str(workers)]
    with (data / "log").open("w") as log:
        subprocess.run([python, "-m", "pytest", *words], cwd=copy, env=variables, stdout=log, stderr=log)
    reader = "import sys; from benchmarks.coverage_map import collect; collect(*sys.argv[1:])"
    here = environment(Path(__file__).parents[1])
    subprocess.run([python, "-c", reader, str(data)], env=here, check=True)
    shutil.rmtree(copy)


def collect(folder: str) -> None:
    """Join the data files of coverage.py and write the map from them."""
    from coverage import CoverageData, CoverageException

    data = Path(folder)
    joined = CoverageData(str(data / "joined"))
    joined.erase()
    for file in sorted((data / "raw").glob("coverage*")):
        with suppress(CoverageException):  # of a process that was killed
            part = CoverageData(str(file))
            part.read()
            joined.update(part)
    seconds, numbers = defaultdict[str, float](float), dict[str, int]()
    for file in (data / "raw").glob("times*"):
        for line in file.read_text().splitlines():
            took, _, name = line.partition(" ")
            seconds[name] += float(took)
    totals, lines = Counter[str](), dict[str, dict[str, list[int]]]()
    for path in sorted(joined.measured_files()):
        by_line = joined.contexts_by_lineno(path)
        totals.update(name for names in by_line.values() for name in names)
        lines[str(Path(path).relative_to(data / "tree"))] = {
            str(line): sorted(numbers.setdefault(name, len(numbers)) for name in names if name)
            for line, names in by_line.items()
        }
    tests: dict[str, Any] = {name: [totals[name], round(seconds[name], 3)] for name in numbers}
    (data / TESTS).write_text(json.dumps(tests, indent=0))
    (data / LINES).write_text(json.dumps(lines))
