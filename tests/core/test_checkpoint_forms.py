"""A checkpoint's forms, one into the other."""

from __future__ import annotations

import io
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.files import FILES
from nbckpt.errors import CodecError, CorruptError, NotFoundError, UsageError
from nbckpt.store import LocalStore, MemoryStore, open_store

Through = Callable[[Checkpoint, Path], Checkpoint]

DATA = {"metric": 5, "weights": [1.0, 2.0], 7: "seven", ("a", 1): None, "state": {"nested": b"\0"}}


def through_dict(made: Checkpoint, _: Path) -> Checkpoint:
    return Checkpoint.from_dict(made.to_dict())


def through_bytes(made: Checkpoint, _: Path) -> Checkpoint:
    return Checkpoint.from_bytes(made.to_bytes())


def through_folder(made: Checkpoint, folder: Path) -> Checkpoint:
    return Checkpoint.from_directory(made.to_directory(folder / uuid.uuid4().hex))


def through_memory_uri(made: Checkpoint, _: Path) -> Checkpoint:
    return Checkpoint.from_uri(made.to_uri(f"memory://{uuid.uuid4().hex}/ein Ordner"))


def through_file_uri(made: Checkpoint, folder: Path) -> Checkpoint:
    return Checkpoint.from_uri(made.to_uri((folder / f"ein Ordner {uuid.uuid4().hex}").as_uri()))


def through_local_uri(made: Checkpoint, folder: Path) -> Checkpoint:
    return Checkpoint.from_uri(made.to_uri(f"local://{folder}/{uuid.uuid4().hex}"))


def through_store(made: Checkpoint, folder: Path) -> Checkpoint:
    store = LocalStore(folder / "store")
    return Checkpoint.from_store(store, made.to_store(store))


FORMS: list[Through] = [
    through_dict,
    through_bytes,
    through_folder,
    through_memory_uri,
    through_file_uri,
    through_local_uri,
    through_store,
]


def each_form(check: Callable[[Path, Through], None]) -> Callable[[Path, pytest.Subtests], None]:
    """Make a check of one form the test of all, each in a folder of its own."""

    def test(tmp_path: Path, subtests: pytest.Subtests) -> None:
        for form in FORMS:
            with subtests.test(form.__name__):
                (tmp_path / form.__name__).mkdir()
                check(tmp_path / form.__name__, form)

    return test


def files_in(folder: str | Path) -> dict[str, bytes]:
    """Return the user's files in a folder, without our own."""
    top = Path(folder)
    files = {file.relative_to(top).as_posix(): file for file in top.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if not name.startswith(".nbckpt/")}


def folder_in(parent: Path) -> Path:
    """Make a folder of a user's."""
    top = parent / "mine"
    (top / "sub" / "deeper").mkdir(parents=True)
    (top / "empty" / "folder").mkdir(parents=True)
    (top / "test_data.pkl").write_bytes(b"no pickle at all")
    (top / "sub" / "deeper" / "x.meta.pkl").write_bytes(b"")
    (top / "ü 日本.txt").write_text("text")
    return top


@each_form
def test_a_dict_is_equal_after_every_conversion(tmp_path: Path, through: Through) -> None:
    """All of the dict, and nothing but it."""
    made = through(Checkpoint.from_dict(DATA), tmp_path)
    for then in FORMS:
        back = then(made, tmp_path).to_dict()
        assert back == DATA
        assert list(back) == list(DATA)


@each_form
def test_a_folder_is_equal_after_every_conversion(tmp_path: Path, through: Through) -> None:
    folder = folder_in(tmp_path)
    made = through(Checkpoint.from_directory(folder), tmp_path)
    for then in FORMS:
        back = then(made, tmp_path).to_directory(tmp_path / f"back {then.__name__}")
        assert files_in(back) == files_in(folder)
        assert Path(back, "empty", "folder").is_dir()
        assert not Path(back, ".nbckpt").exists()


@each_form
def test_every_form_has_the_same_content(tmp_path: Path, through: Through) -> None:
    made = Checkpoint.from_dict({"a": [1, 2.5, "x"], FILES: {"f": b"1"}})
    other = through(made, tmp_path)
    assert other.same_content(made)
    assert other.digest() == made.digest()
    assert not other.same_content(Checkpoint.from_dict({"a": [1, 2.5, "y"], FILES: {"f": b"1"}}))
    assert not other.same_content(Checkpoint.from_dict({"a": [1, 2.5, "x"], FILES: {"f": b"2"}}))


def test_two_checkpoints_with_one_content_are_not_equal() -> None:
    first, second = Checkpoint.from_dict({"a": 1}), Checkpoint.from_dict({"a": 1})
    assert first.same_content(second)
    assert first != second
    assert len({first, second, first}) == 2


def test_comparing_with_equals_reads_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    made = Checkpoint.from_directory(tmp_path)
    known = {made: "mine"}
    (tmp_path / "file").unlink()
    assert made == made
    assert made != Checkpoint.from_dict({})
    assert known[made] == "mine"


@each_form
def test_an_empty_dict_is_a_checkpoint(tmp_path: Path, through: Through) -> None:
    assert through(Checkpoint.from_dict({}), tmp_path).to_dict() == {}
    assert Checkpoint(data_dict={}).to_dict() == {}


@each_form
def test_falsy_values_are_values(tmp_path: Path, through: Through) -> None:
    data = {"": 0, 0: "", "none": None, "list": [], "false": False}
    assert through(Checkpoint.from_dict(data), tmp_path).to_dict() == data


@each_form
def test_no_key_is_reserved(tmp_path: Path, through: Through) -> None:
    keys = ["fs_checkpoint", "bytes_data", "_metadata", "_ray_additional_checkpoint_files"]
    keys += ["files", "<files>", "FILES", ".nbckpt", "checkpoint.json"]
    data: dict[Any, Any] = {key: number for number, key in enumerate(keys)}
    assert through(Checkpoint.from_dict(data), tmp_path).to_dict() == data


@each_form
def test_no_key_is_a_path(tmp_path: Path, through: Through) -> None:
    folder = tmp_path / "a" / "b" / "c"
    for key in ("../out", "../../evil", "/etc/x", "a/b", "a\0b", ".", "", "x" * 999):
        assert through(Checkpoint.from_dict({key: 1}), folder).to_dict() == {key: 1}
    assert {file.name for file in tmp_path.iterdir()} <= {"a"}


@each_form
def test_keys_keep_their_types(tmp_path: Path, through: Through) -> None:
    """5 is not "5"."""
    data = {5: "int", "5": "text", 5.5: "float", b"5": "bytes", (5,): "tuple", None: "none"}
    back = through(Checkpoint.from_dict(data), tmp_path).to_dict()
    assert [(type(key), key, value) for key, value in back.items()] == [
        (type(key), key, value) for key, value in data.items()
    ]


@each_form
def test_shared_objects_are_shared_again(tmp_path: Path, through: Through) -> None:
    shared = [1]
    back = through(Checkpoint.from_dict({"a": shared, "b": {"c": shared}, 3: shared}), tmp_path).to_dict()
    assert back["a"] is back["b"]["c"] is back[3]


@each_form
def test_no_conversion_changes_the_callers_dict(tmp_path: Path, through: Through) -> None:
    mine = {"list": [1], "x": 1}
    made = Checkpoint.from_dict(mine)
    through(made, tmp_path)
    made.to_dict()["list"].append(2)
    assert mine == {"list": [1], "x": 1}


def test_later_changes_to_the_dict_do_not_reach_the_checkpoint() -> None:
    mine = {"list": [1]}
    made = Checkpoint.from_dict(mine)
    mine["list"].append(2)
    mine["new"] = []
    assert made.to_dict() == {"list": [1]}


def test_to_dict_returns_a_new_dict_each_time() -> None:
    made = Checkpoint.from_dict({"list": [1]})
    made.to_dict()["list"].append(2)
    made.to_dict().clear()
    assert made.to_dict() == {"list": [1]}


def test_bytes_are_bytes_again_and_again() -> None:
    made = Checkpoint.from_dict({"bytes_data": [1]})
    for _ in range(3):
        data = made.to_bytes()
        assert type(data) is bytes
        made = Checkpoint.from_bytes(data)
    assert made.to_dict() == {"bytes_data": [1]}


def test_bytes_are_an_archive() -> None:
    with zipfile.ZipFile(io.BytesIO(Checkpoint.from_dict({"a": 1}).to_bytes())) as archive:
        assert archive.testzip() is None


def test_bytes_that_are_cut_are_corrupt() -> None:
    data = Checkpoint.from_dict({"a": bytes(1000)}).to_bytes()
    for keep in (0, 1, 100, -1, -50):
        with pytest.raises(CorruptError):
            Checkpoint.from_bytes(data[:keep])


def test_no_flipped_bit_goes_unnoticed() -> None:
    """Each byte of the archive's contents is covered."""
    original = Checkpoint.from_dict({"a": list(range(20)), FILES: {"f": b"file"}})
    data = original.to_bytes()
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 4
        try:
            back = Checkpoint.from_bytes(bytes(changed), trust=True).to_dict()
        except (CorruptError, UsageError, NotFoundError):
            continue
        assert back["a"] == list(range(20))
        assert dict(back[FILES]) == {"f": b"file"}


@each_form
def test_a_field_added_to_the_dict_of_a_folder_is_kept(tmp_path: Path, through: Through) -> None:
    folder = folder_in(tmp_path)
    made = Checkpoint.from_directory(folder)
    made = Checkpoint.from_dict(made.to_dict() | {"added": [1]})
    back = through(through(made, tmp_path), tmp_path)
    assert back.to_dict()["added"] == [1]
    assert files_in(back.to_directory(tmp_path / "back")) == files_in(folder)


@each_form
def test_files_added_to_the_folder_of_a_dict_are_kept(tmp_path: Path, through: Through) -> None:
    folder = Path(Checkpoint.from_dict(DATA).to_directory(tmp_path / "place"))
    (folder / "sub" / "dir").mkdir(parents=True)
    (folder / "top.bin").write_bytes(b"top")
    (folder / "sub" / "dir" / "low.bin").write_bytes(b"low")
    back = through(through(Checkpoint.from_directory(folder), tmp_path), tmp_path)
    data = back.to_dict()
    assert dict(data.pop(FILES)) == {"top.bin": b"top", "sub/dir/low.bin": b"low"}
    assert data == DATA


@each_form
def test_fields_and_files_added_between_conversions_are_kept(tmp_path: Path, through: Through) -> None:
    made = through(Checkpoint.from_dict({"first": 1}), tmp_path)
    made = through(Checkpoint.from_dict(made.to_dict() | {"second": 2}), tmp_path)
    folder = Path(made.to_directory(tmp_path / "place"))
    (folder / "third").write_bytes(b"3")
    made = through(Checkpoint.from_directory(folder), tmp_path)
    data = through(made, tmp_path).to_dict()
    assert dict(data.pop(FILES)) == {"third": b"3"}
    assert data == {"first": 1, "second": 2}


@each_form
def test_a_file_added_to_the_dict_keeps_the_empty_folders(tmp_path: Path, through: Through) -> None:
    folder = folder_in(tmp_path)
    data = Checkpoint.from_directory(folder).to_dict()
    data[FILES] |= {"new/file": b"new", "empty/folder/now": b"not"}
    (folder / "other").mkdir()
    back = through(Checkpoint.from_dict(data), tmp_path)
    assert dict(back.to_dict()[FILES]) == files_in(folder) | {"new/file": b"new", "empty/folder/now": b"not"}
    assert back.to_dict()[FILES].folders == frozenset()


def test_writing_twice_loses_nothing(tmp_path: Path) -> None:
    made = Checkpoint.from_dict({"a": 1, FILES: {"f": b"1"}})
    for name in ("one", "two"):
        assert files_in(made.to_directory(tmp_path / name)) == {"f": b"1"}


@each_form
def test_files_with_our_endings_are_files(tmp_path: Path, through: Through) -> None:
    names = ["a.meta.pkl", "sub/b.meta.pkl", ".metadata.pkl", "dict_checkpoint.pkl", ".is_checkpoint"]
    names += ["sub/.nbckpt/checkpoint.json", "checkpoint.json", "x.nbckpt", "manifest.json"]
    made = Checkpoint.from_dict({FILES: {name: name.encode() for name in names}})
    back = through(made, tmp_path).to_dict()
    assert dict(back[FILES]) == {name: name.encode() for name in names}
    assert list(back) == [FILES]


def test_a_source_folder_is_never_changed(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}
    made = Checkpoint.from_directory(folder)
    made.to_dict()
    made.to_bytes()
    made.to_uri(f"memory://{uuid.uuid4().hex}")
    with made.as_directory():
        pass
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]} == before


def test_a_link_counts_as_its_target(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    (folder / "link").symlink_to("test_data.pkl")
    (folder / "linked folder").symlink_to("sub", target_is_directory=True)
    made = Checkpoint.from_directory(folder)
    for number, through in enumerate(FORMS):
        back = Path(through(made, tmp_path).to_directory(tmp_path / str(number)))
        assert (back / "link").read_bytes() == b"no pickle at all"
        assert (back / "linked folder" / "deeper" / "x.meta.pkl").is_file()
        assert not (back / "link").is_symlink()


def test_from_uri_fetches_nothing_before_the_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = Checkpoint.from_dict({"a": bytes(100_000), FILES: {"f": b"1"}}).to_uri(
        f"memory://{uuid.uuid4().hex}"
    )
    fetched: list[str] = []
    store = type(open_store(uri))
    get = store.get

    def counted(self: Any, key: str, start: int = 0, stop: int | None = None) -> bytes:
        fetched.append(key)
        return get(self, key, start, stop)

    monkeypatch.setattr(store, "get", counted)
    made = Checkpoint.from_uri(uri)
    assert fetched == [".nbckpt/checkpoint.json"]
    assert made.to_dict()[FILES]["f"] == b"1"
    assert "f" in fetched


def test_reading_a_missing_uri_is_an_error() -> None:
    made = Checkpoint.from_uri(f"memory://{uuid.uuid4().hex}")
    for read in (made.to_dict, made.to_bytes, made.to_directory, made.digest):
        with pytest.raises(NotFoundError, match="no checkpoint at memory://"):
            read()
        with pytest.raises(FileNotFoundError):
            read()


def test_a_checkpoint_written_to_a_uri_later_is_read() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    made = Checkpoint.from_uri(uri)
    Checkpoint.from_dict({"a": 1}).to_uri(uri)
    assert made.to_dict() == {"a": 1}


def test_plain_files_at_a_uri_are_a_checkpoint() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    open_store(uri).put("sub/file", b"1")
    assert dict(Checkpoint.from_uri(uri).to_dict()[FILES]) == {"sub/file": b"1"}


def test_an_unpicklable_field_is_named() -> None:
    with pytest.raises(CodecError, match=r"cannot save \['model'\].*\['inner'\].*Leave it out") as error:
        Checkpoint.from_dict({"a": 1, "model": {"inner": iter_nothing()}})
    assert "generator" in str(error.value)


def test_a_field_that_fails_to_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Checkpoint.from_dict({"thing": Fragile()})
    monkeypatch.delattr(Fragile, "value")
    with pytest.raises(CodecError, match="cannot load 'thing': AttributeError"):
        made.to_dict()


def iter_nothing() -> Iterator[int]:
    yield from ()


class Fragile:
    value = 1

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (Fragile, "value")


def test_a_store_keeps_equal_data_once() -> None:
    store = MemoryStore()
    data = bytes(range(256)) * 2000
    ids = [Checkpoint.from_dict({"a": data, "n": n}).to_store(store) for n in range(5)]
    assert sum(len(store.get(key)) for key in store.keys("packs/")) < 2 * len(data)
    assert [Checkpoint.from_store(store, ref).to_dict()["n"] for ref in ids] == [0, 1, 2, 3, 4]


def test_from_store_finds_a_checkpoint_by_name_id_or_latest() -> None:
    store = MemoryStore()
    first = Checkpoint.from_dict({"n": 1}).to_store(store, "mine", message="first")
    Checkpoint.from_dict({"n": 2}).to_store(store, "mine")
    numbers = {
        ref: Checkpoint.from_store(store, ref).to_dict()["n"]
        for ref in ("mine", "mine@1", first[:8], "latest")
    }
    assert numbers == {"mine": 2, "mine@1": 1, first[:8]: 1, "latest": 2}
