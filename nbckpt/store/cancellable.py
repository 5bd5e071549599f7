"""Cancellable: a file system whose requests are let go of while they are under way."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar

from nbckpt.store.cancel import CancelledError, wanted

_ABORT_S = 1.0

T = TypeVar("T")


class Cancellable:
    """An asynchronous file system, each request of which is let go of when nobody wants it any more."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._fs, f"_{name}", None)
        if not iscoroutinefunction(call):
            return getattr(self._fs, name)
        return lambda *args, **kwargs: _made(self._fs.loop, partial(call, *args, **kwargs))

    def put_in_parts(self, place: str, body: Parts) -> None:
        """Put a large object on S3, where all of its parts show at once; else none is left.

        s3fs leaves the parts there when it is cancelled, and a late answer would still show them.
        """
        _made(self._fs.loop, partial(_put_in_parts, self._fs, place, body))


class Parts(Protocol):
    """An object in parts.

    Attributes:
        parts: How many there are.
        at_once: How many may be under way.
    """

    parts: int
    at_once: int

    def part(self, number: int) -> bytes:
        """Return one part, counted from 0."""


async def _put_in_parts(fs: Any, place: str, body: Parts) -> None:
    bucket, key, _ = fs.split_path(place)
    begun = await fs._call_s3("create_multipart_upload", Bucket=bucket, Key=key)
    where = {"Bucket": bucket, "Key": key, "UploadId": begun["UploadId"]}
    try:
        sent = {"Parts": await _sent(fs, where, body)}
        await fs._call_s3("complete_multipart_upload", **where, MultipartUpload=sent)
    except BaseException:
        with suppress(Exception):  # the failure itself is what the caller must hear of
            await asyncio.wait_for(fs._call_s3("abort_multipart_upload", **where), _ABORT_S)
        raise


async def _sent(fs: Any, where: dict[str, str], body: Parts) -> list[dict[str, Any]]:
    """Send the parts, and return what S3 must be told of them."""
    slots = asyncio.Semaphore(body.at_once)

    async def send(number: int) -> dict[str, Any]:
        async with slots:
            about = {**where, "PartNumber": number + 1}
            answer = await fs._call_s3("upload_part", **about, Body=body.part(number))
        return {"PartNumber": number + 1, "ETag": answer["ETag"]}

    tasks = [asyncio.ensure_future(send(number)) for number in range(body.parts)]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _made(loop: asyncio.AbstractEventLoop, call: Callable[[], Awaitable[T]]) -> T:
    """Make a call on its loop, and return once it is over: what is cancelled sends no byte any more."""
    cancel = wanted()

    async def make() -> T:
        task = asyncio.current_task()
        assert task is not None  # it runs in one
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
