"""Checkpoints of three kinds: only those that the user saved are listed; all of them are kept."""

from __future__ import annotations

import pytest

from nbckpt.core import trash
from nbckpt.core.gc import collect
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.packs.writer import Packer
from nbckpt.core.references import Entry, Kind
from nbckpt.core.trust import open_signer
from nbckpt.core.values.variables import capture
from nbckpt.errors import NotFoundError
from nbckpt.store import MemoryStore
from nbckpt.sync.stores import mirror


@pytest.fixture
def history() -> History:
    return History(MemoryStore(), open_signer)


def publish(history: History, kind: Kind, content: bytes) -> Entry:
    history.check_format(create=True)
    with Packer(history.store, inline=False) as packer:
        captured = capture({"x": content}, {}, packer)
        packer.finish()
        manifest = Manifest(
            kind="variables", created_at=now(), values=captured.values(packer), groups=captured.groups(packer)
        )
    return Entry.of(history.publish(manifest, kind=kind)[0], kind)


def test_only_checkpoints_are_listed_and_every_kind_lives(history: History) -> None:
    saved, point, cell = (publish(history, kind, b"x") for kind in ("checkpoints", "points", "cells"))
    assert history.entries() == [saved]
    assert history.living() == [cell, point, saved]


@pytest.mark.parametrize("kind", ["checkpoints", "points", "cells"])
def test_an_id_finds_a_checkpoint_of_each_kind(history: History, kind: Kind) -> None:
    entry = publish(history, kind, b"x")
    assert history.resolve(entry.id[:8]) == entry


def test_latest_is_the_newest_checkpoint_or_point(history: History) -> None:
    saved = publish(history, "checkpoints", b"1")
    assert history.resolve("latest") == saved
    point = publish(history, "points", b"2")
    publish(history, "cells", b"3")
    assert history.resolve("latest") == point
    assert history.resolve("latest~1") == saved


def test_steps_back_from_an_id_stay_within_its_kind(history: History) -> None:
    first = publish(history, "points", b"1")
    publish(history, "checkpoints", b"2")
    second = publish(history, "points", b"3")
    assert history.resolve(f"{second.id}~1") == first
    with pytest.raises(NotFoundError, match="goes too far back"):
        history.resolve(f"{first.id}~1")


@pytest.mark.parametrize("kind", ["points", "cells"])
def test_gc_keeps_the_contents_of_each_kind(history: History, kind: Kind) -> None:
    entry = publish(history, kind, b"x" * 100_000)
    for _ in range(2):
        collect(history, wait=lambda _: None)
    packs = history.read(entry).packs()
    assert packs
    assert len([key for key in history.store.keys("packs/") if key.endswith(".pack")]) == len(packs)


@pytest.mark.parametrize("kind", ["points", "cells"])
def test_a_removed_checkpoint_comes_back_as_its_kind(history: History, kind: Kind) -> None:
    entry = publish(history, kind, b"x")
    trash.remove(history, entry)
    assert history.living() == []
    [(back, refs)] = trash.contents(history)[entry.id]
    trash.bring_back(history, back, refs)
    assert history.living() == [entry]
    assert not list(history.store.keys("trash/"))


def test_a_push_copies_results_of_cells_and_no_points(history: History) -> None:
    target, shared = MemoryStore(), b"x" * 100_000
    saved, _, cell = (publish(history, kind, shared) for kind in ("checkpoints", "points", "cells"))
    publish(history, "points", b"y" * 100_000)
    mirror(history.store, target)
    there = History(target, open_signer)
    assert there.living() == [cell, saved]
    packs = there.read(saved).packs() | there.read(cell).packs()
    assert len([key for key in target.keys("packs/") if key.endswith(".pack")]) == len(packs)
    assert mirror(history.store, target).files == 0
