"""Trees of files, in a folder and in a target."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nbckpt.errors import NotFoundError
from nbckpt.store import Store
from nbckpt.sync.download import download
from nbckpt.sync.exclude import OWN
from nbckpt.sync.transfer import TransferOptions

Files = dict[str, bytes]

ONCE = TransferOptions(attempts=1)


def write(folder: Path, files: Files) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def read(folder: Path) -> Files:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def plain(store: Store) -> Files:
    """Return what any other tool finds under the files' paths."""
    return {key: store.get(key) for key in list(store.keys()) if not key.startswith(f"{OWN}/")}


def seen(store: Store) -> Files | None:
    """Return what a reader of the target gets in an empty folder, or None if there is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            download(store, folder, options=ONCE)
        except NotFoundError:
            return None
        return read(Path(folder))
