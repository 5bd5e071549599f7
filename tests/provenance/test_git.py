"""git: the commit, the changes, their limits, its failures, and its answer for the first save."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

import nbckpt
from nbckpt.provenance import background, checkpoint
from nbckpt.provenance import git as provenance_git
from nbckpt.provenance.background import Question
from nbckpt.provenance.checkpoint import Origin
from nbckpt.provenance.git import Code, Git, GitError, read_code
from nbckpt.provenance.head import read_head

Asks = Callable[..., str]


def code(folder: Path, **more: float) -> Code:
    read = read_code(folder, **{"limit_s": 60, **more})
    assert read is not None
    return read


def fake_git(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in front of git."""
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_clean_tree_has_a_commit_and_no_patch(repository: Path, git: Asks) -> None:
    read = code(repository)
    assert read.commit == git("rev-parse", "HEAD").strip()
    assert (read.branch, read.root, read.folder, read.patch) == ("main", str(repository), ".", b"")
    assert not read.is_dirty


def test_a_folder_below_the_root_is_named(repository: Path) -> None:
    (repository / "a/b").mkdir(parents=True)
    assert code(repository / "a/b").folder == "a/b"


def test_a_folder_without_a_repository_has_no_code(tmp_path: Path) -> None:
    assert read_code(tmp_path) is None


def test_a_repository_without_a_commit_has_no_patch(git: Asks, tmp_path: Path) -> None:
    (tmp_path / "repository/a.py").write_text("x")
    git("add", ".")
    read = code(tmp_path / "repository")
    assert (read.commit, read.branch, read.patch, read.changed) == ("", "main", b"", ("a.py",))


def test_a_commit_without_a_branch_has_none(repository: Path, git: Asks) -> None:
    git("checkout", "--quiet", "--detach")
    assert code(repository).branch == ""


@pytest.mark.parametrize("staged", [True, False])
def test_changes_are_a_patch_that_applies(changed: Path, git: Asks, *, staged: bool, tmp_path: Path) -> None:
    (changed / "data.bin").write_bytes(bytes(range(256)))
    git("add", "data.bin")
    (changed / ".gitignore").unlink()
    if staged:
        git("add", "-A")
    read = code(changed)
    assert set(read.changed) == {"train.py", "data.bin", ".gitignore"}
    git("clone", "--quiet", str(changed), str(tmp_path / "clone"))
    (tmp_path / "patch").write_bytes(read.patch)
    git("apply", str(tmp_path / "patch"), folder=tmp_path / "clone")
    assert (tmp_path / "clone/train.py").read_text() == "RATE = 2\n"
    assert (tmp_path / "clone/data.bin").read_bytes() == bytes(range(256))
    assert not (tmp_path / "clone/.gitignore").exists()


def test_names_with_spaces_umlauts_and_quotes_are_kept(repository: Path, git: Asks) -> None:
    names = {"a b.py", "ü.py", 'q"q.py', "new\nline.py"}
    for name in names:
        (repository / name).write_text("1\n")
    assert set(code(repository).untracked) == names
    git("add", ".")
    git("commit", "--quiet", "-m", "names")
    for name in names:
        (repository / name).write_text("2\n")
    read = code(repository)
    assert (set(read.changed), read.left_out) == (names, ())
    assert read.patch.count(b"+2\n") == 4


def test_a_renamed_file_is_one_change(repository: Path, git: Asks) -> None:
    git("mv", "train.py", "fit.py")
    assert code(repository).changed == ("fit.py",)


def test_untracked_files_are_named_and_not_read(repository: Path) -> None:
    os.mkfifo(repository / "pipe")
    (repository / "secret.txt").write_text("hidden words")
    (repository / "secret.txt").chmod(0)
    read = code(repository)
    assert set(read.untracked) >= {"secret.txt"}
    assert b"hidden words" not in read.patch


@pytest.mark.skipif(sys.platform != "linux", reason="strace and inotify are Linux's")
def test_ignored_files_are_never_opened(changed: Path) -> None:
    ignored = changed / "ignored.txt"
    ignored.write_text("secret")
    os.utime(ignored, (1, 1))
    before = ignored.stat().st_atime_ns
    os.mkfifo(changed / "ignored-pipe")  # to open it takes for ever
    read = code(changed)
    assert b"secret" not in read.patch
    assert not any("ignored" in name for name in (*read.untracked, *read.changed))
    assert ignored.stat().st_atime_ns == before


@pytest.mark.slow
def test_a_large_patch_is_cut_and_the_rest_named(repository: Path, git: Asks) -> None:
    for number in range(6):
        (repository / f"f{number}.txt").write_text("")
    git("add", ".")
    git("commit", "--quiet", "-m", "files")
    for number in range(6):
        (repository / f"f{number}.txt").write_text("0123456789\n" * 30_000)
    read = code(repository)
    assert len(read.patch) <= provenance_git.MOST_PATCH
    assert 0 < len(read.left_out) < 6
    assert read.patch.count(b"diff --git ") == 6 - len(read.left_out)


def test_a_huge_file_is_left_out_without_being_read(repository: Path) -> None:
    with (repository / "train.py").open("wb") as file:
        file.truncate(100 << 20)
    (repository / ".gitignore").write_text("ignored*\nmore\n")
    read = code(repository)
    assert read.left_out == ("train.py",)
    assert b"+more" in read.patch


def test_sources_come_before_notebooks(repository: Path, git: Asks) -> None:
    for name in ("a.ipynb", "z.py"):
        (repository / name).write_text("")
    git("add", ".")
    git("commit", "--quiet", "-m", "files")
    (repository / "a.ipynb").write_text("0123456789\n" * 99_000)
    (repository / "z.py").write_text("x = 1\n")
    read = code(repository)
    assert b"+x = 1" in read.patch
    assert read.left_out == ("a.ipynb",)


def test_a_changed_submodule_is_named(repository: Path, git: Asks, tmp_path: Path) -> None:
    git("init", "--quiet", str(tmp_path / "sub"), folder=tmp_path)
    (tmp_path / "sub/a.py").write_text("1\n")
    git("add", ".", folder=tmp_path / "sub")
    git("commit", "--quiet", "-m", "sub", folder=tmp_path / "sub")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "sub"), "sub")
    git("commit", "--quiet", "-m", "with sub")
    assert not code(repository).is_dirty
    (repository / "sub/a.py").write_text("2\n")
    (repository / "train.py").write_text("RATE = 2\n")
    read = code(repository)
    assert read.left_out == ("sub (submodule)",)
    assert b"sub" not in read.patch


def test_the_remote_has_no_credentials(repository: Path, git: Asks) -> None:
    git("remote", "add", "other", "git@example.org:a.git")
    assert code(repository).remote == "git@example.org:a.git"
    git("remote", "add", "origin", "https://me:pass@example.org/a.git")
    assert code(repository).remote == "https://***@example.org/a.git"


def test_programs_that_the_repository_configures_do_not_run(
    repository: Path, git: Asks, tmp_path: Path
) -> None:
    for name in ("core.fsmonitor", "diff.external", "diff.evil.textconv", "core.pager"):
        git("config", name, f"touch {tmp_path / 'ran'};")
    (repository / ".gitattributes").write_text("*.py diff=evil\n")
    (repository / "train.py").write_text("RATE = 2\n")
    assert b"+RATE = 2" in code(repository).patch
    assert not (tmp_path / "ran").exists()


def test_git_that_is_missing_is_a_note(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    read = code(repository)
    assert (read.note, read.root) == ("git is not installed", str(repository))


def test_git_that_fails_is_a_note(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path / "bin", "echo fatal: dubious ownership >&2; exit 128", monkeypatch)
    assert code(repository).note == "git status failed: fatal: dubious ownership"


def test_git_that_hangs_is_ended_with_its_children(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    fake_git(tmp_path / "bin", f"sleep 600 & echo $$ $! > {pids}; wait", monkeypatch)
    git = Git(repository, time.monotonic() + 3600, exit_s=30)
    asked: list[str] = []

    def ask() -> None:
        try:
            git.ask("status")
        except GitError as error:
            asked.append(str(error))

    monkeypatch.setattr(provenance_git.OutputReader, "wait", lambda *_: _until(pids.exists))
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(60)
    assert asked == ["git status took too long"]
    for pid in map(int, pids.read_text().split()):
        assert _until(lambda pid=pid: not _runs(pid))  # type: ignore[misc]


def _until(happened: Callable[[], bool]) -> bool:
    """Wait until something happened. Return False, as a reader that gives up does, if it was the file."""
    pause = threading.Event()
    for _ in range(600):
        if happened():
            return happened.__name__ != "exists"
        pause.wait(0.05)
    return False


def _runs(pid: int) -> bool:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1] not in {"", "Z"}


def test_a_short_limit_ends_git(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path / "bin", "sleep 600", monkeypatch)
    assert code(repository, limit_s=0.05).note == "git status took too long"


def test_without_processes_the_note_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = OSError(138, "emscripten does not support processes")
    monkeypatch.setattr(subprocess, "Popen", Mock(side_effect=error))
    assert "emscripten does not support processes" in code(repository).note


def test_without_threads_questions_are_answered_at_once(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no new thread")))
    monkeypatch.setattr(background, "read_code", lambda folder: Code(commit="f" * 40, root=str(folder)))
    question = background.ask((str(repository),))
    assert question.answer.done()


def test_questions_before_git_is_asked_share_the_answer(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    begins, goes_on = threading.Event(), threading.Event()

    def read(folder: Path) -> None:
        asked.append(folder)
        begins.set()
        goes_on.wait(60)

    monkeypatch.setattr(background, "read_code", read)
    first = background.ask((str(repository),))
    begins.wait(60)
    others = [background.ask((str(repository),)) for _ in range(50)]
    goes_on.set()
    background.settle(60)
    assert first.answer.done()
    assert all(question.answer.done() for question in others)
    assert len(asked) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_asks_git_itself(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begins, goes_on = threading.Event(), threading.Event()

    def waits(_: Path) -> None:
        begins.set()
        goes_on.wait(60)

    monkeypatch.setattr(background, "read_code", waits)
    background.ask((str(repository),))
    begins.wait(60)
    pid = os.fork()
    if pid == 0:  # the thread of the parent, which is asking, does not exist here
        background.read_code = lambda _: Code(commit="f" * 40)  # type: ignore[assignment]
        answer = background.ask((str(repository),)).answer.result(60)[0]
        os._exit(0 if answer is not None and answer.commit == "f" * 40 else 1)
    goes_on.set()
    assert os.waitpid(pid, 0)[1] == 0
    background.settle(60)


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what git has answered in this process."""
    monkeypatch.setattr(background, "known_answers", {})


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git never answer."""
    monkeypatch.setattr(background, "ask", lambda folders, *_: Question(folders))


def test_a_new_tracker_has_asked_git_before_its_first_save(
    changed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbckpt.Tracker(changed.parent / "store")
    background.settle(60)
    monkeypatch.setattr(checkpoint, "FRESH_S", 3600)
    monkeypatch.setattr(background, "ask", lambda *_: pytest.fail("the answer is there"))
    _, code = Origin().document()
    assert code is not None
    assert b"+RATE = 2" in code.patch


@pytest.mark.usefixtures("silent")
def test_a_save_before_git_answers_has_its_commit(repository: Path, git: Asks) -> None:
    document, _ = Origin().document(wait_s=0)
    assert document["code"]["commit"] == git("rev-parse", "HEAD").strip()
    assert document["code"]["branch"] == "main"
    assert document["code"]["root"] == str(repository)
    assert "uncommitted changes are not known" in document["code"]["note"]


@pytest.mark.usefixtures("repository", "silent")
@pytest.mark.parametrize("words", [("commit", "--allow-empty", "-qm", "2"), ("checkout", "-qb", "other")])
def test_an_old_answer_never_names_another_commit(git: Asks, words: tuple[str, ...]) -> None:
    background.expect()
    background.settle(60)
    git(*words)
    document, _ = Origin().document(wait_s=0)
    assert document["code"]["commit"] == git("rev-parse", "HEAD").strip()
    assert document["code"]["branch"] == git("branch", "--show-current").strip()
    assert "not known" in document["code"]["note"]


def test_a_script_that_ends_at_once_saves_its_commit(repository: Path, git: Asks) -> None:
    store = repository.parent / "store"
    code = f"import nbckpt; nbckpt.Tracker({str(store)!r}).save({{'x': 1}}, 'n')"
    subprocess.run([sys.executable, "-c", code], check=True)
    document = nbckpt.Tracker(store).manifest("n").provenance["again"]
    assert document["code"]["commit"] == git("rev-parse", "HEAD").strip()


def test_git_is_not_asked_if_provenance_is_off(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_PROVENANCE", "0")
    nbckpt.Tracker(repository / "store")
    background.settle(60)
    assert background.last(background.here()) is None


def test_the_head_is_what_git_says(repository: Path, git: Asks, subtests: pytest.Subtests) -> None:
    changes = ["status", "switch -q --detach", "switch -qc a/b", "pack-refs --all", "switch -q --orphan n"]
    for change in changes:
        git(*change.split())
        head, code = read_head((str(repository),)), read_code(repository, limit_s=60)
        with subtests.test(change):
            assert head is not None
            assert code is not None
            assert (head.commit, head.branch, head.root) == (code.commit, code.branch, code.root)


def test_the_head_of_a_further_working_tree_is_its_own(repository: Path, git: Asks) -> None:
    other = repository.parent / "other"
    git("worktree", "add", "--quiet", "-b", "side", str(other))
    git("commit", "--allow-empty", "-qm", "second", folder=other)
    head = read_head((str(other),))
    assert head is not None
    assert (head.commit, head.branch) == (git("rev-parse", "HEAD", folder=other).strip(), "side")


def test_a_strange_head_names_no_commit(repository: Path, subtests: pytest.Subtests) -> None:
    (repository / "secret").write_text("a" * 40)
    for text in ("", "ref: ../../secret", "ref: refs/../../secret", "ref: refs/heads/\0", "x" * 40, "ref: "):
        (repository / ".git/HEAD").write_text(text)
        with subtests.test(text):
            head = read_head((str(repository),))
            assert head is not None
            assert head.commit == ""
