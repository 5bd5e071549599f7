"""Locks: objects that threads wait on. Going to a point brings back the very object, not a copy of it.

A thread that waits on an event would wait for ever if the notebook's variable became another event. So while
`%ckpt auto` is on, the record of such an object has a token, which leads to the live object. A token means
nothing in another process, or to a load that does not go to a point. See docs/decisions/0106.
"""

from __future__ import annotations

import _thread
import itertools
import queue
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from nbckpt._private_apis import lock_of
from nbckpt.core.packs.pools import others_run

_LOCK = type(threading.Lock())
# In Python 3.13 `threading.Lock` became a type, which no other version finds by its name.
_LOCKS = {_LOCK: _thread.allocate_lock, type(threading.RLock()): threading.RLock}


class _Tokens:
    """The tokens of the live objects of this process."""

    def __init__(self) -> None:
        self.are_given = False
        self._start, self._count = secrets.token_hex(8), itertools.count()
        self._tokens: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._objects: WeakValueDictionary[str, Any] = WeakValueDictionary()

    def of(self, lock: Any) -> str:
        """Return the token of an object; empty while none are given."""
        if not self.are_given:
            return ""
        if lock not in self._tokens:
            self.give(lock, f"{self._start}-{next(self._count)}")
        return self._tokens[lock]

    def give(self, lock: Any, token: str) -> None:
        """Let a token lead to an object."""
        self._tokens[lock] = token
        self._objects[token] = lock

    def find(self, token: str) -> Any:
        """Return the live object with this token, or None."""
        return self._objects.get(token)


class Revival:
    """The live objects that were found on the way to a point, and the new flags of its events."""

    def __init__(self) -> None:
        self.threads_run = others_run()
        self._flags: dict[threading.Event, bool] = {}
        self._found: set[int] = set()

    def find(self, token: str) -> Any:
        """Return the live object with this token, or None if there is none or a new one serves as well.

        While other threads run, each live object is used: a thread may hold it or wait on it. If none runs,
        only a free lock is used, or an event, which gets its flag in `settle`.
        """
        lock = _tokens.find(token)
        if lock is None:
            return None
        is_free = type(lock) in _LOCKS and not _is_held(lock)
        if not (self.threads_run or is_free or type(lock) is threading.Event):
            return None
        self._found.add(id(lock))
        return lock

    def fill(self, lock: Any, state: dict[str, Any]) -> None:
        """Give a new object its state, and note the flag of a live event."""
        if id(lock) not in self._found:
            vars(lock).update(state)
        elif type(lock) is threading.Event:
            then = threading.Event.__new__(threading.Event)
            vars(then).update(state)
            self._flags[lock] = then.is_set()

    def settle(self) -> None:
        """Set and clear the flags of live events."""
        for event, is_set in self._flags.items():
            if event.is_set() != is_set:
                (event.set if is_set else event.clear)()


_tokens = _Tokens()
_revival: ContextVar[Revival | None] = ContextVar("nbckpt_revival", default=None)


def give_tokens(*, are_given: bool) -> None:
    """From now on, give each pickled lock a token, or do not."""
    _tokens.are_given = are_given


@contextmanager
def revived() -> Iterator[Revival]:
    """Load records in this block with the live objects that their tokens lead to."""
    revival = Revival()
    token = _revival.set(revival)
    try:
        yield revival
    finally:
        _revival.reset(token)


def _is_held(lock: Any) -> bool:
    return lock.locked() if type(lock) is _LOCK else "owner=0 " not in repr(lock)


def reduce_lock(lock: Any) -> Any:
    """Reduce a lock to a new one. A lock that is held can be saved only if a thread may free it again."""
    token = _tokens.of(lock)
    if _is_held(lock) and not (token and others_run()):
        raise TypeError("a lock that is held cannot be saved")
    make = _LOCKS[type(lock)]
    return (find_lock, (token, make)) if token else (make, ())


def reduce_condition(condition: threading.Condition) -> Any:
    """Reduce a condition to its lock. The threads that wait on it do not count."""
    token, lock = _tokens.of(condition), lock_of(condition)
    if lock is None:
        return NotImplemented
    return (find_lock, (token, threading.Condition, lock)) if token else (threading.Condition, (lock,))


def reduce_waited(waited: Any) -> Any:
    """Reduce an event, a semaphore, a barrier or a queue to its attributes, as pickle does."""
    token = _tokens.of(waited)
    if not token:
        return NotImplemented
    return find_waited, (token, type(waited)), dict(vars(waited)), None, None, fill_waited


def _found(token: str, make: Callable[[], Any]) -> Any:
    revival = _revival.get()
    live = revival.find(token) if revival is not None else None
    if live is not None:
        return live
    made = make()
    if revival is not None and _tokens.find(token) is None:
        _tokens.give(made, token)
    return made


def find_lock(token: str, make: Callable[..., Any], *parts: Any) -> Any:
    """Return the lock or condition with this token, or a new one. Records call it."""
    return _found(token, lambda: make(*parts))


def find_waited(token: str, kind: type) -> Any:
    """Return the live object with this token, or a new one without attributes. Records call it."""
    return _found(token, lambda: object.__new__(kind))


def fill_waited(waited: Any, state: dict[str, Any]) -> None:
    """Give what `find_waited` returned its attributes. Records call it."""
    revival = _revival.get()
    if revival is None:
        vars(waited).update(state)
    else:
        revival.fill(waited, state)


REDUCERS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_LOCKS, reduce_lock),
    threading.Condition: reduce_condition,
    **dict.fromkeys(
        (
            *(threading.Event, threading.Semaphore, threading.BoundedSemaphore, threading.Barrier),
            *(queue.Queue, queue.LifoQueue, queue.PriorityQueue),
        ),
        reduce_waited,
    ),
}
"""The reducers by type. A subclass is pickled as before."""
