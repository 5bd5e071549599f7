"""How large values are, without pickling them."""

from __future__ import annotations

import time
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from nbckpt.core.values.sizes import is_below

SIZE = 1 << 20
LARGE = np.zeros(SIZE, dtype="u1")


class Odd:
    """A value whose own code fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def test_small_values_are_small() -> None:
    values = [1, "a", None, [1, "a"], {"a": (1, {2})}, itself(), SimpleNamespace(a=1), np.zeros(9), np, Odd]
    values += [Odd()]  # its own code fails
    assert [value for value in values if not is_below(SIZE, value)] == []


def test_a_value_that_holds_large_ones_is_large() -> None:
    values = [
        LARGE,
        [LARGE],
        {"a": [{"b": (LARGE,)}]},
        SimpleNamespace(layers=[SimpleNamespace(weights=LARGE)]),
        OrderedDict(a="a" * SIZE),
        time.struct_time([LARGE, *range(8)]),
        pd.DataFrame({"a": np.zeros(SIZE)}),
        [np.zeros(SIZE // 4, dtype="u1") for _ in range(4)],
        list(range(20_000)),
        [[1] * 200 for _ in range(200)],
        b"a" * SIZE,
    ]
    assert [at for at, value in enumerate(values) if is_below(SIZE, value)] == []
