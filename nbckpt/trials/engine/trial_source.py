"""TrialSource: the trials of an experiment that this process claims, as its worker pool asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nbckpt.errors import StoreError
from nbckpt.trials.engine.claim import Claim, OpenClaims
from nbckpt.trials.engine.files import ExperimentFiles
from nbckpt.trials.engine.guarded import SafeSearch
from nbckpt.trials.engine.pool import WorkerPool
from nbckpt.trials.executors.cell import CellExecutor
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial


class TrialSource(ExperimentFiles):
    """Claims an experiment while its pool works, and makes the trials that the search suggests.

    Attributes:
        pool: The worker threads.
        claim: The lock of the process that runs the experiment.
        opened: The locks of the tracked trials that this process has open.
    """

    def __init__(self, folder: Path, spec: Spec) -> None:
        super().__init__(folder, spec)
        self.pool = WorkerPool(folder.name)
        self.claim = Claim(folder, self.pool.changed)
        self.opened = OpenClaims(folder)
        self._search = SafeSearch()

    def refresh(self) -> None:
        """Take in the changes by another process. Nobody else writes what runs here.

        Raises:
            CorruptError: The experiment's file is damaged.
        """
        with self.pool.changed:
            if self.is_tracked or not self.pool.workers:
                self._read_again(self.pool.running, self.lost)

    def write_spec(self, spec: Spec) -> None:
        """See `ExperimentFiles.write_spec`. No other thread takes the file in before it is known as ours."""
        with self.pool.changed:
            super().write_spec(spec)

    @property
    def is_tracked(self) -> bool:
        """Whether plain loops make its trials. Then any number of processes may have trials of it open."""
        return self.spec.executor == CellExecutor.name

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Claim the experiment during the block, and take in the changes by other processes first.

        Raises:
            UsageError: Another process runs the experiment.
            StoreError: The disk failed.
        """
        with self.pool.changed:
            self.claim.acquire()
        try:
            self.refresh()
            yield
        finally:
            with self.pool.changed:
                self.claim.release()

    def touch(self) -> None:
        """See `Experiment.touch`."""
        self.version += 1

    # What the pool asks for.

    @property
    def to_suggest(self) -> int:
        """See `PoolClient.to_suggest`."""
        return max(self.spec.num_samples - len(self.trials), 0) if self._search.open else 0

    def suggest(self) -> Trial | None:
        """See `PoolClient.suggest`. A trial that cannot be made fails with the cause."""
        while self.to_suggest:
            config = self._search.suggest(self.new_id())
            if config is None:
                break
            try:
                return self.add(config)[0]
            except StoreError as error:
                lost = self.trials[self.new_id()] = Trial(self.folder / self.new_id(), config)
                TrialRecorder(lost).lose(str(error))
                self._search.ended(lost)
        return None

    def on_begin(self) -> None:
        """See `PoolClient.on_begin`: claim the experiment."""
        if not self.is_tracked:
            self.claim.acquire()

    def on_idle(self) -> None:
        """See `PoolClient.on_idle`."""
        assert self.pool.run_settings is not None
        self.pool.run_settings.callbacks.call("on_experiment_end", tuple(self.trials.values()))

    def on_end(self) -> None:
        """See `PoolClient.on_end`: release the experiment."""
        if self.is_tracked:
            self.opened.release()
        else:
            self.claim.release()
        self.touch()

    # Other processes.

    def elsewhere(self, name: str = "") -> list[str]:
        """Return the names of the trials that other processes run: of all trials, or of the named one.

        If another process runs the whole experiment, that is *name*, also if it is "".
        """
        if self.is_tracked:
            return [trial for trial in self.opened.elsewhere() if name in {"", trial}]
        return [name] if not self.pool.workers and self.claim.is_elsewhere() else []

    def lost(self, names: Sequence[str]) -> list[str]:
        """See `Internals.lost`."""
        if not names:
            return []
        if self.is_tracked:
            known = {*self.pool.running, *self.opened.elsewhere()}
            return [name for name in names if name not in known]
        return [] if self.pool.workers or self.elsewhere() else [*names]
