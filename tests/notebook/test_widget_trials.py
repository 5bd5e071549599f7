"""What the browser gets of trials: rows, sparklines and points; and what its buttons do with them."""

from __future__ import annotations

import json
import math
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nbckpt
from nbckpt import Tracker
from nbckpt.commands import TABLE, Session
from nbckpt.errors import NbckptError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.notebook.runner import CommandRunner
from nbckpt.notebook.widget.points import MOST_POINTS, PIECE, Point, Tail, Thinned
from nbckpt.notebook.widget.rows import number_of
from nbckpt.notebook.widget.trials import TrialsWire
from nbckpt.trials.model.reading import iterations_of_rungs
from waiting import until

HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J"


class Place:
    """A store with experiments, and the wire that shows them."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker, self.names = tracker, dict[str, Any]()
        auto = AutoMirror(tracker.store)
        self.runner = CommandRunner(lambda: Session(tracker, auto, self.names, table=TABLE), lambda: False)
        self.wire = TrialsWire(self.runner)

    def run(self, function: Any, config: Any, **more: Any) -> Any:
        folder = self.runner.session().library.folder
        experiment = nbckpt.run(function, config, folder=folder, provenance=False, **more)
        self.wire.renew()
        return experiment

    def full(self) -> list[dict[str, Any]]:
        return list(self.wire.full())

    def changes(self) -> list[dict[str, Any]]:
        return list(self.wire.changes())

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for message in self.full() for row in message.get("rows", ())}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Tracker(str(tmp_path / "store")) as tracker:
        yield Place(tracker)


def falling(config: dict[str, Any]) -> None:
    for step in range(4):
        nbckpt.report(loss=config["lr"] / (step + 1), accuracy=0.5)


@pytest.fixture
def grid(place: Place) -> Place:
    """A place with two trials that have ended, whose rows were sent."""
    place.run(falling, {"lr": nbckpt.grid_search([0.1, 0.4])}, name="grid").wait()
    place.full()
    return place


@pytest.fixture
def one(place: Place) -> Place:
    """A place with one trial that has ended, whose row was sent."""
    place.run(falling, {"lr": 0.1}, name="grid").wait()
    place.full()
    return place


def fails(config: dict[str, Any]) -> None:
    nbckpt.report({HOSTILE: 0.5, "loss": math.nan})
    raise ValueError(HOSTILE)


def test_without_experiments_the_browser_gets_an_empty_list(place: Place) -> None:
    (message,) = place.full()
    assert (message["kind"], message["experiment"]) == ("trials", "")
    assert (message["rows"], message["reset"]) == ([], True)
    assert place.changes() == []


def test_rows_have_settings_metrics_and_status(place: Place) -> None:
    place.run(falling, {"lr": nbckpt.grid_search([0.1, 0.4]), "batch": 32}, name="grid").wait()
    (head, sparks) = place.full()
    assert (head["experiment"], head["metric"]) == ("grid", "loss")
    assert (head["mode"], head["mode_is_guess"]) == ("min", False)
    assert (head["settings"], head["same"], head["metrics"]) == (["lr"], {"batch": 32}, ["loss", "accuracy"])
    assert head["experiments"] == [{"name": "grid", "running": 0, "done": 2, "failed": 0, "total": 2}]
    assert (head["total"], head["summary"]["done"]) == (2, 2)
    first, second = head["rows"]
    assert (first["id"], first["n"], first["status"], first["step"]) == ("t0", 0, "done", 4)
    assert (first["settings"], first["metrics"]["accuracy"]) == ({"lr": 0.1}, 0.5)
    assert second["metrics"]["loss"] == second["best"]["loss"] == 0.1
    assert (sparks["kind"], sparks["ids"], sparks["lengths"]) == ("sparks", ["t0", "t1"], [4, 4])
    assert list(array("f", sparks["buffers"][0]))[3] == pytest.approx(0.025)
    json.dumps(head, allow_nan=False)


def test_errors_are_grouped_and_hostile_texts_are_plain(place: Place) -> None:
    place.run(fails, {HOSTILE: nbckpt.grid_search([HOSTILE, ["a"]])}, name="evil").wait()
    head = place.full()[0]
    assert head["summary"]["failed"] == 2
    (group,) = head["summary"]["error_groups"]
    assert group["count"] == 2
    assert "\x1b" not in group["text"]
    row = head["rows"][0]
    assert row["metrics"]["loss"] == "nan"
    assert row["settings"][HOSTILE] == r"<img src=x onerror=alert(1)>\x1b[2J"
    assert head["rows"][1]["settings"][HOSTILE] == "['a']"
    json.dumps(head, allow_nan=False)


def test_numbers_that_json_lacks_are_texts() -> None:
    numbers = (1, 0.5, math.nan, math.inf, -math.inf, 1 << 60, 10**400, None)
    assert [number_of(number) for number in numbers] == [1, 0.5, "nan", "inf", "-inf", 2.0**60, "inf", None]


@pytest.fixture
def live(place: Place) -> Iterator[Any]:
    """Three trials that have reported once and wait for their gates."""
    gates = {f"t{at}": threading.Semaphore(0) for at in range(3)}

    def waits(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0)
        while gates[f"t{config['i']}"].acquire(timeout=60):
            nbckpt.report(loss=2.0)

    experiment = place.run(waits, {"i": nbckpt.grid_search([0, 1, 2])}, name="live", max_concurrent=3)
    until(lambda: [trial.iteration for trial in experiment.trials] == [1, 1, 1])
    yield SimpleNamespace(experiment=experiment, gates=gates)
    experiment.stop()
    for gate in gates.values():
        gate.release()
    experiment.wait()


def test_only_changed_rows_are_sent_again(place: Place, live: Any) -> None:
    place.full()
    while place.changes():
        pass
    live.gates["t1"].release()
    until(lambda: live.experiment.trial("t1").iteration == 2)
    rows, sparks, points = place.changes()
    assert ([row["id"] for row in rows["rows"]], rows["reset"]) == (["t1"], False)
    assert (sparks["kind"], sparks["ids"], sparks["lengths"]) == ("sparks", ["t1"], [2])
    assert (points["kind"], points["ids"], points["lengths"]) == ("points", ["t1"], [2])
    assert place.changes() == []


def test_points_come_in_slices_and_only_when_curves_grow(grid: Place) -> None:
    (points,) = [message for message in grid.changes() if message["kind"] == "points"]
    assert (points["ids"], points["lengths"], points["metric"]) == (["t0", "t1"], [4, 4], "loss")
    steps, _, values = (array("d", data) for data in points["buffers"])
    assert list(steps) == [1, 2, 3, 4] * 2
    assert values[4:] == array("d", [0.4, 0.2, 0.4 / 3, 0.1])
    assert grid.changes() == []


def test_another_metric_brings_its_own_sparks_and_points(grid: Place) -> None:
    grid.changes()
    grid.wire.choose("grid", "accuracy")
    head, sparks = grid.full()
    assert (head["metric"], head["mode"], sparks["metric"]) == ("accuracy", "max", "accuracy")
    (points,) = grid.changes()
    assert set(array("d", points["buffers"][2])) == {0.5}


def test_a_pane_that_comes_back_sends_no_row_again(place: Place) -> None:
    place.run(falling, {"lr": nbckpt.grid_search([0.1, 0.2])}, name="one").wait()
    place.run(falling, {"lr": nbckpt.grid_search([0.1])}, name="two").wait()
    place.wire.choose("", "")
    place.full()
    while place.changes():
        pass
    place.wire.choose("two", "loss")  # what the browser shows has a name by now
    assert place.changes() == []
    place.wire.choose("two", "accuracy")
    assert {message["metric"] for message in place.changes()} == {"accuracy"}
    place.wire.choose("one", "accuracy")
    head = place.changes()[0]
    assert (head["experiment"], head["reset"], len(head["rows"])) == ("one", True, 2)


def test_ten_thousand_points_become_at_most_five_hundred() -> None:
    thinned = Thinned()
    for step in range(10_000):
        value = 100.0 if step == 7_777 else math.sin(step / 100)
        thinned.add(Point(step, step / 10, value))
    points = list(thinned)
    assert 200 < len(points) <= MOST_POINTS
    assert [point.step for point in points] == sorted({point.step for point in points})
    assert points[-1].step == 9_999
    assert max(points, key=lambda point: point.value).step == 7_777


def test_repeated_results_replace_the_former_points() -> None:
    thinned = Thinned()
    for step in range(1, 11):
        thinned.add(Point(step, step, 1.0))
    thinned.cut(4)
    thinned.add(Point(5, 5, 2.0))
    former = [(step, 1.0) for step in range(1, 5)]
    assert [(point.step, point.value) for point in thinned] == [*former, (5, 2.0)]
    thinned.cut(0)
    assert list(thinned) == []


def test_a_journal_is_read_in_pieces_and_only_its_new_part(tmp_path: Path) -> None:
    journal = tmp_path / "t0" / "events.jsonl"
    journal.parent.mkdir()
    tail = Tail(journal.parent, "loss")
    assert tail.read() == 0

    def line(step: int) -> str:
        result = {"training_iteration": step, "loss": step, "pad": "x" * 1000, "time_total_s": 1.0}
        return json.dumps({"event": "result", "result": result}) + "\n"

    text = "".join(map(line, range(600)))
    journal.write_text(text + "torn [\n" + "[" * 100_000 + "\n" + line(600)[:50])
    assert tail.read() == PIECE
    while tail.read():
        pass
    with journal.open("a") as file:
        file.write(line(600)[50:])
    assert tail.read() == len(line(600)) - 50
    steps, _, values = tail.packed()
    assert (steps[-1], values[-1]) == (600, 600)
    journal.write_text(line(1))
    tail.read()
    assert list(tail.packed()[0]) == [1]


def climbing(config: dict[str, Any]) -> None:
    for step in range(1, 28):
        nbckpt.report(loss=config["lr"] / step, latency=step)


def test_curves_have_the_steps_at_which_trials_were_compared(place: Place) -> None:
    options = {"metric": "loss", "mode": "min", "scheduler": nbckpt.trials.ASHA(max_t=9)}
    made = place.run(climbing, {"lr": nbckpt.grid_search([0.1, 0.2, 0.3])}, executor="inline", **options)
    made.wait()
    assert place.full()[0]["compared"] == "rungs"
    marks = {name: steps for message in place.changes() for name, steps in message.get("marks", {}).items()}
    assert marks == {trial.id: iterations_of_rungs(trial.folder) for trial in made.trials}
    assert marks["t0"][0] == 1
    assert 3 in {step for steps in marks.values() for step in steps}


def test_small_curves_of_all_metrics_come_when_asked_for(place: Place) -> None:
    place.run(falling, {"lr": nbckpt.grid_search([0.1, 0.4])}, name="grid", executor="inline").wait()
    options = {"experiment": "grid", "names": ["loss", "accuracy", "unknown"]}
    curves = place.wire.detail("curves", ["t0", "t1"], options)["data"]["curves"]
    assert curves["accuracy"] == {name: [[1, 2, 3, 4], [0.5] * 4] for name in ("t0", "t1")}
    assert curves["loss"]["t1"][1][-1] == 0.1
    assert curves["unknown"] == {}
    with pytest.raises(NbckptError, match="t7"):
        place.wire.detail("curves", ["t7"], options)


def test_the_first_comparison_at_a_rung_counts(tmp_path: Path) -> None:
    def result(step: int) -> dict[str, Any]:
        return {"event": "result", "result": {"training_iteration": step, "loss": step}}

    decision = {"event": "decision", "do": "pause", "rung": 0, "value": 0.5}
    restart = {"event": "start", "iteration": 2}
    before, after = map(result, (1, 2, 3)), map(result, (3, 4))
    events = [*before, decision, restart, *after, decision, {**decision, "rung": 1}]
    (tmp_path / "t0").mkdir()
    (tmp_path / "t0" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    tail = Tail(tmp_path / "t0", "loss")
    tail.read()
    assert tail.compared == {0: 3, 1: 4}


def test_several_objectives_are_in_the_head_and_in_each_row(place: Place) -> None:
    place.run(falling, {"lr": 0.1}, executor="inline").wait()
    assert (place.full()[0]["objectives"], place.full()[0]["compared"]) == ([], "")
    two = {"metric": ["loss", "latency"], "mode": ["min", "max"]}
    place.run(climbing, {"lr": nbckpt.grid_search([0.1, 0.2])}, executor="inline", name="two", **two).wait()
    place.wire.choose("two", "")
    head = place.full()[0]
    assert head["objectives"] == [{"metric": "loss", "mode": "min"}, {"metric": "latency", "mode": "max"}]
    assert head["metrics"][:2] == ["loss", "latency"]
    assert [row["front"] for row in head["rows"]] == [True, False]


def test_many_rows_and_sparks_come_in_pages(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbckpt.notebook.widget.trials.PAGE", 5)
    place.run(falling, {"lr": 0.1}, num_samples=12, name="many", executor="inline").wait()
    messages = place.full()
    assert [(message["from"], len(message["rows"])) for message in messages[:3]] == [(0, 5), (5, 5), (10, 2)]
    assert [len(message["ids"]) for message in messages[3:]] == [5, 5, 2]


def act(place: Place, verb: str, *ids: str, **options: Any) -> dict[str, Any]:
    return place.wire.act(verb, ids, options)


def test_notes_and_tags_take_any_text(one: Place) -> None:
    act(one, "note", "t0", text="--errored <b>")
    act(one, "tag", "t0", name="good")
    row = one.rows()["t0"]
    assert (row["note"], row["tags"]) == ("--errored <b>", ["good"])
    act(one, "note", "t0", text="")
    act(one, "tag", "t0", name="good", remove=True)
    row = one.rows()["t0"]
    assert (row["note"], row["tags"]) == ("", [])


def test_ids_that_are_no_trials_are_refused(one: Place, subtests: pytest.Subtests) -> None:
    for ids in ("--errored", "t99", "../grid/t0", "t0 t0"):
        for verb in ("pause", "stop", "retry", "restore", "note", "tag"):
            with subtests.test(verb, ids=ids), pytest.raises(NbckptError):
                act(one, verb, ids, text="x", name="x")


def test_a_question_changes_nothing_and_names_the_deed(place: Place, live: Any) -> None:
    place.full()
    asked = act(place, "stop", "t0", "t1", dry=True)
    assert asked["text"] == "Stop t0 and t1? They cannot go on later. Their checkpoints are kept."
    assert asked["confirm"] == "Stop 2 trials"
    assert [row["status"] for row in place.rows().values()] == ["running"] * 3
    assert act(place, "pause", "t0", "t1")["text"] == "Pausing t0 and t1."
    assert place.rows()["t0"]["why"] == "Pausing after this step…"
    for name in ("t0", "t1"):
        live.gates[name].release()
    until(lambda: [row["status"] for row in place.rows().values()] == ["paused", "paused", "running"])


def test_what_all_trials_refuse_is_an_error(one: Place) -> None:
    with pytest.raises(UsageError, match="nothing to pause"):
        act(one, "pause", "t0")


def test_a_function_of_the_notebook_is_a_line_to_copy(place: Place) -> None:
    place.names["falling"] = falling
    (line,) = place.wire.detail("functions", [], {})["data"]["lines"]
    assert line.startswith("%ckpt run falling --grid ")
    assert not place.runner.session().library.names()
    with pytest.raises(KeyError):
        act(place, "run", line="falling lr=0.1")


def test_details_of_a_trial_are_its_page(one: Place) -> None:
    detail = one.wire.detail("trial", ["t0"], {})
    assert "grid/t0" in detail["html"]
    assert detail["data"]["id"] == "t0"
    with pytest.raises(UsageError):
        one.wire.detail("trial", ["t0", "t1"], {})


def drawing(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1, **{config["name"]: nbckpt.media.Text("a"), "text": nbckpt.media.Text("b")})
    if config["name"] == "second":
        nbckpt.report(loss=1, text=nbckpt.media.Text("c"))
        raise ValueError(f"no {HOSTILE}")


def test_details_have_what_failed_and_the_media_of_all(place: Place) -> None:
    place.run(drawing, {"name": nbckpt.grid_search(["first", "second"])}, name="grid").wait()
    place.full()
    steps = place.wire.detail("steps", ["t0", "t1"], {})["data"]["media"]
    assert steps == {"first": [1], "second": [1], "text": [1, 2]}
    pages = place.wire.detail("media", ["t0", "t1"], {"step": 2, "name": "text"})["data"]["pages"]
    assert pages["t0"].startswith("<p>t0 reported no media at step 2")
    assert "no media" not in pages["t1"]
    assert place.wire.detail("trial", ["t0"], {})["data"]["error"] == ""
    error = place.wire.detail("trial", ["t1"], {})["data"]["error"]
    assert error.startswith("Traceback")
    assert f"ValueError: no {HOSTILE}" in error
