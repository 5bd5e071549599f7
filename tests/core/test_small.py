"""Many small variables: what makes them cheap changes nothing of what is written, or of what fails."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.core.packs.reader import Reader
from nbckpt.core.values import codec
from nbckpt.core.values.loading import load_values
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
        patched.setattr(codec, "plain_links", lambda _: None)
        usual = codec.dump([value], {})
    assert quick.record == usual.record
    if quick.plain:  # without a NaN
        assert [link for link in usual.links if link is value] == quick.links


def test_shared_lists_stay_shared() -> None:
    shared = [1]
    with Tracker(MemoryStore()) as tracker:
        tracker.save({"a": shared, "b": (shared,), "c": 5}, "x")
        tracker.restore("x", new := {})  # type: ignore[var-annotated]  # a namespace
        assert new["a"] is new["b"][0]


def small_values() -> dict[str, bytes]:
    draw = random.Random(7)
    return {f"v{at}": draw.randbytes(120) for at in range(2000)}


def test_a_damaged_record_loses_only_its_own_values() -> None:
    namespace = small_values()
    store = MemoryStore()
    with Tracker(store) as tracker:
        manifest = tracker.save(namespace, "x").manifest
        (key,) = store.keys("packs/")
        data = bytearray(store.get(key))
        at = data.index(namespace["v1234"])
        data[at] ^= 1
        damaged = MemoryStore()
        damaged.put(key, [bytes(data)])
        loaded, failed = load_values(manifest, Reader(damaged), namespace)
    value = manifest.find("v1234")
    assert value
    beside = tuple(other.name for other in manifest.values if other.group == value.group)
    assert len(beside) == 32
    assert [failure.names for failure in failed] == [beside]
    assert loaded == {name: item for name, item in namespace.items() if name not in beside}


def same(values: Any) -> str:
    """Return text that is equal for equal values, NaN and the types of numbers included."""
    return repr(values)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([f"v{at}" for at in range(300)]), PLAIN, max_size=40), st.randoms())
def test_plain_values_are_restored_together_or_one_by_one(values: dict[str, Any], draw: Any) -> None:
    with Tracker(MemoryStore()) as tracker:
        tracker.save(values | {"other": [[1]]}, "x")
        tracker.restore("x", everything := {})  # type: ignore[var-annotated]  # a namespace
        assert same({name: everything[name] for name in values}) == same(values)
        for name in draw.sample(sorted(values), min(3, len(values))):
            restored = tracker.restore("x", alone := {}, [name])  # type: ignore[var-annotated]  # the same
            assert same(alone) == same({name: values[name]})
            assert restored.apart == ()


def test_a_small_list_with_two_names_is_shared() -> None:
    small = [1]
    with Tracker(MemoryStore()) as tracker:
        tracker.save({"a": small, "b": small, "c": 5, "d": 5}, "x")
        assert tracker.restore("x", {}, ["a"]).apart == ("b",)
        assert tracker.restore("x", {}, ["c"]).apart == ()


def test_many_small_values_make_few_records() -> None:
    with Tracker(MemoryStore()) as tracker:
        manifest = tracker.save({f"v{at}": at for at in range(5000)}, "x").manifest
    assert len(manifest.groups) < 300


def test_one_changed_small_value_is_one_change() -> None:
    values = small_values()
    with Tracker(MemoryStore()) as tracker:
        tracker.save(values, "x")
        values["v250"] = b"new"
        assert tracker.save(values, "x").new_bytes < 8000
        differences = tracker.diff("x@1", "x@2").differences
    assert [difference.name for difference in differences if difference.change != "same"] == ["v250"]
