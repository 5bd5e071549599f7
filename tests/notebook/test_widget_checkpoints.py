"""The wire of the pane of checkpoints: what the browser gets, and what its buttons do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbckpt.errors import NbckptError, NotFoundError, UntrustedError, UsageError
from nbckpt.notebook.widget import wires
from nbckpt.notebook.widget.checkpoints import CheckpointsWire
from nbckpt.notebook.widget.wires import Pace
from nbckpt.tracker import Tracker
from notebook.conftest import Notebook
from notebook.typed import Clock, Typed, rows_of

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def wire(typed: Typed, clock: Clock) -> CheckpointsWire:
    return CheckpointsWire(typed, Pace(clock))


def labels(wire: CheckpointsWire) -> list[str]:
    return [row["label"] for row in rows_of(wire.full())]


def ref_of(wire: CheckpointsWire, label: str) -> str:
    (ref,) = [row["ref"] for row in rows_of(wire.full()) if row["label"] == label]
    return str(ref)


def test_the_list_has_what_was_saved_newest_first(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("alpha = 1\n%ckpt save one -m first")
    notebook.run("%ckpt save two")
    (message,) = wire.full()
    assert (message["kind"], message["total"], message["of_trials"]) == ("checkpoints", 2, 0)
    two, one = message["rows"]
    assert (two["label"], one["label"], one["message"]) == ("two@1", "one@1", "first")
    assert one["variables"] == ["alpha"]
    assert one["names"] == [{"name": "one", "version": 1}]
    assert message["here"] == two["ref"]
    json.dumps(message)


def test_an_empty_store_tells_what_could_be_saved(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("import numpy as np\na = np.zeros(1000)")
    (message,) = wire.full()
    assert message["rows"] == []
    assert message["live"] == {"count": 2, "size": 8000}


def test_long_lists_come_in_pages() -> None:
    rows = [{"ref": str(n)} for n in range(1001)]
    assert [(first, len(page)) for first, page in wires.pages(rows)] == [(0, 500), (500, 500), (1000, 1)]
    assert [(first, len(page)) for first, page in wires.pages([])] == [(0, 0)]


def test_changes_are_only_the_new_rows(notebook: Notebook, wire: CheckpointsWire, clock: Clock) -> None:
    notebook.run("x = 1\n%ckpt save one")
    list(wire.full())
    assert wire.changes() == []
    notebook.run("%ckpt save two")
    clock.time += 2
    (message,) = wire.changes()
    assert [row["label"] for row in message["rows"]] == ["two@1"]
    assert (message["reset"], message["gone"], message["total"]) == (False, [], 2)
    clock.time += 2
    assert wire.changes() == []


def test_a_checkpoint_that_another_kernel_deleted_goes(
    notebook: Notebook, wire: CheckpointsWire, clock: Clock, typed: Typed
) -> None:
    notebook.run("x = 1\n%ckpt save one\n%ckpt save two")
    ref = ref_of(wire, "one@1")
    Tracker(typed.session().tracker.store.url).remove(["one"])
    clock.time += 2
    (message,) = wire.changes()
    assert (message["gone"], message["rows"], message["total"]) == ([ref], [], 1)
    with pytest.raises(NotFoundError):
        wire.detail("checkpoint", [ref], {})


def test_a_store_is_looked_at_once_a_second_at_most(
    notebook: Notebook, wire: CheckpointsWire, clock: Clock
) -> None:
    list(wire.full())
    wire.changes()
    notebook.run("x = 1\n%ckpt save one")
    clock.time += 0.5
    assert wire.changes() == []
    clock.time += 0.5
    assert len(wire.changes()) == 1


def test_a_far_store_is_listed_only_when_asked(
    notebook: Notebook, wire: CheckpointsWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wires, "is_far", lambda _: True)
    list(wire.full())
    notebook.run("x = 1\n%ckpt save one")
    assert wire.changes() == []
    wire.renew()
    assert [row["label"] for row in rows_of(wire.changes())] == ["one@1"]


def test_a_slow_look_makes_the_next_one_wait_longer(clock: Clock) -> None:
    pace = Pace(clock)
    began, clock.time = clock.time, 3.0
    pace.looked(began)
    clock.time += 59
    assert not pace.is_due()
    clock.time += 1
    assert pace.is_due()


def test_checkpoints_of_trials_are_marked(notebook: Notebook, wire: CheckpointsWire, clock: Clock) -> None:
    list(wire.full())
    notebook.run(
        "import nbckpt\ndef train(config):\n    nbckpt.report(loss=0.5, checkpoint={'w': config['lr']})\n"
        "nbckpt.run(train, {'lr': 1.0}, name='tune', executor='inline').wait()"
    )
    clock.time += 2
    (row,) = rows_of(wire.changes())
    assert (row["ref"], row["trial"], row["message"]) == ("tune/t0@1", "tune/t0", "loss 0.5")
    assert wire.detail("checkpoint", [row["ref"]], {})["data"]["variables"][0]["name"] == "w"


def test_a_damaged_manifest_is_a_row_that_says_so(
    notebook: Notebook, wire: CheckpointsWire, typed: Typed
) -> None:
    notebook.run("x = 1\n%ckpt save one\n%ckpt save two")
    ref = typed.session().tracker.find("one").id
    (file,) = Path(typed.session().tracker.store.url).glob(f"checkpoints/*-{ref}.json")
    file.write_bytes(b"{")
    rows = {row["label"]: row for row in rows_of(wire.full())}
    assert "not an nbckpt manifest" in rows["one@1"]["trouble"]
    assert rows["two@1"]["trouble"] == ""
    assert wire.detail("checkpoint", [ref], {})["data"]["trouble"] == rows["one@1"]["trouble"]
    assert wire.act("delete", [ref], {})["text"] == "Deleted one@1."


def test_a_detail_has_variables_cell_and_packages(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("import numpy as np\na = np.zeros((5200, 2))\ndef f(): pass\n%ckpt save one -m why")
    data = wire.detail("checkpoint", [ref_of(wire, "one@1")], {})["data"]
    rows = {row["name"]: row for row in data["variables"]}
    assert (rows["a"]["type"], rows["a"]["extent"]) == ("numpy.ndarray", "5,200 \N{MULTIPLICATION SIGN} 2")
    assert [rows[name]["kind"] for name in ("a", "np", "f")] == ["data", "module", "function"]
    assert "%ckpt save one" in data["source"]
    assert "numpy" in data["packages"]
    assert (data["message"], data["trusted"], data["differ"]) == ("why", True, [])
    json.dumps(data)


def test_now_says_how_live_variables_differ(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("same, number, kind, grown, lost = 1, 2, 3, [1], 5\n%ckpt save one")
    notebook.run("number = 7\nkind = 'text'\ngrown = [1, 2, 3]\ndel lost")
    now = wire.detail("checkpoint", [ref_of(wire, "one@1")], {"now": True})["data"]["now"]
    assert now == {
        "same": ["same", "same"],
        "number": ["changed", "7"],
        "kind": ["changed", "str"],
        "grown": ["changed", "3 items"],
        "lost": ["new", "not here"],
    }


def test_now_waits_for_the_running_cell(notebook: Notebook, wire: CheckpointsWire, typed: Typed) -> None:
    notebook.run("x = 1\n%ckpt save one")
    ref, typed.busy = ref_of(wire, "one@1"), True
    assert wire.detail("checkpoint", [ref], {"now": True})["data"] == {"ref": ref, "busy": True}
    assert wire.detail("compare", [ref], {})["data"] == {"busy": True}


def test_a_restore_tells_first_and_can_be_undone(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("a, b = [1, 2], 2\n%ckpt save one")
    notebook.run("a, b, c = [1, 2, 3], 3, 4")
    ref = ref_of(wire, "one@1")
    dry = wire.act("restore", [ref], {"dry": True, "names": ["a"]})
    assert dry["text"] == (
        "Restore from one@1: a (3 items → 2 items) will be replaced. Nothing else changes."
    )
    assert dry["confirm"] == "Restore 1 variable"
    assert notebook.names["a"] == [1, 2, 3]
    done = wire.act("restore", [ref], {"names": ["a"]})
    assert (done["text"], done["undo"]) == ("Restored a from one@1.", True)
    assert (notebook.names["a"], notebook.names["b"]) == ([1, 2], 3)
    (message,) = wire.full()
    assert message["undo"]
    wire.act("undo", [], {})
    assert notebook.names["a"] == [1, 2, 3]


def test_a_restore_that_changes_nothing_says_so(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("a = 1\n%ckpt save one")
    dry = wire.act("restore", [ref_of(wire, "one@1")], {"dry": True})
    assert dry["text"].endswith("nothing would change, all is the same now.")


def test_a_restore_names_what_shares_data(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("a = [1]\nb = {'a': a}\n%ckpt save one\na, b = 0, 0")
    dry = wire.act("restore", [ref_of(wire, "one@1")], {"dry": True, "names": ["a"]})
    assert dry["data"]["also"] == ["b"]


def test_a_delete_asks_and_goes_to_the_trash(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("x = 1\n%ckpt save one")
    ref = ref_of(wire, "one@1")
    dry = wire.act("delete", [ref], {"dry": True})
    assert dry["text"].startswith("Delete one@1? Undo brings it back")
    assert labels(wire) == ["one@1"]
    assert wire.act("delete", [ref], {})["text"] == "Deleted one@1."
    assert labels(wire) == []
    assert wire.act("undo", [], {})["ok"]
    assert labels(wire) == ["one@1"]


def test_a_save_names_what_it_left_out(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("import threading\nx, lock = 1, (n for n in 'ab')")
    saved = wire.act("save", [], {"name": "mine", "message": "--odd"})
    assert saved["text"].startswith("Saved mine@1: 2 variables")
    assert "Not saved: lock" in saved["text"]
    (row,) = rows_of(wire.full())
    assert row["message"] == "--odd"


def test_chosen_variables_are_saved_alone(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("x, y = 1, 2")
    wire.act("save", [], {"name": "mine", "names": ["x", "--all"]})
    assert rows_of(wire.full())[0]["variables"] == ["x"]


def test_a_name_is_never_read_as_an_option(wire: CheckpointsWire) -> None:
    for verb, options in [("save", {"name": "--help"}), ("import", {"file": "--schema"})]:
        with pytest.raises(UsageError, match="begins with"):
            wire.act(verb, [], options)
    with pytest.raises(UsageError, match="choose a row"):
        wire.act("delete", ["--all"], {})


@pytest.mark.parametrize("ids", [[], [3], [None], ["latest", {}]])
def test_ids_of_another_kind_are_refused(ids: list[Any], wire: CheckpointsWire) -> None:
    with pytest.raises(NbckptError):
        wire.act("restore", ids, {"dry": True})


def test_two_checkpoints_are_compared(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("x, y = 1, 2\n%ckpt save one")
    notebook.run("x = 5\n%ckpt save two")
    data = wire.detail("compare", [ref_of(wire, "one@1"), ref_of(wire, "two@1")], {})["data"]
    assert data["rows"] == [{"name": "x", "change": "changed", "details": ["1 -> 5 (+400.0%)"]}]
    assert data["same"] == 1
    notebook.run("y = 3")
    now = wire.detail("compare", [ref_of(wire, "two@1")], {})["data"]
    assert [row["name"] for row in now["rows"]] == ["y"]


def test_a_strangers_checkpoint_is_trusted_in_two_steps(
    notebook: Notebook, wire: CheckpointsWire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.run("x = 1\n%ckpt save one")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    notebook.run("%reload_ext nbckpt")
    theirs = CheckpointsWire(Typed(notebook))
    (row,) = rows_of(theirs.full())
    assert row["trusted"] is False
    with pytest.raises(UntrustedError, match="someone else saved"):
        theirs.act("restore", [row["ref"]], {})
    assert theirs.act("trust", [row["ref"]], {"dry": True})["confirm"] == "Trust 1 checkpoint"
    theirs.act("trust", [row["ref"]], {})
    assert rows_of(theirs.full())[0]["trusted"] is True


def test_the_menu_has_tag_verify_space_and_files(
    notebook: Notebook, wire: CheckpointsWire, tmp_path: Path
) -> None:
    notebook.run("x = 1\n%ckpt save one")
    ref = ref_of(wire, "one@1")
    assert wire.act("tag", [ref], {"name": "best"})["text"] == "Named best@1."
    assert wire.act("verify", [], {})["text"].startswith("Everything verified")
    assert wire.act("export", [ref], {"file": str(tmp_path / "one.ckpt")})["ok"]
    assert wire.act("delete", [ref], {})["ok"]
    assert wire.act("free", [], {"dry": True})["text"].startswith("Free ")
    assert wire.act("free", [], {})["text"].startswith("Freed ")
    assert wire.act("import", [], {"file": str(tmp_path / "one.ckpt")})["text"].startswith("Imported ")


def test_hostile_texts_are_sent_as_they_are_and_cut(notebook: Notebook, wire: CheckpointsWire) -> None:
    notebook.run("x = 1")
    wire.act("save", [], {"name": HOSTILE, "message": HOSTILE * 50})
    (row,) = rows_of(wire.full())
    assert row["names"][0]["name"] == HOSTILE
    assert len(row["message"]) == 300
    assert wire.detail("checkpoint", [row["ref"]], {})["html"] == ""


def test_advice_to_type_a_command_is_left_out() -> None:
    said = "no checkpoint matches 'bset'. Did you mean 'best'? See `%ckpt ls`"
    assert wires.plain(said) == "No checkpoint matches 'bset'. Did you mean 'best'?"
    assert wires.plain("Turn it on: %ckpt auto on") == "Turn it on"


class Cancelled(CheckpointsWire):
    """A wire whose save is cancelled when its progress is told first."""

    def note_progress(self, name: str, done: int, total: int) -> None:
        super().note_progress(name, done, total)
        self.told = self.act("save_cancel", (), {})["text"]
        super().note_progress(name, done, total)


def test_a_cancelled_save_publishes_nothing(notebook: Notebook, typed: Typed, clock: Clock) -> None:
    notebook.run("import numpy; a = numpy.arange(300_000)")
    wire = Cancelled(typed, Pace(clock))
    with pytest.raises(UsageError, match="the save was cancelled, and nothing of it is kept"):
        wire.act("save", (), {"name": "first"})
    assert wire.told == "Cancelling…"
    assert labels(wire) == []
    store = typed.session().tracker.store
    assert [*store.keys("checkpoints/"), *store.keys("refs/")] == []
    other = CheckpointsWire(typed, Pace(clock))
    assert other.act("save", (), {"name": "second"})["text"].startswith("Saved second@1")
    assert other.act("save_cancel", (), {})["text"] == "No save runs."


def test_the_tab_counts_checkpoints_of_a_folder(notebook: Notebook, wire: CheckpointsWire) -> None:
    assert wire.tab() == "0"
    notebook.run("a = 1")
    notebook.run("%ckpt save one")
    assert wire.tab() == "1"
