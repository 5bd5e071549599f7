"""A store on S3, against a server that speaks it."""

from __future__ import annotations

import fsspec
import pytest

from nbckpt.store import Store, open_store
from nbckpt.testing import StoreTests


@pytest.mark.slow
class TestS3(StoreTests):
    @pytest.fixture
    def store(self, s3_bucket: str) -> Store:
        return open_store(f"{s3_bucket}/some folder")

    def get_behind(self, store: Store, key: str) -> bytes:
        return bytes(fsspec.filesystem("s3").cat_file(f"{store.url}/{key}"))

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        fsspec.filesystem("s3").pipe_file(f"{store.url}/{key}", data)


@pytest.mark.slow
def test_a_large_buffer_goes_up_in_pieces(s3_bucket: str) -> None:
    store = open_store(s3_bucket)
    data = memoryview(bytearray(range(256)) * (129 << 12))
    store.put("large", data)
    assert fsspec.filesystem("s3").info(f"{s3_bucket}/large")["ETag"].strip('"').endswith("-9")
    assert store.get("large") == data
