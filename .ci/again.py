"""Run again what failed in a check: a test that fails now and then neither refuses a submission nor hides.

As a plugin (`PYTHONPATH=.ci PYTEST_ADDOPTS="-p again"`) it writes the failed tests of a run to a file in the
folder NBCKPT_FAILURES, with what is needed to run each of them again. If all of them may be tried again, the
run ends with status 0, and the program decides.

As a program (`python .ci/again.py FOLDER FLAKY.txt`) it runs each of these tests alone, twice. Call it while
nothing else runs. A test that passes both times is flaky: the program names it and writes it to FLAKY.txt. A
test that fails again, a test that is never flaky, and more than MOST_FLAKY failures end the program with
status 1.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

MOST_FLAKY = 5
# These tests are about events that happen now and then. So one failure is the fault itself.
NEVER_FLAKY = re.compile(
    r"(^|/)attack/"
    r"|(?:[/_]|::test_)(?:laws?|kill|kills|killed|crash|crashes|races?|dies|death|powercut|power_cut)(?=[_.:\[]|$)"
)
TIMEOUTS = ("from pytest-timeout", "TimeoutExpired")
PASSED = re.compile(r"\b[1-9]\d* passed\b")
CRASH = re.compile(r"worker '\w+' crashed")


def never_flaky(test: str, text: str) -> str:
    """Return why this failure of a test decides at once. Empty: it may be tried again."""
    if NEVER_FLAKY.search(test):
        return "a test of attacks, laws, kills, races or power cuts"
    if CRASH.search(text):
        return "a worker crashed"
    return "a timeout" if any(words in text for words in TIMEOUTS) else ""


class Recorder:
    """Writes the failed tests of one run to a file.

    Attributes:
        failures: Each failed test, and why its failure decides at once; "" if it may be tried again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failures: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that cannot be collected."""
        if report.failed:
            self.failures[report.nodeid] = "an error of collection"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that failed, in its fixtures too."""
        if report.failed:
            reason = never_flaky(report.nodeid, str(report.longrepr))
            self.failures[report.nodeid] = self.failures.get(report.nodeid) or reason

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the failures, and let the run pass if each of them may be tried again."""
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not self.failures:
            return  # an interrupt, an internal error and a run without tests stay what they are
        environment = {name: value for name, value in os.environ.items() if name.startswith("NBCKPT_")}
        run = {"python": sys.executable, "environment": environment, "failures": self.failures}
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".json", delete=False) as file:
            json.dump(run, file)
        if not any(self.failures.values()):
            session.exitstatus = pytest.ExitCode.OK


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process that hears of all tests, and not in a pytest that one of the tests starts."""
    folder = os.environ.pop("NBCKPT_FAILURES", None)
    os.environ.pop("PYTEST_ADDOPTS", None)
    if folder:
        config.pluginmanager.register(Recorder(Path(folder)), "recorder of failures")


def passes_twice(test: str, run: dict[str, Any]) -> bool:
    """Run a test twice, each time with a cache of its own. Return whether it passed both times."""
    environment = {**os.environ, **run["environment"], "PYTEST_ADDOPTS": ""}
    environment.pop("NBCKPT_FAILURES", None)
    for _ in range(2):
        with tempfile.TemporaryDirectory() as cache:
            command = [run["python"], "-m", "pytest", "-q", "--all", "-o", f"cache_dir={cache}", test]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout)
        if done.returncode or not PASSED.search(done.stdout):  # a skipped test has not passed
            return False
    return True


def decide(folder: Path, flaky_file: Path) -> int:
    """Try the recorded failures again, name the flaky tests, and return the exit status."""
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    failed = [(test, reason, run) for run in runs for test, reason in run["failures"].items()]
    lines = [f"FAILED: {test} ({reason} is never flaky)" for test, reason, _ in failed if reason]
    tried = [(test, run) for test, reason, run in failed if not reason]
    if len(tried) > MOST_FLAKY:
        lines += [f"FAILED: {test}" for test, _ in tried]
        lines.append(f"{len(tried)} tests failed. At most {MOST_FLAKY} are tried again.")
        tried = []
    flaky = []
    for test, run in tried:
        if passes_twice(test, run):
            flaky.append(test)
        else:
            lines.append(f"FAILED AGAIN: {test}")
    flaky_file.write_text("".join(f"{test}\n" for test in flaky))
    print("\n".join([*lines, *(f"FLAKY: {test}" for test in flaky)]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(decide(Path(sys.argv[1]), Path(sys.argv[2])))
