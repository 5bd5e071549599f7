"""--json: the result of every command is JSON that matches the schema of that command."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_lines import command_lines

import nbckpt
from late import Library
from nbckpt.cells.key import CellCode
from nbckpt.cli import main
from nbckpt.commands import TABLE, Session, parse
from nbckpt.commands.table import Body
from nbckpt.mirror import AutoMirror
from nbckpt.render.json import AsJson, Schema, schema_of, to_json
from nbckpt.render.text import text
from nbckpt.store import LocalStore
from nbckpt.timeline.auto import Auto
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
from nbckpt.tracker.cells import CellResults
from nbckpt.trials.engine.open_trial import open_trials

jsonschema = Library("jsonschema")  # takes a second to import

LINES = command_lines("""
save first -m note, save second x, status, ls, ls --all, show first, diff first second, diff first
restore first --dry-run, restore first, undo
cell prep, snippet first, auto on --budget 1000000%, restore first x --as copied_
undo, redo, checkout first, history, auto off, auto
run train --grid lr=1,2 --name e --executor inline
trials e, show e, show e/t0, show e/t0@2, best e --metric loss --mode min, results e, results e/t1 --csv
compare e/t0 e/t1, plot e --metric loss, plot e --scatter lr loss, plot e --parallel
track loop lr=1, checkpoint, pause, stop, resume
restore e/t0@2, tag first third, tag e/t0 good, note e/t0 better edges, untag e/t0 good
trials e --where lr<2 --sort loss
export first exported.zip, export e exported.html, reproduce e/t0 -o again, import exported.zip
trust --store, verify, push copy, pull copy, sync copy --now, sync --status, sync off
rm e/t0@1 --dry-run, rm second, gc --dry-run, doctor, help, help ls
""")
ENDED = {"checkpoint", "pause", "stop", "resume"}
"""Commands that are refused here, because no trial runs."""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    store = LocalStore(tmp_path / "store")

    def train(config: dict[str, Any]) -> None:
        for step in (1, 2):
            nbckpt.report(loss=config["lr"] / step, bad=math.nan, checkpoint={"step": step})

    namespace: dict[str, Any] = {"x": np.arange(10.0), "gen": iter([]), "file": open, "train": train}
    tracker = Tracker(store)
    body = Body(CellCode("y = x[0]", str), CellResults)
    points = Auto(Timeline(tracker, namespace, lambda: frozenset()))
    mirror = AutoMirror(store, in_background=False)
    yield Session(tracker, mirror, namespace, table=TABLE, points=points, body=body)
    for trial in open_trials():
        trial.finish()
        trial.experiment.wait()


def data_of(session: Session, line: str) -> Any:
    result = parse(TABLE, [*line.split(), "--json"], "%ckpt").run(session)
    assert isinstance(result, AsJson)
    return json.loads(text(result.page()))


def schema(session: Session, line: str) -> Any:
    result = parse(TABLE, [*line.split(), "--schema"], "%ckpt").run(session)
    assert isinstance(result, Schema)
    return json.loads(text(result.page()))


def test_each_command_gives_json_that_matches_its_schema(session: Session) -> None:
    for line in LINES:
        if line.split()[0] not in ENDED:
            jsonschema.validate(data_of(session, line), schema(session, line))
    assert {line.split()[0] for line in LINES} == set(TABLE) - {"panel"}


def test_each_schema_names_the_fields_of_the_result(session: Session, subtests: pytest.Subtests) -> None:
    for name in set(TABLE) - {"panel"}:
        with subtests.test(name):
            whole = schema(session, name)
            jsonschema.Draft202012Validator.check_schema(whole)
            assert all(definition["required"] for definition in whole["$defs"].values())
            assert whole["$defs"]


def test_a_schema_runs_nothing(session: Session) -> None:
    schema(session, "save first")
    assert session.tracker.entries() == []


def test_json_holds_numbers_where_people_see_texts(session: Session) -> None:
    parse(TABLE, ["save", "first"], "%ckpt").run(session)
    (row,) = data_of(session, "ls")["rows"]
    assert row["refs"][0]["name"] == "first"
    assert row["manifest"]["values"][0]["preview"]["shape"] == [10]
    assert row["size"] == row["manifest"]["size"] > 80
    data_of(session, "run train lr=1 --name e --executor inline")
    (trial,) = data_of(session, "trials e")["trials"]
    assert (trial["status"], trial["config"], trial["metrics"]["bad"]) == ("done", {"lr": 1}, None)


def test_json_of_trials_has_their_rungs(session: Session) -> None:
    line = "run train lr=1 --name e --executor inline --scheduler asha --metric loss --mode min"
    (trial,) = data_of(session, line)["trials"]
    assert trial["rungs"] == {"0": 1.0, "1": 0.5}
    assert data_of(session, "show e/t0")["rungs"] == {"0": 1.0, "1": 0.5}
    jsonschema.validate(data_of(session, "trials e"), schema(session, "trials e"))


def test_a_shell_prints_only_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--json", "--store", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == []
    assert main(["show", "nothing", "--json", "--store", str(tmp_path)]) == 1
    assert capsys.readouterr().out == ""


@dataclass
class Part:
    """An example."""

    path: Path
    data: bytes
    number: float
    either: int | None
    pair: tuple[int, str]
    _hidden: int = 0


def test_what_json_lacks_becomes_text_or_null() -> None:
    part = Part(Path("a/b"), b"\0", math.inf, None, (1, "x"))
    expected = {"path": "a/b", "data": "AA==", "number": None, "either": None, "pair": [1, "x"]}
    assert to_json(part) == expected
    jsonschema.validate(expected, schema_of(Part))
    assert to_json([np.int64(3), np.float32(0.5), {2: {3}}, 1j]) == [3, 0.5, {"2": [3]}, "1j"]
