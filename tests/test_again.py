"""What failed in a check runs again, alone and twice: `.ci/again.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).parents[1] / ".ci"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CI.is_dir(), reason="the source archive has no .ci"),
]

FAILS_ONCE = """
from pathlib import Path
def test_{name}():
    runs = Path("{name}.txt")
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert len(runs.read_text()) > {failures}
"""
HANGS = """
import pytest, time
@pytest.mark.timeout(0.2)
def test_hangs(): time.sleep(20)
"""
DIES = "import os\ndef test_it(): os._exit(3)\n"


class Check:
    """A folder of tests, one run of them with the plugin, and the decision that follows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.flaky = folder, folder / "flaky.txt"
        (folder / "conftest.py").write_text(
            "def pytest_addoption(parser): parser.addoption('--all', action='store_true')"
        )

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "NBCKPT_FAILURES": str(self.folder / "failures"),
            "PYTEST_ADDOPTS": "-p again",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a pytest with few plugins starts in half of the time
            "PYTHONPATH": str(CI),
        }
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, files: dict[str, str], *options: str) -> int:
        """Write the tests, run them, and return the exit status of that run."""
        for name, text in files.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)
        return self.call("-m", "pytest", "-p", "xdist", "-p", "pytest_timeout", *options).returncode

    def decide(self) -> tuple[int, list[str]]:
        """Return the exit status of the decision, and its last lines."""
        done = self.call(str(CI / "again.py"), "failures", "flaky.txt")
        marks = ("FLAKY", "FAILED: ", "FAILED AGAIN", "6 tests")
        return done.returncode, [line for line in done.stdout.splitlines() if line.startswith(marks)]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    return Check(tmp_path)


def test_a_test_that_passes_twice_alone_is_flaky_and_named(check: Check) -> None:
    files = {"test_a.py": FAILS_ONCE.format(name="once", failures=1), "test_b.py": "def test_good(): pass"}
    assert check.run(files, "-n", "2") == 0
    assert check.decide() == (0, ["FLAKY: test_a.py::test_once"])
    assert check.flaky.read_text() == "test_a.py::test_once\n"
    assert (check.folder / "once.txt").read_text() == "xxx"


def test_a_test_that_is_skipped_then_has_not_passed(check: Check) -> None:
    skips = (
        "import pathlib, pytest\ndef test_it():\n    seen = pathlib.Path('seen')\n"
        "    if seen.exists(): pytest.skip('later')\n    seen.touch()\n    assert 0\n"
    )
    assert check.run({"test_a.py": skips}) == 0
    assert check.decide() == (1, ["FAILED AGAIN: test_a.py::test_it"])


@pytest.mark.parametrize("failures", [2, 99])
def test_a_test_that_fails_again_fails_the_check(check: Check, failures: int) -> None:
    assert check.run({"test_a.py": FAILS_ONCE.format(name="often", failures=failures)}) == 0
    assert check.decide() == (1, ["FAILED AGAIN: test_a.py::test_often"])
    assert check.flaky.read_text() == ""


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("attack/test_a.py", "def test_it(): assert 0", "a test of attacks"),
        ("test_other_laws.py", "def test_it(): assert 0", "a test of attacks, laws"),
        ("test_a.py", "def test_a_power_cut_loses_nothing(): assert 0", "a test of attacks, laws, kills"),
        ("test_a.py", HANGS, "a timeout is never flaky"),
        ("test_a.py", DIES, "a worker crashed is never flaky"),
    ],
)
def test_some_failures_are_never_flaky(check: Check, file: str, text: str, reason: str) -> None:
    assert check.run({file: text}, "-n", "1") == 1
    status, (line,) = check.decide()
    assert status == 1
    assert line.startswith(f"FAILED: {file}::test_")
    assert reason in line


def test_more_than_five_flaky_tests_fail_the_check(check: Check) -> None:
    names = ["one", "two", "three", "four", "five", "six"]
    check.run({f"test_{name}.py": FAILS_ONCE.format(name=name, failures=1) for name in names})
    status, lines = check.decide()
    assert status == 1
    assert len(lines) == 7
    assert lines[-1] == "6 tests failed. At most 5 are tried again."


def test_what_is_no_failed_test_is_never_tried_again(check: Check) -> None:
    assert check.run({"test_a.py": "import missing_module"}) != 0
    assert check.run({"test_a.py": "import missing_module"}, "-n", "2") != 0
    assert check.run({"test_a.py": "x = 1"}) == 5


def test_a_pytest_that_a_test_starts_is_not_recorded(check: Check) -> None:
    command = "[sys.executable, '-m', 'pytest', 'inner.py']"
    outer = f"import subprocess, sys\ndef test_it(): assert subprocess.call({command}) == 1"
    assert check.run({"inner.py": "def test_bad(): assert 0", "test_a.py": outer}) == 0
    assert check.decide() == (0, [])


def test_without_failures_the_check_passes(check: Check) -> None:
    assert check.run({"test_a.py": "def test_good(): pass"}) == 0
    assert check.decide() == (0, [])
    assert check.flaky.read_text() == ""
