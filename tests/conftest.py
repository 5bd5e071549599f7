"""Fixtures for every test: a clean environment, a secret and temporary folders of the test's own."""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbckpt.state import states


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the test a secret and a folder for temporary files, and none of the user's settings."""
    home = tmp_path_factory.mktemp("home")
    for name in ("NBCKPT_STORE", "NBCKPT_TEMPLATES", "NBCKPT_MMAP", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(home / "secret"))
    (home / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home / "tmp"))
    return home


@pytest.fixture(autouse=True)
def own_states() -> Iterator[None]:
    """Give the test a registry of states of its own."""
    with states():
        yield


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Hold that nothing of ours goes on after a test."""
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("nbckpt")]
    assert not left


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
