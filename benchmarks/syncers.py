"""Syncers: tools that copy a folder to S3. Each is measured in its own process with its libraries loaded.

`python -m benchmarks.syncers NAME FOLDER URL` syncs once and prints the seconds as a line of JSON. The peers'
interpreters run this module too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def nbckpt(folder: str, url: str) -> Callable[[], object]:
    """Return nbckpt's syncer, as trials use it."""
    from nbckpt.store import open_store
    from nbckpt.sync import DefaultSyncer

    open_store(url)  # loads s3fs without making a request
    syncer = DefaultSyncer(0, None)

    def work() -> None:
        syncer.sync_up(folder, url)
        syncer.wait()

    return work


def aws(folder: str, url: str) -> Callable[[], object]:
    """Return `aws s3 sync` with its default settings. It is a command, so its start-up time counts."""
    command = [sys.executable, "-m", "awscli", "s3", "sync", folder, url, "--only-show-errors"]
    command += ["--cli-read-timeout", "600"]  # the same timeout as for the others, see server.py
    return lambda: subprocess.run(command, check=True)


def fsspec(folder: str, url: str) -> Callable[[], object]:
    """Return `put` of s3fs, which uploads all files without comparing."""
    import s3fs

    return lambda: s3fs.S3FileSystem().put(f"{folder}/", f"{url}/", recursive=True)


def ray(folder: str, url: str) -> Callable[[], object]:
    """Return the syncer of Ray 2.6.3 with its default settings, which uploads all files without comparing."""
    from ray.tune.syncer import SyncConfig, get_node_to_storage_syncer

    scheme, _, host = os.environ["AWS_ENDPOINT_URL"].partition("://")
    place = f"{url}?scheme={scheme}&endpoint_override={host}"
    syncer = get_node_to_storage_syncer(SyncConfig(upload_dir=place))

    def work() -> None:
        if not syncer.sync_up(folder, place):
            raise RuntimeError("sync_up did not begin")
        syncer.wait()

    return work


SYNCERS: dict[str, Callable[[str, str], Callable[[], object]]] = {
    "nbckpt": nbckpt,
    "awscli": aws,
    "s3fs": fsspec,
    "ray-syncer": ray,
}


def main(arguments: list[str]) -> None:
    """Sync once and print the seconds."""
    from importlib.metadata import version

    name, folder, url = arguments
    work = SYNCERS[name](folder, url)
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "version": version("ray" if name == "ray-syncer" else name)}))


if __name__ == "__main__":
    main(sys.argv[1:])
