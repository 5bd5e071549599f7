"""Nothing of a stranger's runs, and nothing is written outside; requests that are refused."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.files import FILES, KIND
from nbckpt.errors import NbckptError, NotFoundError, UntrustedError, UsageError
from nbckpt.store import MemoryStore

RAN: list[str] = []


def explode() -> None:
    RAN.append("it ran")


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return explode, ()


class Armed(Checkpoint):
    _SERIALIZED_ATTRS = ("attribute",)
    attribute: Any


@pytest.fixture(autouse=True)
def clean() -> None:
    RAN.clear()


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give a stranger's checkpoint in each form that travels: ways to open it."""
    with monkeypatch.context() as patch:
        patch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "theirs"))
        made = Armed.from_dict({"bomb": Bomb(), FILES: {"f": b"1"}})
        made.attribute = Bomb()
        store = MemoryStore()
        data, folder = made.to_bytes(), made.to_directory(tmp_path / "stranger")
        uri, ref = made.to_uri(f"memory://{uuid.uuid4().hex}"), made.to_store(store)
    return {
        "bytes": lambda **trust: Checkpoint.from_bytes(data, **trust),
        "folder": lambda **trust: Checkpoint.from_directory(folder, **trust),
        "uri": lambda **trust: Checkpoint.from_uri(uri, **trust),
        "store": lambda **trust: Checkpoint.from_store(store, ref, **trust),
    }


each_form = pytest.mark.parametrize("form", ["bytes", "folder", "uri", "store"])


@each_form
def test_opening_an_untrusted_checkpoint_runs_no_code(
    stranger: dict[str, Any], tmp_path: Path, form: str
) -> None:
    made = stranger[form]()
    repr(made)
    made.digest()
    with made.as_directory() as path:
        assert Path(path, "f").read_bytes() == b"1"
    made.to_directory(tmp_path / "copy")
    assert RAN == []


@each_form
def test_untrusted_fields_are_not_loaded(stranger: dict[str, Any], form: str) -> None:
    made = stranger[form]()
    with pytest.raises(UntrustedError, match=r"not written by you.*trust=True"):
        made.to_dict()
    with pytest.raises(UntrustedError):
        made.get_preprocessor() or made.to_dict()
    assert not hasattr(made, "attribute")
    assert RAN == []


@each_form
def test_untrusted_fields_are_loaded_with_trust(stranger: dict[str, Any], form: str) -> None:
    assert set(stranger[form](trust=True).to_dict()) == {"bomb", FILES, KIND}
    assert RAN == ["it ran"] * 2


@each_form
def test_no_conversion_makes_a_checkpoint_trusted(
    stranger: dict[str, Any], tmp_path: Path, form: str
) -> None:
    made = stranger[form]()
    store = MemoryStore()
    copies = [
        Checkpoint.from_bytes(made.to_bytes()),
        Checkpoint.from_directory(made.to_directory(tmp_path / "copy")),
        Checkpoint.from_uri(made.to_uri(f"memory://{uuid.uuid4().hex}")),
        Checkpoint.from_store(store, made.to_store(store)),
        Armed.from_checkpoint(made),
    ]
    for copy in copies:
        with pytest.raises(UntrustedError):
            copy.to_dict()
    assert RAN == []


@each_form
def test_a_checkpoint_opened_with_trust_stays_trusted(
    stranger: dict[str, Any], tmp_path: Path, form: str
) -> None:
    made = stranger[form](trust=True)
    store = MemoryStore()
    for copy in (
        Checkpoint.from_bytes(made.to_bytes()),
        Checkpoint.from_store(store, made.to_store(store)),
        Checkpoint.from_directory(made.to_directory(tmp_path / "copy")),
    ):
        assert "bomb" in copy.to_dict()


def test_a_later_foreign_checkpoint_at_a_uri_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    made = Checkpoint.from_uri(uri)
    with monkeypatch.context() as patch:
        patch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "theirs"))
        Checkpoint.from_dict({"bomb": Bomb()}).to_uri(uri)
    with pytest.raises(UntrustedError):
        made.to_dict()
    assert RAN == []


def vanished(name: str, module: str) -> type[Checkpoint]:
    """Return a class that will not be found again."""
    return type(name, (Checkpoint,), {"__module__": module})


@pytest.mark.parametrize("data", [{}, {FILES: {"f": b"1"}}, {"a": 1}], ids=["empty", "files", "fields"])
def test_an_untrusted_class_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[Any, Any]
) -> None:
    """Importing a module runs it."""
    (tmp_path / "evil_module.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "theirs"))
        evil = vanished("Evil", "evil_module")
        folder = evil.from_dict(data).to_directory(tmp_path / "made")
    assert type(Checkpoint.from_directory(folder)) is Checkpoint
    assert "evil_module" not in sys.modules


def test_trusted_and_untrusted_checkpoints_share_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Checkpoint.from_dict({"a": 1})
    with monkeypatch.context() as patch:
        patch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "theirs"))
        data = Checkpoint.from_dict({"a": 1}).to_bytes()
    theirs = Checkpoint.from_bytes(data)
    assert theirs.digest() == mine.digest()
    with theirs.as_directory() as one, mine.as_directory() as other:
        assert one != other


def test_an_edited_manifest_is_detected(tmp_path: Path) -> None:
    folder = Checkpoint.from_dict({"a": 1}).to_directory(tmp_path / "made")
    manifest = Path(folder, ".nbckpt", "checkpoint.json")
    manifest.write_bytes(manifest.read_bytes().replace(b'"name":"a"', b'"name":"b"'))
    with pytest.raises(NbckptError, match="damaged"):
        Checkpoint.from_directory(folder)


HOSTILE = ["../out", "a/../../out", "/etc/out", "..", ".", "", "a//b", "a/", "a\0b", ".nbckpt/x"]


def test_no_file_leads_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for path in HOSTILE:
        with subtests.test(path):
            with pytest.raises(UsageError):
                Checkpoint.from_dict({FILES: {path: b"1"}})
            with monkeypatch.context() as patch:
                patch.setattr("nbckpt.core.files.check_path", lambda path: path)
                data = Checkpoint.from_dict({FILES: {path: b"1"}}).to_bytes()
            with pytest.raises(UsageError):
                Checkpoint.from_bytes(data, trust=True).to_directory(tmp_path / "a" / "b")
            assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["a/../../out", "/etc/out", "a//b"])
def test_no_file_at_a_hostile_uri_leads_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    class Hostile(MemoryStore):
        def keys(self, prefix: str = "") -> Iterator[str]:
            return iter([path] if path.startswith(prefix) else [])

        def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
            return b"1" if key == path else super().get(key, start, stop)

    monkeypatch.setattr("nbckpt.core.sources.open_store", lambda _: Hostile())
    made = Checkpoint.from_uri("memory://hostile")
    with pytest.raises(UsageError):
        made.to_directory(tmp_path / "a" / "b")
    assert not (tmp_path / "out").exists()


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    links = {"/etc": "outside", "../beside": "outside", "nowhere": "nowhere", ".": "back", "loop": "nowhere"}
    (tmp_path / "beside").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    for target, reason in links.items():
        (folder / "loop").symlink_to(target)
        with subtests.test(target), pytest.raises(UsageError, match=f"'loop' .*{reason}"):
            Checkpoint.from_directory(folder)
        (folder / "loop").unlink()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_pipes_and_sockets_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=r"'pipe' .*neither a file nor a folder"):
        Checkpoint.from_directory(tmp_path)
    (tmp_path / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(UsageError, match=r"'s' .*it is neither"):
            Checkpoint.from_directory(tmp_path)


def test_a_store_folder_is_not_a_checkpoint_folder(tmp_path: Path) -> None:
    Checkpoint.from_dict({"a": 1}).to_store(str(tmp_path / ".nbckpt"), "mine")
    with pytest.raises(UsageError, match=r"holds a store.*from_store"):
        Checkpoint.from_directory(tmp_path)


def test_a_file_must_be_bytes() -> None:
    for content in ("text", 5, None, [1]):
        with pytest.raises(UsageError, match="the file 'f' must be bytes"):
            Checkpoint.from_dict({FILES: {"f": content}})
    with pytest.raises(UsageError, match="a dict of bytes, not list"):
        Checkpoint.from_dict({FILES: ["f"]})


def test_a_path_cannot_be_a_file_and_a_folder() -> None:
    with pytest.raises(UsageError, match="'a/b' cannot be a file and a folder"):
        Checkpoint.from_dict({FILES: {"a/b": b"", "a/b/c": b""}})


def test_a_wrong_source_is_named(subtests: pytest.Subtests) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({}, UsageError, "one of local_path, data_dict and uri; given: none"),
        ({"data_dict": {}, "uri": "memory://x"}, UsageError, "given: data_dict and uri"),
        ({"data_dict": {}, "local_path": ""}, UsageError, "given: local_path and data_dict"),
        ({"data_dict": [1]}, UsageError, "from_dict takes a dict, not list"),
        ({"data_dict": "text"}, UsageError, "from_dict takes a dict, not str"),
        ({"local_path": "nothing/here"}, NotFoundError, "no folder .*nothing/here"),
        ({"local_path": __file__}, UsageError, "test_checkpoint_trust.py' is a file"),
        ({"uri": "treasure://island"}, UsageError, "treasure://island"),
        ({"uri": "/plain/path"}, UsageError, "'/plain/path' is not a URI. Use from_directory"),
        ({"uri": 5}, UsageError, "5 is not a URI"),
    ]
    for given, error, message in wrong:
        with subtests.test(message), pytest.raises(error, match=message):
            Checkpoint(**given)


@pytest.mark.parametrize("uri", ["treasure://island", "/plain/path", "plain"])
def test_a_wrong_target_is_named(uri: str) -> None:
    with pytest.raises(UsageError, match=uri):
        Checkpoint.from_dict({}).to_uri(uri)
