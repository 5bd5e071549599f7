"""The order of the tests for several workers: long tests first, so that all workers end at about one time.

With `--dist=worksteal`, each worker begins at the head of its share of the list, and one that has no more
takes the last half of what another has left. So what runs last is short, and wherever it is, it is shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

LONG_S, LAB_S, SLOW_S, SHORT_S = 60, 20, 3, 0
MANY_CASES = 20
"""A function with more cases is slow because of their number: each of them is short."""


def seconds(items: Sequence[pytest.Item]) -> dict[pytest.Item, int]:
    """Return about how long each test takes."""
    cases = Counter(item.nodeid.partition("[")[0] for item in items)

    def of(item: pytest.Item) -> int:
        marks = {mark.name for mark in item.iter_markers()}
        if "timeout" in marks:  # it may take longer than all others
            return LONG_S
        if "lab" in getattr(item, "fixturenames", ()):
            return LAB_S
        is_long = {"slow", "browser"} & marks
        return SLOW_S if is_long and cases[item.nodeid.partition("[")[0]] <= MANY_CASES else SHORT_S

    return {item: of(item) for item in items}


def spread(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests so that each share begins with long tests; those of a module stay together."""
    # see docs/decisions/0121
    long, modules = seconds(items), dict[Path, list[pytest.Item]]()
    for item in items:
        if long[item]:
            modules.setdefault(item.path, []).append(item)

    def time(tests: list[pytest.Item]) -> int:
        return sum(long[item] for item in tests)

    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for module in sorted(modules.values(), key=time, reverse=True):
        min(shares, key=time).extend(module)
    rest, order = (item for item in items if not long[item]), list[pytest.Item]()
    for at, share in enumerate(shares):
        size = (len(items) - len(order)) // (workers - at)  # as pytest-xdist divides
        order += [*share, *islice(rest, max(0, size - len(share)))]
    return [*order, *rest]
