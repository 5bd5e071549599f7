"""nbckpt in a shell."""

from __future__ import annotations

import io
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_lines import command_lines
from tqdm import tqdm

import nbckpt
from nbckpt import Tracker
from nbckpt.cli import main

Shell = Callable[..., str]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with two versions of one name."""
    with Tracker(tmp_path / "store") as tracker:
        tracker.save({"x": 1}, "one", message="first")
        tracker.save({"x": 2}, "one")
    return str(tmp_path / "store")


@pytest.fixture
def shell(store: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return what runs a command on the store, and returns its output; or its error, if it fails."""

    def run(line: str, status: int = 0) -> str:
        assert main([*line.split(), "--store", store]) == status
        out, err = capsys.readouterr()
        return err if status else out

    return run


def refs(store: str) -> list[str]:
    """Return the names of all versions in a store, the oldest first."""
    with Tracker(store) as tracker:
        return [str(ref) for ref in reversed(tracker.history.refs())]


def test_ls_lists_the_checkpoints(store: str, shell: Shell) -> None:
    lines = shell("ls").splitlines()
    assert lines[0] == f"2 checkpoints in {store}"
    assert [line.split()[0] for line in lines[-2:]] == ["one@2", "one@1"]


def test_a_closed_output_pipe_is_not_an_error(store: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)  # as `| head` does, only sooner
    command = [sys.executable, "-m", "nbckpt", "ls", "--store", store]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_empty_command_line_shows_the_status(shell: Shell) -> None:
    out = shell("")
    assert "2 checkpoints" in out
    assert "%ckpt" not in out


def test_a_command_that_needs_variables_is_refused(shell: Shell) -> None:
    assert "needs live variables" in shell("save", 1)


def test_an_error_is_one_line_with_the_next_step(shell: Shell) -> None:
    text = "nbckpt: no checkpoint matches 'onee'. Did you mean 'one'? See `nbckpt ls`\n"
    assert shell("show onee", 1) == text


def test_a_word_of_another_tool_names_our_command(shell: Shell) -> None:
    for word, command in (("load", "restore"), ("delete", "rm"), ("remove", "rm"), ("list", "ls")):
        for line in (word, f"help {word}"):
            assert f"'{word}' is not a command. Did you mean '{command}'?" in shell(line, 1)


def test_an_unknown_word_is_a_one_line_error(shell: Shell) -> None:
    text = "'sav' is not a command. Did you mean 'save'? List the commands with `nbckpt help`."
    assert shell("sav", 1) == f"nbckpt: {text}\n"


def test_help_is_shown_with_exit_status_zero(shell: Shell) -> None:
    assert "--dry-run" in shell("restore --help")


def test_diff_of_two_checkpoints_works_in_a_shell(shell: Shell) -> None:
    assert "1 -> 2 (+100.0%)" in shell("diff one@1 one@2")


def test_an_import_counts_variables(tmp_path: Path, shell: Shell) -> None:
    with Tracker(tmp_path / "there") as tracker:
        tracker.save({"y": 1}, "other")
        tracker.export("other", tmp_path / "other.ckpt")
    assert "1 variable." in shell(f"import {tmp_path / 'other.ckpt'}")


def test_a_removal_that_frees_nothing_offers_no_gc(shell: Shell) -> None:
    assert shell("rm one").endswith("\nUndo: nbckpt undo\n")


def test_an_experiment_is_meant_before_an_id_that_begins_so(
    store: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBCKPT_STORE", store)
    with Tracker(store) as tracker:
        made = tracker.save({"x": 3}, "other").manifest.id[:6]
    nbckpt.run(lambda config: nbckpt.report(loss=1), name=made, executor="inline").wait()
    assert shell(f"show {made}").startswith(f"{made}: 1 trial")
    assert shell(f"rm {made}").startswith(f"Removed the experiment {made}.")
    assert len(refs(store)) == 3
    assert shell(f"rm {made}").startswith("Removed other@1.")  # only the checkpoint is left


def test_older_versions_are_removed_together(store: str, shell: Shell) -> None:
    """A version that has a second name stays."""
    with Tracker(store) as tracker:
        tracker.save({"x": 3}, "one")
        tracker.save({"x": 4}, "other")
    shell("tag one@1 raw")
    assert shell("rm one --older --dry-run").startswith("Would remove one@2. ")
    shell("rm one --older")
    assert {*refs(store)} == {"one@1", "raw@1", "one@3", "other@1"}
    assert "every older version has a second name" in shell("rm one --older", 1)
    assert "no older version" in shell("rm other --older", 1)


def test_a_version_without_checkpoint_is_no_newest_version(store: str, shell: Shell) -> None:
    """A save or a pull that died leaves the key of a name without its checkpoint."""
    with Tracker(store) as tracker:
        tracker.store.put(f"refs/one/00000003-{'f' * 64}", b"")
    shell("rm one --older")
    with Tracker(store) as tracker:
        assert {str(ref) for ref, _ in tracker.history.named(tracker.history.refs())} == {"one@2"}
    shell("rm one --older", 1)


def test_showing_a_damaged_checkpoint_has_exit_status_one(store: str, shell: Shell) -> None:
    (first, _) = sorted(Path(store, "checkpoints").iterdir())
    first.write_bytes(b"{}")
    shell("show one@1", 1)


def test_unreadable_experiments_are_a_one_line_error(
    store: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Path(store) / "experiments"
    refused.mkdir()
    iterdir = Path.iterdir

    def refuse(folder: Path) -> Any:
        if folder == refused:
            raise PermissionError(13, "Permission denied", str(folder))
        return iterdir(folder)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert shell("trials", 1) == f"nbckpt: cannot read {str(refused)!r}: Permission denied\n"


def test_an_empty_store_gives_a_hint_where_to_save(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "one", "--store", str(tmp_path)]) == 1
    assert "Make one in a notebook with `%ckpt save`\n" in capsys.readouterr().err


def test_a_removal_is_undone_by_another_process(store: str, shell: Shell) -> None:
    for ref in ("one@1", "one@2"):
        assert "Undo: nbckpt undo" in shell(f"rm {ref}")
    for versions in (["one@2"], ["one@2", "one@1"]):
        assert shell("undo").startswith("Restored ")
        assert refs(store) == versions
    assert "there is nothing to undo" in shell("undo", 1)


def test_one_undo_reverts_a_removal_of_two(store: str, shell: Shell) -> None:
    shell("rm one@1 one@2")
    shell("undo")
    with Tracker(store) as tracker:
        assert len(tracker.entries()) == 2
        assert not tracker.verify().damages


def test_undo_reports_a_damaged_record_of_a_removal(store: str, shell: Shell) -> None:
    shell("rm one@1 one@2")
    (note,) = (Path(store) / "removals").iterdir()
    note.write_bytes(note.read_bytes()[:-1] + b"x")
    assert "its note is damaged and may name only a part" in shell("undo")
    assert "is damaged" in shell("undo", 1)  # an older removal is not undone in its place


def test_a_collected_removal_cannot_be_undone(store: str, shell: Shell) -> None:
    shell("rm one@1")
    shell("gc")
    shell("undo", 1)
    with Tracker(store) as tracker:
        assert list(tracker.store.keys("removals/")) == []


def test_the_recorded_cell_is_shown_as_it_was_typed(store: str, shell: Shell) -> None:
    source = "%ckpt save two -m 'see %ckpt ls'"
    with Tracker(store) as tracker:
        tracker.save({"x": 1}, "two", origin={"cell": {"count": 1, "source": source}})
    assert f"    {source}\n" in shell("show two")


def test_damage_has_exit_status_two(store: str, shell: Shell) -> None:
    manifest = next(Path(store, "checkpoints").iterdir())
    manifest.write_bytes(manifest.read_bytes().replace(b'"first"', b'"other"').replace(b'"x"', b'"y"'))
    shell("verify", 2)


TRAIN = """
import nbckpt
def train(config):
    for i in range(3):
        if config.get("fails"):
            raise ValueError("it went wrong")
        nbckpt.report(loss=config["lr"] / (i + 1), checkpoint={"i": i})
"""


class Terminal(io.StringIO):
    """What a terminal was shown."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_progress_bar_with_files_and_rate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("tqdm.tqdm", lambda **options: tqdm(**options | {"delay": 0, "mininterval": 0}))
    with Tracker(tmp_path / "here") as tracker:
        tracker.save({"x": 1}, "one")
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["push", "--store", str(tmp_path / "here"), str(tmp_path / "there")]) == 0
    shown = terminal.getvalue()
    assert "2/3 files" in shown
    assert "checkpoints/" in shown
    assert "B/s" in shown
    assert shown.endswith("\r")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a function to train, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "cli_job.py").write_text(TRAIN)
    return tmp_path


def test_run_waits_and_shows_the_table(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "cli_job.py:train", "--grid", "lr=1,2", "--name", "e"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("e: 2 trials, 2 done")
    assert "%ckpt" not in out
    assert (job / ".nbckpt" / "experiments" / "e" / "t1" / "events.jsonl").is_file()
    assert main(["best", "--metric", "loss", "--mode", "max"]) == 0
    assert capsys.readouterr().out.startswith("Best of e by loss (max): e/t1")


@pytest.mark.slow
def test_a_shell_shows_pages_curves_and_logs(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "cli_says.py").write_text(
        TRAIN.replace("    for i", "    print('begins', config['lr'])\n    for i")
    )
    assert main(["run", "cli_says.py:train", "--grid", "lr=1,2,3", "--name", "e", "--concurrent", "1"]) == 0
    assert "begins 2" in capsys.readouterr().out
    assert main(["trials", "-n", "1", "--page", "2", "--metric", "loss", "--mode", "max"]) == 0
    out = capsys.readouterr().out
    assert "trials 2-2 of 3, the best by loss (max) first" in out
    assert "\nt1 " in out
    assert main(["show", "t1"]) == 0
    assert "last output (log.txt):\n    begins 2\n" in capsys.readouterr().out
    assert main(["plot", "e", "t1"]) == 0
    assert "pictures (shown in a notebook): loss of t1 of e" in capsys.readouterr().out
    assert main(["checkpoint"]) == 1
    assert "there is nothing to checkpoint in e: 3 trials, 3 done" in capsys.readouterr().err


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help"], ["--help"], ["-h"], ["--store", "x", "--help"]):
        assert main(words) == 0, words
        out = capsys.readouterr().out
        assert out.startswith("nbckpt COMMAND")
        assert "\nverify " in out


def test_run_takes_a_module_of_the_working_folder(job: Path) -> None:
    assert main(["run", "cli_job:train", "lr=1", "--executor", "inline"]) == 0


def test_a_failed_trial_has_exit_status_one(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "cli_job.py:train", "lr=1", "--grid", "fails=0,1", "--name", "e"]) == 1
    assert "t1: ValueError: it went wrong" in capsys.readouterr().out
    assert main(["trials"]) == 0
    assert main(["resume", "--errored"]) == 1


def test_an_unreadable_run_is_a_one_line_error(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        ("train", "In a shell write module:function or file.py:function"),
        ("cli_job.py:train opt=adam", "For a text write it in quotes: \"'adam'\""),
        ("no_such:train", "cannot import no_such: ModuleNotFoundError"),
        ("no_such.py:train", "nbckpt: there is no file 'no_such.py'"),
    ):
        assert main(["run", *words.split()]) == 1
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1


def is_paused(job: Path) -> bool:
    journal = (job / ".nbckpt/experiments/e/t0/events.jsonl").read_text()
    return '"event":"pause"' in journal.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (getattr(signal, "SIGHUP", signal.SIGTERM), 129)],
)
def test_a_signal_pauses_trials_with_a_hint_how_to_resume(job: Path, number: int, status: int) -> None:
    (job / "cli_slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "nbckpt", "run", "cli_slow.py:train", "--name", "e"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"it runs\n"
        process.send_signal(number)
        if number != signal.SIGINT:
            process.send_signal(number)  # as a shell that closes does
        _, err = process.communicate(timeout=60)
    assert process.returncode == status
    said = err.decode().strip()
    # The second, where it came before the command had begun to wait.
    assert said in {
        "nbckpt: interrupted: 1 trial, 1 paused. Resume: nbckpt resume e",
        "nbckpt: interrupted; running trials are paused. Show them: nbckpt trials",
    }
    assert is_paused(job)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals there")
def test_closing_the_terminal_pauses_trials(job: Path) -> None:
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    (job / "cli_slow.py").write_text(SLOW.replace("nbckpt.report", "print('.'); nbckpt.report"))
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "nbckpt", "run", "cli_slow.py:train", "--name", "e"]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    control = partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0)
    with subprocess.Popen(command, **streams, start_new_session=True, preexec_fn=control) as process:
        os.close(theirs)
        assert b"it" in os.read(ours, 2)
        os.close(ours)  # sends SIGHUP
        process.wait(60)
    assert is_paused(job)


def test_run_keeps_an_ignored_hangup_signal_ignored(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = getattr(signal, "SIGHUP", signal.SIGTERM)
    before = signal.signal(number, signal.SIG_IGN)
    try:
        (job / "cli_hup.py").write_text(
            f"import signal\ndef train(config):\n    signal.raise_signal({number})\n"
        )
        assert main(["run", "cli_hup.py:train", "--executor", "inline"]) == 0
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


SLOW = """
import time, nbckpt
def train(config):
    print("it runs", flush=True)
    while True:
        nbckpt.report(loss=1)
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_a_terminal_shows_a_temporary_status_line(job: Path) -> None:
    main_end, child_end = os.openpty()
    command = [sys.executable, "-m", "nbckpt", "run", "cli_line.py:train", "--name", "e"]
    (job / "cli_line.py").write_text(LINE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=child_end) as process:
        os.close(child_end)
        shown = b""
        while b"1 running" not in shown:
            shown += os.read(main_end, 1000)
        (job / "go").touch()
        out, _ = process.communicate(timeout=60)
    shown += os.read(main_end, 100_000)
    os.close(main_end)
    assert shown.endswith(b"\r\x1b[K")
    assert b"\n" not in shown
    assert out.startswith(b"e: 1 trial, 1 done")


LINE = """
import time
from pathlib import Path
def train(config):
    while not Path("go").exists():
        time.sleep(0.01)
"""


ODD = {"zero": "a\0b", "half": "\ud800", "long": "x" * 5000, "deep": "(" * 5000}
TAKING_ODD = command_lines("""
ls --store ODD, export one ODD --store STORE, import ODD --store STORE
reproduce one -o ODD --store STORE, reproduce ODD --store STORE
push ODD --store STORE, sync ODD --store STORE, track base lr=ODD --store STORE
""")


def test_a_word_that_no_path_can_be_is_a_one_line_error(
    store: str, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    for line, (kind, odd) in itertools.product(TAKING_ODD, ODD.items()):
        with subtests.test(line.replace("ODD", kind)):
            words = [word.replace("STORE", store).replace("ODD", odd) for word in line.split()]
            assert main(words) == 1
            (err,) = capsys.readouterr().err.splitlines()
            assert err.startswith("nbckpt: ")
