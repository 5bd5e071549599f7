"""The format: a store that format 1 wrote is read by this version, and by every later one.

    python tests/format/test_format.py

writes anew what these tests read in the folder `v1`. That is right only until format 1 is released.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nbckpt import Checkpoint
from nbckpt.commands import TABLE, Session, parse
from nbckpt.core import gc, manifest_json, names, trust
from nbckpt.core.packs import format as pack
from nbckpt.core.packs.writer import Packer
from nbckpt.errors import UntrustedError
from nbckpt.mirror import AutoMirror
from nbckpt.settings import Settings
from nbckpt.store import STAGING, LocalStore, MemoryStore, Store
from nbckpt.tracker import Tracker

HERE = Path(__file__).parent
V1 = HERE / "v1"
SETTINGS = Settings(store="", secret_file=V1 / "secret")
NOISE = random.Random(1).randbytes(80_000)

ONE: dict[str, Any] = {
    "text": "Grüße",
    "numbers": [1, 2.5, -3, 1 << 70, True, None],
    "shared": [[]] * 2,
    "array": np.frombuffer(NOISE, np.uint8),
    "zeros": np.zeros((100, 100)),
}
TWO: dict[str, Any] = {"text": "short", "small": np.arange(10)}
KEPT = np.frombuffer(random.Random(4).randbytes(70_000), np.uint8)
ALL = {"kept": KEPT, "lost": np.frombuffer(random.Random(2).randbytes(200_000), np.uint8)}


def buffers() -> list[bytes]:
    """Return what is kept raw, whatever the versions of zstd and of the values' libraries."""
    rng = random.Random(3)
    return [rng.randbytes(size) for size in (1, 4095, 4096, 65_535, 65_536, 70_001)]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    shutil.copytree(V1 / "store", tmp_path / "store")
    return LocalStore(tmp_path / "store")


@pytest.fixture
def tracker(store: LocalStore) -> Tracker:
    return Tracker(store, settings=SETTINGS)


def ask(tracker: Tracker, words: str) -> str:
    return str(parse(TABLE, words.split(), "%ckpt").run(Session(tracker, AutoMirror(tracker.store), {})))


def test_checkpoints_are_listed_with_their_names(tracker: Tracker) -> None:
    names = {str(ref) for ref in tracker.history.refs()}
    assert names == {"one@1", "two@1", "two@2", "Größe/x@1", "kept@1", "files@1", "theirs@1"}
    listing = ask(tracker, "ls -n 0")
    assert all(name in listing for name in names)
    assert "the first" in listing


@pytest.mark.parametrize("ref", ["one", "two@1", "two", "Größe/x", "kept", "files", "theirs"])
def test_each_checkpoint_is_shown(tracker: Tracker, ref: str) -> None:
    assert tracker.manifest(ref).id[:8] in ask(tracker, f"show {ref}")


def test_the_store_verifies_without_damage(tracker: Tracker) -> None:
    verified = tracker.verify()
    assert verified.damages == []
    assert (verified.checkpoints, verified.packs) == (7, 2)


def test_variables_are_restored(tracker: Tracker) -> None:
    namespace: dict[str, Any] = {}
    assert tracker.restore("one", namespace).failed == ()
    for name, value in ONE.items():
        assert np.array_equal(namespace[name], value) if hasattr(value, "dtype") else namespace[name] == value
    assert namespace["shared"][0] is namespace["shared"][1]


def test_inline_data_of_a_manifest_is_restored(tracker: Tracker) -> None:
    namespace: dict[str, Any] = {"numbers": 1}
    assert tracker.manifest("two").inline
    tracker.restore("two", namespace)
    assert namespace["text"] == "short"
    assert list(namespace["small"]) == list(range(10))
    assert "numbers" not in namespace  # it had been deleted when the checkpoint was made


def test_skipped_variables_are_named(tracker: Tracker) -> None:
    (skipped,) = tracker.manifest("Größe/x").skipped
    assert (skipped.name, tracker.manifest("Größe/x").message) == ("stream", "the first")


def test_data_of_a_rewritten_pack_is_restored(tracker: Tracker, store: LocalStore) -> None:
    (missing,) = (
        pack_hash
        for pack_hash in tracker.manifest("kept").packs()
        if not store.exists(pack.pack_key(pack_hash))
    )
    assert missing
    namespace: dict[str, Any] = {}
    tracker.restore("kept", namespace)
    assert np.array_equal(namespace["kept"], KEPT)


def test_files_of_a_checkpoint_are_read(store: LocalStore, tmp_path: Path) -> None:
    Checkpoint.from_store(store, "files", trust=True).to_directory(tmp_path / "out")
    assert (tmp_path / "out" / "w" / "net.bin").read_bytes() == NOISE
    assert (tmp_path / "out" / "empty").is_dir()


def test_a_removed_version_number_is_not_reused(tracker: Tracker) -> None:
    assert tracker.save({"x": 1}, "two").ref.version == 4


def test_signatures_are_valid_only_for_their_secret(tracker: Tracker, store: LocalStore) -> None:
    assert all(tracker.history.trusted(tracker.history.read(entry)) for entry in tracker.entries())
    with pytest.raises(UntrustedError):
        Tracker(store).restore("one", {})


def test_the_store_accepts_saves_and_gc(tracker: Tracker) -> None:
    assert tracker.save(dict(ONE), "one", variables=["array"]).new_bytes < 5000
    tracker.remove(["one@1", "files"])
    gc.collect(tracker.history, wait=lambda _: None)
    assert tracker.verify().damages == []


def test_an_export_is_imported() -> None:
    there = Tracker(MemoryStore(), settings=SETTINGS)
    there.import_file(V1 / "two.ckpt")
    namespace: dict[str, Any] = {}
    there.restore("two", namespace)
    assert namespace["text"] == "short"


def test_a_folder_is_read() -> None:
    made = Checkpoint.from_directory(V1 / "folder", trust=True)
    assert made.to_dict()["lr"] == 0.1


def test_packs_are_written_byte_for_byte() -> None:
    store = MemoryStore()
    write_raw(store)
    (key,) = store.keys()
    assert store.get(key) == (V1 / "raw.pack").read_bytes()
    assert pack.pack_of(key) == "ee07f7672e2b2bab03574f97e5a3d0d25c324a2bfb58b5dbebcd5fcdc392f691"


def test_a_manifest_is_written_byte_for_byte(tracker: Tracker) -> None:
    for entry in tracker.entries():
        data = tracker.history.raw(entry)
        read = tracker.history.read(entry)
        signature = read.signature
        again, written = manifest_json.encode(
            read, (lambda _, signed=signature: signed) if signature else None
        )
        assert (again.id, written) == (entry.id, data)


def test_a_signature_is_written_byte_for_byte(tracker: Tracker) -> None:
    made = tracker.manifest("one")
    assert trust.open_signer(SETTINGS).sign(made.id) == made.signature


def test_a_name_is_encoded_as_before() -> None:
    assert names.encode_name("Größe/x") == "%47r%C3%B6%C3%9Fe%2Fx"
    assert (V1 / "store" / "refs" / "%47r%C3%B6%C3%9Fe%2Fx").is_dir()


def write_raw(store: Store) -> None:
    with Packer(store, inline=False) as packer:
        for data in buffers():
            packer.add(data)
        packer.finish()


@contextmanager
def fixed_times() -> Iterator[None]:
    """Let every checkpoint be made a minute after the one before."""
    minutes = iter(range(60))

    def now() -> str:
        return f"2026-01-01T12:{next(minutes):02}:00.000000Z"

    with mock.patch("nbckpt.tracker.saving.now", now), mock.patch("nbckpt.core.sources.now", now):
        yield


def make(target: Path) -> None:
    """Write a store, a folder and an exported checkpoint into a folder."""
    store = LocalStore(target / "store")
    tracker = Tracker(store)
    with fixed_times(), tempfile.TemporaryDirectory() as temporary:
        tracker.save(ALL, "all", variables=list(ALL))
        tracker.save({"kept": KEPT}, "kept", variables=["kept"])
        tracker.remove(["all"])
        tracker.collect()
        tracker.save({**TWO, "stream": (n for n in range(3))}, "Größe/x", message="the first")
        tracker.save(dict(ONE), "one", variables=list(ONE))
        tracker.save({"text": 1, "numbers": 2}, "two")
        tracker.save(dict(TWO), "two")
        tracker.save({"gone": 1}, "two", variables=["gone"])
        tracker.remove(["two@3"])
        stranger = Settings(store="", secret_file=Path(temporary) / "other")
        Tracker(store, settings=stranger).save({"theirs": 1}, "theirs", variables=["theirs"])
        tracker.trust(["theirs"])
        made = Path(temporary) / "made"
        (made / "w").mkdir(parents=True)
        (made / "empty").mkdir()
        (made / "w" / "net.bin").write_bytes(NOISE)
        Checkpoint.from_directory(made).to_store(store, "files")
        Checkpoint.from_dict({"lr": 0.1, "names": ["a", "b"]}).to_directory(target / "folder")
        tracker.export("two", target / "two.ckpt")
    shutil.rmtree(target / "store" / STAGING)


def regenerate() -> None:
    """Write the folder `v1`."""
    for folder in ("store", "folder"):
        shutil.rmtree(V1 / folder, ignore_errors=True)
    (V1 / "secret").write_text("for-tests-only-" * 4)
    os.environ["NBCKPT_SECRET_FILE"] = str(V1 / "secret")
    make(V1)
    raw = MemoryStore()
    write_raw(raw)
    (key,) = raw.keys()
    (V1 / "raw.pack").write_bytes(raw.get(key))
    print(pack.pack_of(key))


if __name__ == "__main__":
    regenerate()
