"""Sends a folder again and again, until it is killed: argv has the folder, the target, the first number."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from nbckpt.store import LocalStore
from nbckpt.sync.upload import upload


def main(folder: Path, store: LocalStore, first: int) -> None:
    for turn in count(first):
        for name in ("a", "b/c", f"new {turn % 2}", f"b/{turn % 2}/x"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(str(turn))
        for old in (f"new {(turn + 1) % 2}", f"b/{(turn + 1) % 2}/x"):
            (folder / old).unlink(missing_ok=True)
        print("begins", turn, flush=True)
        upload(folder, store, delete_missing=True)
        print("ended", turn, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), LocalStore(sys.argv[2]), int(sys.argv[3]))
