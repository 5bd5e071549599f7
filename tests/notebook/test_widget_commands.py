"""The panel has buttons, so its pages do not advise to type a command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbckpt.errors import NbckptError
from nbckpt.notebook.widget import wires
from nbckpt.notebook.widget.channel import Wire
from nbckpt.notebook.widget.panel import wires_of
from notebook.conftest import AUTO_ON, Notebook
from notebook.typed import Typed

VALUES = "import threading\nlock, number = threading.Lock(), 1\ndef rows():\n    yield 1\nopen_rows = rows()"
RUN = """
import nbckpt
def train(config):
    nbckpt.report(loss=config["lr"], checkpoint={"number": 2})
    if config["lr"] == 2:
        raise ValueError("diverged")
nbckpt.run(train, {"lr": nbckpt.grid_search([1, 2])}, name="tune", executor="inline");
"""
COMMAND = re.compile(r".{0,80}%ckpt.{0,20}")
TRIALS = ["t0"], ["t1"]


@pytest.fixture
def panes(notebook: Notebook, typed: Typed, tmp_path: Path) -> dict[str, Wire]:
    """All panes of a store with checkpoints, trials, states and a sync."""
    for words in ("-m 'all %ckpt words' first", "second"):
        notebook.run(VALUES)
        notebook.shell.run_line_magic("ckpt", f"save {words}")
    notebook.run(RUN)
    notebook.shell.run_line_magic("ckpt", AUTO_ON.removeprefix("%ckpt "))
    notebook.run("number = 3")
    notebook.run("number = 4")
    typed.run("sync", str(tmp_path / "there"), "--period", "0", "--no-saves")
    made = wires_of(typed, list)
    for wire in made.values():
        list(wire.full())
    return made


def details(panes: dict[str, Wire]) -> Iterator[dict[str, Any]]:
    for pane in ("checkpoints", "history"):
        ids = [row["ref"] for message in panes[pane].full() for row in message["rows"]]
        for of in panes[pane].OF:
            yield from (panes[pane].detail(of, [ref, *ids[:1]], {}) for ref in ids)
    for of in ("trial", "media"):
        yield from (panes["trials"].detail(of, ids, {}) for ids in TRIALS)
    yield panes["sync"].detail("settings", [], {})


def questions(panes: dict[str, Wire]) -> Iterator[dict[str, Any]]:
    """Return what each deed would do, and what those without a question did."""
    refs = [row["ref"] for message in panes["history"].full() for row in message["rows"]]
    dry = {"dry": True, "name": "kept", "url": "there", "text": "seen", "file": "first.zip"}
    for verb in sorted(panes["checkpoints"].VERBS - {"undo", "save_cancel"}):
        yield answered(panes["checkpoints"], verb, ["first"], dry)
    for verb in sorted(panes["trials"].VERBS):
        yield from (answered(panes["trials"], verb, ids, dry) for ids in TRIALS)
    for verb in ("auto_on", "name", "goto", "undo", "auto_off"):
        yield answered(panes["history"], verb, refs[-1:], dry)
    for verb in ("sync", "pull", "sync_cancel", "sync_off"):
        yield answered(panes["sync"], verb, [], dry)


def answered(wire: Wire, verb: str, ids: list[str], options: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as the channel sends it: an error becomes a sentence."""
    try:
        return wire.act(verb, ids, options)
    except NbckptError as error:
        return {"text": wires.plain(str(error))}


def shown(message: dict[str, Any]) -> str:
    """Return a message as text, without the sources of cells and what the user wrote."""
    data = {
        name: value for name, value in message.get("data", {}).items() if name not in {"source", "message"}
    }
    return json.dumps(message | {"data": data}, default=str)


def test_no_detail_of_a_pane_names_a_command(panes: dict[str, Wire]) -> None:
    made = [shown(message) for message in details(panes)]
    assert len(made) > 8
    assert [advice for text in made for advice in COMMAND.findall(text)] == []


def test_no_question_of_a_pane_names_a_command(panes: dict[str, Wire]) -> None:
    made = [shown(message) for message in questions(panes)]
    assert len(made) > 20
    assert [advice for text in made for advice in COMMAND.findall(text)] == []


def test_headlines_lose_what_advises_to_type() -> None:
    assert wires.plain("Synced to s3://x, only with %ckpt sync --now.") == "Synced to s3://x"
    assert wires.plain("Turn it on: %ckpt auto on") == "Turn it on"
