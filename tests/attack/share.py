"""Share: how much of an attack runs with other tests. In `.ci/run nightly`, NBCKPT_ATTACK=full runs all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import combinations, product
from typing import TypeVar

T = TypeVar("T")


def of(everything: T, part: T) -> T:
    """Return what to use now: *everything* in a full attack, otherwise *part*."""
    return everything if os.environ.get("NBCKPT_ATTACK") == "full" else part


def cases(*axes: Iterable[str]) -> list[tuple[str, ...]]:
    """Return all combinations in a full attack, otherwise those of `covering_pairs`."""
    columns = [tuple(axis) for axis in axes]
    return of(list(product(*columns)), covering_pairs(*columns))


def covering_pairs(*columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return few combinations in which each value meets each value of each other column."""

    def pairs(case: tuple[str, ...]) -> set[tuple[tuple[int, str], tuple[int, str]]]:
        return set(combinations(enumerate(case), 2))

    combined = list(product(*columns))
    missing = set().union(*map(pairs, combined))
    chosen = []
    while missing:
        chosen.append(max(combined, key=lambda case: len(pairs(case) & missing)))
        missing -= pairs(chosen[-1])
    return chosen
