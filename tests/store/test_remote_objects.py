"""Stores of objects on S3 and in Azure Blob Storage, against servers that speak them."""

from __future__ import annotations

import fsspec
import pytest

from nbckpt.store import Store, open_store
from nbckpt.testing import StoreTests


class ObjectStoreTests(StoreTests):
    protocol: str

    def get_behind(self, store: Store, key: str) -> bytes:
        return bytes(fsspec.filesystem(self.protocol).cat_file(f"{store.url}/{key}"))

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        fsspec.filesystem(self.protocol).pipe_file(f"{store.url}/{key}", data)


@pytest.mark.slow
class TestS3(ObjectStoreTests):
    protocol = "s3"

    @pytest.fixture
    def store(self, s3_bucket: str) -> Store:
        return open_store(f"{s3_bucket}/some folder")


# What aiohttp says of the way in which the Azure SDK sends a body; nothing here could do otherwise.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
class TestAzure(ObjectStoreTests):
    protocol = "az"

    @pytest.fixture
    def store(self, azure_container: str) -> Store:
        return open_store(f"{azure_container}/some folder")


@pytest.mark.slow
def test_a_large_buffer_goes_up_in_pieces(s3_bucket: str) -> None:
    store = open_store(s3_bucket)
    data = memoryview(bytearray(range(256)) * (129 << 12))
    store.put("large", data)
    assert fsspec.filesystem("s3").info(f"{s3_bucket}/large")["ETag"].strip('"').endswith("-9")
    assert store.get("large") == data
