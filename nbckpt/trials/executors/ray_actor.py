"""The Ray actor of a trial: the code that runs in Ray's process, on any node of the cluster.

`RayWorker` in `ray.py` controls the actor. The actor has a temporary folder, unless its node shares the
trial's own folder.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cloudpickle

from nbckpt.core.shared_tempdir import lend
from nbckpt.errors import CodecError
from nbckpt.provenance.worker import seeds_now
from nbckpt.sync import SyncConfig
from nbckpt.sync.files import FileStat
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.checkpoints.transfer import CheckpointTransfer, TransferManifest, read_piece
from nbckpt.trials.executors.artifacts import Sender, changed_files
from nbckpt.trials.executors.base import Job
from nbckpt.trials.executors.local import make as make_trainable
from nbckpt.trials.executors.local import save
from nbckpt.trials.executors.output import Printed, listener, teeing
from nbckpt.trials.executors.transport import outcome
from nbckpt.trials.model.metrics import Result, with_origin
from nbckpt.trials.model.params import FILE as PARAMS
from nbckpt.trials.training.session import in_trial
from nbckpt.trials.training.trainable import Trainable


class TrialActor:
    """A trainable in Ray's process, in a folder that the actor removes when it leaves.

    Args:
        name: The trial's name, with which Ray marks the printed lines.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lent = ExitStack()
        self._printed = Printed()
        self._trainable: Trainable | None = None
        self._seeds: Mapping[str, Any] | None = None
        self._newest: Record | None = None
        self._origin = ""
        self._is_shared = False
        self._has_folder = False
        self._sender: Sender | None = None

    def __repr__(self) -> str:
        return self._name

    def node(self) -> str:
        """Return the id of the node that the actor runs on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def do(self, method: str, *arguments: Any) -> bytes:
        """Call one of the methods below and return its outcome."""
        listener.set(self._printed.write)
        token = in_trial.set(True)
        try:
            return outcome(getattr(self, method), *arguments)
        finally:
            in_trial.reset(token)

    def make(self, packed: bytes, sync: SyncConfig, params: bytes | None) -> bool:
        """Make the trainable. Return whether this node has the trial's own folder.

        Args:
            packed: The packed job.
            sync: How the trial is synced.
            params: The contents of `params.json` in the trial's own folder; None if the folder is not shared.
        """
        try:
            trainable, config, folder, trial, _ = cloudpickle.loads(packed)
        except Exception as error:
            raise CodecError(
                f"{self._name} cannot be loaded on its node: {type(error).__name__}: {error}. Install there "
                "what it imports, or call ray.init(runtime_env={'working_dir': '.'}) first"
            ) from error
        self._lent.enter_context(teeing())
        self._is_shared = _has(folder, params)
        if not self._is_shared:
            # A lent folder: the next actor on this node removes it if this one is killed.
            folder = self._lent.enter_context(lend(uuid.uuid4().hex, Path.mkdir))
        self._checkpoints = CheckpointFolder(folder)
        self._transfer = CheckpointTransfer(self._checkpoints, "the machine of the experiment")
        self._has_folder = True
        if sync.upload_dir and sync.sync_artifacts:
            self._sender = Sender(sync, self._name, folder)
        self._seeds = seeds_now()
        self._trainable = make_trainable(Job(trainable, config, folder, trial, self._name))
        return self._is_shared

    def train(self, asked: bool) -> tuple[Result, str]:  # noqa: FBT001  it is called from afar
        """Return the next result and the output since the last call. If *asked*, ask the function to save."""
        assert self._trainable is not None
        if asked:
            self._trainable.ask_for_checkpoint()
        result, seeds, self._seeds = self._trainable.next_result(), self._seeds, None
        return result if seeds is None else with_origin(result, seeds), self.printed()

    def printed(self) -> str:
        """Return the output since the last call."""
        return self._printed.take()

    def save(self) -> TransferManifest | None:
        """Save a checkpoint to be fetched. Delete the former one, unless the trial may still read it."""
        assert self._trainable is not None
        record = save(self._trainable, self._checkpoints)
        if record is None:
            return None
        former, self._newest = self._newest, record
        if former is not None and not self._is_shared and former.name not in {record.name, self._origin}:
            self._checkpoints.delete(former)
        return self._transfer.manifest(record)

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Return a piece of a file in the trial's folder; see `read_piece`."""
        return read_piece(self._checkpoints.folder, path, start, stop)

    def write(self, path: str, piece: bytes) -> None:
        """See `CheckpointTransfer.write`."""
        self._transfer.write(path, piece)

    def restore(self, manifest: TransferManifest) -> None:
        """Restore the checkpoint whose files were written."""
        assert self._trainable is not None
        self._origin = self._transfer.commit(manifest).name
        self._trainable.restore(self._checkpoints.folder / self._origin)

    def restore_here(self, name: str) -> None:
        """Restore a checkpoint in the trial's own folder."""
        assert self._trainable is not None
        self._trainable.restore(self._checkpoints.folder / name)

    def changes(self, known: Mapping[str, FileStat]) -> dict[str, FileStat]:
        """See `changed_files`; without a folder there are no changes."""
        return changed_files(self._checkpoints.folder, known) if self._has_folder else {}

    def send(self, last: bool) -> str:  # noqa: FBT001  it is called by position, from afar
        """See `Sender.send`."""
        return "" if self._sender is None else self._sender.send(last=last)

    def stop(self) -> None:
        """End the trainable."""
        if self._trainable is not None:
            self._trainable.stop()

    def leave(self) -> None:
        """Remove the actor's temporary folder."""
        self._lent.close()


def _has(folder: Path, params: bytes | None) -> bool:
    """Return whether this machine has the trial's own folder, for example on a disk that all nodes share."""
    try:
        return params is not None and (folder / PARAMS).read_bytes() == params
    except OSError:
        return False
