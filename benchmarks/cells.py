"""Cells: notebook code that builds the namespaces, changes them and checks them.

The cells are source text. They run in the `__main__` of a worker, so that functions and classes are defined
as in a notebook.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
FULL_MIB = 1024
"""The size for which the budgets are stated, in MiB of arrays."""

_ARRAYS = """
import numpy as np
rng = np.random.default_rng(7)
arr = rng.random({doubles} // 2)
features = rng.standard_normal(({doubles} // 4 // 64, 64))
weights = rng.random({doubles} // 4, dtype=np.float64).astype(np.float32)
labels = rng.integers(0, 1 << 62, {doubles} // 8)
del rng
"""

_ARRAYS_CHECK = "float(arr.sum()), float(features.sum()), float(weights.sum()), int(labels.sum())"

_MIXED = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
rng = np.random.default_rng(7)
arr = rng.random({doubles} // 2)
holder = {{"arr": arr, "note": "the same array"}}
rows = {rows}
cities = np.array([f"city of {{n}}" for n in range(1000)], dtype=object)
df = pd.DataFrame({{
    "user": rng.integers(0, 1_000_000, rows),
    "clicks": rng.integers(0, 100, rows),
    "price": rng.random(rows),
    "score": rng.standard_normal(rows),
    "year": rng.integers(1990, 2030, rows).astype(np.int32),
    "active": rng.random(rows) < 0.5,
    "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 31_536_000, rows), "s"),
    "city": cities[rng.integers(0, 1000, rows)],
    "key": [f"key-{{n:09d}}" for n in range(rows)],
    "kind": pd.Categorical.from_codes(rng.integers(0, 5, rows), list("abcde")),
}})
samples = rng.random((2000, 20))
model = RandomForestClassifier(50, random_state=0).fit(samples, samples[:, 0] > 0.5)
table = {{f"item {{n}}": (n, float(n), [n]) for n in range({items})}}
fig, axes = plt.subplots(1, 3)
for axis in axes:
    axis.plot(rng.random(100))
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def norm(self):
        return (self.x ** 2 + self.y ** 2) ** 0.5
points = [Point(n, n + 1) for n in range({points})]
def first():
    return float(arr[0])
double = lambda x: 2 * x
def make_adder(n):
    def add(x):
        return x + n
    return add
add_three = make_adder(3)
alias = shared = [1, 2, 3]
del rng, axis
"""

_MIXED_CHECK = (
    "float(arr.sum()), holder['arr'] is arr, first() == float(arr[0]), list(map(str, df.dtypes)), "
    "int(df.user.sum()), df.key.iloc[-1], df.city.iloc[7], str(df.when.max()), "
    "df.kind.value_counts().to_dict(), float(model.predict_proba(samples).sum()), "
    "len(table), table['item 9'], fig.axes[1] is axes[1], points[3].norm(), "
    "isinstance(points[0], Point), double(2), add_three(4), alias is shared"
)


@dataclass(frozen=True)
class Workload:
    """A namespace to measure with.

    Attributes:
        name: The name in the report.
        source: The cell that builds the namespace.
        check: An expression that must have the same value after a restore.
        doubles: The number of 8-byte numbers in `arr`.
    """

    name: str
    source: str
    check: str
    doubles: int

    def change(self, round_: int) -> tuple[str, int]:
        """Return a cell that changes 1 % of `arr`, at another place each round, and the bytes it changes."""
        count = max(1, self.doubles // 100)
        start = (round_ * 37 % 97) * count
        return f"arr[{start}:{start + count}] += 1.0", 8 * count


def arrays(size_mib: int) -> Workload:
    """Return a workload of arrays of four shapes and types, *size_mib* MiB in all."""
    doubles = size_mib * MIB // 8
    return Workload("arrays", _ARRAYS.format(doubles=doubles), _ARRAYS_CHECK, doubles // 2)


def mixed(size_mib: int) -> Workload:
    """Return the mixed workload. At full size it has an array of 512 MiB and a frame of 2 million rows."""
    doubles = size_mib * MIB // 8
    part = size_mib / FULL_MIB
    source = _MIXED.format(
        doubles=doubles,
        rows=int(2_000_000 * part),
        items=int(100_000 * part),
        points=int(2000 * part) + 4,
    )
    return Workload("mixed", source, _MIXED_CHECK, doubles // 2)
