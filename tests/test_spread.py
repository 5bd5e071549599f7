"""Workers begin with long tests, end with short ones, and keep the tests of a module together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spread import MANY_CASES, seconds, spread


@dataclass(frozen=True)
class Item:
    """What the order of a test depends on."""

    path: Path
    nodeid: str
    mark: str

    @property
    def fixturenames(self) -> list[str]:
        return [self.mark]

    def iter_markers(self) -> list[pytest.Mark]:
        return [pytest.Mark(self.mark, (), {}, _ispytest=True)]


def made(modules: list[list[str]]) -> Any:
    return [
        Item(Path(f"{at}.py"), f"{at}.py::test_{number}", mark)
        for at, marks in enumerate(modules)
        for number, mark in enumerate(marks)
    ]


def shares(items: Any, workers: int) -> list[Any]:
    """Return the tests of each worker, divided as pytest-xdist does."""
    left, divided = spread(items, workers), []
    for at in range(workers):
        size = len(left) // (workers - at)
        divided.append(left[:size])
        del left[:size]
    return divided


MARKS = st.sampled_from(["", "", "parametrize", "slow", "browser", "lab", "timeout"])


@given(st.lists(st.lists(MARKS, max_size=6), max_size=9), st.integers(1, 5))
def test_every_test_stays_and_short_ones_keep_their_order(modules: list[list[str]], workers: int) -> None:
    items, order = made(modules), spread(made(modules), workers)
    assert sorted(order, key=items.index) == items
    long = seconds(items)
    assert [item for item in order if not long[item]] == [item for item in items if not long[item]]


def test_each_worker_begins_with_long_tests_of_whole_modules() -> None:
    items = made([["", "slow"] * 4, [""] * 30, ["lab"] * 3, ["slow"] * 9, ["browser"] * 2, [""] * 30])
    long = seconds(items)
    for share in shares(items, 2):
        assert [long[item] > 0 for item in share] == sorted((long[item] > 0 for item in share), reverse=True)
        assert long[share[0]]
    modules = [item.path for item in spread(items, 2) if long[item]]
    assert sum(former != later for former, later in pairwise(modules)) == len({*modules}) - 1


def test_the_workers_long_tests_take_about_the_same_time() -> None:
    items = made([["lab"] * (at % 7) + [""] * 20 for at in range(20)])
    times = [sum(seconds(share).values()) for share in shares(items, 4)]
    assert max(times) - min(times) <= sum(seconds(made([["lab"]])).values())


def test_a_time_limit_of_its_own_makes_a_test_the_longest() -> None:
    times = seconds(made([["timeout", "lab", "slow", ""]])).values()
    assert [*times] == sorted({*times}, reverse=True)


def test_a_function_of_many_cases_has_short_tests() -> None:
    items: Any = [Item(Path("a.py"), f"a.py::test_a[{case}]", "slow") for case in range(MANY_CASES + 1)]
    assert set(seconds(items).values()) == {0}
    assert 0 not in seconds(items[1:]).values()
