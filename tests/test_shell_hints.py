"""In a shell, no text offers a command that a shell refuses: results, hints, errors, help and the log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_lines import command_lines

from nbckpt import Tracker
from nbckpt.cli import main
from nbckpt.commands import IN_NOTEBOOKS, TABLE

ACCEPTED = sorted(set(TABLE) - IN_NOTEBOOKS)
REFUSED = sorted(IN_NOTEBOOKS)
Shell = Callable[[list[str]], dict[str, str]]
OFFERS = re.compile(rf"nbckpt ({'|'.join(REFUSED)})\b")

JOB = """
import nbckpt
def train(config):
    for step in (1, 2):
        if config["lr"] > 2:
            raise ValueError("it went wrong")
        nbckpt.report(loss=config["lr"] / step, checkpoint={"step": step})
"""

LINES = command_lines("""
status, ls, ls --all, ls -n 1, show, show one, diff, diff one, diff one one@1
undo, undo 2, undo --rerun, redo, history, snippet, snippet one, reproduce one, reproduce one -o again
run, trials, best, results, compare, plot, pause, stop, checkpoint, resume, resume --errored
tag one other, note one better edges, untag one other, trust, trust one, trust --store
verify, verify --repair, push, push copy, pull, pull copy
sync, sync copy --now, sync --status, sync off, export one one.zip, import one.zip
rm one --dry-run, rm one@1, rm one --older, undo, gc --dry-run, gc, doctor, help, help ls
""")

OF_TRIALS = command_lines("""
trials e, trials e --where lr<2, show e, show e/t0, show e/t0@1, best e --metric loss --mode min
results e, results e/t0 --csv, compare e/t0 e/t1, pause e, stop e, checkpoint e, resume e
tag e/t0 good, note e/t0 better edges, untag e/t0 good, export e e.html
rm e/t0, rm e/t0@1 --dry-run, rm e, undo
run job.py:train lr=1 --name f --executor inline, run job.py:train lr=3 --name g --executor inline
show g/t0, trials g, resume g --errored
""")

STRANGE = command_lines(
    "sync --status, ls, show one, diff one one@1, snippet one, export one one.zip, reproduce one"
)
DAMAGED = command_lines(
    "status, ls, show one, show one@1, diff one one@1, verify, verify --repair, rm one, undo, gc"
)
WRONG = [f"{name} {words}".strip() for name in TABLE for words in ("", "nothing", "--nothing")]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a store that is not made yet, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path / ".nbckpt"


def fill(store: Path) -> None:
    with Tracker(store) as tracker:
        tracker.save({"x": 1}, "one", message="first")
        tracker.save({"x": 2, "lost": iter([])}, "one")


@pytest.fixture
def in_a_shell(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Shell:
    """Return what runs commands, and returns all that each of them prints and logs."""

    def run(line: str) -> str:
        caplog.clear()
        main(line.split())
        return "".join([*capsys.readouterr(), caplog.text])

    return lambda lines: {line: run(line) for line in lines}


def offers(shown: dict[str, str]) -> dict[str, list[str]]:
    """Return the lines that offer a refused command, or `%ckpt` without the word notebook."""
    wrong = {
        line: [
            said
            for said in text.splitlines()
            if OFFERS.search(said) or ("%ckpt" in said and "notebook" not in said)
        ]
        for line, text in shown.items()
    }
    return {line: said for line, said in wrong.items() if said}


def test_the_lines_have_each_command_that_a_shell_accepts() -> None:
    assert {line.split()[0] for line in LINES} >= set(ACCEPTED)


def test_no_text_of_an_empty_store_offers_a_refused_command(store: Path, in_a_shell: Shell) -> None:
    shown = in_a_shell(["", *LINES, *WRONG])
    assert all(shown.values())
    assert offers(shown) == {}


@pytest.mark.slow
def test_no_text_of_a_filled_store_offers_a_refused_command(store: Path, in_a_shell: Shell) -> None:
    fill(store)
    assert offers(in_a_shell(["", *LINES, *WRONG])) == {}


@pytest.mark.slow
def test_no_text_about_experiments_offers_a_refused_command(store: Path, in_a_shell: Shell) -> None:
    fill(store)
    start = "run job.py:train --grid lr=1,2 --name e --executor inline"
    assert offers(in_a_shell([start, "", *OF_TRIALS, *LINES, *WRONG])) == {}


def test_no_text_about_strangers_offers_a_refused_command(
    store: Path, in_a_shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(store)
    note = {"url": "memory://theirs", "period": 1, "signature": ""}
    (store / "sync.json").write_text(json.dumps(note))
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    shown = in_a_shell(STRANGE)
    assert "%ckpt restore one@2 --trust" in shown["show one"]
    assert "nbckpt sync memory://theirs" in shown["sync --status"]
    assert offers(shown) == {}


def test_no_text_about_damage_offers_a_refused_command(store: Path, in_a_shell: Shell) -> None:
    fill(store)
    for pack in [path for path in (store / "packs").rglob("*") if path.is_file()]:
        pack.write_bytes(b"{}")
    min((store / "checkpoints").iterdir()).write_bytes(b"{}")
    shown = in_a_shell(DAMAGED)
    assert "damage" in shown["verify"]
    assert offers(shown) == {}


def test_help_on_a_notebook_command_says_where_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    for name in REFUSED:
        for words in (["help", name], [name, "--help"]):
            assert main(words) == 0
            out = capsys.readouterr().out
            assert out.startswith(f"usage: %ckpt {name} ")
            assert "only in a notebook" in " ".join(out.split())
            assert not OFFERS.search(out)
