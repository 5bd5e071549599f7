"""AutoMirror: keeps a store and its experiments at another place, in the background."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import iglob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbckpt.core.manifest import now
from nbckpt.core.packs.pools import starts
from nbckpt.errors import StoreError, UsageError
from nbckpt.mirror import note
from nbckpt.render import visible
from nbckpt.store import Cancel, Store, check_no_secret, local_folder
from nbckpt.trials.home import experiments_folder

if TYPE_CHECKING:
    # Imported where they are used: most stores are kept at no other place.
    from nbckpt.mirror.mirror import Mirror, Mirrored
    from nbckpt.sync.progress import Progress
    from nbckpt.sync.transfer import TransferOptions

PERIOD_S = 300.0

_EXPERIMENTS = "experiments"
"""What the mark of a trial's news begins with; that of a checkpoint does not."""

_RETRY_S = 30.0
"""How soon a push that failed is tried again, if the period is not shorter."""
_GIVE_UP_S = 10.0
"""How long the end of an interpreter waits for a push that hangs, once it was asked to stop."""

_SILENT_S = 0.7


@dataclass(frozen=True)
class AutoStatus:
    """How a store is kept at another place, too.

    Attributes:
        url: The other place.
        period: How often, in seconds.
        is_running: Whether that is done in the background, in this process.
        pushed_at: When it was up to date last, in UTC; None before that.
        last: What was done then.
        failure: Why it is not up to date, in words.
        progress: How far a push that is under way is.
    """

    url: str
    period: float
    is_running: bool
    pushed_at: str | None = None
    last: Mirrored | None = None
    failure: str = ""
    progress: Progress | None = None


class AutoMirror:
    """Keeps a store and its experiments at another place, in the background.

    Where that is, is written beside the store, so that another kernel goes on with it. A push comes
    after each save, every so many seconds, and a last one when it is closed. Any thread may use it.

    Args:
        store: The store.
        in_background: Whether there is a thread for it; without one only `push` pushes.

    Attributes:
        began: Called when a push is about to begin, in whichever thread.
    """

    def __init__(self, store: Store, *, in_background: bool = True) -> None:
        self.in_background = in_background
        self._store = store
        self._experiments = experiments_folder(store.url)
        self._file = None if (folder := local_folder(store.url)) is None else folder / note.FILE
        self._changed = threading.Condition()
        kept = self._file and note.read(self._file)
        self._status = AutoStatus(*kept, is_running=False) if kept else None
        self._thread: threading.Thread | None = None
        self._is_due = False
        self._closed = threading.Event()
        self._is_told = True
        self._sent: frozenset[str] | None = None
        self._pushing = threading.Lock()
        self._is_at_work = False
        self.began: Callable[[], object] = lambda: None
        self._cancel: Cancel | None = None
        if self._status is not None and in_background:
            self._start_thread()

    @property
    def status(self) -> AutoStatus | None:
        """How it goes; None where it is kept nowhere else."""
        return self._status

    def waiting(self) -> tuple[int, int]:
        """Return how many checkpoints, and how many trials' news, the last push of this process left out."""
        new = [] if self._sent is None else [it.startswith(_EXPERIMENTS) for it in self._marks() - self._sent]
        return new.count(False), new.count(True)

    @property
    def is_busy(self) -> bool:
        """Whether a push is under way, or about to be."""
        return self._is_at_work or self._pushing.locked() or (self._is_due and self._thread is not None)

    @property
    def place(self) -> str:
        """The other place; empty for none."""
        return "" if self._status is None else self._status.url

    def start(self, url: str, period: float = PERIOD_S) -> None:
        """Keep it at *url* from here on, and in the kernels to come.

        Raises:
            UsageError: The URL or the period cannot be.
            StoreError: It cannot be noted beside the store.
        """
        if not period > 0:
            raise UsageError(f"--period {period:g}: give seconds above 0")
        check_no_secret(url, note.FILE)
        self._mirror(url)
        where = local_folder(url)
        self.stop()
        self._sent = None
        place = url if where is None else str(where.absolute())
        self._set(AutoStatus(place, period, is_running=False))
        if self._file is not None:
            note.write(self._file, place, period)
        if self.in_background:
            self._start_thread()

    def stop(self) -> None:
        """Push no more, in this process and in those to come; what was pushed stays."""
        self._end_thread(timeout=_GIVE_UP_S, last=False)
        self._status = None
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def cancel(self) -> None:
        """End a push that is under way; what was moved stays, and it is tried again later."""
        if self._cancel is not None:
            self._cancel.cancel()

    def wake(self) -> None:
        """Push soon: there is something new."""
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    def push(self, options: TransferOptions | None = None) -> Mirrored:
        """Push now, after what is under way; see `Mirror.push`.

        Raises:
            UsageError: It is kept nowhere else.
        """
        with self._pushing:
            status = self._status
            if status is None:
                raise UsageError("this store is kept here only: say where else, %ckpt sync URL")
            marks = self._marks()
            try:
                moved = self._mirror(status.url).push(options)
            except Exception as error:
                if self._note(status.url, failure=str(error), progress=None):
                    self._is_told = False
                raise
            left_out = len(moved.checkpoints.left_out)
            failure = f"{left_out} damaged keys are not there: see %ckpt verify" if left_out else ""
            if self._note(status.url, failure=failure, last=moved, pushed_at=now(), progress=None):
                self._is_told, self._sent = not failure, marks
            return moved

    def _mirror(self, url: str) -> Mirror:
        from nbckpt.mirror.mirror import Mirror

        return Mirror(self._store, self._experiments, url)

    def _note(self, url: str, **news: Any) -> bool:
        """Take in how it goes at *url*, if that is the place still: a push may end long after that."""
        if self._status is None or self._status.url != url:
            return False
        self._set(replace(self._status, **news))
        return True

    def _marks(self) -> frozenset[str]:
        """Return what changes with each checkpoint and with each trial's news, as far as that is here."""
        checkpoints = [] if self._file is None else _below(self._file.parent, "checkpoints/*.json")
        trials = _below(self._experiments, "*/*/events.jsonl")
        return frozenset([*checkpoints, *(_version(self._experiments / it) for it in trials)])

    def trouble(self) -> str:
        """Return why the other place is not up to date, once for each failure; empty for none."""
        if self._is_told or self._status is None:
            return ""
        self._is_told = True
        return f"{self._status.url} is not up to date: {self._status.failure}"

    def close(self) -> None:
        """Make the last push, wait for it, and end. An interrupt gives it up.

        Raises:
            StoreError: The other place is not up to date.
        """
        self._end_thread(timeout=None, last=True)
        if self._status is not None and self._status.failure:
            raise StoreError(f"{self._status.url} is not up to date: {self._status.failure}")

    def _start_thread(self) -> None:
        from nbckpt.sync.shutdown import before_the_end

        assert self._status is not None
        self._status = replace(self._status, is_running=True)
        self._closed = threading.Event()  # one of its own: the thread before may still be ending
        self._is_due = True
        work = threading.Thread(target=self._work, args=(self._closed,), name="nbckpt-mirror", daemon=True)
        self._thread = work
        if not starts(self._thread):  # then it is pushed when somebody asks
            self._thread, self.in_background = None, False
            self._set(self._status)
            return
        _running.add(self)
        before_the_end(_push_all)

    def _end_thread(self, *, timeout: float | None, last: bool) -> None:
        with self._changed:
            self._closed.set()
            self._is_due = last
            self._changed.notify_all()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            if not last:
                self.cancel()
            thread.join(timeout)
        except KeyboardInterrupt:
            self.cancel()
            thread.join(_GIVE_UP_S)
            raise
        finally:
            _running.discard(self)

    def _work(self, closed: threading.Event) -> None:
        """Push whenever it is due, until the end. Runs in a thread of its own."""
        from nbckpt.sync.transfer import TransferOptions

        while self._wait(closed):
            self._cancel = Cancel()
            with suppress(Exception):  # it is in the status, and told with the next command
                self.push(TransferOptions(cancel=self._cancel, told=self._tell))
            self._is_at_work = False

    def _wait(self, closed: threading.Event) -> bool:
        """Wait until a push is due; tell whether there is one to be made."""
        status = self._status
        if status is None:
            return False
        pause = min(status.period, _RETRY_S) if status.failure else status.period
        with self._changed:
            self._changed.wait_for(lambda: self._is_due or closed.is_set(), pause)
            self._is_at_work = self._is_due or not closed.is_set()
            self._is_due = False
        if self._is_at_work:
            self.began()
        return self._is_at_work

    def _tell(self, progress: Progress) -> None:
        if self._status is not None:
            self._set(replace(self._status, progress=progress))

    def _set(self, status: AutoStatus) -> None:
        self._status = replace(status, is_running=self._thread is not None)


def _below(folder: Path, pattern: str) -> Iterator[str]:
    """Yield the paths in a folder that match; `Path.glob` fails when a folder goes meanwhile."""
    return iglob(pattern, root_dir=folder)  # noqa: PTH207


def _version(file: Path) -> str:
    """Return what tells a trial's journal from what it was before and will be later."""
    with suppress(FileNotFoundError):  # its experiment was removed just now
        return f"{_EXPERIMENTS}/{file}:{file.stat().st_mtime_ns}"
    return ""


_running: weakref.WeakSet[AutoMirror] = weakref.WeakSet()


def _push_all() -> None:
    """Make the last push of each when the interpreter ends, and say how it goes if it lasts."""
    if _running:
        from nbckpt.trials.engine.shutdown import finish_all

        finish_all()  # what trials write until they rest is to be sent, too
    for auto in list(_running):
        said = threading.Timer(_SILENT_S, _say, [f"sending the last to {auto.place}; Ctrl-C gives it up"])
        with suppress(RuntimeError):  # some Pythons start no thread when they end
            said.start()
        try:
            auto.close()
        except StoreError as error:
            _say(str(error))
        except KeyboardInterrupt:
            _say(f"given up: {auto.place} is not up to date. In the next kernel: %ckpt sync --now")
        finally:
            said.cancel()


def _say(text: str) -> None:
    sys.stderr.write(f"nbckpt: {visible(text)}\n")
