"""Kept there: choose what a push leaves as it is at the target, since another machine pushed it.

A trial is sent if its journal begins with the whole journal at the target. If a trial only continued here,
this takes no request: the index has the digest of its former journal. See docs/decisions/0027.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError
from nbckpt.store import Data, Store
from nbckpt.store.base import pieces_of
from nbckpt.sync.files import FileStat, contents, digest_of
from nbckpt.sync.index import Index, Item
from nbckpt.sync.transfer import TransferPool
from nbckpt.trials.model import journal, spec_file


@dataclass(frozen=True)
class KeptThere:
    """Chooses what a push of an experiment must not replace.

    Args:
        folder: The experiment's local folder.
        there: The experiment at the target.
        url: The location that people know.
        work: Makes the requests.
    """

    folder: Path
    there: Store
    url: str
    work: TransferPool

    def __call__(self, index: Index, changed: Mapping[str, FileStat]) -> dict[str, str]:
        """Return the trials and files to leave out, with the reasons; "" stands for the whole experiment.

        Args:
            index: The index of the target.
            changed: The local files that differ from it.

        Raises:
            StoreError: The storage failed.
        """
        if spec_file.FILE in changed and (why := _explained(partial(self._why_experiment, index))):
            return {"": why}
        trials = sorted({path.partition("/")[0] for path in changed})
        reasons = {trial: _explained(partial(self._why_trial, trial, index, changed)) for trial in trials}
        return {trial: why for trial, why in reasons.items() if why}

    def _why_experiment(self, index: Index) -> str:
        """Return why the target keeps its experiment: it is another one of this name. Or return ""."""
        path = spec_file.FILE
        data = (self.folder / path).read_bytes()
        if path not in index.items or digest_of(data, index.items[path].digest) == index.items[path].digest:
            return ""
        try:
            here = spec_file.created_at(data, str(self.folder / path))
            with suppress(NotFoundError, CorruptError):  # then this push mends it
                there = self.work.one(partial(self.there.get, index.key(path)))
                if here != spec_file.created_at(there, self.url):
                    return (
                        f"{self.url} has another experiment of this name. Push to another location, or run "
                        "it again under another name"
                    )
        except (CorruptError, FormatError) as error:
            return str(error)
        return ""

    def _why_trial(self, trial: str, index: Index, changed: Mapping[str, FileStat]) -> str:
        """Return why the target keeps a trial: its journal is longer or went another way. Or return ""."""
        path = f"{trial}/{journal.FILE}"
        file, seen, item = self.folder / path, changed.get(path), index.items.get(path)
        if item is None or (seen is None and file.is_file()):
            return ""
        if (seen.size if seen else 0) < item.size:
            return f"it has more results at {self.url}. To get them: %ckpt pull {self.url}"
        if self._begins(contents(file, item.size), item, index.key(path)):
            return ""
        return f"it continued here and at {self.url}. To keep both, push to another location"

    def _begins(self, here: Data, item: Item, key: str) -> bool:
        """Return whether the beginning of a local journal is the journal at the target."""
        if item.digest:
            return digest_of(here, item.digest) == item.digest
        with suppress(NotFoundError):  # another tool put it there
            return self.work.one(partial(self.there.get, key, 0, item.size)) == b"".join(pieces_of(here))
        return True


def _explained(check: Callable[[], str]) -> str:
    """Return the answer of a check, or why a local file cannot be read: it may be removed just now."""
    try:
        return check()
    except StoreError:
        raise
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
