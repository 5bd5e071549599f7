"""Azure Blob Storage, as azurite speaks it, Microsoft's own emulator from npm."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from servers.started import program, started

INSTALL = "npm install --global azurite"
OPTIONS = (
    "--blobHost=127.0.0.1",
    "--blobPort=0",
    "--inMemoryPersistence",
    "--skipApiVersionCheck",
    "--disableTelemetry",
    "--silent",
)
ACCOUNT = "devstoreaccount1"
# The key of every emulated account; it is no secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def connection(server: str, key: str = KEY) -> str:
    """Return how the emulated account on *server* is reached."""
    endpoint = f"BlobEndpoint={server}/{ACCOUNT}"
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};{endpoint};"


@pytest.fixture(scope="session")
def azure_server() -> Iterator[str]:
    """Run a server that speaks Azure's protocol, and return where it listens."""
    pytest.importorskip("adlfs")
    with started([program("azurite-blob", INSTALL), *OPTIONS], "listens on http") as line:
        match = re.search(r"http://\S+", line)
        assert match
        yield match.group()


@pytest.fixture
def azure_container(azure_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a new container, which can be reached as the environment says."""
    import adlfs

    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(azure_server))
    container = f"c{uuid.uuid4().hex}"
    adlfs.AzureBlobFileSystem().mkdir(container)
    return f"az://{container}"
