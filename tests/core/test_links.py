"""Variables are saved together only where they share something of the user's."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from core.behaviour import fresh
from nbckpt.store import MemoryStore
from nbckpt.tracker import Tracker

DATACLASS = """
from dataclasses import dataclass
@dataclass
class C:
    x: int = 1
    seen = []
one, two = C(1), C(2)
"""
FRAMES = "import pandas as pd\none = pd.DataFrame({'x': [1], 's': ['a']}); two = pd.DataFrame({'y': ['b']})"
SERIES = "import pandas as pd\none = pd.Series(['a'], dtype='category'); two = pd.date_range('2024', '2025')"
FORESTS = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
X = np.arange(20.).reshape(10, 2)
one, two = (RandomForestClassifier(2).fit(X.copy(), X[:, 0] > n) for n in (5, 8))
del X
"""
LOGGERS = "import logging\none = [logging.getLogger('a')]; two = {1: logging.getLogger('a')}"
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
TENSORS = "import torch\none, two = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)"


def restored(setup: str, *names: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a new namespace after a restore of these names, and what is said to share with them."""
    namespace = fresh()
    exec(setup, namespace)
    with Tracker(MemoryStore()) as tracker:
        tracker.save(namespace, "x")
        new = fresh()
        return new, tracker.restore("x", new, names).apart


@pytest.mark.parametrize(
    "setup", [DATACLASS, FRAMES, SERIES, FORESTS, LOGGERS, pytest.param(TENSORS, marks=NEEDS_TORCH)]
)
def test_unrelated_values_are_restored_one_by_one(setup: str) -> None:
    assert restored(setup, "one")[1] == ()


def test_values_that_share_are_still_named() -> None:
    assert restored("one = []; two = {1: one}; three = []", "one")[1] == ("two",)


def test_a_class_shares_its_objects_with_variables() -> None:
    setup = "seen = []\nclass C:\n    kept = seen\none, two = C(), C()"
    namespace, apart = restored(setup)
    assert apart == ()
    assert namespace["C"].kept is namespace["seen"]
    assert type(namespace["one"]).kept is namespace["seen"]
    assert set(restored(setup, "seen")[1]) == {"C", "one", "two"}


def test_arrays_that_share_memory_are_restored_sharing_it() -> None:
    namespace, _ = restored("import numpy as np\na = np.zeros(9)\nb = a[2:]")
    assert np.shares_memory(namespace["a"], namespace["b"])


def test_a_restored_dataclass_shows_no_difference() -> None:
    namespace = fresh()
    exec(DATACLASS, namespace)
    with Tracker(MemoryStore()) as tracker:
        tracker.save(namespace, "x")
        tracker.restore("x", namespace)
        differences = tracker.diff("x", namespace=namespace).differences
        assert {difference.name for difference in differences if difference.change != "same"} == set()
        exec("def other(self): return 5\nC.__repr__ = other", namespace)
        differences = tracker.diff("x", namespace=namespace).differences
        assert "C" in {difference.name for difference in differences if difference.change != "same"}
