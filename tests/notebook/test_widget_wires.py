"""The wires of the panes of checkpoints and sync: what the browser gets, and what its buttons do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbckpt.errors import NbckptError, NotFoundError, UntrustedError, UsageError
from nbckpt.mirror import Mirror
from nbckpt.notebook.widget import wires
from nbckpt.notebook.widget.channel import Wire
from nbckpt.notebook.widget.checkpoints import CheckpointsWire
from nbckpt.notebook.widget.panel import wires_of
from nbckpt.notebook.widget.sync import SyncWire
from nbckpt.notebook.widget.wires import Pace
from nbckpt.tracker import Tracker
from notebook.conftest import AUTO_ON, Notebook
from notebook.typed import Clock, Typed, rows_of
from waiting import until

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
    notebook.run("alpha = 1\n%ckpt save one -m first", "%ckpt save two")
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
    notebook.run("a, b = [1, 2], 2\n%ckpt save one", "a, b, c = [1, 2, 3], 3, 4")
    ref = ref_of(wire, "one@1")
    dry = wire.act("restore", [ref], {"dry": True, "names": ["a"]})
    said = "Restore from one@1: a (3 items → 2 items) will be replaced. Nothing else changes."
    assert dry["text"] == said
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
    notebook.run("x, y = 1, 2\n%ckpt save one", "x = 5\n%ckpt save two")
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
    notebook.run("a = 1", "%ckpt save one")
    assert wire.tab() == "1"


@pytest.fixture
def sync(typed: Typed, clock: Clock) -> SyncWire:
    return SyncWire(typed, Pace(clock))


def state_of(sync: SyncWire) -> dict[str, Any]:
    (message,) = sync.full()
    return message


def test_a_store_that_is_not_synced_is_off(notebook: Notebook, sync: SyncWire) -> None:
    notebook.run("x = 1\n%ckpt save one")
    state = state_of(sync)
    assert (state["state"], state["here"]) == ("off", [1, 0])
    json.dumps(state)


def test_turned_on_everything_is_sent(notebook: Notebook, sync: SyncWire, tmp_path: Path) -> None:
    notebook.run("x = 1\n%ckpt save one")
    there = tmp_path / "there"
    assert sync.act("sync_set", [], {"url": str(there), "period": "half"})["text"].startswith("Sync is on")
    until(lambda: state_of(sync)["state"] == "synced")
    state = state_of(sync)
    assert (state["url"], state["period"], state["failure"]) == (str(there), 1800.0, "")
    assert [str(ref) for ref in Tracker(there).history.refs()] == ["one@1"]
    assert sync.changes() == []


def test_a_new_checkpoint_waits_until_it_is_sent(
    notebook: Notebook, sync: SyncWire, typed: Typed, tmp_path: Path
) -> None:
    sync.act("sync_set", [], {"url": str(tmp_path / "there")})
    until(lambda: state_of(sync)["state"] == "synced")
    Tracker(typed.session().tracker.store.url).save({"y": 1}, "two")  # by another process
    assert (state_of(sync)["state"], state_of(sync)["waiting"]) == ("waiting", [1, 0])
    assert sync.act("sync", [], {})["text"] == "Sending what is new."
    until(lambda: state_of(sync)["state"] == "synced")


def test_sync_by_hand_waits_for_the_button(
    notebook: Notebook, sync: SyncWire, typed: Typed, tmp_path: Path
) -> None:
    options = {"url": str(tmp_path / "there"), "period": "never", "after_saves": False}
    assert sync.act("sync_set", [], options)["text"].startswith("Sync is on. Sync now sends to")
    sync.act("sync", [], {})
    until(lambda: state_of(sync)["state"] == "synced")
    notebook.run("x = bytearray(100_000)\n%ckpt save one")
    state = state_of(sync)
    assert (state["period"], state["after_saves"], state["waiting"]) == (0.0, False, [1, 0])
    assert state["waiting_size"] > 500
    assert not typed.session().auto.is_busy
    sync.act("sync", [], {})
    until(lambda: state_of(sync)["state"] == "synced")
    assert state_of(sync)["waiting_size"] == 0


def test_a_failure_says_why_and_since_when(
    notebook: Notebook, sync: SyncWire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no permission to write. See %ckpt doctor")

    monkeypatch.setattr(Mirror, "push", fail)
    sync.act("sync_set", [], {"url": str(tmp_path / "there")})
    until(lambda: state_of(sync)["state"] == "failed")
    state = state_of(sync)
    assert state["failure"] == "No permission to write."
    assert state["failed_at"]


def test_turning_off_asks_first(notebook: Notebook, sync: SyncWire, tmp_path: Path) -> None:
    sync.act("sync_set", [], {"url": str(tmp_path / "there")})
    dry = sync.act("sync_off", [], {"dry": True})
    assert dry["confirm"] == "Turn off"
    assert state_of(sync)["state"] != "off"
    sync.act("sync_off", [], {})
    assert state_of(sync)["state"] == "off"


def test_what_is_there_only_is_counted_then_brought(
    notebook: Notebook, sync: SyncWire, typed: Typed, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    Tracker(there).save({"z": 3}, "far")
    sync.act("sync_set", [], {"url": str(there)})
    until(lambda: state_of(sync)["state"] == "there")  # the push has seen it
    dry = sync.act("pull", [], {"dry": True})
    assert (dry["text"], dry["confirm"]) == ("1 checkpoint there is not here.", "Bring 1 here")
    assert (state_of(sync)["state"], state_of(sync)["there"]) == ("there", 1)
    assert sync.act("pull", [], {})["ok"]
    assert [str(ref) for ref in typed.session().tracker.history.refs()] == ["far@1"]
    until(lambda: state_of(sync)["state"] != "there")


def test_a_place_that_is_none_is_refused(sync: SyncWire, subtests: pytest.Subtests) -> None:
    for options in ({}, {"url": ""}, {"url": 3}, {"url": "--now"}):
        with subtests.test(str(options)), pytest.raises(UsageError):
            sync.act("sync_set", [], options)


def test_deeds_without_a_sync_are_errors(sync: SyncWire) -> None:
    for verb in ("pull", "sync"):
        with pytest.raises(NbckptError):
            sync.act(verb, [], {})


def test_all_settings_are_a_page(notebook: Notebook, sync: SyncWire) -> None:
    assert "not synced" in sync.detail("settings", [], {})["html"]


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
    notebook.run("number = 3", "number = 4")
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
    data = {**message.get("data", {}), "source": "", "message": ""}
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
