"""Background: one thread that asks git and writes the provenance of trials, so that no cell waits for it.

The thread ends when nothing is left to do. All requests that came before git is asked share the answer. The
interpreter waits for the thread at its end, which takes little more than the limit for git.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from nbckpt.provenance.git import Code, read_code

Folders = tuple[str, ...]
Answer = tuple[Code | None, float]
"""The state of the working tree, and the moment when git was asked."""

Work = Callable[[Sequence["Question"]], None]

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
    """Answers questions in one thread, as long as there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Question] = []
        self._thread: threading.Thread | None = None
        self.known: dict[Folders, Answer] = {}

    @property
    def is_busy(self) -> bool:
        return self._thread is not None

    def ask(self, question: Question) -> None:
        with self._lock:
            self._waiting.append(question)
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="nbckpt-provenance", daemon=False)
            try:
                self._thread.start()
                return
            except RuntimeError:  # no threads in a browser, nor while the interpreter shuts down
                self._thread = None
                batch, self._waiting = self._waiting, []
        self._answer(batch)

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
                answers[folders] = self.known[folders] = _safe_code(folders), asked_at
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


_asker = _Asker()


def _after_fork() -> None:
    global _asker
    _asker = _Asker()  # the thread of the parent does not exist here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ask(folders: Folders, work: Work | None = None, subject: object = None) -> Question:
    """Ask for the state of the working tree in the background. Return the question, which gets the answer."""
    question = Question(folders, work, subject)
    _asker.ask(question)
    return question


def last(folders: Folders) -> Answer | None:
    """Return the last answer for these folders, or None."""
    return _asker.known.get(folders)


def settle(timeout: float | None = None) -> None:
    """Wait until every question so far is answered and its work is done, at most *timeout* seconds."""
    if _asker.is_busy:
        done = threading.Event()
        ask((), lambda _: done.set())  # questions are answered in order
        done.wait(timeout)
