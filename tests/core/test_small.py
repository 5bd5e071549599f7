"""Many small variables: what makes them cheap changes nothing of what is written, or of what fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.core import codec
from nbckpt.core.loading import load_values
from nbckpt.core.reader import Reader
from nbckpt.store import MemoryStore
from nbckpt.tracker import Tracker

ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
)
PLAIN = ATOMS | st.lists(ATOMS) | st.tuples(ATOMS, ATOMS) | st.dictionaries(st.text() | st.integers(), ATOMS)


@given(PLAIN)
def test_a_plain_value_has_the_record_of_any_other(value: Any) -> None:
    quick = codec.dump([value], {})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(codec, "_plain_links", lambda _: None)
        usual = codec.dump([value], {})
    assert quick.record == usual.record
    assert [it for it in usual.links if it is value] == quick.links


def test_shared_lists_stay_shared() -> None:
    shared = [1]
    with Tracker(MemoryStore()) as tracker:
        tracker.save({"a": shared, "b": (shared,), "c": 5}, "x")
        tracker.restore("x", new := {})  # type: ignore[var-annotated]  # a namespace
        assert new["a"] is new["b"][0]


def test_a_damaged_record_fails_alone() -> None:
    namespace = {f"v{at}": f"{at:04}" * 30 for at in range(2000)}
    store = MemoryStore()
    with Tracker(store) as tracker:
        manifest = tracker.save(namespace, "x").manifest
        (key,) = store.keys("packs/")
        data = bytearray(store.get(key))
        at = data.index(b"1234" * 20)
        data[at] ^= 1
        damaged = MemoryStore()
        damaged.put(key, [bytes(data)])
        loaded, failed = load_values(manifest, Reader(damaged), namespace)
    assert [it.names for it in failed] == [("v1234",)]
    assert loaded == {name: it for name, it in namespace.items() if name != "v1234"}
