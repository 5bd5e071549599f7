"""Server: moto's S3 server over HTTP in its own process, with counts of its requests.

`python -m benchmarks.server` prints its port, and a line of JSON for each answered request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

from benchmarks.process import REPOSITORY

if TYPE_CHECKING:
    from types import TracebackType

BUCKET = "sync"

_MOST_S = 600


@dataclass
class Traffic:
    """Counts of the requests to the server.

    Attributes:
        requests: The number of requests.
        uploads: The number of requests that uploaded data.
        listings: The number of listings; only the first page of each counts.
        sent: The bytes uploaded.
    """

    requests: int = 0
    uploads: int = 0
    listings: int = 0
    sent: int = 0

    def add(self, method: str, url: str, size: int) -> None:
        """Count one request."""
        asked = urlsplit(url)
        query = parse_qs(asked.query, keep_blank_values=True)
        has_key = asked.path.strip("/").count("/") > 0
        self.requests += 1
        self.uploads += has_key and (method == "PUT" or (method == "POST" and "delete" not in query))
        self.listings += (
            method == "GET" and not has_key and not {"continuation-token", "marker"} & query.keys()
        )
        self.sent += size


class Server:
    """A running server; use it in a `with` block."""

    def __init__(self) -> None:
        # The server stores its data on disk, in the folder for temporary files.
        self._child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.server"], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )
        assert self._child.stdout is not None
        port = self._child.stdout.readline().strip()
        if not port:
            raise RuntimeError("the server for syncs did not start: pip install 'moto[server]'")
        self.url = f"http://127.0.0.1:{port}"
        self._traffic = Traffic()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.wait()
        self._thread.join()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that a client needs."""
        none = str(Path(tempfile.gettempdir()) / "there-is-no-such-file")
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": none,
            "AWS_SHARED_CREDENTIALS_FILE": none,
            # s3fs waits 15 s for an answer; this server takes longer to put the parts of 1 GiB together.
            "FSSPEC_S3": json.dumps({"config_kwargs": {"read_timeout": _MOST_S}}),
        }

    def empty(self) -> None:
        """Delete all data and create the bucket."""
        for method, path in (("POST", "moto-api/reset"), ("PUT", BUCKET)):
            urllib.request.urlopen(urllib.request.Request(f"{self.url}/{path}", method=method)).close()
        self.traffic()

    def traffic(self) -> Traffic:
        """Return the counts since the last call."""
        # A marker request: once it is read, all earlier requests are read too.
        self._marked = threading.Event()
        urllib.request.urlopen(f"{self.url}/moto-api/config").close()
        if not self._marked.wait(_MOST_S):
            raise RuntimeError("the server's log is not what it should be")
        traffic, self._traffic = self._traffic, Traffic()
        return traffic

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            method, url, size = json.loads(line)
            if url == "/moto-api/config":
                self._marked.set()
            elif not url.startswith("/moto-api/"):
                self._traffic.add(method, url, size)


def serve() -> None:
    """Serve until the end of the process."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.server import MotoRequestHandler
    from werkzeug.serving import make_server

    class Handler(MotoRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            size = self.headers.get("x-amz-decoded-content-length") or self.headers.get("Content-Length") or 0
            # In a single write, since many threads write here.
            os.write(1, f"{json.dumps([self.command, self.path, int(size)])}\n".encode())

    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()
