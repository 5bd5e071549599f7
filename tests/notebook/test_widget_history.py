"""The wire of the pane of history: the tree that the browser gets, and what its buttons do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nbckpt.core.manifest import Manifest
from nbckpt.errors import NbckptError, NotFoundError
from nbckpt.notebook.widget.history import HistoryWire
from nbckpt.notebook.widget.wires import Pace
from nbckpt.timeline.cells import Spent
from nbckpt.timeline.points import Point
from notebook.conftest import AUTO_ON, Notebook
from notebook.typed import Clock, Typed, rows_of
from waiting import until

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def wire(typed: Typed, clock: Clock) -> HistoryWire:
    return HistoryWire(typed, Pace(clock))


@pytest.fixture
def watched(watched: Notebook) -> Notebook:
    """A notebook with three states."""
    watched.run("a = [1]", "b = 2")
    settle(watched, "a = [1, 2]; del b")
    return watched


def settle(notebook: Notebook, cell: str = "") -> None:
    """Run a cell, which may fail, and wait for its state."""
    notebook.attempt(cell)
    Typed(notebook).session().points.settle()  # type: ignore[union-attr]


def head_of(wire: HistoryWire) -> dict[str, Any]:
    return next(iter(wire.full()))


def ref_of(wire: HistoryWire, source: str) -> str:
    (ref,) = [row["ref"] for row in rows_of(wire.full()) if row["source"] == source]
    return str(ref)


def test_rows_tell_what_each_cell_changed(watched: Notebook, wire: HistoryWire) -> None:
    last, second, first, *_ = rows_of(wire.full())
    assert (last["added"], last["changed"], last["removed"]) == ([], ["a"], ["b"])
    assert (second["added"], second["parent"]) == (["b"], first["ref"])
    assert (first["source"], first["added"]) == ("a = [1]", ["a"])
    head = head_of(wire)
    assert (head["on"], head["here"], head["total"]) == (True, last["ref"], len(rows_of(wire.full())))
    json.dumps(head)


def test_history_that_is_off_says_what_there_is(notebook: Notebook, wire: HistoryWire) -> None:
    notebook.run("import numpy as np\na = np.zeros(1000)")
    head = head_of(wire)
    assert (head["on"], head["rows"], head["live"]["size"]) == (False, [], 8000)
    assert wire.act("auto_on", [], {})["text"].startswith("History is on")
    assert head_of(wire)["on"] is True
    assert wire.act("auto_off", [], {"dry": True})["confirm"] == "Turn off"
    wire.act("auto_off", [], {})
    assert head_of(wire)["on"] is False


def test_a_new_state_is_the_only_change(watched: Notebook, wire: HistoryWire, clock: Clock) -> None:
    before = len(rows_of(wire.full()))
    wire.changes()
    settle(watched, "c = 3")
    clock.time += 2
    (message,) = wire.changes()
    assert [row["source"] for row in message["rows"]] == ["c = 3"]
    assert (message["reset"], message["total"]) == (False, before + 1)
    clock.time += 2
    assert wire.changes() == []


def test_here_is_the_last_cell_before_anyone_waited_for_it(watched: Notebook, wire: HistoryWire) -> None:
    watched.run("c = 3")
    until(lambda: head_of(wire)["rows"][0]["source"] == "c = 3")
    until(lambda: head_of(wire)["here"] == ref_of(wire, "c = 3"))


def test_auto_off_while_history_is_open_is_told(watched: Notebook, wire: HistoryWire, clock: Clock) -> None:
    list(wire.full())
    watched.run("%ckpt auto off")
    clock.time += 2
    (message,) = wire.changes()
    assert message["on"] is False


def test_arrays_that_changed_have_shapes_and_dtypes(notebook: Notebook, wire: HistoryWire) -> None:
    pytest.importorskip("numpy")
    notebook.run(AUTO_ON, "import numpy as np; a = np.zeros(5); b = 1")
    settle(notebook, "a = np.ones((3, 2), dtype='int8'); b = 2")
    last, first, *_ = rows_of(wire.full())
    old, new = "5 values float64", "3 \N{MULTIPLICATION SIGN} 2 int8"
    assert first["forms"] == {"a": old}
    assert last["forms"] == {"a": f"{old} → {new}"}
    would = wire.detail("state", [first["ref"]], {})["data"]["would"]
    assert would["forms"] == {"a": f"{new} → {old}"}
    rows = wire.detail("compare", [first["ref"]], {})["data"]["rows"]
    details = {row["name"]: row["details"][0] for row in rows}
    assert details == {"a": "(5) float64 -> (3, 2) int8", "b": "1 -> 2 (+100.0%)"}


def test_a_detail_has_variables_code_and_what_would_change(watched: Notebook, wire: HistoryWire) -> None:
    data = wire.detail("state", [ref_of(wire, "b = 2")], {})["data"]
    assert data["source"] == "b = 2"
    assert {row["name"] for row in data["variables"]} >= {"a", "b"}
    assert (data["would"]["changed"], data["would"]["new"], data["would"]["removed"]) == (["a"], ["b"], [])
    json.dumps(data)


def test_going_tells_first_then_goes_and_comes_back(watched: Notebook, wire: HistoryWire) -> None:
    ref = ref_of(wire, "b = 2")
    dry = wire.act("goto", [ref], {"dry": True})
    assert dry["text"].startswith("a will be replaced. b will be added.")
    assert dry["confirm"] == f"Go to [{rows_of(wire.full())[1]['cell']}]"
    assert watched.names["a"] == [1, 2]
    assert wire.act("goto", [ref], {})["undo"] is True
    assert (watched.names["a"], watched.names["b"]) == ([1], 2)
    assert head_of(wire)["here"] == ref
    wire.act("undo", [], {})
    assert (watched.names["a"], "b" in watched.names) == ([1, 2], False)


def test_a_way_is_undone_while_history_is_off_too(watched: Notebook, wire: HistoryWire) -> None:
    watched.run("%ckpt auto off", "a = 'later'")
    wire.act("goto", [ref_of(wire, "b = 2")], {})
    assert watched.names["a"] == [1]
    assert wire.act("undo", [], {})["ok"]
    assert watched.names["a"] == "later"


def test_another_way_has_the_parent_that_it_left(watched: Notebook, wire: HistoryWire) -> None:
    fork = ref_of(wire, "b = 2")
    wire.act("goto", [fork], {})
    settle(watched, "c = 5")
    rows = {row["source"]: row for row in rows_of(wire.full())}
    assert rows["c = 5"]["parent"] == rows["a = [1, 2]; del b"]["parent"] == fork


def test_a_named_state_stays_and_shows_its_name(watched: Notebook, wire: HistoryWire) -> None:
    ref = ref_of(wire, "b = 2")
    wire.act("name", [ref], {"name": "good"})
    rows = [row for row in rows_of(wire.full()) if row["ref"] == ref]
    assert [row["names"] for row in rows] == [["good@1"]]


def test_what_could_not_be_kept_is_named(watched: Notebook, wire: HistoryWire) -> None:
    settle(watched, "g = (n for n in 'ab')\nd = 1")
    row = rows_of(wire.full())[0]
    assert row["partly"] == ["g"]


def test_a_state_that_is_gone_is_an_error(watched: Notebook, wire: HistoryWire) -> None:
    with pytest.raises(NotFoundError):
        wire.detail("state", ["0" * 64], {})
    with pytest.raises(NbckptError):
        wire.act("goto", [7], {"dry": True})


def test_a_running_cell_lets_the_preview_wait(watched: Notebook, wire: HistoryWire, typed: Typed) -> None:
    ref, typed.busy = ref_of(wire, "b = 2"), True
    data = wire.detail("state", [ref], {})["data"]
    assert (data["busy"], data["would"]) == (True, {})
    assert head_of(wire)["running"]["cell"] == 5


def test_a_hostile_cell_is_sent_as_text(watched: Notebook, wire: HistoryWire) -> None:
    settle(watched, f"h = '{HOSTILE}'")
    assert rows_of(wire.full())[0]["source"] == f"h = '{HOSTILE}'"


def test_rows_tell_how_long_a_cell_ran_and_why_it_failed(watched: Notebook, wire: HistoryWire) -> None:
    settle(watched, "a = [3]; {}['w']")
    failed, fine, *_ = rows_of(wire.full())
    assert (failed["error"], head_of(wire)["failed"]) == ("KeyError", [])
    assert failed["seconds"] >= 0
    assert (fine["error"], type(fine["seconds"])) == ("", float)


def test_points_of_before_have_no_run_time() -> None:
    old = Manifest(kind="variables", provenance={"cell": {"count": 3, "source": "a = 1"}})
    assert (Point.of(old).seconds, Point.of(old).error) == (None, "")
    odd = replace(old, provenance={"cell": {"seconds": "long", "error": "x"}})
    assert (Point.of(odd).seconds, Point.of(odd).error) == (None, "x")


def test_the_cell_that_runs_is_in_the_head_while_it_runs(
    watched: Notebook, typed: Typed, wire: HistoryWire, clock: Clock
) -> None:
    assert head_of(wire)["running"] is None
    clock.time, typed.busy = 10, True
    (message,) = wire.changes()
    assert message["running"]["source"] == "a = [1, 2]; del b"
    clock.time, typed.busy = 100, False
    (message,) = wire.changes()
    assert message["running"] is None


def test_the_tab_counts_states_but_does_not_read_many(
    watched: Notebook, typed: Typed, wire: HistoryWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbckpt.notebook.widget.history.FEW", 1)
    assert wire.tab() == ""
    monkeypatch.undo()
    settle(watched, "b = 3")
    assert wire.tab() == str(head_of(wire)["total"])


def test_cells_that_failed_and_changed_nothing_are_told(
    watched: Notebook, wire: HistoryWire, clock: Clock
) -> None:
    list(wire.full())
    watched.attempt("{}['w']")
    settle(watched, "unknown")
    clock.time += 2
    (message,) = wire.changes()
    failures = [(failed["source"], failed["error"]) for failed in message["failed"]]
    assert failures == [("unknown", "NameError"), ("{}['w']", "KeyError")]
    assert message["rows"] == []
    settle(watched, "a = 'new'")
    assert head_of(wire)["failed"] == []
    wire.act("undo", [], {})
    assert [failed["error"] for failed in head_of(wire)["failed"]] == ["NameError", "KeyError"]


def test_failures_are_forgotten_when_history_is_off(watched: Notebook, wire: HistoryWire) -> None:
    watched.attempt("{}['w']")
    watched.run("%ckpt auto off")
    assert head_of(wire)["failed"] == []
    watched.run(AUTO_ON)
    assert head_of(wire)["failed"] == []


def test_without_a_point_nobody_knows_what_a_failed_cell_changed(
    watched: Notebook, wire: HistoryWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Spent, "allows", lambda *_: False)
    watched.attempt("a = 'new'; {}['w']")
    assert (head_of(wire)["missed"], head_of(wire)["failed"]) == (1, [])


def test_a_state_is_compared_with_the_live_variables(
    watched: Notebook, wire: HistoryWire, typed: Typed
) -> None:
    ref = ref_of(wire, "b = 2")
    data = wire.detail("compare", [ref], {})["data"]
    assert {(row["name"], row["change"]) for row in data["rows"]} == {("a", "changed"), ("b", "removed")}
    assert data["refs"] == [ref]
    typed.busy = True
    assert wire.detail("compare", [ref], {})["data"] == {"busy": True}
