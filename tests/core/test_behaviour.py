"""Whatever a notebook makes still works after a restore, in this kernel and in a new one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.behaviour import ROUTES, ROWS, missing

CASES = [
    pytest.param(row.case, marks=pytest.mark.skipif(bool(missing(row)), reason=f"needs {missing(row)}"))
    for row in ROWS
]
pytestmark = pytest.mark.slow
RESTORED = [route for route in ROUTES if route != "plain"]
FAIL_IN_CLOUDPICKLE = {
    "base of a dataclass",
    "class with slots",
    "attrs class with slots",
    "limits of floats",
    "partial method, cached property, total ordering",
    "closures over one nonlocal",
    "a cell by itself",
    "threads' objects",
    "ray of numpy memory",
    "typed dict and new type",
    "cached function",
    "cached method",
    "cached closure",
    "proxy by __getattr__",
    "proxy with slots",
    "exception chain",
    "memory view and bytearray",
    "memory view of complex numbers",
    "views of array subclasses",
    "views of an array of objects",
    "frames that were made from another one",
    "attributes of an array subclass",
    "array over a bytearray",
    "array.array",
    "gradient and hooks",
    "plugins that register themselves",
    "subclass keyword",
}
"""Rows that plain cloudpickle itself does not restore rightly, in the same kernel or in a new one."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What each row gave before it was saved, after a restore there, and in another process by each route."""
    folder = tmp_path_factory.mktemp("behaviour")
    answers: dict[str, dict[str, str]] = {}
    for step in ("save", "load"):
        done = subprocess.run(
            [sys.executable, "-c", f"from core.behaviour import {step}; {step}({str(folder)!r})"],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=_environment(folder),
        )
        assert done.returncode == 0, done.stderr
        for case, given in json.loads(done.stdout.splitlines()[-1]).items():
            answers.setdefault(case, {}).update(given)
    return answers


def _environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    return {**os.environ, "NBCKPT_SECRET_FILE": str(folder / "secret"), "PYTHONPATH": path}


@pytest.mark.parametrize("case", CASES)
def test_the_rows_themselves_work(case: str, answers: dict[str, dict[str, str]]) -> None:
    assert not answers[case]["before"].startswith("raised")


@pytest.mark.parametrize("route", RESTORED)
@pytest.mark.parametrize("case", CASES)
def test_values_behave_the_same_in_a_new_kernel(
    case: str, route: str, answers: dict[str, dict[str, str]]
) -> None:
    assert answers[case][route] == answers[case]["before"]


@pytest.mark.parametrize("case", CASES)
def test_values_behave_the_same_in_their_own_kernel(case: str, answers: dict[str, dict[str, str]]) -> None:
    assert answers[case]["live"] == answers[case]["before"]


@pytest.mark.parametrize("case", CASES)
def test_no_value_is_restored_worse_than_by_cloudpickle(
    case: str, answers: dict[str, dict[str, str]]
) -> None:
    given = answers[case]
    for plain, routes in (("plain", RESTORED), ("plain live", ["live"])):
        is_right = given[plain] == given["before"]
        assert is_right or case in FAIL_IN_CLOUDPICKLE
        assert not is_right or [given[route] for route in routes] == [given["before"]] * len(routes)


def test_each_row_that_fails_in_cloudpickle_is_a_row() -> None:
    assert {row.case for row in ROWS} >= FAIL_IN_CLOUDPICKLE


@pytest.mark.parametrize("case", CASES)
def test_a_save_warns_only_about_values_with_losses(case: str, answers: dict[str, dict[str, str]]) -> None:
    row = next(row for row in ROWS if row.case == case)
    warnings = answers[row.case]["warnings"]
    assert row.warning in warnings if row.warning else not warnings
