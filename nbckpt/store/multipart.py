"""Multipart: puts a large object on S3 in parts that appear at once. A retry skips the parts already sent."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from nbckpt._private_apis import s3_call

_ABORT_S = 1.0


class Parts(Protocol):
    """An object in parts.

    Attributes:
        parts: The number of parts.
        at_once: The most parts that may be in transfer at the same time.
    """

    parts: int
    at_once: int

    def part(self, number: int) -> bytes:
        """Return one part, counted from 0."""


async def put_in_parts(fs: Any, path: str, body: Parts) -> None:
    """Put an object: all of it or nothing.

    If a part fails, the parts that were sent stay on S3, invisible. The next put of this key reuses them,
    after comparing each by its MD5. A cancelled put deletes its parts, because a late answer of S3 could
    still make them visible.
    """
    try:
        await _put(fs, path, body, goes_on=True)
    except FileNotFoundError:  # another writer of this key has finished the upload that this one continued
        await _put(fs, path, body, goes_on=False)


async def _put(fs: Any, path: str, body: Parts, *, goes_on: bool) -> None:
    bucket, key, _ = fs.split_path(path)
    upload, there = await _unfinished(fs, bucket, key) if goes_on else ("", {})
    if not upload:
        upload = (await s3_call(fs)("create_multipart_upload", Bucket=bucket, Key=key))["UploadId"]
    where = {"Bucket": bucket, "Key": key, "UploadId": upload}
    try:
        sent = {"Parts": await _sent(fs, where, body, there)}
    except BaseException as error:
        if not isinstance(error, OSError):
            await _abort(fs, where)
        raise
    try:
        await s3_call(fs)("complete_multipart_upload", **where, MultipartUpload=sent)
    except BaseException:
        await _abort(fs, where)
        raise


async def _unfinished(fs: Any, bucket: str, key: str) -> tuple[str, Mapping[int, str]]:
    """Return an unfinished upload of *key* and the digests of its parts, or an empty id and no digests."""
    with suppress(OSError):  # without the right to list them, all parts are sent
        started = await s3_call(fs)("list_multipart_uploads", Bucket=bucket, Prefix=key)
        uploads = [upload["UploadId"] for upload in started.get("Uploads", ()) if upload["Key"] == key]
        if uploads:
            listed = await s3_call(fs)("list_parts", Bucket=bucket, Key=key, UploadId=uploads[-1])
            return uploads[-1], {part["PartNumber"]: part["ETag"] for part in listed.get("Parts", ())}
    return "", {}


async def _sent(
    fs: Any, where: Mapping[str, str], body: Parts, there: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Send the parts that are missing. Return the list of all parts, as S3 expects it."""
    slots = asyncio.Semaphore(body.at_once)

    async def send(number: int) -> dict[str, Any]:
        async with slots:
            data = body.part(number)
            etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
            if there.get(number + 1) != etag:
                answer = await s3_call(fs)("upload_part", **where, PartNumber=number + 1, Body=data)
                etag = answer["ETag"]
        return {"PartNumber": number + 1, "ETag": etag}

    tasks = [asyncio.ensure_future(send(number)) for number in range(body.parts)]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _abort(fs: Any, where: Mapping[str, str]) -> None:
    with suppress(Exception):  # the caller must see the original failure
        await asyncio.wait_for(s3_call(fs)("abort_multipart_upload", **where), _ABORT_S)
