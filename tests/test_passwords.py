"""Passwords in URLs: commands that succeed show and keep none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_lines import command_lines

import nbckpt
from late import Library
from nbckpt import Tracker
from nbckpt.cli import main

memory = Library("fsspec.implementations.memory")

SECRET = "p4ss" + "w0rd"
USED = command_lines("""
push URL, push URL, pull URL --store there, pull URL --store there
status --store URL, ls --store URL, show one --store URL, ls one --json --store URL, trials --store URL
verify --store URL, doctor --store URL, gc --store URL
tag one other --store URL, rm other --store URL, undo --store URL
push URL --json, pull URL --store other --json
""")


def train(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1.0, checkpoint={"step": 1})


def places(top: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file on this machine, and the content of those at the URL."""
    yield from ((str(path), path.read_bytes()) for path in top.rglob("*") if path.is_file())
    yield from (("", file.getvalue()) for file in memory.MemoryFileSystem.store.values())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"memory://me:{SECRET}@place/x", "memory://me:***@place/x"),
        (f"memory://place/x?token={SECRET}", "memory://place/x?token=***"),
    ],
    ids=["password", "token"],
)
def test_commands_that_succeed_show_and_keep_no_password(
    url: str,
    shown: str,
    tmp_path: Path,
    clean_environment: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    with Tracker(tmp_path / ".nbckpt") as tracker:
        tracker.save({"x": 1}, "one")
    nbckpt.run(train, name="e", executor="inline")
    for line in USED:
        assert main(line.replace("URL", url).split()) == 0, line
        out, err = capsys.readouterr()
        assert out
        assert SECRET not in out + err, line
        assert shown in out or line.split()[0] not in {"push", "ls"}, line
    monkeypatch.setenv("NBCKPT_STORE", url)
    nbckpt.run(train, name="f", executor="inline")
    assert main(["status"]) == 0
    assert SECRET not in "".join([*capsys.readouterr(), caplog.text])
    files = [*places(tmp_path), *places(clean_environment)]
    assert {"e", "f"} <= {Path(path).parent.parent.name for path, _ in files}
    assert any(not path for path, _ in files)
    for path, content in files:
        assert SECRET not in path
        assert SECRET.encode() not in content, path
