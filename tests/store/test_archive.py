from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.store import ArchiveStore, ArchiveWriter, Store
from nbckpt.testing import ReadingTests
from nbckpt.testing.stores import Fill


def archive_of(items: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    for key, data in items.items():
        writer.put(key, data)
    writer.close()
    return file.getvalue()


class TestArchiveStore(ReadingTests):
    @pytest.fixture
    def fill(self) -> Fill:
        return lambda items: ArchiveStore(archive_of(items))


class TestArchiveFile(ReadingTests):
    @pytest.fixture
    def fill(self, tmp_path: Path) -> Fill:
        def fill(items: Mapping[str, bytes]) -> Store:
            file = tmp_path / "some archive.zip"
            file.write_bytes(archive_of(items))
            return ArchiveStore(file)

        return fill


def test_any_zip_tool_reads_it() -> None:
    with zipfile.ZipFile(io.BytesIO(archive_of({"a/b": b"x", "ü": b"y"}))) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == {"a/b": b"x", "ü": b"y"}


def test_equal_contents_give_equal_archives() -> None:
    assert archive_of({"a": b"x", "b": b"y"}) == archive_of({"a": b"x", "b": b"y"})


def test_a_cut_archive_is_corrupt(subtests: pytest.Subtests) -> None:
    for keep in (0, 1, 50, -1, -30):
        with subtests.test(keep=keep), pytest.raises(CorruptError, match="not a whole"):
            ArchiveStore(archive_of({"a": b"x" * 100})[:keep])


def test_a_changed_archive_is_corrupt() -> None:
    data = bytearray(archive_of({"a": b"x" * 100}))
    data[data.index(b"xxx") + 10] ^= 1
    with pytest.raises(CorruptError, match="'a'"):
        ArchiveStore(bytes(data)).get("a")


def test_data_that_is_not_an_archive_is_corrupt() -> None:
    for data in (b"", b"pickle", b"PK\x05\x06" + bytes(17)):
        with pytest.raises(CorruptError):
            ArchiveStore(data)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"nothing\.zip"):
        ArchiveStore(tmp_path / "nothing.zip")


def test_an_archive_store_is_read_only() -> None:
    store = ArchiveStore(archive_of({"a": b"x"}))
    with pytest.raises(UsageError, match="read-only"):
        store.put("a", b"y")
    with pytest.raises(UsageError, match="read-only"):
        store.delete("a")
    assert store.get("a") == b"x"


def test_an_archive_writer_cannot_be_read() -> None:
    writer = ArchiveWriter(io.BytesIO())
    writer.put("b", b"x")
    writer.put("a", b"x")
    assert list(writer.keys()) == ["a", "b"]
    assert writer.exists("a")
    assert not writer.exists("c")
    for call in (writer.get, writer.delete):
        with pytest.raises(UsageError):
            call("a")
    writer.close()


def test_threads_read_at_once() -> None:
    items = {str(n): str(n).encode() * 10_000 for n in range(16)}
    store = ArchiveStore(archive_of(items))
    with ThreadPoolExecutor(8) as pool:
        assert dict(zip(items, pool.map(store.get, items), strict=True)) == items


def test_threads_write_at_once() -> None:
    items = {str(n): str(n).encode() * 10_000 for n in range(16)}
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(writer.put, items, items.values()))
    writer.close()
    assert {key: ArchiveStore(file.getvalue()).get(key) for key in items} == items


def test_a_hostile_name_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../evil", b"x")
    store = ArchiveStore(file.getvalue())
    with pytest.raises(UsageError):
        store.get("../evil")


def test_a_flipped_bit_is_never_read_as_other_data() -> None:
    items = {"a": b"x" * 30, "b/c": b"y"}
    data = archive_of(items)
    for at in range(len(data) * 8):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        with suppress(CorruptError, NotFoundError, UsageError):
            store = ArchiveStore(bytes(changed))
            assert all(store.get(key) == items[key] for key in items)
