"""A store in Azure Blob Storage, against a server that speaks it."""

from __future__ import annotations

import fsspec
import pytest

from nbckpt.store import Store, open_store
from nbckpt.testing import StoreTests

# What aiohttp says of the way in which the Azure SDK sends a body; nothing here could do otherwise.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


class TestAzure(StoreTests):
    @pytest.fixture
    def store(self, azure_container: str) -> Store:
        return open_store(f"{azure_container}/some folder")

    def get_behind(self, store: Store, key: str) -> bytes:
        return bytes(fsspec.filesystem("az").cat_file(f"{store.url}/{key}"))

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        fsspec.filesystem("az").pipe_file(f"{store.url}/{key}", data)
