"""Depth: deeply nested objects must not overflow the stack, because that kills the process.

Python 3.11 counts the calls inside of C code against the recursion limit, and never looks at the stack. A
user who raises the limit allows more calls than the stack can hold. Python 3.12 and 3.13 have a fixed limit
for C code, and later versions look at the stack.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

_T = TypeVar("_T")

_LEVEL = 400
"""The stack of one level of recursion, in bytes. Pickling takes 90 to 300."""

_USUAL_LIMIT = 3000
"""The limit of a kernel, with which every stack is large enough."""

_SMALLEST_STACK, _LARGEST_STACK = 1 << 20, 512 << 20
_FIXED = (3, 12) <= sys.version_info < (3, 14)
"""Whether a larger stack allows no deeper recursion."""

_lock = threading.Lock()
_bounds: list[int] = []
_limits: list[int] = []
_own = threading.local()


@contextmanager
def bounded() -> Iterator[None]:
    """Let the block recurse no deeper than the stack of this thread allows: a RecursionError comes first.

    The limit holds for all threads, so a thread that is in a deeper recursion meanwhile gets that error too.
    """
    if sys.version_info >= (3, 12) or not (_limits or sys.getrecursionlimit() > _USUAL_LIMIT):
        yield
        return
    bound = _depth() + _stack_size() // _LEVEL
    with _lock:
        if not _bounds:
            _limits[:] = [sys.getrecursionlimit()]
        _bounds.append(bound)
    try:
        with _lock:
            _set_limit()
        yield
    finally:
        with _lock:
            _bounds.remove(bound)
            _set_limit()
            if not _bounds:
                _limits.clear()


def _set_limit() -> None:
    sys.setrecursionlimit(min(*_limits, *_bounds, sys.maxsize))


def deeply(work: Callable[[], _T]) -> _T:
    """Return the result of *work*. If objects are nested too deeply, run it again on a larger stack.

    The recursion limit still holds. The second run is in another thread, with the context of this one.
    """
    try:
        return work()
    except Exception as error:
        if _FIXED or not is_too_deep(error) or sys.getrecursionlimit() <= _USUAL_LIMIT:
            raise
        results: list[_T] = []
        errors: list[BaseException] = []
        if not _run_deeply(work, results, errors):
            raise
    if errors:
        raise errors[0]
    return results[0]


def _run_deeply(work: Callable[[], _T], results: list[_T], errors: list[BaseException]) -> bool:
    """Run *work* in a thread with a large stack, and wait for it. Return False if none can start."""
    size = min(_LARGEST_STACK, sys.getrecursionlimit() * _LEVEL + _SMALLEST_STACK)

    def run() -> None:
        _own.size = size
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  the waiting thread raises it
            errors.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), name="nbckpt-deep", daemon=True)
    with _lock:
        former = threading.stack_size()
        try:
            threading.stack_size(size)
            thread.start()
        except (RuntimeError, ValueError):
            return False
        finally:
            threading.stack_size(former)
    try:
        thread.join()
    except BaseException:
        thread.join()  # an interrupt waits: the caller's data must not be read and written at once
        raise
    return True


def is_too_deep(error: BaseException) -> bool:
    """Tell whether pickling failed because objects are nested too deeply. cloudpickle wraps that error."""
    return isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)


def why_too_deep() -> str:
    """Return what to do about an object that is nested too deeply."""
    if _FIXED:
        return "it is nested too deeply for this version of Python: save its parts as a flat list"
    return "it is nested too deeply: allow more with sys.setrecursionlimit(100_000), then save it again"


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while (outer := frame.f_back) is not None:
        depth, frame = depth + 1, outer
    return depth


def _stack_size() -> int:
    """Return the size of this thread's stack, or a size that every thread has."""
    if size := getattr(_own, "size", 0):
        return int(size)
    sizes = [threading.stack_size()] if threading.current_thread() is not threading.main_thread() else []
    try:
        import resource
    except ImportError:  # Windows
        sizes.append(_SMALLEST_STACK)
    else:
        sizes.append(resource.getrlimit(resource.RLIMIT_STACK)[0])
    return min((size for size in sizes if size > 0), default=2 * _SMALLEST_STACK)
