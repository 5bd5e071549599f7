"""The files of trials: journals are read as written, and a damaged trial is one row with its cause."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import re
import shutil
import zlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials.conftest import ran

import nbckpt
from nbckpt.cli import main
from nbckpt.errors import CorruptError, FormatError, NbckptError
from nbckpt.render.text import text
from nbckpt.trials import Experiment, Record, Status, Trial
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.model import journal, params, spec_file
from nbckpt.trials.model.journal import Damage, Journal, line_of, read, read_whole
from nbckpt.trials.model.listing import read_trials
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.verify import verify_trials

DEEP = b"[" * 100_000
DEEP_ENOUGH = b"[" * 500 + b"]" * 500


def train(config: dict[str, Any]) -> None:
    for step in (1, 2):
        nbckpt.report(loss=config["lr"] / step, checkpoint={"step": step})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of an experiment with three trials; no object of it is left in this process."""
    return ran_in(tmp_path / "store" / "experiments")


def ran_in(experiments: Path) -> Path:
    space = {"lr": nbckpt.grid_search([1, 2, 3])}
    return ran(train, space, name="e", folder=experiments, metric="loss", mode="min").folder


def opened(folder: Path) -> tuple[Trial, ...]:
    return tuple(read_trials(folder, {}))


def rewritten(file: Path, old: bytes, new: bytes) -> None:
    data = file.read_bytes()
    assert old in data
    file.write_bytes(data.replace(old, new, 1))


ODD_PARAMS = {
    b"": "not JSON",
    b"\0" * 40: "not JSON",
    b"{": "not JSON",
    b"\xff": "not JSON",
    b"[]": "not an object",
    b"7": "not an object",
    b"null": "not an object",
    DEEP: "nested too deeply",
    DEEP_ENOUGH: "nested too deeply",
    b'{"format": 2, "config": []}': "no checksum",
    b'{"format": 3, "config": {}, "checksum": "00"}': "upgrade",
    b'{"format": "2", "config": {}}': "format",
    b'{"format": 2, "config": {}, "checksum": "%b"}' % (b"0" * 64): "do not match its checksum",
}


def test_damaged_params_json_is_one_damaged_row(folder: Path, subtests: pytest.Subtests) -> None:
    for at, (contents, cause) in enumerate(ODD_PARAMS.items()):
        (folder / "t1" / "params.json").write_bytes(contents)
        with subtests.test(at=at):
            first, damaged, last = opened(folder)
            assert (first.config, last.config) == ({"lr": 1}, {"lr": 3})
            assert (damaged.id, damaged.status, damaged.config) == ("t1", Status.DAMAGED, {})
            assert cause in damaged.damage
            assert len(damaged.results) == 2


@pytest.mark.parametrize("name", ["params.json", "events.jsonl"])
def test_files_exchanged_between_two_trials_are_damage(folder: Path, name: str) -> None:
    one, two = folder / "t1" / name, folder / "t2" / name
    for file, data in ((one, two.read_bytes()), (two, one.read_bytes())):
        file.write_bytes(data)
    trials = opened(folder)
    assert [trial.status for trial in trials] == [Status.TERMINATED, Status.DAMAGED, Status.DAMAGED]
    assert [trial.damage.rpartition(" ")[2] for trial in trials] == ["", "t2", "t1"]
    if name == "events.jsonl":
        assert [trial.results for trial in trials[1:]] == [[], []]
    damages = dict(verify_trials(Catalog(folder.parent), ["e"]).damages)
    assert damages == {"e/t1": trials[1].damage, "e/t2": trials[2].damage}


def test_a_trial_in_a_folder_of_another_name_is_read(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "t1", tmp_path / "copy")
    assert Trial.read(tmp_path / "copy").config == Trial.read(folder / "t1").config


def test_a_folder_without_params_json_is_damage_unless_empty(folder: Path) -> None:
    (folder / "t1" / "params.json").unlink()
    (folder / "t3").mkdir()
    damages = [(trial.id, trial.damage) for trial in opened(folder)]
    assert damages == [("t0", ""), ("t1", "params.json is missing"), ("t2", "")]


def test_a_damaged_trial_is_named_with_its_cause_and_not_resumed(folder: Path, tmp_path: Path) -> None:
    (folder / "t1" / "params.json").write_bytes(b"")
    rewritten(folder / "t2" / "events.jsonl", b'"loss":3', b'"loss":4')
    copy = moved(folder, tmp_path)
    shown = text(Experiment.read(copy).page())
    assert re.search(r"t1 +damaged", shown)
    assert "t1: params.json is damaged: it is not JSON" in shown
    assert re.search(r"t2 +done, damaged", shown)
    assert "t2: line 2 of events.jsonl is damaged: its contents do not match its checksum" in shown
    assert "params.json is damaged" in text(Experiment.read(copy).trial("t1").page())
    with pytest.raises(nbckpt.UsageError, match="e/t1 cannot be resumed: "):
        Experiment.read(copy).resume("t1")


def moved(folder: Path, tmp_path: Path) -> Path:
    """Return the experiment under a path that this process has no object of."""
    target = tmp_path / "elsewhere" / "experiments"
    target.mkdir(parents=True)
    return folder.rename(target / folder.name)


def test_a_rerun_runs_a_damaged_configuration_as_a_new_trial(folder: Path, tmp_path: Path) -> None:
    (folder / "t1" / "params.json").write_bytes(b"")
    before = (folder / "t1" / "events.jsonl").read_bytes()
    copy = moved(folder, tmp_path)
    again = ran_in(copy.parent)
    assert [(trial.id, trial.status, trial.config) for trial in opened(again)] == [
        ("t0", "TERMINATED", {"lr": 1}),
        ("t1", "DAMAGED", {}),
        ("t2", "TERMINATED", {"lr": 3}),
        ("t3", "TERMINATED", {"lr": 2}),
    ]
    assert (again / "t1" / "events.jsonl").read_bytes() == before


def test_an_empty_configuration_does_not_match_a_damaged_trial(tmp_path: Path) -> None:
    def count(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1)

    folder = ran(count, name="e", folder=tmp_path / "one").folder
    (folder / "t0" / "params.json").write_bytes(b"")
    again = ran(count, name="e", folder=moved(folder, tmp_path).parent)
    assert [(trial.id, trial.status) for trial in again.trials] == [("t0", "DAMAGED"), ("t1", "TERMINATED")]


def test_every_changed_byte_of_params_json_is_found_or_harmless(tmp_path: Path) -> None:
    whole = params.encode({"lr": 1, "name": "x"}, tmp_path.name)
    for at, value in enumerate(whole):
        for changed in {value ^ 1, value ^ 4, 0, ord("5")}:
            document = whole[:at] + bytes([changed]) + whole[at + 1 :]
            (tmp_path / params.FILE).write_bytes(document)
            try:
                config = params.read(tmp_path)
            except NbckptError:
                continue
            assert config == {"lr": 1, "name": "x"}, document


def test_a_configuration_of_format_1_is_read(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text(json.dumps({"format": "jpeg", "lr": 1}))
    assert params.read(tmp_path) == {"format": "jpeg", "lr": 1}


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def test_a_configuration_nested_too_deeply_is_kept_as_text(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_bytes(params.encode({"deep": nested(300)}, "t0"))
    assert type(innermost(params.read(tmp_path)["deep"])) is str


def innermost(value: Any) -> Any:
    while isinstance(value, list):
        (value,) = value
    return value


def written(file: Path, *events: dict[str, Any]) -> list[bytes]:
    lines = Journal(file)
    for event in events:
        lines.append(event)
    lines.close()
    return file.read_bytes().splitlines(keepends=True)


RESULTS = [{"event": "result", "result": {"training_iteration": n, "loss": n / 8}} for n in (1, 2, 3)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def damages(file: Path) -> list[str]:
    return [event.cause for event in journal.read(file) if isinstance(event, Damage)]


def test_a_changed_journal_line_is_named_and_others_are_read(file: Path) -> None:
    lines = written(file, *RESULTS)
    lines[1] = lines[1].replace(b"0.25", b"0.75")
    file.write_bytes(b"".join(lines))
    events = list(journal.read(file))
    assert [events[0], events[2]] == [RESULTS[0], RESULTS[2]]
    assert events[1] == Damage("line 2 of events.jsonl is damaged: its contents do not match its checksum")


def test_every_changed_byte_in_a_journal_is_found(file: Path) -> None:
    whole = b"".join(written(file, *RESULTS))
    chosen = random.Random(1)
    for at in range(len(whole) - 1):
        changed = whole[:at] + bytes([whole[at] ^ chosen.randrange(1, 256)]) + whole[at + 1 :]
        file.write_bytes(changed)
        events = [event for event in journal.read(file) if not isinstance(event, Damage)]
        assert all(event in RESULTS or event | RESULTS[0] == event for event in events), changed
        assert len(events) == 3 or damages(file), changed


def test_a_torn_last_line_is_ignored_and_later_events_are_read(file: Path) -> None:
    lines = written(file, *RESULTS)
    for cut in range(1, len(lines[2])):
        file.write_bytes(b"".join(lines)[:-cut])
        assert list(journal.read(file)) == RESULTS[:2]
        written(file, RESULTS[0])
        assert list(journal.read(file)) == [*RESULTS[:2], RESULTS[0]]


def test_a_line_without_checksum_after_one_with_it_is_damaged(file: Path) -> None:
    written(file, RESULTS[0])
    with file.open("ab") as opened_file:
        opened_file.write(json.dumps(RESULTS[1]).encode() + b"\n")
    assert damages(file) == ["line 2 of events.jsonl is damaged: its contents do not match its checksum"]


def test_a_journal_without_checksums_is_read_and_extended(file: Path) -> None:
    file.write_text(json.dumps(RESULTS[0]) + '\n{"event": "resu\n')
    written(file, RESULTS[1])
    assert list(journal.read(file)) == RESULTS[:2]


MALFORMED = [
    DEEP,
    DEEP_ENOUGH,
    b"[]",
    b"3",
    b'{"event":"result"}',
    b'{"event":"result","result":[]}',
    b'{"event":"result","result":{}}',
    b'{"event":"result","result":{"training_iteration":"3"}}',
    b'{"event":"result","result":{"training_iteration":-1}}',
    b'{"event":"result","result":{"training_iteration":1,"time_total_s":"long"}}',
    b'{"event":"result","result":{"training_iteration":1,"timestamp":[]}}',
    b'{"event":"start"}',
    b'{"event":"start","from":3,"iteration":0}',
    b'{"event":"start","from":null,"iteration":null}',
    b'{"event":"checkpoint","name":[],"iteration":1}',
    b'{"event":"error","error":1,"traceback":"","retry":false}',
    b'{"event":"error"}',
    b'{"event":"end","note":{},"at":1}',
    b'{"event":"pause","at":"now"}',
]


def test_a_malformed_event_is_damage(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for at, line in enumerate(MALFORMED):
        folder = tmp_path / f"t{at}"
        params.write({folder: {"lr": 1}})
        written(folder / "events.jsonl", RESULTS[0])
        whole = (folder / "events.jsonl").read_bytes()
        (folder / "events.jsonl").write_bytes(line + b"\n" + whole)
        with subtests.test(at=at):
            again = Trial.read(folder)
            assert again.damage.startswith("line 1 of events.jsonl is damaged")
            assert again.results == [RESULTS[0]["result"]]
            text(again.page())


def test_an_unknown_event_is_from_a_later_version(file: Path) -> None:
    written(file, {"event": "weather", "sun": True}, RESULTS[0])
    assert damages(file) == []


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_full_disk_within_a_line_damages_no_other_line(
    file: Path, is_torn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, write = Journal(file), os.write
    lines.append(RESULTS[0])

    def fills(fd: int, data: bytes) -> int:
        if len(data) < 12 or not is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:10])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fills)
        with pytest.raises(nbckpt.errors.StoreError, match="No space left"):
            lines.append(RESULTS[1])
    lines.append(RESULTS[2])
    lines.close()
    assert list(journal.read(file)) == [RESULTS[0], RESULTS[2]]


def test_the_name_of_a_journal_is_durable_with_its_first_event(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(journal, "sync_folder", synced.append)
    lines = Journal(file)
    lines.append(RESULTS[0])
    assert synced == []
    for result in RESULTS[1:]:
        lines.append(result, durable=True)
    lines.close()
    assert synced == [file.parent]


ODD: list[Callable[[bytes], bytes]] = [
    lambda data: b"",
    lambda data: data[: len(data) // 2],
    lambda data: b"\0" * len(data),
    lambda data: DEEP,
    lambda data: b"[]",
    lambda data: b"null",
    lambda data: b'{"format": 1}',
    lambda data: data.replace(b'"format": 2', b'"format": 99'),
    lambda data: data.replace(b'"checksum"', b'"checksun"'),
    lambda data: data.replace(b"1", b"2", 1),
]


def test_a_damaged_experiment_json_is_one_clear_error(folder: Path, subtests: pytest.Subtests) -> None:
    file = folder / spec_file.FILE
    whole = file.read_bytes()
    for at, damage in enumerate(ODD):
        file.write_bytes(damage(whole))
        with subtests.test(at=at), pytest.raises((CorruptError, FormatError), match=r"is damaged|upgrade"):
            spec_file.read(folder)


FIELDS = [
    *("num_samples", "seed", "config", "keep_checkpoints", "resources_per_trial", "trainable"),
    *("metric", "mode", "created_at", "executor"),
]
HARMLESS = {"seed": int, "config": dict, "metric": str, "created_at": str, "executor": str}


def test_an_odd_value_in_experiment_json_is_one_clear_error(folder: Path, subtests: pytest.Subtests) -> None:
    file = folder / spec_file.FILE
    whole = json.loads(file.read_bytes()) | {"format": 1}
    del whole["checksum"]
    for name, value in product(FIELDS, [[], {"": []}, -(1 << 70), "\0"]):
        file.write_text(json.dumps(whole | {name: value}))
        with subtests.test(name=name, value=value):
            if isinstance(value, HARMLESS.get(name, ())):
                assert spec_file.read(folder)
                continue
            with pytest.raises(CorruptError, match=re.escape(str(file))):
                spec_file.read(folder)


def test_a_damaged_experiment_does_not_hide_others(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    bad = folder.with_name("bad")
    bad.mkdir()
    (bad / spec_file.FILE).write_bytes(b"")
    for words in ("trials", "trials e", "ls --all", "status", "show e/t0", "sync --status"):
        assert main(words.split()) == 0, words
    assert main(["trials"]) == 0
    assert "experiment.json is damaged" in capsys.readouterr().out
    assert main(["trials", "bad"]) == 1


def test_checkpoints_of_a_damaged_experiment_can_be_exported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They can be shown too."""
    (folder / spec_file.FILE).write_bytes(b"{")
    store = ["--store", str(tmp_path / "store")]
    assert main(["show", "e/t1@2", *store]) == 0
    assert "step" in capsys.readouterr().out
    assert main(["export", "e/t1@2", str(tmp_path / "x.ckpt"), *store]) == 0
    assert main(["show", "e/t9@2", *store]) == main(["show", "t1@2", *store]) == 1
    assert capsys.readouterr().err.count("experiment.json is damaged") == 2


def test_a_damaged_record_is_named_and_the_others_work(folder: Path, subtests: pytest.Subtests) -> None:
    file = folder / "t0" / "checkpoint_000001.json"
    whole = file.read_bytes()
    for at, damage in enumerate(ODD):
        file.write_bytes(damage(whole))
        with subtests.test(at=at):
            (trial, *_) = opened(folder)
            assert [record.name for record in trial.checkpoints.records()] == ["checkpoint_000002"]
            with pytest.raises((CorruptError, FormatError), match=r"is damaged|upgrade"):
                trial.checkpoints.read("checkpoint_000001")
            assert "checkpoint_000001.json" in text(trial.page())
            assert Catalog(folder.parent).checkpoint("e/t0")[1].step == 2


def test_a_record_of_another_checkpoint_is_damaged(folder: Path) -> None:
    one, two = (folder / "t0" / f"checkpoint_00000{n}.json" for n in (1, 2))
    one.write_bytes(two.read_bytes())
    with pytest.raises(CorruptError, match="it is the record of 'checkpoint_000002'"):
        CheckpointFolder(folder / "t0").read("checkpoint_000001")


def test_a_path_in_a_record_never_leads_outside(subtests: pytest.Subtests) -> None:
    for path in ("../../x", "/etc/passwd", "a/../../x", ""):
        odd: list[dict[str, Any]] = [{"files": {path: (1, "")}}, {"folders": (path,)}]
        for fields in [*odd, {"inner": path}] if path else odd:
            record = Record("checkpoint_000001", "files", 1, **fields)
            with subtests.test(fields=fields), pytest.raises((CorruptError, ValueError)):
                Record.decode(record.encode(), "it")


def test_all_trials_of_a_run_are_made_durable_as_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    write = params.write_files
    monkeypatch.setattr(params, "write_files", lambda files: (batches.append(len(files)), write(files)))
    ran(train, {"lr": nbckpt.grid_search(range(1, 9))}, folder=tmp_path)
    assert batches == [8]


def test_a_link_in_place_of_a_new_trial_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "t0").symlink_to(outside)
    with pytest.raises(nbckpt.errors.StoreError, match="is a link"):
        nbckpt.run(train, {"lr": 1}, name="e", folder=tmp_path)
    assert list(outside.iterdir()) == []


def test_a_folder_with_a_non_ascii_digit_is_not_a_trial(folder: Path) -> None:
    odd = folder / "t²"
    odd.mkdir()
    (odd / "params.json").write_bytes(b"{}")
    assert [trial.id for trial in read_trials(folder, {})] == ["t0", "t1", "t2"]
    with pytest.raises(nbckpt.UsageError, match="is not a checkpoint of a trial"):
        Catalog(folder.parent).checkpoint("e/t0@²")


def test_a_trial_whose_journal_is_a_folder_has_no_results(folder: Path) -> None:
    (folder / "t1" / "events.jsonl").unlink()
    (folder / "t1" / "events.jsonl").mkdir()
    trials = {trial.id: trial for trial in Catalog(folder.parent).open(folder.name).trials}
    assert trials["t1"].damage
    assert trials["t1"].results == []
    assert trials["t0"].results


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
        patch.setattr(journal, "SMALL", -1)
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
