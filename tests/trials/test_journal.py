"""Journals: what is written is read, torn lines are left out, a trial is a fold over its events."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.trials import Record, Status, Trial
from nbckpt.trials.model import journal as journals
from nbckpt.trials.model import params
from nbckpt.trials.model.journal import Damage, Journal, line_of, read, read_whole
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.model.recorder import TrialRecorder

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
events = st.lists(st.dictionaries(st.text(), json_values, max_size=3), max_size=6)


def write(file: Path, events: list[dict[str, Any]]) -> None:
    journal = Journal(file)
    for event in events:
        journal.append(event)
    journal.close()


@pytest.mark.slow
@given(events, st.integers(0, 500))
def test_a_truncated_journal_gives_its_first_events(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, Any]], cut: int
) -> None:
    file = tmp_path_factory.mktemp("journal") / "events.jsonl"
    write(file, written)
    data = file.read_bytes() if written else b""
    assert list(read(file)) == written
    if written:
        file.write_bytes(data[:cut])
        assert list(read(file)) == written[: data[:cut].count(b"\n")]


starts = st.integers(0, 4).map(lambda at: {"event": "start", "from": None, "iteration": at})
results = st.integers(1, 5).map(lambda at: {"event": "result", "result": {"training_iteration": at}})


@pytest.mark.slow
@given(
    events | st.lists(starts | results, max_size=9),
    st.none() | st.tuples(st.integers(0, 400), st.binary(max_size=2), st.integers(0, 2)),
)
def test_a_journal_that_is_read_at_once_has_the_same_events(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[dict[str, Any]],
    change: tuple[int, bytes, int] | None,
) -> None:
    trial = Trial(tmp_path_factory.mktemp("experiment") / "t0", {})
    trial.folder.mkdir()
    file, data = trial.folder / "events.jsonl", b"".join(map(line_of, written))
    if change is not None:
        at, new, removed = change
        data = data[:at] + new + data[at + removed :]
    file.write_bytes(data)
    at_once, counted = read_whole(file), trial.results
    assert at_once == list(read(file)) if change is None else at_once in (None, list(read(file)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals, "SMALL", -1)
        assert read_whole(file) is None
        assert counted == trial.results


@pytest.mark.parametrize(
    "line", ['{"event":"result","result":3', '{"a":' + "[" * 51 + "]" * 51, '{"a":1},{"b":2', '{"a":1']
)
def test_an_unusual_journal_is_not_read_at_once(tmp_path: Path, line: str) -> None:
    file, usual = tmp_path / "events.jsonl", line_of({"event": "queue"})
    data = f"{line},".encode()
    sealed = data + b'"crc32":"%08x"}\n' % zlib.crc32(data)
    file.write_bytes(usual + (sealed if line != '{"a":1' else line.encode()))
    assert read_whole(file) is None
    file.write_bytes(usual)
    assert read_whole(file) == [{"event": "queue"}]


@pytest.mark.slow
@given(events, events, st.integers(2, 30))
def test_events_written_after_a_torn_line_are_read(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    cut: int,
) -> None:
    file = tmp_path_factory.mktemp("journal") / "events.jsonl"
    file.write_bytes(b"")
    write(file, before)
    write(file, [{"torn": "x" * 40}])
    file.write_bytes(file.read_bytes()[:-cut])
    write(file, after)
    assert list(read(file)) == before + after


def test_a_trial_read_back_is_the_trial_that_wrote(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "t0", {"lr": 0.1})
    params.write({trial.folder: trial.config})
    recorder = TrialRecorder(trial)
    recorder.start("thread", None)
    for i in (1, 2, 3):
        recorder.result({"training_iteration": i, "loss": 1 / i})
    recorder.saved(Record("checkpoint_000002", "files", 2))
    recorder.fail(ValueError("boom"), retry=True)
    recorder.start("thread", Record("checkpoint_000002", "files", 2))
    recorder.result({"training_iteration": 3, "loss": 0.5})
    recorder.end("done")
    recorder.close()
    again = Trial.read(tmp_path / "t0")
    for name in (
        *("config", "status", "results", "checkpoint_name", "failures"),
        *("attempts", "error", "note", "unsaved_results"),
    ):
        assert getattr(again, name) == getattr(trial, name)
    assert again.status == Status.TERMINATED
    assert again.results == [
        {"training_iteration": 1, "loss": 1.0},
        {"training_iteration": 2, "loss": 0.5},
        {"training_iteration": 3, "loss": 0.5},
    ]


def test_metrics_are_converted_to_json_types() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "odd"

    numbers = {"a": np.float32(0.5), "b": np.int64(3), "c": np.array(1.5), "d": {"e": (1, np.bool_(True))}}
    made = plain(numbers | {"f": Odd(), "g": float("nan"), 1: "one"})
    assert math.isnan(made.pop("g"))
    assert made == {"a": 0.5, "b": 3, "c": 1.5, "d": {"e": [1, True]}, "f": "odd", "1": "one"}


def test_infinity_and_nan_are_stored_and_read(tmp_path: Path) -> None:
    params.write({tmp_path / "t0": {}})
    recorder = TrialRecorder(Trial(tmp_path / "t0", {}))
    recorder.result({"training_iteration": 1, "loss": float("inf"), "other": float("nan")})
    recorder.close()
    (result,) = Trial.read(tmp_path / "t0").results
    assert result["loss"] == float("inf")
    assert math.isnan(result["other"])


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_an_event_is_the_json_that_the_usual_encoder_makes(value: Any) -> None:
    usual = json.JSONEncoder(separators=(",", ":"), default=repr)
    for event in ({"value": value}, {"value": {1, 2}}):
        assert line_of(event).decode().rpartition(',"crc32":')[0] + "}" == usual.encode(event)


@pytest.mark.parametrize("torn", [b"", b'{"event":"resu'], ids=["whole", "torn after that"])
@pytest.mark.parametrize("later", [[], [{"n": 3}]], ids=["as it is", "written to again"])
def test_a_changed_line_end_is_damage_and_not_a_torn_line(
    tmp_path: Path, later: list[dict[str, Any]], torn: bytes
) -> None:
    file = tmp_path / "events.jsonl"
    write(file, [{"n": 1}, {"n": 2}])
    file.write_bytes(file.read_bytes()[:-1] + b"k" + torn)
    write(file, later)
    first, damage, *rest = read(file)
    assert (first, rest) == ({"n": 1}, later)
    assert isinstance(damage, Damage)
    assert "line 2" in damage.cause
