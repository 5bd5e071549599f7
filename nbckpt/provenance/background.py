"""Background: one thread that asks git and writes the provenance of trials, so that no cell waits for it.

The thread ends when nothing is left to do. All requests that came before git is asked share the answer. The
interpreter waits for the thread at its end, which takes little more than the limit for git.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nbckpt.provenance.git import Code, read_code
from nbckpt.settings import wants_provenance

Folders = tuple[str, ...]
Answer = tuple[Code | None, float]
"""The state of the working tree, and the moment when git was asked."""

Work = Callable[[Sequence["Question"]], None]

FRESH_S = 1.0
"""How old an answer may be so that git is not asked again."""

_log = logging.getLogger("nbckpt")


@dataclass(frozen=True)
class Question:
    """A question for the state of a working tree.

    Attributes:
        folders: The folders whose working tree counts; the first that is in one.
        work: What to do with the answer: called once with all questions that have the same *work*.
        subject: What the work is for.
        answer: The answer.
    """

    folders: Folders
    work: Work | None = None
    subject: object = None
    answer: Future[Answer] = field(default_factory=Future)


class _Asker:  # see docs/decisions/0076
    """Answers questions in one thread, as long as there are any.

    Args:
        is_awaited: Whether the interpreter waits for the thread at its end.
    """

    def __init__(self, *, is_awaited: bool) -> None:
        self._is_awaited = is_awaited
        self._lock = threading.Lock()
        self._waiting: list[Question] = []
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None

    def ask(self, question: Question) -> None:
        with self._lock:
            self._waiting.append(question)
            if self._thread is not None:
                return
            self._thread = threading.Thread(
                target=self._run, name="nbckpt-provenance", daemon=not self._is_awaited
            )
            try:
                self._thread.start()
                return
            except RuntimeError:  # no threads in a browser, nor while the interpreter shuts down
                self._thread = None
                batch, self._waiting = self._waiting, []
        self._answer(batch)

    def settle(self, timeout: float | None) -> None:
        if self.is_busy:
            done = threading.Event()
            self.ask(Question((), lambda _: done.set()))  # questions are answered in order
            done.wait(timeout)

    def _run(self) -> None:
        while True:
            with self._lock:
                batch, self._waiting = self._waiting, []
                if not batch:
                    self._thread = None
                    return
            self._answer(batch)

    def _answer(self, batch: Sequence[Question]) -> None:
        answers: dict[Folders, Answer] = {}
        for question in batch:
            folders = question.folders
            if folders not in answers:
                asked_at = time.monotonic()  # before git: what changes meanwhile is newer
                answers[folders] = answer = _safe_code(folders), asked_at
                former = known_answers.get(folders, answer)
                known_answers[folders] = max(former, answer, key=lambda known: known[1])
            question.answer.set_result(answers[folders])
        for work in dict.fromkeys(question.work for question in batch if question.work is not None):
            try:
                work([question for question in batch if question.work is work])
            except Exception as error:  # noqa: BLE001  provenance never makes a trial fail
                _log.warning("the provenance of trials was not written: %s", error)


def _safe_code(folders: Folders) -> Code | None:
    try:
        return _code(folders)
    except Exception as error:  # noqa: BLE001  it may fail in a way that nobody thought of
        return Code(note=f"git failed: {type(error).__name__}: {error}"[:300])


def _code(folders: Folders) -> Code | None:
    codes = (read_code(Path(folder)) for folder in folders)
    return next((code for code in codes if code is not None), None)


_asker, _expecting = _Asker(is_awaited=True), _Asker(is_awaited=False)
known_answers: dict[Folders, Answer] = {}
"""The last answer for each working tree."""


def _after_fork() -> None:
    global _asker, _expecting
    _asker, _expecting = _Asker(is_awaited=True), _Asker(is_awaited=False)  # no thread of the parent is here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ask(folders: Folders, work: Work | None = None, subject: object = None) -> Question:
    """Ask for the state of the working tree in the background. Return the question, which gets the answer."""
    question = Question(folders, work, subject)
    _asker.ask(question)
    return question


def expect() -> None:  # see docs/decisions/0091
    """Ask git in the background, so that the next save finds an answer. Return at once."""
    answer = last(folders := here())
    is_new = answer is not None and time.monotonic() - answer[1] < FRESH_S
    if wants_provenance() and not (is_new or _asker.is_busy or _expecting.is_busy):
        _expecting.ask(Question(folders))


def here() -> Folders:
    """Return the folders whose working tree counts: the working folder, then that of the script."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    folders = [str(Path(main).absolute().parent)] if main else []
    with suppress(OSError):  # the working folder was removed
        folders.insert(0, str(Path.cwd()))
    return tuple(folders)


def last(folders: Folders) -> Answer | None:
    """Return the last answer for these folders, or None."""
    return known_answers.get(folders)


def settle(timeout: float | None = None) -> None:
    """Wait until every question so far is answered and its work is done, at most *timeout* seconds."""
    for asker in (_asker, _expecting):
        asker.settle(timeout)
