"""Digests of bytes that were hashed before: equal to the full digest, and never of bytes that changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.packs import quick
from nbckpt.core.packs.quick import QuickDigests
from nbckpt.timeline import recorder
from tests.timeline.test_timeline import Kernel

BLOB = 256 << 10


class Counts:
    """The algorithms, with a digest that counts its calls."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.algorithms = replace(PREFERRED, digest=self.digest)

    def digest(self, data: Any) -> bytes:
        self.sizes.append(len(data))
        return PREFERRED.digest(data)


@pytest.fixture(autouse=True)
def record_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_PAGE_RECORD", "0")


def test_equal_bytes_are_hashed_once() -> None:
    counts = Counts()
    digest = QuickDigests().of(counts.algorithms)
    data = bytearray(b"a" * BLOB)
    first = digest(data)
    assert [digest(bytes(data)), digest(memoryview(data))] == [first, first] == [PREFERRED.digest(data)] * 2
    assert counts.sizes == [BLOB]
    data[-1] = 1
    assert digest(data) == PREFERRED.digest(data) != first
    assert digest(data[: 1 << 10]) == PREFERRED.digest(data[: 1 << 10])


@given(st.lists(st.tuples(st.integers(0, BLOB - 1), st.integers(0, 255)), max_size=20))
def test_a_quick_digest_is_the_digest(writes: list[tuple[int, int]]) -> None:
    digest, data = QuickDigests().of(PREFERRED), bytearray(BLOB)
    for at, value in writes:
        data[at] = value
        assert digest(data) == PREFERRED.digest(data)


def test_bytes_that_a_thread_writes_meanwhile_are_not_remembered() -> None:
    data = bytearray(BLOB)

    def write_and_digest(memory: Any) -> bytes:
        data[0] += 1
        return PREFERRED.digest(memory)

    digests = QuickDigests()
    digest = digests.of(replace(PREFERRED, digest=write_and_digest))
    digest(data)
    data[0] = 0
    assert digest(data) != PREFERRED.digest(bytes(BLOB))
    assert not digests.known


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "MOST_DIGESTS", 3)
    digests = QuickDigests()
    digest = digests.of(PREFERRED)
    for number in range(9):
        digest(bytes([number]) * BLOB)
    assert len(digests.known) == 3


def test_without_xxhash_or_with_the_record_all_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(quick, "has_xxhash", lambda: False)
        assert QuickDigests().of(PREFERRED) is PREFERRED.digest
    assert QuickDigests().of(PREFERRED) is not PREFERRED.digest
    monkeypatch.setattr(quick, "page_record", lambda: SimpleNamespace(why_off=""))
    assert QuickDigests().of(PREFERRED) is PREFERRED.digest


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of the whole blobs that are hashed fully."""
    sizes: list[int] = []
    full = PREFERRED.digest

    def count(data: Any) -> bytes:
        if len(data) >= BLOB:
            sizes.append(len(data))
        return full(data)

    object.__setattr__(PREFERRED, "digest", count)
    yield sizes
    object.__setattr__(PREFERRED, "digest", full)


@pytest.fixture
def kernel() -> Kernel:
    kernel = Kernel()
    kernel.names["big"] = np.random.default_rng(0).integers(0, 256, 8 << 20, np.uint8)
    kernel.timeline.record({})
    return kernel


def test_a_point_hashes_what_did_not_change_quickly(kernel: Kernel, hashed: list[int]) -> None:
    """Where the page record is off, each point looks at all large memory. A save still hashes it wholly."""
    kernel.names["big"][5] += 1
    assert kernel.run("a = [1]") is not None
    assert sum(hashed) == 2 * BLOB  # as it is found, and as it is written
    hashed.clear()
    kernel.tracker.save({"big": kernel.names["big"]}, "whole")
    assert sum(hashed) >= 8 << 20


def test_lent_memory_is_checked_quickly(
    kernel: Kernel, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MOST_COPIED", 0)
    kernel.names["a"] = [1]
    hashed.clear()
    kernel.timeline.begin({})
    assert kernel.timeline.settle()
    assert hashed == []
