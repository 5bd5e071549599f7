"""Index: what it says of a file, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.store import MemoryStore
from nbckpt.sync.exclude import OWN
from nbckpt.sync.index import KEY, Index, Item, key_aside

S = 10**9
LOOKED_AT = 1_700_000_000 * S
PATHS = st.lists(
    st.text(min_size=1, max_size=5).filter(
        lambda name: name not in {".", ".."} and not {*name} & {"/", "\0"}
    ),
    min_size=1,
    max_size=3,
).map("/".join)
ITEMS = st.builds(
    Item, st.integers(0, 2**60), st.integers(0, 2**62), st.text("0123456789abcdef", max_size=64)
)


@pytest.mark.slow
@given(items=st.dictionaries(PATHS, ITEMS), looked_at=st.integers(0, 2**62), data=st.data())
def test_a_written_index_can_be_read(items: dict[str, Item], looked_at: int, data: st.DataObject) -> None:
    aside = data.draw(st.sets(st.sampled_from(sorted(items)))) if items else set()
    store, index = MemoryStore(), Index(items, frozenset(aside), looked_at)
    index.write(store)
    assert list(store.keys()) == [KEY]
    assert Index.read(store) == index


def test_a_missing_index_is_read_as_none() -> None:
    assert Index.read(MemoryStore()) is None


def test_a_file_is_known_by_its_size_and_time() -> None:
    time = LOOKED_AT - 3 * S
    index = Index({"a": Item(3, time, "00")}, looked_at=LOOKED_AT)
    for size, at, is_known in ((3, time, True), (4, time, False), (3, time + 1, False)):
        assert index.says("a", size, at) == is_known
        assert not index.says("b", size, at)


def test_a_modification_time_close_to_the_scan_is_not_trusted(subtests: pytest.Subtests) -> None:
    """A time after the scan is not trusted either."""
    for ago in (2, 1, 0, -1, -(10**6)):
        time = LOOKED_AT - ago * S
        index = Index({"a": Item(3, time, "00"), "b": Item(3, 5, "00")}, looked_at=LOOKED_AT)
        # Nor by an index of a later look, unless the file was looked at again.
        later = Index(index.kept(), looked_at=LOOKED_AT + 100 * S)
        with subtests.test(seconds_ago=ago):
            assert not index.says("a", 3, time)
            assert not later.says("a", 3, time)
            assert later.says("b", 3, 5)


def keys(number: int) -> Iterator[str]:
    for path in ("a", "b/c", "ü", "\udcff"):
        for digest in ("00", "01"):
            yield key_aside(path, Item(number, 0, digest))


def test_each_path_and_contents_have_their_own_staging_key() -> None:
    assert len(set(keys(1))) == 8
    assert set(keys(1)) == set(keys(2))
    assert all(key.startswith(f"{OWN}/") for key in keys(1))
    index = Index({"a": Item(1, 0, "00"), "b": Item(1, 0, "01")}, frozenset({"a"}))
    assert (index.key("a"), index.key("b")) == (key_aside("a", index.items["a"]), "b")
    assert index.settled().key("a") == "a"
