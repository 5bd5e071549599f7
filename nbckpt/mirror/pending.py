"""Pending: what changed in a store and in its experiments since the last push."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from glob import iglob
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from nbckpt.core.history import decode_entry
from nbckpt.core.packs.format import pack_key
from nbckpt.errors import NbckptError
from nbckpt.store import Store, local_folder

_MOST_READ = 500


class Waiting(NamedTuple):
    """What the next push brings.

    Attributes:
        checkpoints: The number of new checkpoints.
        trials: The number of trials that changed.
        size: About how many bytes these are.
    """

    checkpoints: int = 0
    trials: int = 0
    size: int = 0


class Marks(NamedTuple):
    """What a store and its experiments hold at one time.

    Attributes:
        at_ns: When the look at them began, in nanoseconds since 1970.
        checkpoints: The keys of the checkpoints.
        trials: The folder of each trial, and when its journal changed, in nanoseconds since 1970.
    """

    at_ns: int
    checkpoints: frozenset[str]
    trials: frozenset[tuple[Path, int]]


class Pending:
    """Tells what a push would bring. It lists no store that is not a local folder.

    Args:
        store: The store.
        experiments: The folder of its experiments.
    """

    def __init__(self, store: Store, experiments: Path) -> None:
        self._store, self._experiments = store, experiments
        self._folder = local_folder(store.url)
        self._packs: dict[str, frozenset[str]] = {}

    def marks(self) -> Marks:
        """Look at the store and at the journals."""
        at_ns = time.time_ns()
        checkpoints = [] if self._folder is None else _below(self._folder, "checkpoints/*.json")
        journals = [self._experiments / path for path in _below(self._experiments, "*/*/events.jsonl")]
        trials = {(file.parent, at) for file in journals if (at := _changed_ns(file)) is not None}
        keys = (path.replace(os.sep, "/") for path in checkpoints)
        return Marks(at_ns, frozenset(keys), frozenset(trials))

    def since(self, sent: Marks) -> Waiting:
        """Return what changed since some marks were made."""
        here = self.marks()
        checkpoints, trials = here.checkpoints - sent.checkpoints, here.trials - sent.trials
        size = self._size_of(checkpoints, sent) + _size_of_trials(trials, sent.at_ns)
        return Waiting(len(checkpoints), len(trials), size)

    def _size_of(self, keys: frozenset[str], sent: Marks) -> int:
        """Return the bytes of some checkpoints, without packs that one of the newest sent ones has."""
        if not keys or self._folder is None:
            return 0
        packs = self._packs_of(keys) - self._packs_of(sorted(sent.checkpoints)[-_MOST_READ:])
        return sum(_size(self._folder / name) for name in (*keys, *map(pack_key, packs)))

    def _packs_of(self, keys: Collection[str]) -> set[str]:
        """Return the packs that some checkpoints need. Each manifest is read once: none ever changes."""
        for key in keys:
            if key not in self._packs:
                with suppress(NbckptError):  # it was just removed, or cannot be read now
                    self._packs[key] = frozenset(decode_entry(key, self._store.get(key)).packs())
        return set().union(*(self._packs.get(key, ()) for key in keys))


def _below(folder: Path, pattern: str) -> Iterator[str]:
    """Yield the matching paths in a folder; `Path.glob` fails if a folder is removed meanwhile."""
    return iglob(pattern, root_dir=folder)  # noqa: PTH207


def _changed_ns(file: Path) -> int | None:
    with suppress(FileNotFoundError):  # its experiment was just removed
        return file.stat().st_mtime_ns
    return None


def _size_of_trials(trials: Iterable[tuple[Path, int]], since_ns: int) -> int:
    """Return the bytes of the files of trials that changed since then."""
    # os.walk, since Path.rglob fails if a folder is removed meanwhile
    files = (
        Path(folder, name) for trial, _ in trials for folder, _, names in os.walk(trial) for name in names
    )
    return sum(_size(file, since_ns) for file in files)


def _size(file: Path, since_ns: int = 0) -> int:
    with suppress(OSError):  # it was just removed
        stat = file.lstat()
        return stat.st_size if S_ISREG(stat.st_mode) and stat.st_mtime_ns >= since_ns else 0
    return 0
