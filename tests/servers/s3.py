"""S3, as moto's server speaks it over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from servers.proxy import Proxy, proxied


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Run a server that speaks S3, and return where it listens."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a new bucket, which can be reached as the environment says."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    bucket = f"b{uuid.uuid4().hex}"
    s3fs.S3FileSystem().mkdir(bucket)
    return f"s3://{bucket}"


@pytest.fixture
def s3_proxy(s3_server: str, s3_bucket: str) -> Iterator[Proxy]:
    """Run a faulty proxy before the server; give its URL to s3fs as `endpoint_url`."""
    del s3_bucket  # the environment has what the server wants to know
    with proxied(s3_server) as proxy:
        yield proxy
