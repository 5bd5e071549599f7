"""Mirror: push a store and its experiments to a URL, and pull them back.

<url>/…                          the store's keys, as in the store
<url>/experiments/<name>/…       an experiment's files, with their index
<url>/<name>/…                   an experiment that a run syncs there (trials/engine/upload); pull reads it
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from nbckpt.core.damage import set_aside_all
from nbckpt.core.history import History
from nbckpt.core.packs.format import pack_of
from nbckpt.core.renewal import renew_catalogue
from nbckpt.core.trust import open_signer
from nbckpt.errors import FormatError, NotFoundError, UsageError
from nbckpt.mirror.experiments import another, take
from nbckpt.mirror.kept_there import KeptThere
from nbckpt.store import PrefixStore, Store, open_store
from nbckpt.store.files import explained
from nbckpt.store.locks import Timeout
from nbckpt.store.scan import OUTSIDE, can_be_named, link_outside
from nbckpt.sync.exclusive import alone
from nbckpt.sync.progress import Progress
from nbckpt.sync.stores import mirror
from nbckpt.sync.transfer import Moved, TransferOptions
from nbckpt.sync.upload import upload
from nbckpt.trials.checkpoints.contents import incomplete
from nbckpt.trials.engine.sheets import EXPERIMENTS, note_change, prefixes_there, renew_sheets
from nbckpt.trials.model import spec_file


@dataclass(frozen=True)
class Mirrored:
    """The counts of a push or a pull.

    Attributes:
        checkpoints: The counts for the keys of the store.
        experiments: The counts for the files of each experiment, by its name.
        kept: Experiments that run here and were left unchanged.
    """

    checkpoints: Moved
    experiments: Mapping[str, Moved] = field(default_factory=dict)
    kept: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Mirrored(files={self.files}, size={self.size}, experiments={len(self.experiments)})"

    @property
    def files(self) -> int:
        """The number of files and keys moved."""
        return self.checkpoints.files + sum(moved.files for moved in self.experiments.values())

    @property
    def size(self) -> int:
        """The bytes of these files and keys."""
        return self.checkpoints.size + sum(moved.size for moved in self.experiments.values())


class Mirror:
    """Push a store and its experiments to a remote location, and pull them back.

    A mirror never removes anything from either side. Any number of machines may use one URL.

    Args:
        store: The store.
        experiments: The folder of the store's experiments.
        target: The remote location: a URL, a folder or a store.

    Raises:
        UsageError: The URL is invalid, or it is the store itself.
        FormatError: The two stores use different digest algorithms.
    """

    def __init__(self, store: Store, experiments: Path, target: str | os.PathLike[str] | Store) -> None:
        self.store = store
        self.target = open_store(target)
        self._experiments = experiments
        if self.target.url == store.url:
            raise UsageError(f"{store.url} is the store itself: choose another location")
        here, there = (History(one, open_signer) for one in (self.store, self.target))
        if here.check_format() and there.check_format() and here.algorithms is not there.algorithms:
            raise FormatError(
                f"{store.url} is hashed with {here.algorithms.name}, {self.target.url} with "
                f"{there.algorithms.name}: one store has one digest. Choose an empty location"
            )
        there.check_format()

    def push(self, options: TransferOptions | None = None) -> Mirrored:
        """Push all new checkpoints and trials to the remote location.

        A reader of the remote location finds each checkpoint whole or not at all. It finds each experiment as
        before the push or as after it, even if the push is killed. If another experiment of the same name is
        there, it stays. So does a trial whose journal there is longer or went another way. See kept_there.py.

        Raises:
            StoreError: The storage failed, or the push was cancelled or took too long. No partial data is
                visible.
        """
        turns = _turns(options or TransferOptions())
        checkpoints = mirror(self.store, self.target, next(turns))
        renew_catalogue(History(self.target, open_signer), whole=False, near=self.store)
        set_aside_all(self.store, (pack_of(key) for key in checkpoints.left_out if key.endswith(".pack")))
        with explained("list", self._experiments):
            names = sorted(file.parent.name for file in self._experiments.glob(f"[!.]*/{spec_file.FILE}"))
        # see docs/decisions/0026
        with alone(self._lock, next(turns)) if names else nullcontext():
            moved = {name: self._send(name, next(turns)) for name in names}
        renew_sheets(self.target, self._near)
        return Mirrored(checkpoints, moved)

    @property
    def _lock(self) -> Path:
        """The file to lock while the experiments are pushed to this target."""
        url = self.target.url.encode(errors="surrogatepass")
        return self._experiments / f".push-{hashlib.blake2b(url, digest_size=8).hexdigest()}.lock"

    def _near(self, folder: str) -> Path | None:
        """Return the local folder of an experiment that was pushed."""
        kind, _, name = folder.rpartition("/")
        return self._experiments / name if kind == EXPERIMENTS else None

    def _send(self, name: str, options: TransferOptions) -> Moved:
        """Push an experiment, except what the target is to keep. Leave out a link out of the store."""
        if link := self._link_of(name):
            return Moved(left_out={link: OUTSIDE})
        folder, there = self._experiments / name, self._there(name)
        note = partial(note_change, self.target, f"{EXPERIMENTS}/{name}")
        keep = KeptThere(folder, there, self.target.url, options.work(there.url))
        options = replace(options, incomplete=incomplete, keep=keep, before=note)
        moved = upload(folder, there, options=options)
        return replace(moved, left_out={path or name: why for path, why in moved.left_out.items()})

    def pull(self, options: TransferOptions | None = None) -> Mirrored:
        """Pull the checkpoints and trials that the remote location has and this store lacks.

        If an experiment exists locally, only trials that are new or newer at the remote location are copied.
        Newer local trials stay, and other differences are left out, see merge.py. An experiment that runs
        here is left unchanged. So is an experiment that is a link out of the store.

        Raises:
            NotFoundError: The remote location is empty.
            StoreError: The storage or the disk failed, or the pull was cancelled or took too long.
        """
        turns = _turns(options or TransferOptions())
        checkpoints = mirror(self.target, self.store, next(turns))
        prefixes = prefixes_there(self.target)
        if not (prefixes or checkpoints.files or checkpoints.same):
            raise NotFoundError(f"there are no checkpoints at {self.target.url}: push some there first")
        moved: dict[str, Moved] = {}
        kept = []
        for name, prefix in prefixes.items():
            # An experiment whose first push has not ended has no visible files yet.
            with suppress(NotFoundError):
                try:
                    moved[name] = self._take(name, prefix, next(turns))
                except Timeout:
                    kept.append(name)
        return Mirrored(checkpoints, moved, tuple(kept))

    def _take(self, name: str, prefix: str, options: TransferOptions) -> Moved:
        """Pull an experiment.

        Raises:
            Timeout: The experiment runs here.
        """
        if not can_be_named(name):  # on Windows the name could refer to another drive
            return Moved(left_out={name: "no folder here can have this name"})
        if link := self._link_of(name):
            return Moved(left_out={link: OUTSIDE})
        folder, there = self._experiments / name, PrefixStore(self.target, prefix)
        if spec_file.is_there(folder):
            document = options.work(self.target.url).one(partial(there.get, spec_file.FILE))
            if why := another(folder, document, self.target.url):
                return Moved(left_out={name: why})
        return take(folder, there, options)

    def _link_of(self, name: str) -> str:
        """Return the link that leads from an experiment out of the store, or "" if there is none."""
        with explained("read", self._experiments / name):
            return link_outside(self._experiments.parent, f"{self._experiments.name}/{name}")

    def _there(self, name: str) -> Store:
        return PrefixStore(self.target, f"{EXPERIMENTS}/{name}")


def _turns(options: TransferOptions) -> Iterator[TransferOptions]:
    """Yield options for consecutive transfers, and report their progress as one transfer."""
    total = Progress()
    on_progress = options.on_progress
    while on_progress is not None:
        before = total

        def add(progress: Progress, before: Progress = before) -> None:
            nonlocal total
            total = before + progress
            on_progress(total)

        yield replace(options, on_progress=add)
    while True:
        yield options
