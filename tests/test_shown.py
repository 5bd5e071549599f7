"""What people hold in their hands shows itself: a short text, and a page as HTML."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from loud import Loud

import nbckpt
from nbckpt import Checkpoint
from nbckpt.core.history import History
from nbckpt.core.trust import open_signer
from nbckpt.errors import StoreError
from nbckpt.render import Rich
from nbckpt.store import MemoryStore, RemoteStore, open_store
from nbckpt.trials.model import params
from nbckpt.trials.model.trial import Trial

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m"


def both(shown: Rich) -> tuple[str, str]:
    bundle = shown._repr_mimebundle_()
    assert bundle["text/plain"] == repr(shown)
    return bundle["text/plain"], bundle["text/html"]


def html(shown: Rich) -> str:
    return both(shown)[1]


class Model(nbckpt.Checkpoint):
    """A user's own checkpoint, with an attribute that travels with it."""

    _SERIALIZED_ATTRS = ("epoch",)
    epoch: int


def everything(tmp_path: Path) -> list[Rich]:
    experiment = nbckpt.run(nothing, {"lr": HOSTILE}, executor="inline", folder=tmp_path, name="quick")
    checkpoint = Checkpoint.from_dict({HOSTILE: HOSTILE, Checkpoint.FILES: {"<b>.txt": b"x"}})
    tracker = nbckpt.Tracker(tmp_path / "<b>store")
    tracker.save({"x": HOSTILE}, "<b>", message=HOSTILE)
    state = nbckpt.State.of(HOSTILE, [HOSTILE])
    return [checkpoint, experiment, experiment.trials[0], tracker, state, nbckpt.SyncConfig(HOSTILE)]


def nothing(config: dict[str, Any]) -> None:
    nbckpt.report(loss=1.0)


def test_text_and_html_of_every_object_escape_hostile_text(tmp_path: Path) -> None:
    for shown in everything(tmp_path):
        text, page = both(shown)
        assert "\x1b" not in text
        assert "<img src=x" not in page
        assert "<b>" not in page
        assert "&lt;" in page
        assert "<caption" in page


def test_objects_without_a_table_have_a_short_repr(tmp_path: Path) -> None:
    checkpoint, _, trial, tracker, state, _ = everything(tmp_path)
    for shown in (checkpoint, trial, tracker, state):
        assert len(repr(shown).splitlines()) == 1
        assert len(repr(shown)) < 60 + len(str(tmp_path))


def test_every_form_of_checkpoint_shows_its_fields_unloaded(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The page lists the files too."""
    made = Checkpoint.from_dict({"loud": Loud(), "lr": 0.5, Checkpoint.FILES: {"a/weights.bin": b"1234"}})
    store = MemoryStore()
    Loud.loaded = 0
    for form, checkpoint in {
        "dict": made,
        "folder": Checkpoint.from_directory(made.to_directory(tmp_path / "it")),
        "bytes": Checkpoint.from_bytes(made.to_bytes()),
        "uri": Checkpoint.from_uri(made.to_uri("memory://shown")),
        "store": Checkpoint.from_store(store, made.to_store(store)),
    }.items():
        with subtests.test(form):
            page = html(checkpoint)
            assert "2 fields, 1 file" in page
            assert all(text in page for text in ("Loud", ">lr<", ">0.5<", "a/weights.bin"))
            assert (">4 bytes<" in page) == (form not in {"dict", "uri"})  # not known there
            assert Loud.loaded == 0


def test_showing_a_remote_checkpoint_makes_no_request(tmp_path: Path) -> None:
    uri = RemoteStore(f"local://{tmp_path}").url
    nothing_there = Checkpoint.from_uri(f"{uri}/later")
    Checkpoint.from_dict({"lr": 0.5}).to_uri(f"{uri}/there")
    there = Checkpoint.from_uri(f"{uri}/there")
    with patch.object(RemoteStore, "get", side_effect=AssertionError), unlisted():
        assert f"at {uri}/there: 1 field, 0 files" in html(there)
        assert f"at {uri}/later: nothing was there when it was made" in html(nothing_there)
    Checkpoint.from_dict({"lr": 0.5}).to_uri(f"{uri}/later")
    assert nothing_there.to_dict() == {"lr": 0.5}
    assert f"at {uri}/later: 1 field" in html(nothing_there)


def unlisted() -> Any:
    return patch.object(RemoteStore, "keys", side_effect=AssertionError)


def test_a_folders_name_cannot_rewrite_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "red\x1b[31m").mkdir()
    shown = both(Checkpoint.from_directory(tmp_path / "red\x1b[31m"))
    assert "red\\x1b[31m)" in shown[0]


def test_an_untrusted_checkpoint_shows_the_trust_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Checkpoint.from_dict({"loud": Loud()}).to_directory(tmp_path / "it")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    Loud.loaded = 0
    assert "trust=True" in html(Checkpoint.from_directory(folder))
    assert "trust=True" not in html(Checkpoint.from_directory(folder, trust=True))
    assert Loud.loaded == 0


def test_a_checkpoint_is_shown_with_an_unreadable_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"memory://shown/{tmp_path.name}"
    checkpoint = Checkpoint.from_uri(uri)
    Checkpoint.from_dict({"x": 1}).to_uri(uri)
    short = tmp_path / "secret"
    short.write_text("short")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(short))
    with pytest.raises(StoreError, match="too short"):
        checkpoint.to_dict()
    assert "is too short" in html(checkpoint)


def test_a_checkpoint_of_a_users_class_shows_its_attributes() -> None:
    model = Model.from_dict({"x": 1})
    model.epoch = 1234
    assert repr(model) == "Model(dict)"
    for shown in (model, Model.from_bytes(model.to_bytes())):
        assert ">1234<" in html(shown)


def test_only_the_first_of_many_fields_and_files_are_shown() -> None:
    files = {f"{at:03}.bin": b"" for at in range(100)}
    page = html(Checkpoint.from_dict({str(at): at for at in range(1000)} | {Checkpoint.FILES: files}))
    assert "fields; 20 of 1,000" in page
    assert "files; 20 of 100" in page
    assert "020.bin" not in page


def test_a_trial_shows_its_configuration_metrics_and_checkpoints(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=config["lr"] / 4, checkpoint={"step": 1})

    experiment = nbckpt.run(train, {"lr": 0.5}, executor="inline", folder=tmp_path, name="quick")
    page = html(Trial.read(experiment.trials[0].folder))
    assert all(text in page for text in ("quick/t0", ">lr<", ">0.125", "t0@1"))


def test_a_trial_without_its_experiment_is_shown(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "t0", {"lr": HOSTILE})
    params.write({trial.folder: trial.config})
    text, page = both(trial)
    assert text == "Trial(t0, PENDING, 0 results)"
    assert "<li" in page


def test_a_tracker_shows_its_newest_checkpoints(tmp_path: Path) -> None:
    tracker = nbckpt.Tracker(tmp_path)
    assert "0 checkpoints" in html(tracker)
    for at in range(7):
        tracker.save({"x": Loud()}, f"name{at}")
    Loud.loaded = 0
    page = html(tracker)
    assert "7 checkpoints" in page
    assert [f"name{at}@1" in page for at in range(7)] == [False, False, True, True, True, True, True]
    assert Loud.loaded == 0


def test_showing_a_remote_tracker_makes_no_request(tmp_path: Path) -> None:
    url = f"local://{tmp_path}"
    tracker = nbckpt.Tracker(RemoteStore(url))
    tracker.save({"x": 1}, "x")
    with patch.object(RemoteStore, "get", side_effect=AssertionError), unlisted():
        assert url in html(tracker)
    memory = nbckpt.Tracker(open_store(f"memory://shown/{tmp_path.name}"))
    memory.save({"x": 1}, "x")
    assert "x@1" in html(memory)


def test_a_tracker_of_a_store_that_fails_shows_the_reason(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "store.json").write_text("mine")
    assert "is not an nbckpt store" in html(nbckpt.Tracker(tmp_path / "other"))
    store = open_store(tmp_path / "store")
    with patch.object(store, "get", side_effect=OSError("unplugged")):
        assert "unplugged" in html(nbckpt.Tracker(store))


def test_a_damaged_checkpoint_is_a_row_with_the_reason(tmp_path: Path) -> None:
    tracker = nbckpt.Tracker(tmp_path)
    tracker.save({"x": 1}, "x")
    entry = History(tracker.store, open_signer).entries()[0]
    os.truncate(tmp_path / entry.key, 100)
    assert entry.id[:8] in html(tracker)


def test_a_state_shows_its_value_source_line_and_last_use(tmp_path: Path) -> None:
    state = nbckpt.State.of("sums", {"total": 12345})
    assert repr(state) == "ValueState('sums')"
    page = html(state)
    assert ">size<" not in page  # of nothing here it is known
    assert all(text in page for text in ("12345", "test_shown.py", "neither saved nor loaded"))
    with nbckpt.states.use_folder(tmp_path):
        state = nbckpt.State.of("sums", {"total": 1})
        nbckpt.save_all_states()
        assert "last saved" in html(state)
        nbckpt.load_state(state)
        assert "last loaded" in html(state)
        state.close()
        assert "not saved here" in html(state)


def test_a_state_in_a_notebooks_checkpoint_was_saved(tmp_path: Path) -> None:
    state, tracker = nbckpt.State.of("sums", {"total": 1}), nbckpt.Tracker(tmp_path)
    tracker.save({"x": 1}, "x", states=True)
    assert "last saved" in html(state)
    tracker.restore("x", {})
    assert "last loaded" in html(state)


def test_a_state_shows_its_attributes_without_a_super_init_call() -> None:
    class Epochs(nbckpt.State):
        def __init__(self) -> None:
            self.finished = 777
            self._hidden = 888

    page = html(Epochs())
    assert repr(Epochs()) == "Epochs(None)"
    assert ("finished" in page, "777" in page, "888" in page) == (True, True, False)
