"""A stranger's catalogue costs requests. It shows nothing false, takes no memory and leads nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from paged import PagedStore

from nbckpt.commands import TABLE, Session, parse
from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.packs.format import MOST_BLOBS
from nbckpt.mirror import AutoMirror
from nbckpt.store import Store
from nbckpt.tracker import Tracker

TOPS, PARTS = "catalogue/tops/", "catalogue/parts/"
OTHER = "ab" * 32


def part(store: Store, plain: bytes) -> str:
    return raw_part(store, bytes(PREFERRED.compress(plain)))


def raw_part(store: Store, data: bytes) -> str:
    digest = PREFERRED.digest(data).hex()
    store.put(PARTS + digest, data)
    return digest


def top(store: Store, document: Any, *, number: int = 10**11) -> None:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    store.put(f"{TOPS}{number}-{PREFERRED.digest(data).hex()}", data)


def listing(store: Store, *keys: str, **fields: Any) -> None:
    """Put a catalogue of the keys that there are, and of *keys*."""
    every = sorted({*store.keys("checkpoints/"), *store.keys("refs/"), *keys})
    known = part(store, "\n".join(every).encode())
    top(store, {"format": 1, "keys": [[every[0], known]], "manifests": [], "heads": []} | fields)


def deep(store: Store) -> None:
    top(store, b"[" * 100_000)


def impossible(store: Store) -> None:
    top(store, {"format": 1, "keys": [["a", "../../x"]], "manifests": [], "heads": []})


def of_the_future(store: Store) -> None:
    listing(store, format=2)


def missing_part(store: Store) -> None:
    listing(store, keys=[["a", OTHER]])


def unordered(store: Store) -> None:
    listing(store, keys=[["z", OTHER], ["a", OTHER]])


def repeated(store: Store) -> None:
    listing(store, keys=[[f"a{at:06}", OTHER] for at in range(10_000)])


def huge_part(store: Store) -> None:
    listing(store, keys=[["a", part(store, bytes(200 << 20))]])


def many_huge_parts(store: Store) -> None:
    parts = [[f"{at:03}", part(store, b"%d\n" % at * (10 << 20))] for at in range(20)]
    listing(store, keys=parts)


def foreign_keys(store: Store) -> None:
    tricks = ["../../../etc/passwd", "refs/x/../../../../etc/passwd", "refs/..%2F/00000001-" + OTHER]
    listing(store, "checkpoints/../../x.json", "refs/x/99999999-../..", "\0", *tricks)


def what_is_not_there(store: Store) -> None:
    listing(store, f"checkpoints/29990101T000000000000Z-{OTHER}.json", f"refs/x/00000009-{OTHER}")


def another_manifest(store: Store) -> None:
    first, second = store.keys("checkpoints/")
    lines = f"{first}\t".encode() + store.get(second) + f"\n{second}\t".encode() + store.get(first)
    listing(store, manifests=[part(store, lines)])


def no_manifests(store: Store) -> None:
    listing(store, manifests=[part(store, b"\n\t\n" * 1000)])


def impossible_heads(store: Store) -> None:
    head = PREFERRED.magic + (MOST_BLOBS + 1).to_bytes(8, "little")
    listing(store, heads=[part(store, head), part(store, PREFERRED.magic), part(store, b"x")])


def two_tops(store: Store) -> None:
    listing(store)
    top(store, {"format": 1, "keys": [], "manifests": [], "heads": []})


CASES = [
    *(deep, impossible, of_the_future, missing_part, unordered, repeated, huge_part, many_huge_parts),
    *(foreign_keys, what_is_not_there, another_manifest, no_manifests, impossible_heads, two_tops),
]


@pytest.mark.slow
@pytest.mark.parametrize("attack", CASES, ids=lambda attack: attack.__name__)
def test_a_hostile_catalogue_shows_nothing_false(attack: Callable[[Store], None]) -> None:
    store = PagedStore()
    for number in range(2):
        Tracker(store).save({"x": number}, "x", provenance=False)
    attack(store)
    tracker = Tracker(store)
    session = Session(tracker, AutoMirror(store, in_background=False), {})

    def run(words: str) -> Any:
        return parse(TABLE, words.split(), "%ckpt").run(session)

    assert [(row.label, row.trouble) for row in run("ls").rows] == [("x@2", ""), ("x@1", "")]
    run("show x")
    assert run("restore x").restored.changes == {"x": "new"}
    assert session.namespace == {"x": 1}
    assert tracker.save({"x": 2}, "x", provenance=False).ref.id == tracker.find("x").id
    run("gc")
    assert [row.label.partition("@")[0] for row in run("ls").rows] == ["x"] * 3
