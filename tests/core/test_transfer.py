"""Transfer: one checkpoint out into a file and back in."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.stored import noise
from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.manifest import now
from nbckpt.core.packs.format import RAW, Piece, build, pack_key
from nbckpt.errors import (
    CorruptError,
    FormatError,
    NbckptError,
    NotFoundError,
    StoreError,
    UntrustedError,
    UsageError,
)
from nbckpt.settings import Settings
from nbckpt.store import ArchiveStore, LocalStore, MemoryStore
from nbckpt.testing import FaultyStore
from nbckpt.tracker import Tracker

SMALL = {"a": [1, 2], "b": "x" * 500}
LARGE = {"a": [1, 2], "b": noise(300_000), "c": noise(700_000, 1)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "out" / "x y ü.ckpt"


def exported(file: Path, namespace: dict[str, Any], tracker: Tracker | None = None) -> Tracker:
    file.parent.mkdir(exist_ok=True)
    tracker = tracker or Tracker(MemoryStore())
    tracker.save(namespace, "n", variables=list(namespace), message="for you")
    tracker.export("n", file)
    return tracker


@pytest.mark.parametrize("namespace", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_an_exported_checkpoint_can_be_imported(
    file: Path, tmp_path: Path, namespace: dict[str, Any], kind: str
) -> None:
    exported(file, namespace)
    there = Tracker(MemoryStore() if kind == "memory" else LocalStore(tmp_path / "s"))
    manifest, ref, new = there.import_file(file)
    assert (str(ref), new, manifest.message) == ("n@1", True, "for you")
    got: dict[str, Any] = {}
    assert there.restore("n", got).failed == ()
    assert all(np.array_equal(got[name], namespace[name]) for name in namespace)
    assert there.verify().damages == []


def test_a_second_import_changes_nothing(file: Path) -> None:
    exported(file, LARGE)
    there = Tracker(MemoryStore())
    there.import_file(file)
    before = list(there.store.keys())
    assert there.import_file(file)[1:] == (None, False)
    assert list(there.store.keys()) == before


def test_equal_checkpoints_give_equal_files(file: Path) -> None:
    tracker = exported(file, LARGE)
    tracker.export("n", file.with_name("again"))
    assert file.read_bytes() == file.with_name("again").read_bytes()


def test_only_the_checkpoints_own_bytes_travel(file: Path) -> None:
    tracker = Tracker(MemoryStore())
    tracker.save({"secret": noise(900_000, 7), **LARGE}, "all", variables=["*"])
    exported(file, {"b": LARGE["b"]}, tracker)
    assert file.stat().st_size < 350_000
    assert noise(900_000, 7).tobytes()[:64] not in file.read_bytes()
    archive = ArchiveStore(file)
    assert [key.split("/")[0] for key in archive.keys()] == ["checkpoints", "name", "packs"]  # noqa: SIM118
    archive.close()


def test_an_import_of_an_own_export_is_trusted(file: Path) -> None:
    exported(file, SMALL)
    there = Tracker(MemoryStore())
    there.import_file(file)
    there.restore("n", {})


def test_an_import_with_another_signature_is_not_trusted(file: Path, tmp_path: Path) -> None:
    exported(file, SMALL)
    there = Tracker(MemoryStore(), settings=Settings(store="", secret_file=tmp_path / "other"))
    there.import_file(file)
    with pytest.raises(UntrustedError):
        there.restore("n", {})
    there.trust(["n"])
    there.restore("n", {})


def test_exporting_an_untrusted_checkpoint_does_not_sign_it(file: Path, tmp_path: Path) -> None:
    exported(file, SMALL)
    other = Tracker(MemoryStore(), settings=Settings(store="", secret_file=tmp_path / "other"))
    other.import_file(file)
    other.export("n", file, overwrite=True)
    mine = Tracker(MemoryStore())
    assert mine.import_file(file)[0].signature is None


def test_an_export_replaces_a_file_only_with_overwrite(file: Path) -> None:
    tracker = exported(file, SMALL)
    before = file.read_bytes()
    with pytest.raises(UsageError, match=r"exists\. Choose another name, or use --overwrite"):
        tracker.export("n", file)
    assert file.read_bytes() == before
    tracker.export("n", file, overwrite=True)


@pytest.mark.parametrize("path", ["nowhere/x", "file/x"])
def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    tracker = Tracker(MemoryStore())
    tracker.save(SMALL, "n")
    with pytest.raises(StoreError, match="cannot write"):
        tracker.export("n", tmp_path / path)


def test_an_export_that_fails_leaves_the_former_file(file: Path, subtests: pytest.Subtests) -> None:
    tracker = exported(file, LARGE)
    before = file.read_bytes()
    for n in range(1, 8):
        with subtests.test(n=n):
            with suppress(StoreError):
                Tracker(FaultyStore(tracker.store, fail_at=n)).export("n", file, overwrite=True)
            assert file.read_bytes() == before  # an export that succeeds gives equal bytes
            assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_damaged_checkpoint_is_not_exported(file: Path) -> None:
    tracker = exported(file, LARGE)
    (key,) = tracker.store.keys("packs/")
    data = tracker.store.get(key)
    tracker.store.put(key, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptError, match="is damaged"):
        tracker.export("n", file.with_name("y"))
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.slow
@pytest.mark.parametrize("namespace", [SMALL, LARGE], ids=["small", "large"])
def test_an_archive_with_a_flipped_bit_is_refused(file: Path, namespace: dict[str, Any]) -> None:
    exported(file, namespace)
    whole = file.read_bytes()
    for at in {*range(300), *range(0, len(whole), len(whole) // 150), *range(len(whole) - 400, len(whole))}:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        there = Tracker(MemoryStore())
        try:
            there.import_file(file)
        except NbckptError:
            assert list(there.store.keys()) == []
            continue
        got: dict[str, Any] = {}
        assert there.restore("latest", got).failed == ()
        assert all(np.array_equal(got[name], namespace[name]) for name in namespace)


def test_a_file_that_was_cut_short_is_refused(file: Path, subtests: pytest.Subtests) -> None:
    exported(file, LARGE)
    whole, there = file.read_bytes(), Tracker(MemoryStore())
    for keep in (0.0, 0.1, 0.5, 0.9, 0.999):
        file.write_bytes(whole[: int(keep * len(whole))])
        with subtests.test(keep=keep):
            with pytest.raises(CorruptError, match="is not a whole nbckpt archive"):
                there.import_file(file)
            assert list(there.store.keys()) == []


def test_importing_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read"):
        Tracker(MemoryStore()).import_file(tmp_path)


def test_importing_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no file"):
        Tracker(MemoryStore()).import_file(tmp_path / "none")


def rewritten(file: Path, change: dict[str, bytes | None]) -> None:
    """Write the archive again with some members added, replaced or (None) left out."""
    with zipfile.ZipFile(file) as archive:
        members: dict[str, bytes | None] = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in (members | change).items():
            if data is not None:
                archive.writestr(name, data)


def test_a_zip_file_of_something_else_is_refused(file: Path) -> None:
    file.parent.mkdir()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(FormatError, match="is not an exported checkpoint"):
        Tracker(MemoryStore()).import_file(file)


def test_an_archive_that_lacks_a_pack_is_refused(file: Path) -> None:
    exported(file, LARGE)
    with zipfile.ZipFile(file) as archive:
        (pack,) = (name for name in archive.namelist() if name.startswith("packs/"))
    rewritten(file, {pack: None})
    there = Tracker(MemoryStore())
    with pytest.raises(CorruptError, match=r"pack \w+ is missing"):
        there.import_file(file)
    assert list(there.store.keys()) == []


def test_no_member_of_an_archive_is_written_outside(
    file: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    members = "../evil", "/evil", "..\\evil", "packs/../../evil", "C:/evil", "checkpoints/../../../evil"
    exported(file, SMALL)
    whole = file.read_bytes()
    for at, name in enumerate(members):
        with subtests.test(name):
            file.write_bytes(whole)
            rewritten(file, {name: b"evil"})
            with suppress(NbckptError):
                Tracker(LocalStore(tmp_path / f"in{at}" / "s")).import_file(file)
            assert list(tmp_path.rglob("*evil*")) == []


def test_a_hostile_name_is_left_out_or_kept_as_text(
    file: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    exported(file, SMALL)
    for at, name in enumerate(("", "latest", "a@3", "-x", "\x1b[2J", "x" * 300, "../../evil")):
        with subtests.test(name):
            rewritten(file, {"name": name.encode()})
            there = Tracker(LocalStore(tmp_path / f"in{at}" / "s"))
            _, ref, new = there.import_file(file)
            assert new
            assert ref is None or ref.name == "../../evil"
            assert list(tmp_path.rglob("evil")) == []
            there.restore("latest", {})


def test_bytes_that_do_not_match_their_digest_are_not_imported(file: Path) -> None:
    """A later save would share them by the digest, and lose what it saved."""
    mine, theirs = noise(300_000), noise(300_000, 5)
    good = Piece(PREFERRED.digest(theirs), theirs.tobytes(), len(theirs), RAW, aligned=True)
    poison = Piece(PREFERRED.digest(mine), theirs.tobytes(), len(mine), RAW, aligned=True)
    pack, parts = build([good, poison], PREFERRED)
    exported(file, SMALL)
    with zipfile.ZipFile(file) as archive:
        (key,) = (name for name in archive.namelist() if name.startswith("checkpoints/"))
        body = json.loads(archive.read(key))["checkpoint"]
    body |= {"packs": [*body["packs"], pack], "files": {"f": [300_000, [len(body["packs"]), 0, 1]]}}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    tail = b',"id":"' + PREFERRED.digest(text).hex().encode() + b'"}'
    rewritten(file, {key: b'{"checkpoint":' + text + tail, pack_key(pack): b"".join(parts)})
    there = Tracker(MemoryStore())
    with pytest.raises(CorruptError):
        there.import_file(file)
    assert list(there.store.keys()) == []


def test_an_import_that_fails_can_be_tried_again(file: Path) -> None:
    exported(file, LARGE)
    store = MemoryStore()
    for n in range(1, 15):
        try:
            Tracker(FaultyStore(store, fail_at=n)).import_file(file)
        except StoreError:
            assert Tracker(store).entries() == []
    Tracker(store).import_file(file)
    assert Tracker(store).restore("n", {}).failed == ()
    assert Tracker(store).verify().damages == []


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_an_import_replaces_a_pack_that_is_cut_short(file: Path, tmp_path: Path, kind: str) -> None:
    exported(file, LARGE)
    store = MemoryStore() if kind == "memory" else LocalStore(tmp_path / "s")
    Tracker(store).import_file(file)
    Tracker(store).remove(["n"])
    (key,) = store.keys("packs/")
    store.put(key, store.get(key)[:-5000])
    Tracker(store).import_file(file)
    assert Tracker(store).restore("n", {}).failed == ()
    assert Tracker(store).verify().damages == []


def test_an_import_while_its_pack_is_collected_is_refused(file: Path) -> None:
    exported(file, LARGE)
    store = MemoryStore()
    Tracker(store).import_file(file)
    (pack,) = (key.split("/")[-1].split(".")[0] for key in store.keys("packs/"))
    Tracker(store).remove(["n"])
    store.put("condemned/someone", f"{now()}\n{pack}".encode())
    with pytest.raises(StoreError, match="is being collected just now, so nothing was imported"):
        Tracker(store).import_file(file)
    assert Tracker(store).entries() == []


def test_an_archive_with_the_wrong_manifest_is_refused(file: Path) -> None:
    exported(file, SMALL)
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in contents.items():
            archive.writestr(f"checkpoints/{'0' * 64}.json" if name.startswith("check") else name, data)
    there = Tracker(MemoryStore())
    with pytest.raises(CorruptError, match="its key belongs to another one"):
        there.import_file(file)
    with pytest.raises(CorruptError, match="its key belongs to another one"):
        Checkpoint.from_bytes(file.read_bytes())
    assert list(there.store.keys()) == []
