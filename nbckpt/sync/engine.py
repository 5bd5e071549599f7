"""Engine: one thread carries out requests one after another, in the order of the requests."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from nbckpt.core.packs.pools import starts
from nbckpt.errors import StoreError
from nbckpt.store import Cancel, CancelledError, TimedOutError
from nbckpt.sync.progress import Progress
from nbckpt.sync.request import Request, explained
from nbckpt.sync.shutdown import before_the_end

_PATIENCE_S = 300.0
"""How long the end of the interpreter waits for the last jobs, if no request is repeated."""
_LOOK_S = 0.25
"""How often a wait checks whether the running job exceeds its timeout."""

_log = logging.getLogger("nbckpt")


class Job:
    """A request that waits, runs or has ended, with its own result.

    Attributes:
        request: The request.
        cancel: Cancels the job.
        done: Set when the job has ended.
        error: Why it failed; None if it did not.
        began: When it began, by the clock; None before that.
        progress: Its progress.
        moves: The name of the time to update on success, see `Syncer.sync_up_if_needed`.
        is_late: Whether it was cancelled after its timeout.
        is_unwanted: Whether a caller cancelled it.
        is_raised: Whether its failure was raised to a caller.
        is_past: Whether a different request for the same folders came later.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cancel = Cancel()
        self.done = threading.Event()
        self.error: Exception | None = None
        self.began: float | None = None
        self.progress: Progress | None = None
        self.moves = ""
        self.is_late = self.is_unwanted = self.is_raised = self.is_past = False

    def show(self, progress: Progress) -> None:
        """Store the progress."""
        self.progress = progress


# see docs/decisions/0066
class Engine:
    """Carries out requests in the background, one after another. Any thread may call its methods.

    A thread starts with the first request and ends with the last one. If no thread can start, the caller
    of `ask` carries out the request.

    Args:
        carry_out: Carries out a job; it ends on the job's cancel or after *timeout*.
        ended: Called with each job that ended, while the lock is held.
        clock: Returns monotonic seconds.
        timeout: Seconds after which a job is cancelled; None for no limit.
        at_end: Called at interpreter shutdown, after the last jobs; raises what failed. By default
            `raise_failures`.
        name: The name of the thread.

    Attributes:
        lock: Held during every change.
        running: The job that runs.
        waiting: The jobs that wait, next first.
        last: The job of the latest request.
        failed: The requests that failed and have not succeeded since, with their jobs.
        is_serving: Whether a thread takes the next job.
    """

    def __init__(
        self,
        carry_out: Callable[[Job], object],
        *,
        ended: Callable[[Job], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        timeout: float | None = None,
        at_end: Callable[[], object] | None = None,
        name: str = "nbckpt-syncer",
    ) -> None:
        self._carry_out = carry_out
        self._ended = ended
        self._clock = clock
        self._timeout = timeout
        self._at_end = at_end or partial(self.raise_failures, also_unwanted=False)
        self._name = name
        self.clear()

    def clear(self) -> None:
        """Forget all jobs without carrying them out."""
        self.lock = threading.Condition()
        self.running: Job | None = None
        self.waiting: deque[Job] = deque()
        self.last: Job | None = None
        self.failed: dict[Request, Job] = {}
        self.is_serving = False
        self._repeated: Request | None = None
        self._pause: Callable[[], float] = float
        self._thread: threading.Thread | None = None

    def ask(self, request: Request, moves: str = "") -> bool:
        """Carry out a request. Return True if it begins now, False if it waits for the running job.

        The result is also True if the running job is cancelled already and this request is next.
        An equal request that already waits is reused, if no later request uses the same folders.
        """
        with self.lock:
            self.cancel_late()
            for failed in self.failed.values():
                failed.is_past |= failed.request != request and failed.request.meets(request)
            # A request is never refused, so the last one is not lost: see docs/decisions/0029.
            job = self.last = self._like(request) or Job(request)
            job.moves = job.moves or moves
            if job not in self.waiting:
                self.waiting.append(job)
            if self.running is not None:
                return self.running.cancel.cancelled and self.waiting[0] is job
            self._take()
            if not (self.is_serving or self._start()):
                self._work()
            return True

    def repeat(self, request: Request, pause: Callable[[], float]) -> bool:
        """Carry out a request now, and again after each *pause*. Return False if no thread can start."""
        with self.lock:
            self._repeated, self._pause = (request if self._start() else None), pause
            self.again()
            return self.is_serving

    def again(self) -> None:
        """Carry out the repeated request soon, whatever its pause. Do nothing if there is none."""
        with self.lock:
            if self._repeated is not None:
                self.ask(self._repeated)

    def end(self, *, last: bool) -> None:
        """Repeat nothing from now on, after the *last* time if asked. The thread ends when no job waits."""
        with self.lock:
            if last:
                self.again()
            self._repeated = None
            self.lock.notify_all()

    def _like(self, request: Request) -> Job | None:
        for job in reversed(self.waiting):
            if job.request == request:
                return job
            if job.request.meets(request):
                return None
        return None

    def _start(self) -> bool:
        """Start the thread; tell whether it could start."""
        if self._thread is not None:
            self._thread.join()  # the former thread has no work left and does not take the lock again
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self.is_serving = starts(thread)  # the new thread waits for the lock
        self._thread = thread if self.is_serving else None
        return self.is_serving

    def _take(self) -> None:
        """Make the next waiting job the running one."""
        self.running = self.waiting.popleft() if self.waiting else None
        if self.running is not None:
            self.running.began = self._clock()
            self.lock.notify_all()
            _busy.add(self)
            before_the_end(flush)

    def _work(self) -> None:
        """Carry out jobs until no job is left. Runs in its own thread."""
        job, error = self._next(None, None), None
        while job is not None:
            try:
                error = None
                self._carry_out(job)
            except BaseException as raised:  # noqa: BLE001  any exception is a failure of the job
                error = raised
            job = self._next(job, error)

    def _next(self, ended: Job | None, error: BaseException | None) -> Job | None:
        """Note how a job ended, and return the next one; wait for it if a request is repeated."""
        with self.lock:
            if ended is not None:
                self._note(ended, error)
                self._take()
                self._rest()
                ended.done.set()
            while self.running is None and self._repeated is not None:
                seconds = min(self._pause(), threading.TIMEOUT_MAX)
                if not self.lock.wait_for(lambda: self.running or not self._repeated, seconds):
                    self.again()
            self._rest()
            # Only the thread itself says that it ends: from here on it does not take the lock again.
            self.is_serving &= self.running is not None
            return self.running

    def _note(self, job: Job, error: BaseException | None) -> None:
        # The former failure is obsolete after a success or a newer failure: see docs/decisions/0030.
        self.failed.pop(job.request, None)
        if error is not None:
            if job.is_late and isinstance(error, CancelledError):
                error = TimedOutError(f"it did not end within {self._timeout:g} s")
            job.error = explained(job.request, error)
            job.is_past = any(other.request.meets(job.request) for other in self.waiting)
            self.failed[job.request] = job
            _log.warning("%s", job.error)
        self._ended(job)

    def _rest(self) -> None:
        """Leave `_busy` if there is no work, and no failure left to raise."""
        is_idle = self.running is None and self._repeated is None
        if is_idle and all(job.is_raised or job.is_unwanted for job in self.failed.values()):
            _busy.discard(self)

    def cancel_late(self) -> None:
        """Cancel the running job if it exceeds the timeout; it may not have noticed that itself."""
        with self.lock:
            job = self.running
            if job is None or job.began is None or self._timeout is None or job.cancel.cancelled:
                return
            if self._clock() - job.began >= self._timeout:
                job.is_late = True
                job.cancel.cancel()

    def cancel(self) -> None:
        """Cancel the running job and drop the waiting ones."""
        with self.lock:
            waiting, self.waiting = list(self.waiting), deque()
            for job in waiting:
                job.is_unwanted = True
                self._note(job, CancelledError("it was cancelled"))
                job.done.set()
            if self.running is not None:
                self.running.is_unwanted = True
                self.running.cancel.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for all requests. Tell whether they ended within *timeout* seconds; 0 does not wait."""
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        with self.lock:
            thread, jobs = self._thread, [self.running, *self.waiting]
        for job in filter(None, jobs):
            self.cancel_late()
            while not job.done.wait(min(_left(deadline), _LOOK_S)):
                self.cancel_late()
                if time.monotonic() >= deadline:
                    return False
        if thread is not None and self.running is None and self._repeated is None:
            thread.join(_left(deadline))
        return True

    def raise_failures(self, *, also_unwanted: bool = True) -> None:
        """Raise each failure that was not raised yet.

        Raises:
            StoreError: Several requests failed, or one failed with an error that is not nbckpt's.
            NbckptError: The one failure.
        """
        with self.lock:
            new = [job for job in self.failed.values() if not job.is_raised]
            for job in new:
                job.is_raised = True
            self.failed = {request: job for request, job in self.failed.items() if not job.is_past}
            self._rest()
        errors = [job.error for job in new if job.error and (also_unwanted or not job.is_unwanted)]
        if len(errors) > 1:
            raise StoreError(f"{len(errors)} syncs failed: {'; '.join(map(str, errors))}") from errors[0]
        if errors:
            raise errors[0]

    def finish(self, began: float, silent: float = 1.0) -> None:
        """Wait for the last jobs at interpreter shutdown, and say so after *silent* seconds.

        An interrupt gives them up, and so does a limit if no request is repeated.
        """
        patience = math.inf if self._repeated else _PATIENCE_S
        self.end(last=True)
        request = self.last and self.last.request
        try:
            if not self.wait(silent):
                limit = f", up to {patience:g} s" if patience < math.inf else ""
                _log.warning("waiting for %s%s; an interrupt gives it up", request, limit)
            if not self.wait(_left(began + patience)):
                self.cancel()
                self.wait(silent)
            self._at_end()
        except KeyboardInterrupt:
            self.cancel()
            _log.error("%s was given up", request)
        except Exception as error:  # noqa: BLE001  the next engine must be waited for too
            _log.error("%s", error)


def _left(deadline: float) -> float:
    return min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)


_busy: set[Engine] = set()
"""The engines that the interpreter waits for at shutdown: they have work or a failure to report."""


def flush() -> None:
    """Wait for the last jobs of every engine at interpreter shutdown."""
    began = time.monotonic()
    for engine in list(_busy):
        engine.finish(began)


def _forget() -> None:
    """Clear all engines in the child of a fork: the parent's threads are not here, its locks may be held."""
    for engine in list(_busy):
        engine.clear()
    _busy.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
