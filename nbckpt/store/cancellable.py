"""Cancellable: a file system whose requests are abandoned when their work is cancelled."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from nbckpt.store.cancel import CancelledError, wanted
from nbckpt.store.multipart import Parts, put_in_parts

T = TypeVar("T")


class Cancellable:
    """Wraps an asynchronous file system and abandons a request when its work is cancelled."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._fs, f"_{name}", None)
        if not iscoroutinefunction(call):
            return getattr(self._fs, name)
        return lambda *args, **kwargs: _made(self._fs.loop, partial(call, *args, **kwargs))

    def put_in_parts(self, path: str, body: Parts) -> None:
        """Put a large object on S3; see `multipart.put_in_parts`."""
        _made(self._fs.loop, partial(put_in_parts, self._fs, path, body))


def _made(loop: asyncio.AbstractEventLoop, call: Callable[[], Awaitable[T]]) -> T:
    """Run a call on its loop and return when it has ended. A cancelled call sends no byte afterwards."""
    cancel = wanted()

    async def make() -> T:
        task = asyncio.current_task()
        assert task is not None  # it runs inside a task
        with cancel.calling(partial(loop.call_soon_threadsafe, task.cancel)):
            return await call()

    future = asyncio.run_coroutine_threadsafe(make(), loop)
    try:
        return future.result()
    except concurrent.futures.CancelledError:
        raise CancelledError("it was cancelled") from None
    except BaseException:
        future.cancel()
        raise
