"""Pools: threads that work for a save or a restore, or nobody but the caller, where no thread can start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any


class Pool(Executor):
    """Threads, none of which starts before the first work; in a browser the caller does all of it at once.

    Args:
        workers: How many threads.
        name: What their names begin with.
    """

    def __init__(self, workers: int, name: str) -> None:
        self._workers = workers
        self._name = name

    @cached_property
    def _inner(self) -> Executor:
        threads = ThreadPoolExecutor(self._workers, thread_name_prefix=self._name)
        try:
            threads.submit(_nothing)  # whether one can start is only seen by starting it
        except RuntimeError:
            return InlineExecutor()
        return threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`."""
        return self._inner.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as is
        """See `Executor.shutdown`."""
        if "_inner" in vars(self):
            self._inner.shutdown(wait, cancel_futures=cancel_futures)


_QUIET = frozenset({"ipykernel", "IPython", "zmq", "tqdm", "tornado"})
"""Packages whose threads live in every kernel and write to nobody's arrays."""

_SAVING = ("hash", "write", "check", "verify", "fetch")
_OTHERS = ("sync", "mirror", "watch", "output", "live", "panel")
_OURS = tuple(f"nbckpt-{it}" for it in (*_SAVING, *_OTHERS))
"""How the names of our threads begin that run nothing of the user's; a trial's threads do."""


def others_run() -> bool:
    """Tell whether a thread of the user's runs, which could write to what this thread saves."""
    return any(not _is_harmless(thread) for thread in threading.enumerate())


def _is_harmless(thread: threading.Thread) -> bool:
    homes = {type(thread).__module__, getattr(getattr(thread, "_target", None), "__module__", "") or ""}
    known = any(home.partition(".")[0] in _QUIET for home in homes)
    return known or thread is threading.current_thread() or thread.name.startswith(_OURS)


def starts(thread: threading.Thread) -> bool:
    """Start a thread; tell whether one can be started: not in a browser, nor where there are too many."""
    try:  # see docs/decisions/0039
        thread.start()
    except RuntimeError:
        return False
    return True


def _nothing() -> None:
    """Be the first work of a pool."""


class InlineExecutor(Executor):
    """Does each work when it is submitted, in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it; return what came of it, as a Future that is done. An interrupt is raised."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  it is raised by whoever asks for the result
            done.set_exception(error)
        return done
