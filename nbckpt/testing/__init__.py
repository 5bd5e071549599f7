"""Testing: what proves a store, ours or someone else's, and what makes one fail.

Needs pytest. `StoreTests` is a suite that any store passes; `FaultyStore` and `RecordingStore` are
stores around a store, for tests of what uses one.
"""

import pytest

pytest.register_assert_rewrite("nbckpt.testing.stores")

from nbckpt.testing.faults import Call, FaultyStore, RecordingStore  # noqa: E402
from nbckpt.testing.stores import ReadingTests, StoreTests  # noqa: E402

__all__ = ["Call", "FaultyStore", "ReadingTests", "RecordingStore", "StoreTests"]
