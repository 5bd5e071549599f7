"""The log of a trial: what its code prints, and nothing else, in a file of limited size."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials.conftest import SECONDS, ran

import nbckpt
from nbckpt.trials import Experiment, Trial
from nbckpt.trials.executors.output import Speaker, teeing
from nbckpt.trials.model.log import LARGEST, WIDEST, Log, last_lines
from nbckpt.trials.views.trial_page import TrialShown

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the functions of a notebook


def finished(train: Any, config: Any = None, **options: Any) -> Experiment:
    return ran(train, config, name="e", **options)


def log_of(train: Any, config: Any = None, **options: Any) -> list[str]:
    return finished(train, config, **options).trials[0].log()


def prints(config: dict[str, Any]) -> None:
    for i in range(3):
        print(f"out {config['x']} {i}\n", end="")  # in one piece, as another trial prints meanwhile
        nbckpt.report(i=i)
    print("the end\n", end="", file=sys.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["thread", "inline", "process"])
def test_a_trials_output_is_logged_and_still_printed(
    executor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = finished(prints, {"x": nbckpt.grid_search([1, 2])}, executor=executor, max_concurrent=2)
    assert [sorted(trial.log()) for trial in experiment.trials] == [
        [f"out {x} 0", f"out {x} 1", f"out {x} 2", "the end"] for x in (1, 2)
    ]
    seen = capsys.readouterr()
    out, err = (re.sub(r"(?m)^\[t\d\] ", "", text).splitlines() for text in seen)  # named while both run
    assert sorted(out) == [f"out {x} {i}" for x in (1, 2) for i in range(3)]
    assert err == ["the end"] * 2


def test_output_of_a_process_is_logged_after_stdout_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    later = io.StringIO()

    class Swaps(nbckpt.trials.Callback):
        def on_trial_start(self, trial: Trial) -> None:
            monkeypatch.setattr(sys, "stdout", later)

    experiment = finished(prints, {"x": 1}, executor="process", callbacks=[Swaps()])
    assert sorted(experiment.trials[0].log()) == ["out 1 0", "out 1 1", "out 1 2", "the end"]
    assert later.getvalue() == "out 1 0\nout 1 1\nout 1 2\n"


def test_failures_and_retries_append_to_the_log() -> None:
    def train(config: dict[str, Any]) -> None:
        print("attempt")
        raise ValueError("no")

    assert log_of(train, max_failures=1) == ["attempt"] * 2


def test_output_of_threads_with_the_trials_context_is_logged() -> None:
    from contextvars import copy_context

    def train(config: dict[str, Any]) -> None:
        for run in (copy_context().run, lambda print_: print_()):
            thread = threading.Thread(target=run, args=(lambda: print("inside"),))
            thread.start()
            thread.join()

    assert log_of(train) == ["inside"]


def test_output_of_other_code_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    began, go = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        began.set()
        assert go.wait(SECONDS)

    experiment = nbckpt.run(train)
    assert began.wait(SECONDS)
    print("not the trial's")
    go.set()
    assert experiment.wait(SECONDS)
    assert experiment.trials[0].log() == []
    assert not (experiment.trials[0].folder / "log.txt").exists()
    assert capsys.readouterr().out == "not the trial's\n"


def test_the_streams_are_unchanged_after_the_last_trial() -> None:
    own = io.StringIO()
    with contextlib.redirect_stdout(own):
        streams = sys.stdout, sys.stderr
        before = [dict(getattr(stream, "__dict__", {})) for stream in streams]
        finished(prints, {"x": 1})
        assert (sys.stdout, sys.stderr) == streams
        assert [getattr(stream, "__dict__", {}) for stream in streams] == before
        assert "write" not in before[0]
    assert own.getvalue().count("out 1") == 3


def test_nested_redirects_and_tees_keep_the_streams_intact() -> None:
    outer, inner = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(outer):
        with teeing(), contextlib.redirect_stdout(inner):
            print("inner")
            with teeing():
                print("teed")
        print("outer")
    assert (inner.getvalue(), outer.getvalue()) == ("inner\nteed\n", "outer\n")
    assert "write" not in {*vars(inner), *vars(outer)}


def test_a_write_method_set_by_others_is_kept() -> None:
    class Stream(io.StringIO):
        pass

    stream, theirs = Stream(), list[str]()
    stream.write = theirs.append  # type: ignore[method-assign, assignment]
    before = vars(stream)["write"]
    with contextlib.redirect_stdout(stream):
        with teeing():
            print("x", end="")
        assert vars(stream)["write"] is before
        with teeing():
            stream.write = mine = list[str]().append  # type: ignore[method-assign, assignment]
        assert vars(stream)["write"] is mine
    assert "".join(theirs) == "x"


class Shared(io.StringIO):
    """A stream that passes on what it is given to another one."""

    def __init__(self, other: io.StringIO) -> None:
        super().__init__()
        self._other = other

    def write(self, text: str) -> int:
        return self._other.write(text)


def test_output_of_two_streams_that_share_one_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bottom = io.StringIO()
    monkeypatch.setattr(sys, "stdout", bottom)
    monkeypatch.setattr(sys, "stderr", Shared(bottom))
    assert log_of(prints, {"x": 1}) == ["out 1 0", "out 1 1", "out 1 2", "the end"]
    assert bottom.getvalue().count("the end") == 1


class Silent:
    """A stream whose attributes nobody may set."""

    __slots__ = ("text",)

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


@pytest.mark.parametrize("stream", [None, Silent()])
def test_a_stream_that_cannot_be_teed_is_unchanged(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    assert finished(lambda config: print("to nobody")).trials[0].status == "TERMINATED"
    assert stream is None or stream.text == "to nobody\n"


def test_a_trial_continues_if_its_log_cannot_be_written(
    experiments: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def train(config: dict[str, Any]) -> None:
        (experiments / "e" / "t0" / "log.txt").mkdir()
        for i in range(3):
            print("lost", i)
            nbckpt.report(i=i)

    trial = finished(train).trials[0]
    assert (trial.iteration, trial.status, trial.log()) == (3, "TERMINATED", [])
    assert trial.note.startswith("done; the output is not logged: cannot write")
    assert len([message for message in caplog.messages if "is not logged" in message]) == 1


def fails(error: Exception) -> None:
    pytest.fail(str(error))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path, fails)


def test_a_large_log_keeps_its_newest_lines(log: Log, tmp_path: Path) -> None:
    line = "x" * 99
    for i in range(25_000):
        log.write(f"{i:07} {line}\n")
    log.close()
    log.write("after its end\n")
    text = (tmp_path / "log.txt").read_text().splitlines()
    assert LARGEST / 3 < (tmp_path / "log.txt").stat().st_size <= LARGEST
    assert [int(row.split()[0]) for row in text] == list(range(25_000 - len(text), 25_000))
    assert {row.split()[1] for row in text} == {line}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.txt"]


def test_a_log_that_is_open_elsewhere_is_truncated_later(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Path] = []
    replace = Path.replace

    def refuses_first(self: Path, target: Path) -> Path:
        held.append(self)
        if len(held) < 3:
            raise PermissionError("it is open elsewhere")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuses_first)
    for i in range(11_000):
        log.write(f"{i:099}\n")
    log.close()
    assert len(held) == 3
    kept = [int(line) for line in (tmp_path / "log.txt").read_text().splitlines()]
    assert kept == list(range(kept[0], 11_000))
    assert len(kept) * 100 < LARGEST
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.txt"]


def test_a_log_that_can_never_be_truncated_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(self: Path, target: Path) -> Path:
        raise PermissionError("no")

    said: list[Exception] = []
    log = Log(tmp_path, said.append)
    monkeypatch.setattr(Path, "replace", refuses)
    for _ in range(8):
        log.write("x" * (LARGEST // 2 - 1) + "\n")
    log.close()
    assert len(said) == 1
    assert (tmp_path / "log.txt").stat().st_size < 3 * LARGEST
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.txt"]


def test_a_text_larger_than_the_log_is_cut(log: Log, tmp_path: Path) -> None:
    log.write("é" * 3 * LARGEST)
    log.write("\nend\n")
    log.close()
    assert (tmp_path / "log.txt").stat().st_size <= LARGEST
    assert last_lines(tmp_path, 1) == ["end"]


SHOWN: list[tuple[str, list[str]]] = [
    ("", []),
    ("a\nb\n", ["a", "b"]),
    ("a\r\nb", ["a", "b"]),
    ("\n\na\n\n", ["", "", "a", ""]),
    ("0%\r50%\r100%\nnext\n", ["100%", "next"]),
    ("50%\r", ["50%"]),
    ("1/9" + "\b" * 9 + "2/9", ["2/9"]),
    ("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07\n", ["red link"]),
    ("\x07bell\x00\u202e\n", ["\\x07bell\\x00\\u202e"]),
    ("\ttab", [" tab"]),
    ("x" * 500, ["x" * (WIDEST - 1) + "…"]),
    ("\ud800", ["\\ud800"]),
]


def test_log_lines_look_as_in_a_terminal(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for at, (written, seen) in enumerate(SHOWN):
        folder = tmp_path / str(at)
        folder.mkdir()
        log = Log(folder, fails)
        log.write(written)
        log.close()
        with subtests.test(written=written):
            assert last_lines(folder, 40) == seen


@given(st.text(st.characters(), max_size=300))
def test_log_lines_are_printable_and_match_the_printed_lines(text: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        log = Log(Path(place), fails)
        log.write(text)
        log.close()
        lines = last_lines(Path(place), 1000)
    assert all(line.isprintable() and len(line) <= WIDEST for line in lines)
    assert len(lines) <= text.count("\n") + 1


def test_only_the_last_lines_are_read(log: Log, tmp_path: Path) -> None:
    log.write("".join(f"{i}\n" for i in range(100)))
    log.close()
    trial = Trial(tmp_path, {})
    assert trial.log() == [str(i) for i in range(60, 100)]
    assert (trial.log(2), trial.log(0)) == (["98", "99"], [])


def test_a_shown_trial_includes_its_log_escaped() -> None:
    experiment = finished(lambda config: print("<script>alert(1)</script>\x1b[2J"))
    shown = TrialShown(experiment, experiment.trials[0])._repr_mimebundle_()
    assert "<script>alert" not in shown["text/html"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown["text/html"]
    assert "    <script>alert(1)</script>\n" in shown["text/plain"] + "\n"
    assert "\x1b" not in shown["text/plain"] + shown["text/html"]


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["thread", "process"])
@pytest.mark.parametrize("prints_first", [True, False])
def test_a_log_txt_written_by_the_trial_is_kept_and_noted(
    executor: str, prints_first: bool, tmp_path: Path
) -> None:
    def train(config: dict[str, Any]) -> None:
        file = Path(config["file"])
        if prints_first:
            print("ours")
            nbckpt.report(i=0)
            while not file.exists():  # a process's output comes a little later
                pass
        file.write_text("theirs\n")
        print("ours")
        nbckpt.report(i=1)

    file = tmp_path / "store/experiments/e/t0/log.txt"
    trial = finished(train, {"file": str(file)}, executor=executor).trials[0]
    assert file.read_text() == "theirs\n"
    assert "writes" in trial.note
    assert "Give its own file another name" in trial.note


def test_a_log_txt_replaced_by_the_trial_is_kept(tmp_path: Path) -> None:
    said: list[Exception] = []
    log = Log(tmp_path, said.append, is_new=True)
    log.write("ours\n")
    (tmp_path / "new").write_text("ours\n")
    (tmp_path / "new").replace(tmp_path / "log.txt")
    log.write("more\n")
    log.close()
    assert (tmp_path / "log.txt").read_text() == "ours\n"
    assert len(said) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks there")
@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_a_line_printed_by_a_fork_does_not_end_the_log(
    executor: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def train(config: dict[str, Any]) -> None:
        print("before", flush=True)
        child = os.fork()
        if not child:
            print("a worker", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("after", flush=True)

    trial = finished(train, executor=executor).trials[0]
    assert (trial.log(), trial.note) == (["before", "after"], "done")
    assert capfd.readouterr().out == "before\na worker\nafter\n"


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_output_lines_of_parallel_trials_have_their_names(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(config: dict[str, Any]) -> None:
        meet(tmp_path, "begin", config["x"])
        for i in range(50):
            print("line", i, "of", config["x"])
        print("no end", end="")
        nbckpt.report(i=0)
        meet(tmp_path, "end", config["x"])

    experiment = finished(train, {"x": nbckpt.grid_search([0, 1])}, executor=executor, max_concurrent=2)
    lines = capsys.readouterr().out.splitlines()
    for x in (0, 1):
        named = [line for line in lines if line.startswith(f"[t{x}] ")]
        assert named == [f"[t{x}] line {i} of {x}" for i in range(50)] + [f"[t{x}] no end"]
        assert experiment.trials[x].log(100) == [f"line {i} of {x}" for i in range(50)] + ["no end"]
    assert len(lines) == 102


def meet(folder: Path, place: str, x: int) -> None:
    """Wait until both trials are there; they may be in processes of their own."""
    import time

    folder.joinpath(f"{place}{x}").touch()
    while not folder.joinpath(f"{place}{1 - x}").exists():
        time.sleep(0.001)


def test_output_of_a_single_trial_has_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    def train(config: dict[str, Any]) -> None:
        print("50%", end="\r")
        print("no end", end="")

    finished(train, {"x": nbckpt.grid_search([0, 1])}, max_concurrent=1)
    assert capsys.readouterr().out == "50%\rno end" * 2


def test_progress_bars_of_parallel_trials_have_their_names() -> None:
    speaker = Speaker("t3")
    with teeing():
        with teeing():
            assert speaker.says(sys.stdout, "\r 10%") == "\r"
            assert speaker.says(sys.stdout, "\r 20%") == "[t3]  10%\r"
        assert speaker.says(sys.stdout, "\r 30%") == "[t3]  20%\r[t3]  30%"
        assert speaker.says(sys.stdout, "\n") == "\n"
