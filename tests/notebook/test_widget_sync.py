"""The wire of the pane of sync: the state that the browser gets, and what its buttons do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbckpt.errors import NbckptError, UsageError
from nbckpt.mirror import Mirror
from nbckpt.notebook.widget.sync import SyncWire
from nbckpt.notebook.widget.wires import Pace
from nbckpt.tracker import Tracker
from notebook.conftest import Notebook
from notebook.typed import Clock, Typed
from waiting import until


@pytest.fixture
def wire(typed: Typed, clock: Clock) -> SyncWire:
    return SyncWire(typed, Pace(clock))


def state_of(wire: SyncWire) -> dict[str, Any]:
    (message,) = wire.full()
    return message


def test_a_store_that_is_not_synced_is_off(notebook: Notebook, wire: SyncWire) -> None:
    notebook.run("x = 1\n%ckpt save one")
    state = state_of(wire)
    assert (state["state"], state["here"]) == ("off", [1, 0])
    json.dumps(state)


def test_turned_on_everything_is_sent(notebook: Notebook, wire: SyncWire, tmp_path: Path) -> None:
    notebook.run("x = 1\n%ckpt save one")
    there = tmp_path / "there"
    assert wire.act("sync_set", [], {"url": str(there), "period": "half"})["text"].startswith("Sync is on")
    until(lambda: state_of(wire)["state"] == "synced")
    state = state_of(wire)
    assert (state["url"], state["period"], state["failure"]) == (str(there), 1800.0, "")
    assert [str(ref) for ref in Tracker(there).history.refs()] == ["one@1"]
    assert wire.changes() == []


def test_a_new_checkpoint_waits_until_it_is_sent(
    notebook: Notebook, wire: SyncWire, typed: Typed, tmp_path: Path
) -> None:
    wire.act("sync_set", [], {"url": str(tmp_path / "there")})
    until(lambda: state_of(wire)["state"] == "synced")
    Tracker(typed.session().tracker.store.url).save({"y": 1}, "two")  # by another process
    assert (state_of(wire)["state"], state_of(wire)["waiting"]) == ("waiting", [1, 0])
    assert wire.act("sync", [], {})["text"] == "Sending what is new."
    until(lambda: state_of(wire)["state"] == "synced")


def test_sync_by_hand_waits_for_the_button(
    notebook: Notebook, wire: SyncWire, typed: Typed, tmp_path: Path
) -> None:
    options = {"url": str(tmp_path / "there"), "period": "never", "after_saves": False}
    assert wire.act("sync_set", [], options)["text"].startswith("Sync is on. Sync now sends to")
    wire.act("sync", [], {})
    until(lambda: state_of(wire)["state"] == "synced")
    notebook.run("x = bytearray(100_000)\n%ckpt save one")
    state = state_of(wire)
    assert (state["period"], state["after_saves"], state["waiting"]) == (0.0, False, [1, 0])
    assert state["waiting_size"] > 500
    assert not typed.session().auto.is_busy
    wire.act("sync", [], {})
    until(lambda: state_of(wire)["state"] == "synced")
    assert state_of(wire)["waiting_size"] == 0


def test_a_failure_says_why_and_since_when(
    notebook: Notebook, wire: SyncWire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no permission to write. See %ckpt doctor")

    monkeypatch.setattr(Mirror, "push", fail)
    wire.act("sync_set", [], {"url": str(tmp_path / "there")})
    until(lambda: state_of(wire)["state"] == "failed")
    state = state_of(wire)
    assert state["failure"] == "No permission to write."
    assert state["failed_at"]


def test_turning_off_asks_first(notebook: Notebook, wire: SyncWire, tmp_path: Path) -> None:
    wire.act("sync_set", [], {"url": str(tmp_path / "there")})
    dry = wire.act("sync_off", [], {"dry": True})
    assert dry["confirm"] == "Turn off"
    assert state_of(wire)["state"] != "off"
    wire.act("sync_off", [], {})
    assert state_of(wire)["state"] == "off"


def test_what_is_there_only_is_counted_then_brought(
    notebook: Notebook, wire: SyncWire, typed: Typed, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    Tracker(there).save({"z": 3}, "far")
    wire.act("sync_set", [], {"url": str(there)})
    until(lambda: state_of(wire)["state"] == "there")  # the push has seen it
    dry = wire.act("pull", [], {"dry": True})
    assert (dry["text"], dry["confirm"]) == ("1 checkpoint there is not here.", "Bring 1 here")
    assert (state_of(wire)["state"], state_of(wire)["there"]) == ("there", 1)
    assert wire.act("pull", [], {})["ok"]
    assert [str(ref) for ref in typed.session().tracker.history.refs()] == ["far@1"]
    until(lambda: state_of(wire)["state"] != "there")


def test_a_place_that_is_none_is_refused(wire: SyncWire, subtests: pytest.Subtests) -> None:
    for options in ({}, {"url": ""}, {"url": 3}, {"url": "--now"}):
        with subtests.test(str(options)), pytest.raises(UsageError):
            wire.act("sync_set", [], options)


def test_deeds_without_a_sync_are_errors(wire: SyncWire) -> None:
    for verb in ("pull", "sync"):
        with pytest.raises(NbckptError):
            wire.act(verb, [], {})


def test_all_settings_are_a_page(notebook: Notebook, wire: SyncWire) -> None:
    assert "not synced" in wire.detail("settings", [], {})["html"]
