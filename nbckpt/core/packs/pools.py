"""Pools: threads for a save or a restore. If no thread can start, the caller does the work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from sys import modules
from typing import Any

from nbckpt._private_apis import target_of


class Pool(Executor):
    """A thread pool that starts with its first task. In a browser, the caller runs each task at once.

    Args:
        workers: The number of threads.
        name: The prefix of the threads' names.
    """

    def __init__(self, workers: int, name: str) -> None:
        self._workers = workers
        self._name = name

    @cached_property
    def _inner(self) -> Executor:
        try:
            return _Threads(self._workers, self._name)
        except RuntimeError:
            return InlineExecutor()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`."""
        return self._inner.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as is
        """See `Executor.shutdown`."""
        if "_inner" in vars(self):
            self._inner.shutdown(wait, cancel_futures=cancel_futures)


_QUIET = frozenset({"ipykernel", "IPython", "zmq", "tqdm", "tornado"})
"""Packages whose threads run in every kernel and do not write to the user's arrays."""

_SAVING = ("hash", "write", "deep", "check", "verify", "fetch", "collect", "files", "point", "deed")
_OTHERS = ("sync-", "mirror", "watch", "output", "live", "panel", "git", "provenance", "machine", "requests")
OURS = tuple(f"nbckpt-{work}" for work in (*_SAVING, *_OTHERS))
"""The name prefixes of nbckpt's threads that run no code of the user.

The threads of a trial and of a syncer do run such code.
"""


def others_run() -> bool:
    """Tell whether a thread of the user is running, which could write to the data being saved."""
    return any(not is_harmless(thread) for thread in threading.enumerate())


def is_harmless(thread: threading.Thread) -> bool:
    """Tell whether a thread runs no code of the user, and so never writes to the data being saved."""
    homes = {type(thread).__module__, getattr(target_of(thread), "__module__", "") or ""}
    known = any(home.partition(".")[0] in _QUIET for home in homes)
    is_ours = thread is threading.current_thread() or thread.name.startswith(OURS)
    # It does what fsspec's file systems ask for, while their caller waits. (A thread that manages a pool of
    # processes is not harmless: it runs callbacks of the user.)
    loop = getattr(modules.get("fsspec.asyn"), "iothread", (None,))[0]
    return known or is_ours or thread is loop


def starts(thread: threading.Thread) -> bool:
    """Start a thread. Return False if it cannot start: in a browser, or if there are too many threads."""
    try:  # see docs/decisions/0039
        thread.start()
    except RuntimeError:
        return False
    return True


class _Threads(Executor):
    """Threads for which the end of the interpreter does not wait: a store may never answer.

    The thread that needs a result waits for it. Threads start one by one, while all others have work.

    Args:
        workers: The number of threads.
        name: The prefix of the threads' names.

    Raises:
        RuntimeError: No thread can start.
    """

    def __init__(self, workers: int, name: str) -> None:
        self._workers, self._name = workers, name
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_over = False
        self._start()
        self._idle.release()

    def _start(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, work = task
            if future.set_running_or_notify_cancel():
                try:
                    result = work()
                except BaseException as error:  # noqa: BLE001  the caller of result() sees it
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del task, future, work  # what they hold would live until the next task
            self._idle.release()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`. Several threads may call it."""
        future: Future[Any] = Future()
        with self._lock:
            if self._is_over:
                raise RuntimeError("the pool was shut down")
            self._tasks.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._workers:
                with suppress(RuntimeError):  # the others do it
                    self._start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as is
        """See `Executor.shutdown`."""
        with self._lock:
            self._is_over = True
            while cancel_futures:
                try:
                    task = self._tasks.get_nowait()
                except Empty:
                    break
                if task is not None:
                    task[0].cancel()
            for _ in self._threads:
                self._tasks.put(None)
        for thread in self._threads if wait else ():
            thread.join()


class InlineExecutor(Executor):
    """Runs each task when it is submitted, in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a task and return its result or its exception as a finished Future. An interrupt is raised."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  the caller of result() sees it
            done.set_exception(error)
        return done
