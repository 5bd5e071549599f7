"""The provenance of saved checkpoints: in the manifest, in `show` and in `diff`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.cli import main
from nbckpt.core.packs.format import pack_key
from nbckpt.core.transfer import export, import_file
from nbckpt.errors import CorruptError
from nbckpt.mirror import Mirror
from nbckpt.provenance import background, checkpoint
from nbckpt.provenance.checkpoint import read_provenance
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.lines import differences


@pytest.fixture
def tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nbckpt.Tracker:
    """Return a tracker whose saves wait for git, however long the machine takes."""
    monkeypatch.setattr(checkpoint, "FRESH_S", 0)
    monkeypatch.setattr(checkpoint, "WAIT_S", 60)
    return nbckpt.Tracker(tmp_path / "store")


def provenance(tracker: nbckpt.Tracker, ref: str) -> Provenance:
    manifest = tracker.manifest(ref)
    kept = read_provenance(manifest, tracker.read(manifest))
    assert kept is not None
    return kept


def shown(tracker: nbckpt.Tracker, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main([*words, "--store", tracker.store.url])
    return " ".join(capsys.readouterr().out.split())


def test_a_checkpoint_shows_where_it_comes_from(
    changed: Path, tracker: nbckpt.Tracker, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker.save({"x": 1}, "n")
    kept = provenance(tracker, "n")
    text = shown(tracker, capsys, "show", "n")
    assert f"Code: {kept.code['commit'][:10]} on main" in text
    assert f"With: Python {kept.machine['python']}, {len(kept.packages)} packages" in text
    assert "1 changed file, kept as a patch" in text
    assert b"+RATE = 2" in kept.patch


def test_diff_tells_what_else_differs(
    repository: Path, tracker: nbckpt.Tracker, capsys: pytest.CaptureFixture[str], git: Any
) -> None:
    tracker.save({"x": 1}, "n")
    (repository / "train.py").write_text("RATE = 2\n")
    git("commit", "--quiet", "-am", "second")
    tracker.save({"x": 1}, "n")
    before, after = (provenance(tracker, ref).code["commit"][:10] for ref in ("n@1", "n@2"))
    assert f"commit {before} {after}" in shown(tracker, capsys, "diff", "n@1", "n@2")


def test_the_second_save_writes_no_pack_of_its_origin(repository: Path, tracker: nbckpt.Tracker) -> None:
    (repository / "train.py").write_text("RATE = 2\n" * 3000)
    tracker.save({"x": 1}, "n")
    packs = set(tracker.store.keys("packs/"))
    tracker.save({"x": 2}, "n")
    assert packs
    assert set(tracker.store.keys("packs/")) == packs


def test_provenance_counts_neither_as_size_nor_as_new(repository: Path, tracker: nbckpt.Tracker) -> None:
    kept, bare = tracker.save({"x": 1}, "n"), tracker.save({"x": 1}, "m", provenance=False)
    assert (kept.size, kept.new_bytes) == (bare.size, bare.new_bytes)
    assert "again" not in bare.manifest.provenance
    assert not bare.manifest.attachments


@pytest.mark.usefixtures("gc_at_once")
def test_gc_frees_the_patch_with_its_last_checkpoint(repository: Path, tracker: nbckpt.Tracker) -> None:
    (repository / "train.py").write_text("RATE = 2\n" * 3000)
    tracker.save({"x": 1}, "n")
    tracker.save({"x": 2}, "m")
    tracker.remove(["n"])
    tracker.collect()
    assert b"+RATE = 2" in provenance(tracker, "m").patch
    tracker.remove(["m"])
    tracker.collect()
    assert list(tracker.store.keys("packs/")) == []


def test_push_export_and_verify_carry_the_patch(
    repository: Path, tracker: nbckpt.Tracker, tmp_path: Path
) -> None:
    (repository / "train.py").write_text("RATE = 2\n" * 3000)
    tracker.save({"x": 1}, "n")
    Mirror(tracker.store, tmp_path / "none", tmp_path / "target").push()
    export(tracker.history, tracker.manifest("n"), tmp_path / "file.nbckpt", "n")
    imported = nbckpt.Tracker(tmp_path / "imported")
    import_file(imported.history, tmp_path / "file.nbckpt")
    for other in (nbckpt.Tracker(tmp_path / "target"), imported):
        assert b"+RATE = 2" in provenance(other, "n").patch
        assert other.verify().damages == []


def test_verify_names_a_damaged_patch(repository: Path, tracker: nbckpt.Tracker) -> None:
    (repository / "train.py").write_text("RATE = 2\n" * 3000)
    manifest = tracker.save({"x": 1}, "n").manifest
    file = Path(tracker.store.url, pack_key(manifest.attachments["patch"].runs[0][0]))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    (damage,) = tracker.verify().damages
    assert "patch" in str(damage) or "packages" in str(damage)
    assert tracker.restore("n", {}).manifest.id == manifest.id


def test_a_failure_to_read_the_origin_is_a_note(
    tracker: nbckpt.Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise RuntimeError("no list of packages")

    monkeypatch.setattr("nbckpt.provenance.document.installed", fails)
    saved = tracker.save({"x": 1}, "n")
    assert "no list of packages" in str(saved.manifest.provenance["again"]["notes"])


def test_a_save_that_cannot_wait_takes_the_last_answer(
    repository: Path, tracker: nbckpt.Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker.save({"x": 1}, "n")
    monkeypatch.setattr(checkpoint, "WAIT_S", 0.0001)
    monkeypatch.setattr(background, "ask", lambda folders, *_: background.Question(folders))
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: background.last(checkpoint.here())[1] + 90)
    tracker.save({"x": 1}, "n")
    first, second = provenance(tracker, "n@1").code, provenance(tracker, "n@2").code
    assert (second["commit"], second["age_s"]) == (first["commit"], 90)


@pytest.mark.parametrize(
    "document", [{}, {"at": 1}, {"at": "", "code": {"commit": 1}}, {"at": "", "data": {}}]
)
def test_a_strange_document_is_named_and_the_rest_is_shown(
    tracker: nbckpt.Tracker, document: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tracker.save({"x": 1}, "n").manifest
    strange = replace(
        manifest, provenance={"again": document}, id="", created_at="2026-01-01T00:00:00.000000Z"
    )
    tracker.history.publish(strange, "strange")
    text = shown(tracker, capsys, "show", "strange")
    assert "its provenance is damaged" in text
    assert "1 variable" in shown(tracker, capsys, "diff", "n", "strange")


def test_an_object_that_is_too_long_is_not_read(tracker: nbckpt.Tracker) -> None:
    tracker.save({"x": 1}, "n")
    manifest = tracker.manifest("n")
    packages = replace(manifest.attachments["packages"], size=1 << 40)
    kept = read_provenance(replace(manifest, attachments={"packages": packages}), tracker.read(manifest))
    assert kept is not None
    with pytest.raises(CorruptError, match="too long"):
        assert kept.packages


def test_differences_name_packages_data_and_machine() -> None:
    def side(**more: Any) -> Provenance:
        document = {"at": "", "machine": {"python": more.pop("python")}, "data": more.pop("data")}
        return Provenance(document, lambda name: more.get(name, b""))

    old = side(python="3.11", data=[{"path": "a.csv", "checksum": "1"}], packages=b'{"x":"1","y":"1"}')
    new = side(python="3.12", data=[{"path": "a.csv", "checksum": "2"}], packages=b'{"x":"2","z":"1"}')
    assert differences(old, new) == [
        ("python", "3.11", "3.12"),
        ("data a.csv", "1", "2"),
        ("package x", "1", "2"),
        ("package y", "1", ""),
        ("package z", "", "1"),
    ]
    assert differences(old, None) == []


def cells(*sources: str) -> Provenance:
    return Provenance({"at": ""}, lambda name: json.dumps(sources).encode() if name == "cells" else b"")


def test_differences_name_the_lines_of_a_changed_function() -> None:
    before = "%matplotlib inline\ndef train(config):\n    x = 1  # a note\n    return x / (x + 2)"
    after = "def train(config):\n    x = 1\n    y = 3\n    return x / (x + 9)\nfound = !ls\nclass New: pass"
    old = cells("not python (", before, "class A: pass")
    rows = differences(old, cells(before, after, "class A:\n  b = 1"))
    assert rows == [
        ("function train", "return x / (x + 2)", "y = 3; return x / (x + 9)"),
        ("class A", "pass", "b = 1"),
    ]
    assert differences(cells(before), cells(before.replace("a note", "another"))) == []


def test_odd_escapes_in_a_cell_warn_nobody_again() -> None:
    assert differences(cells("def f(): return '\\d'"), cells("def f(): return 1"))[0][0] == "function f"


def test_a_very_long_function_has_its_length_only() -> None:
    long = "def f():\n" + "    x = 1\n" * 20_000
    assert differences(cells(long), cells(long + "    y = 2\n")) == [
        ("function f", "20,001 lines", "20,002 other lines")
    ]
