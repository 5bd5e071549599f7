"""Without BLAKE3 and Zstandard: everything works with what every Python has, and nothing is mixed."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attack import share
from nbckpt import Checkpoint, Tracker
from nbckpt.core.algorithms import (
    BLAKE2B,
    BLAKE3,
    HERE,
    PORTABLE,
    PREFERRED,
    Algorithms,
    named,
    of_checksum,
    zstd,
)
from nbckpt.core.gc import collect
from nbckpt.core.history import History
from nbckpt.core.packs.format import pack_key, read_index
from nbckpt.core.trust import open_signer
from nbckpt.errors import CorruptError, FormatError
from nbckpt.mirror import Mirror
from nbckpt.states.folder import StateFolder
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.sync.download import download
from nbckpt.sync.upload import upload
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record, name_of
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.spec_file import write as write_spec

TESTS = Path(__file__).parents[1]
BLOCKED = "import sys; sys.modules.update(dict.fromkeys(['blake3', 'backports.zstd', 'compression.zstd']))\n"
LAWS = [
    "pack",
    "packer",
    "reader",
    "history",
    "checkpoint_laws",
    "checkpoint_forms",
    "gc",
    "transfer",
    "verify",
]
CHOSEN = share.of(["--all"], [])
VALUES = {"numbers": list(range(5000)), "array": np.arange(50_000), "text": "Grüße"}
LOOK = """
import json
from nbckpt import Tracker
tracker, there = Tracker(sys.argv[1]), {}
restored = tracker.restore("latest", there)
saved = tracker.save({name: there[name] for name in ("numbers", "array", "text")}, "again")
print(json.dumps([there["numbers"][-1], int(there["array"].sum()), there["text"], saved.new_bytes]))
"""

anywhere = pytest.mark.parametrize("algorithms", HERE, ids=lambda algorithms: algorithms.name)


def without_packages(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script where neither of the two packages can be imported."""
    command = [sys.executable, "-c", BLOCKED + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def portable(tmp_path: Path) -> Tracker:
    """Return a tracker on a store as it is made where the packages are missing."""
    tracker = Tracker(tmp_path / "portable")
    tracker.history.check_format(create=True, algorithms=PORTABLE)
    return tracker


@pytest.fixture
def fast(tmp_path: Path) -> Tracker:
    """Return a tracker on a store of BLAKE3 that holds something."""
    tracker = Tracker(tmp_path / "fast")
    tracker.save(dict(VALUES), "kept")
    return tracker


def test_both_packages_are_installed_for_these_tests() -> None:
    assert (PREFERRED.name, PORTABLE.name) == (BLAKE3, BLAKE2B)


@pytest.mark.slow
@pytest.mark.timeout(900)  # it runs other tests in a process, in full
def test_the_laws_hold_without_the_packages() -> None:
    files = [str(TESTS / "core" / f"test_{name}.py") for name in LAWS]
    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=ci", *CHOSEN]
    done = without_packages("import pytest; sys.exit(pytest.main(sys.argv[1:]))", *options, *files)
    assert done.returncode == 0, done.stdout[-4000:]


@anywhere
@given(data=st.lists(st.binary(max_size=3000)), least=st.integers(0, 4))
def test_decompressed_data_is_the_original_within_the_size_limit(
    algorithms: Algorithms, data: list[bytes], least: int
) -> None:
    plain = b"".join(data)
    small = algorithms.compress(plain)
    assert algorithms.decompress(small, len(plain) + least) == plain
    assert len(algorithms.decompress(small, max(0, len(plain) - 1 - least))) < max(1, len(plain))
    assert algorithms.decompress(small[:-1], len(plain)) in {b"", plain}


@anywhere
@given(pieces=st.lists(st.binary(max_size=3000)))
def test_data_pieces_and_a_file_have_the_same_checksum(
    algorithms: Algorithms, pieces: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("sum") / "file"
    file.write_bytes(b"".join(pieces))
    text = algorithms.checksum(pieces)
    assert text == algorithms.text(algorithms.digest(b"".join(pieces))) == algorithms.checksum_of_file(file)
    assert of_checksum(text, "it") is algorithms


@pytest.mark.parametrize("size", [4, 1 << 40, (1 << 64) - 3])
def test_a_frame_that_claims_too_large_a_size_gives_no_data(size: int) -> None:
    frame = b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + b"\x19\0\0abc"  # one raw block
    assert PREFERRED.decompress(frame, 3) == b""


def test_only_a_frame_that_states_its_size_is_decoded() -> None:
    stream = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    unstated = stream.compress(b"abc") + stream.flush()
    assert zstd.get_frame_info(unstated).decompressed_size is None
    assert PREFERRED.decompress(unstated, 3) == b""


def test_a_second_frame_is_not_decoded() -> None:
    assert PREFERRED.decompress(PREFERRED.compress(b"abc") + PREFERRED.compress(bytes(1 << 20)), 3) == b"abc"


@anywhere
def test_copied_and_pickled_algorithms_are_the_same_object(algorithms: Algorithms) -> None:
    assert pickle.loads(pickle.dumps(algorithms)) is copy.deepcopy(algorithms) is algorithms


def test_a_digest_from_the_future_is_named() -> None:
    with pytest.raises(FormatError, match="the store x was written with 'sha9', which this nbckpt does not"):
        named("sha9", "the store x")


def test_a_portable_store_stays_portable_with_the_packages(portable: Tracker) -> None:
    first = portable.save(dict(VALUES), "one")
    again = Tracker(portable.store.url).save(dict(VALUES), "two")
    assert json.loads(portable.store.get("store.json"))["digest"] == BLAKE2B
    assert (first.manifest.algorithms, again.manifest.algorithms, again.new_bytes) == (PORTABLE, PORTABLE, 0)
    blobs = [blob for pack in first.manifest.packs() for blob in read_index(portable.store, pack)]
    assert {blob.algorithms for blob in blobs} == {PORTABLE}
    assert {blob.codec for blob in blobs} == {0, 2}
    assert portable.restore("two", dict(VALUES), dry_run=True).changes == dict.fromkeys(VALUES, "same")
    assert portable.verify().damages == []


@pytest.mark.slow
def test_a_portable_store_works_with_and_without_the_packages(portable: Tracker) -> None:
    portable.save(dict(VALUES), "one")
    done = without_packages(LOOK, portable.store.url)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [4999, int(VALUES["array"].sum()), "Grüße", 0]
    back: dict[str, object] = {}
    portable.restore("again", back)
    assert np.array_equal(back["array"], VALUES["array"])
    assert portable.save(back, "home").new_bytes == 0


@pytest.mark.slow
def test_a_collection_keeps_the_algorithms(portable: Tracker) -> None:
    arrays = {f"a{n}": np.random.default_rng(n).bytes(100_000) for n in range(8)}
    portable.save(arrays, "all")
    portable.save({"a0": arrays["a0"]}, "few")
    portable.remove(["all"])
    assert collect(portable.history, wait=lambda _: None).rewritten
    assert portable.verify().damages == []
    done = without_packages(
        "from nbckpt import Tracker; Tracker(sys.argv[1]).restore('few', {})", portable.store.url
    )
    assert done.returncode == 0, done.stderr


def test_damage_is_found_in_a_portable_store(portable: Tracker) -> None:
    made = portable.save(dict(VALUES), "one").manifest
    (pack,) = made.packs()
    whole = bytearray(portable.store.get(pack_key(pack)))
    whole[-1] ^= 1
    portable.store.delete(pack_key(pack))
    portable.store.put(pack_key(pack), bytes(whole))
    with pytest.raises(CorruptError):
        next(iter(read_index(portable.store, pack)[-1:])).decode(whole[-10:])
    assert portable.verify().damages


REFUSED = {
    "a store": "Tracker('fast').save({'x': 1}, 'x')",
    "a look at a store": "Tracker('fast').entries()",
    "a checkpoint in a folder": "Checkpoint.from_directory('folder').to_dict()",
    "a checkpoint in bytes": "Checkpoint.from_bytes(open('bytes', 'rb').read())",
    "a folder target": "download(LocalStore('target'), 'out')",
    "more for a folder target": "upload('folder', LocalStore('target'))",
    "a trial's checkpoint": "CheckpointFolder('t').read('checkpoint_000001')",
    "an experiment's function": "read(Path('e')).load(open_signer(), trust=True)",
    "saved states": "StateFolder('states').newest()",
    "an import": "Tracker('new').import_file('exported')",
}
IMPORTS = """
import os
from pathlib import Path
from nbckpt import Checkpoint, Tracker
from nbckpt.core.trust import open_signer
from nbckpt.states.folder import StateFolder
from nbckpt.store import LocalStore
from nbckpt.sync.download import download
from nbckpt.sync.upload import upload
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.model.spec_file import read
os.chdir(sys.argv[1])
"""


class _State:
    def save(self, fileobj: IO[bytes]) -> None:
        fileobj.write(b"state")


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_files_that_need_missing_packages_are_refused(kind: str, fast: Tracker, tmp_path: Path) -> None:
    made = Checkpoint.from_dict({"a": 1})
    made.to_directory(tmp_path / "folder")
    (tmp_path / "bytes").write_bytes(made.to_bytes())
    fast.export("kept", tmp_path / "exported")
    upload(tmp_path / "folder", LocalStore(tmp_path / "target"))
    write_spec(tmp_path / "e", Spec(len, {"lr": 1}), open_signer())
    StateFolder(tmp_path / "states").write([("n", _State())], keep=1, replicas=1)
    trial = CheckpointFolder(tmp_path / "t")
    with trial.staged() as stage:
        (stage / "file").write_text("x")
        trial.commit(stage, Record(name_of(1), "files", 1))
    before = sorted(fast.store.keys())
    done = without_packages(IMPORTS + REFUSED[kind], str(tmp_path))
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("nbckpt.errors.FormatError: ")
    assert "was written with BLAKE3 and Zstandard, which cannot be imported here. Install them" in last
    assert sorted(fast.store.keys()) == before
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "out").exists()


def pushed(portable: Tracker, fast: Tracker, folder: Path) -> None:
    Mirror(portable.store, folder / "experiments", fast.store).push()


def imported(portable: Tracker, fast: Tracker, folder: Path) -> None:
    data = without_packages(
        "from nbckpt import Tracker; Tracker(sys.argv[1]).export('kept', sys.argv[2])",
        portable.store.url,
        str(folder / "exported"),
    )
    assert data.returncode == 0, data.stderr
    fast.import_file(folder / "exported")


@pytest.mark.parametrize("mix", [pushed, imported])
def test_one_store_has_one_digest(
    mix: Callable[[Tracker, Tracker, Path], None], portable: Tracker, fast: Tracker, tmp_path: Path
) -> None:
    portable.save(dict(VALUES), "kept")
    before = sorted(fast.store.keys())
    with pytest.raises(FormatError, match="one store has one digest"):
        mix(portable, fast, tmp_path)
    assert sorted(fast.store.keys()) == before


def test_a_push_to_a_new_store_keeps_the_algorithms(portable: Tracker, tmp_path: Path) -> None:
    portable.save(dict(VALUES), "kept")
    there = MemoryStore()
    Mirror(portable.store, tmp_path / "experiments", there).push()
    assert History(there, open_signer).algorithms is PORTABLE
    assert Tracker(there).save(dict(VALUES), "again").new_bytes == 0


def test_a_checkpoint_uses_the_algorithms_of_its_target_store(portable: Tracker, fast: Tracker) -> None:
    portable.save(dict(VALUES), "kept")
    moved = Checkpoint.from_store(portable.store, "kept")
    moved.to_store(fast.store, "moved")
    assert fast.manifest("moved").algorithms is PREFERRED
    assert Checkpoint.from_store(fast.store, "moved").to_dict()["text"] == "Grüße"


def test_an_upload_continues_with_or_without_the_packages(tmp_path: Path) -> None:
    here, there = tmp_path / "here", LocalStore(tmp_path / "there")
    here.mkdir()
    (here / "old").write_text("old")
    send = "from nbckpt.sync.upload import upload; from nbckpt.store import LocalStore; "
    done = without_packages(
        send + "upload(sys.argv[1], LocalStore(sys.argv[2]))", str(here), str(there.folder)
    )
    assert done.returncode == 0, done.stderr
    (here / "new").write_text("new")
    assert upload(here, there).files == 1
    download(there, tmp_path / "back")
    assert {file.name: file.read_text() for file in (tmp_path / "back").iterdir()} == {
        "old": "old",
        "new": "new",
    }
    index = json.loads(there.get(".nbckpt-sync/index.json"))["files"]
    assert {entry[2].split(":")[0] for entry in index.values()} == {BLAKE2B}
    (there.folder / "old").write_text("odd")
    with pytest.raises(CorruptError, match="'old'"):
        download(there, tmp_path / "other")
