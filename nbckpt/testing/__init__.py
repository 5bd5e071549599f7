"""Testing: conformance suites for stores and executors, and stores that fail or record calls for tests.

It needs pytest. Every correct store passes the suite `StoreTests`, and every correct executor the suite
`ExecutorTests`. `FaultyStore` and `RecordingStore` wrap another store, to test code that uses a store.
"""

import pytest

pytest.register_assert_rewrite("nbckpt.testing.stores", "nbckpt.testing.executors")

from nbckpt.testing.executors import ExecutorTests  # noqa: E402
from nbckpt.testing.faults import Call, FaultyStore, RecordingStore  # noqa: E402
from nbckpt.testing.stores import ReadingTests, StoreTests  # noqa: E402

__all__ = ["Call", "ExecutorTests", "FaultyStore", "ReadingTests", "RecordingStore", "StoreTests"]
