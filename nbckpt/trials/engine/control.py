"""Control: requests to the process that runs an experiment, a small file for each.

    <experiment>/requests/<time>-<random>.json

The owner, the process that holds the experiment's lock, does what is asked and then removes the file: a
missing file means an answered request. If the lock is free, the asker withdraws the request and acts
itself. See docs/decisions/0046.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from nbckpt.core import schema
from nbckpt.core.packs.pools import starts
from nbckpt.errors import CorruptError, UsageError
from nbckpt.store.files import explained, write_file
from nbckpt.store.scan import link_outside

_log = logging.getLogger("nbckpt")

FOLDER = "requests"
LARGEST = 1 << 16
"""The most bytes of a request; a larger file is refused."""
ANSWER_S = 10.0
"""How many seconds the asker waits for a busy owner. After that the request stays there."""

Verb = Literal["pause", "stop", "checkpoint", "resume"]

_LOOK_S = 0.05
_PERIOD_S = 0.25
_MOST = 1000
_FILE = re.compile(r"\d{20}-[0-9a-f]{32}\.json")
_FORM = {
    "do": re.compile("pause|stop|checkpoint|resume"),
    "trial?": re.compile(r"t\d{1,18}"),
    "errored?": bool,
    "by?": str,
}


@dataclass(frozen=True)
class ControlRequest:
    """A request to the owner of an experiment.

    Attributes:
        do: The action.
        trial: The trial's short name; empty for all trials.
        errored: Whether `resume` includes failed trials.
        by: The process that asks, in words for people.
    """

    do: Verb
    trial: str = ""
    errored: bool = False
    by: str = ""


def ask(folder: Path, request: ControlRequest) -> Path:
    """Write a request to the owner of the experiment in *folder*, and return its file.

    Raises:
        UsageError: The folder of requests is a link that leads outside; nothing was asked.
        StoreError: The disk failed; nothing was asked.
    """
    if link_outside(folder, FOLDER):
        raise UsageError(f"{str(folder / FOLDER)!r} is a link that leads outside: remove it, and ask again")
    file = folder / FOLDER / f"{time.time_ns():020}-{uuid.uuid4().hex}.json"
    document = {
        "format": schema.SEALED,
        "do": request.do,
        "errored": request.errored,
        "by": request.by or _me(),
    }
    if request.trial:
        document["trial"] = request.trial
    with explained("write", file):
        write_file(file, schema.seal(document))
    return file


def answered(file: Path, has_owner: Callable[[], bool], patience: float = ANSWER_S) -> bool | None:
    """Wait until a request is answered. Return None after *patience* seconds; the owner still may answer.

    Return False if there is no owner now; then the request is withdrawn.
    """
    deadline = time.monotonic() + patience
    while file.exists():
        if not has_owner():
            with suppress(OSError):  # another program has it open, or the folder is read-only
                try:
                    file.unlink()
                except FileNotFoundError:  # it was answered just now
                    return True
            return False
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_S)
    return True


def hand_over(folder: Path, request: ControlRequest, has_owner: Callable[[], bool]) -> bool:
    """Ask the owner of an experiment, and wait for the answer. Return False if there is no owner now."""
    answer = answered(ask(folder, request), has_owner)
    if answer is None:
        _log.warning(
            "the process that runs %s has not answered within %g s; it will %s when it can",
            *(folder.name, ANSWER_S, request.do),
        )
    return answer is not False


def pending(folder: Path) -> list[Path]:
    """Return the requests to the owner of the experiment in *folder*, the oldest first."""
    if link_outside(folder, FOLDER):
        return []
    try:
        names = sorted(filter(_FILE.fullmatch, os.listdir(folder / FOLDER)))  # noqa: PTH208
    except OSError:  # nobody ever asked
        return []
    return [folder / FOLDER / name for name in names[:_MOST]]


def read(file: Path) -> ControlRequest:
    """Return a request, read from its file.

    Raises:
        CorruptError: The content differs from what was written.
        FormatError: A newer nbckpt wrote it.
    """
    request = f"the request {file.name}"
    try:
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:  # a pipe would block for ever
            raise CorruptError(f"{request} is damaged: it is not a file, or larger than a request can be")
        document = schema.unseal(file.read_bytes(), _FORM, request)
    except OSError as error:
        raise CorruptError(f"cannot read {request}: {error.strerror or error}") from error
    verb = cast("Verb", document["do"])
    errored, by = document.get("errored", False), document.get("by", "")
    return ControlRequest(verb, document.get("trial", ""), errored, by)


def withdraw_stale(folder: Path) -> None:
    """Remove requests to a former owner whose asker has stopped waiting."""
    for file in pending(folder):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > ANSWER_S:
                file.unlink()


def withdraw(files: Iterable[Path]) -> list[Path]:
    """Remove requests; return those that cannot be removed."""
    stuck = []
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError:  # another program has it open, or the folder is read-only
            stuck.append(file)
    return stuck


class Owner:
    """Answers requests of other processes in its own thread, while an experiment runs here.

    Args:
        folder: The experiment's folder.
        act: Does what is asked. Returns False if the experiment has ended, and the asker keeps the request;
            or if it is too early, and the request is read again a moment later.
        fail: Called with the reason why a request cannot be done.
        lock: Held from the action until the request is removed, and during `end`. So an asker that sees no
            owner never sees a request that was done.
    """

    def __init__(
        self,
        folder: Path,
        act: Callable[[ControlRequest], bool],
        fail: Callable[[Exception], object],
        lock: AbstractContextManager[object],
    ) -> None:
        self._folder = folder
        self._act = act
        self._fail = fail
        self._lock = lock
        self._stuck: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._answer_until_end, name="nbckpt-requests", daemon=True)
        withdraw_stale(folder)
        self._answers = starts(self._thread)  # without threads there is no other process either

    def end(self) -> None:
        """Stop answering, because the experiment has ended. `join` waits for the thread."""
        self._ended.set()

    def join(self) -> None:
        """Wait for the thread to end, after `end`. If the begin was interrupted, that never came: return."""
        if self._answers and self._ended.is_set() and self._thread is not threading.current_thread():
            self._thread.join()

    def _answer_until_end(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            for file in pending(self._folder):
                if file.name not in self._stuck:  # a request that was done but cannot be removed: not again
                    self._answer(file)

    def _answer(self, file: Path) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            try:
                is_done = self._act(read(file))
            except Exception as error:  # noqa: BLE001  the trials continue whatever another process asks for
                self._fail(error)
                is_done = True
            if is_done:
                self._stuck.update(file.name for file in withdraw([file]))


def _me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
