"""Syncers: what brings a folder to S3, each measured in a process of its own with its libraries loaded.

`python -m benchmarks.syncers NAME FOLDER URL` does it once, and prints the seconds as a line of JSON. Also
run by the peers' interpreters.
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
    """Ours, as trials are synced."""
    from nbckpt.store import open_store
    from nbckpt.sync import DefaultSyncer

    open_store(url)  # which loads s3fs, and asks for nothing
    syncer = DefaultSyncer(0, None)

    def work() -> None:
        syncer.sync_up(folder, url)
        syncer.wait()

    return work


def aws(folder: str, url: str) -> Callable[[], object]:
    """`aws s3 sync` with its default settings: a command, and so with its start."""
    command = [sys.executable, "-m", "awscli", "s3", "sync", folder, url, "--only-show-errors"]
    command += ["--cli-read-timeout", "600"]  # as for the others, see server.py
    return lambda: subprocess.run(command, check=True)


def fsspec(folder: str, url: str) -> Callable[[], object]:
    """`put` of s3fs, which compares nothing."""
    import s3fs

    return lambda: s3fs.S3FileSystem().put(f"{folder}/", f"{url}/", recursive=True)


def ray(folder: str, url: str) -> Callable[[], object]:
    """The syncer of Ray 2.6.3, with its default settings, which compares nothing."""
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
    """Sync once, and print how long it took."""
    from importlib.metadata import version

    name, folder, url = arguments
    work = SYNCERS[name](folder, url)
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "version": version("ray" if name == "ray-syncer" else name)}))


if __name__ == "__main__":
    main(sys.argv[1:])
