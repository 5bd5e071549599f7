"""The first save of a process: it finds git's answer, or says what it does not know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import nbckpt
from nbckpt.provenance import background, checkpoint
from nbckpt.provenance.background import Question
from nbckpt.provenance.checkpoint import Origin
from nbckpt.provenance.git import read_code
from nbckpt.provenance.head import read_head

Asks = Callable[..., str]


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
