"""What a stranger wrote reaches no terminal as it is: escapes, controls, forged lines, reversed text."""

from __future__ import annotations

import json
import logging
import re
import traceback
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_lines import command_lines
from IPython.core.error import UsageError as ShellUsageError

import nbckpt
from nbckpt import errors
from nbckpt.cli import main
from nbckpt.commands import TABLE, Session, parse
from nbckpt.commands.housekeeping import Tagged
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest, Skipped, now
from nbckpt.core.references import Ref
from nbckpt.core.trust import Signer
from nbckpt.mirror import AutoMirror, note
from nbckpt.render import Cell, Column, Fold, Hint, Page, Picture, Table
from nbckpt.store import open_store
from nbckpt.timeline import rescue
from nbckpt.tracker import Tracker
from nbckpt.trials.engine import shutdown
from notebook import conftest
from notebook.conftest import Notebook

notebook = conftest.notebook

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066\u2028\x85\x7f\r\nforged line"
IMAGE = "<img src=x onerror=alert(1)>"


def controls(said: str) -> set[str]:
    return {c for c in said if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}} - {"\n"}


def assert_harmless(said: str) -> None:
    assert not controls(said)
    assert not [line for line in said.splitlines() if line.startswith("forged line")]


def strange(manifest: Manifest) -> Manifest:
    """Return a manifest in which every text that is shown is hostile."""
    values = tuple(
        replace(
            value,
            name=f"{EVIL}{at}",
            preview=dict(value.preview) | {"type": EVIL, "text": EVIL, "columns": [[EVIL, EVIL]]},
        )
        for at, value in enumerate(manifest.values)
    )
    provenance = dict.fromkeys(("python", "system", "notebook"), EVIL) | {
        "packages": {EVIL: EVIL, "numpy": EVIL},
        "cell": {"count": 3, "source": EVIL},
    }
    return replace(
        manifest,
        message=EVIL,
        values=values,
        skipped=(Skipped(EVIL, EVIL, EVIL),),
        warnings=(EVIL,),
        deleted=(EVIL,),
        provenance=provenance,
        created_at=now(),
        id="",
    )


def make_experiment(store: Path) -> None:
    """Make an experiment whose keys, values, errors, output and folder's name are hostile."""

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(**{EVIL: 1.0}, loss=2.0, checkpoint={EVIL: EVIL, "x": 1})
        if config["fails"]:
            raise ValueError(EVIL)

    run = nbckpt.run(
        train,
        {EVIL: nbckpt.grid_search([EVIL, 2]), "fails": nbckpt.grid_search([0, 1])},
        name="e",
        executor="inline",
        folder=store / "experiments",
    )
    run.wait()
    for trial in run.trials:
        (trial.folder / "log.txt").write_text(EVIL)
    run.folder.rename(run.folder.with_name(f"e{EVIL}".replace("\r\n", " ").replace("/", "")))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of a stranger's in the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".nbckpt"
    stranger = Signer(b"s" * 32)
    with Tracker(folder) as tracker:
        made = tracker.save({"x": 1, "y": [2]}, "mine").manifest
    history = History(open_store(folder), lambda: stranger)
    for _ in range(2):
        manifest, _ = history.publish(strange(made))
        key = f"refs/{'%1B%5B2J%E2%80%AE%0Aforged line'}/00000001-{manifest.id}"
        history.store.put(key, f"{manifest.id}\n".encode())
        made = replace(made, values=made.values[:1])
    make_experiment(folder)
    (folder / "sync.json").write_text(json.dumps({"url": f"memory://{EVIL}", "period": 1, "signature": ""}))
    return folder


def ids(store: Path) -> list[str]:
    with Tracker(store) as tracker:
        return [entry.id for entry in tracker.entries()]


def commands(store: Path) -> list[list[str]]:
    newest, older, *_ = ids(store)
    experiment = next(
        path.name for path in (store / "experiments").iterdir() if not path.name.startswith(".")
    )
    lines = command_lines(f"""
status, ls --all, ls nothing, ls --find forged, show {newest}, show t0, show EXPERIMENT/t1@1
diff {older} {newest}, restore {newest}, restore EXPERIMENT/t0, snippet {newest}
trials, best --metric EVIL --mode min, plot --metric loss, pause, resume --errored
sync --status, push memory://elsewhere, push nothingEVIL://x, verify, doctor, help
trust {newest}, export {newest} file.zip, import file.zip, tag {newest} EVIL
rm {older} --dry-run, rm {older}, undo, gc, ls EVIL, EVIL
""")
    hostile = {"EXPERIMENT": experiment, "EVIL": EVIL}
    return [
        [re.sub("EXPERIMENT|EVIL", lambda word: hostile[word[0]], word) for word in line.split()]
        for line in lines
    ]


def test_commands_escape_control_characters_for_the_terminal(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in commands(store):
        main(words)
        out, err = capsys.readouterr()
        assert out or err, words
        assert_harmless(out)
        assert_harmless(err)


SYNCED = command_lines("status, sync --status, sync --status --json, push, pull, sync, sync off")


@pytest.fixture
def synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in the working folder that its user syncs to a hostile URL."""
    monkeypatch.chdir(tmp_path)
    with Tracker(tmp_path / ".nbckpt") as tracker:
        tracker.save({"x": 1}, "one")
    note.write(tmp_path / ".nbckpt" / note.FILE, note.Note(f"memory://there/{EVIL}{IMAGE}", 1.0))
    return tmp_path / ".nbckpt"


def test_a_signed_sync_url_reaches_the_terminal_escaped(
    synced: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for line in SYNCED:
        assert main(line.split()) == 0
        out, err = capsys.readouterr()
        assert "owned" in out or line == "status", line
        assert_harmless(out)
        assert_harmless(err)
    assert_harmless(caplog.text)


def test_a_signed_sync_url_reaches_html_escaped(synced: Path) -> None:
    store = open_store(synced)
    session = Session(Tracker(store), AutoMirror(store, in_background=False), {}, table=TABLE)
    for line in SYNCED:
        result = parse(TABLE, line.split(), "%ckpt").run(session)
        assert result is not None
        page = result._repr_mimebundle_()["text/html"]
        assert "&lt;img" in page or line == "status", line
        assert "<img" not in page
        assert not controls(page)


def test_no_part_of_a_page_acts_on_the_terminal_or_forges_a_line() -> None:
    page = Page(
        EVIL,
        (Table(EVIL, (Column(EVIL), Column(EVIL)), ((Cell(EVIL, EVIL), EVIL),)),),
        (EVIL,),
        (Fold(EVIL, EVIL), Fold(EVIL, EVIL, quiet=True)),
        (Picture(EVIL, b""),),
        (Hint(EVIL, EVIL),),
    )
    kind = type("Evil", (Tagged,), {"page": lambda _: page})
    shown = kind(Ref(1, "", "", ""))
    assert_harmless(str(shown))
    assert not controls(shown._repr_mimebundle_()["text/html"])


def test_errors_in_a_notebook_escape_control_characters(notebook: Notebook) -> None:
    with pytest.raises(ShellUsageError, match="owned") as caught:
        notebook.shell.run_line_magic("ckpt", f"show '{EVIL}'")
    assert_harmless(str(caught.value))


def test_lines_at_the_end_of_a_program_escape_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for say in (rescue.say, shutdown.say):
        say(EVIL)
        said = capsys.readouterr().err
        assert "owned" in said
        assert_harmless(said)


def test_log_messages_escape_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("nbckpt").warning("cannot read %s", EVIL)
    assert_harmless(caplog.messages[0])


def test_a_traceback_of_an_error_escapes_control_characters(subtests: pytest.Subtests) -> None:
    for kind in (kind for kind in vars(errors).values() if isinstance(kind, type)):
        with subtests.test(kind.__name__):
            assert_harmless(traceback.format_exception_only(kind(f"no checkpoint {EVIL}"))[-1])
