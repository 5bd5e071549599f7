"""Trials on a Ray cluster: an actor for each, wherever there is room for it.

The journal and the checkpoints stay with the one who drives; an actor has a folder for the time that it
lives. So a lost node loses nothing that was reported.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import cloudpickle

from nbckpt.core.shared_tempdir import lend
from nbckpt.errors import CodecError, NbckptError, StoreError, TrialError, UsageError
from nbckpt.sync import SyncConfig
from nbckpt.sync.files import FileStat
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.executors.artifacts import Artifacts, Sender, take_in
from nbckpt.trials.executors.base import Executor, Handle, Job, Worker, WorkerLostError
from nbckpt.trials.executors.local import make as make_trainable
from nbckpt.trials.executors.local import save
from nbckpt.trials.executors.output import Printed, listener, teeing
from nbckpt.trials.executors.transport import (
    CheckpointTransfer,
    TransferManifest,
    copy_files,
    outcome,
    pack,
    result_of,
)
from nbckpt.trials.model.metrics import DONE
from nbckpt.trials.model.params import FILE as PARAMS
from nbckpt.trials.training.function import STOP_TIMEOUT_S
from nbckpt.trials.training.trainable import Trainable

PATIENCE_S = 5.0
"""How long a trial waits for room on the cluster before it says so."""

_LOOK_S = 0.5
_DETAIL = re.compile(r"^\t?(class_name|actor_id|pid|namespace|ip|name|repr):.*$", re.MULTILINE)

_log = logging.getLogger("nbckpt")
_connecting = threading.Lock()
_started: set[str] = set()


class RayExecutor(Executor):
    """Trials on a Ray cluster: the one that runs here or that RAY_ADDRESS names, else a new local one.

    A cluster is never shut down; a local one ends with the process. Every node needs nbckpt.

    Args:
        resources: What each trial reserves: `CPU` (one by default), `GPU`, `memory` in bytes, and the
            cluster's own.

    Raises:
        UsageError: Ray is not installed, or refuses the resources.
    """

    name = "ray"

    def __init__(self, resources: Mapping[str, float]) -> None:
        try:
            import ray
        except ImportError:
            raise UsageError("executor='ray' needs Ray: pip install 'nbckpt[ray]'") from None
        self._resources = {"CPU": 1, **resources}
        known = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
        options = {known[key]: it for key, it in self._resources.items() if key in known}
        custom = {key: it for key, it in self._resources.items() if key not in known}
        try:
            self._actors = ray.remote(TrialActor).options(**options, resources=custom)
        except (TypeError, ValueError) as error:
            raise UsageError(f"resources_per_trial={dict(resources)}: {error}") from None

    def start(self, job: Job) -> Worker:
        """See `Executor.start`; it waits for room while the trial is wanted."""
        packed = pack(job)
        started_here = _connect()
        worker = RayWorker(self._actors.remote(job.name), job)
        try:
            if worker.has_room(self._resources, grows=not started_here):
                worker.make(packed)
        except BaseException:
            worker.stop()
            raise
        return worker


class RayWorker(Worker):
    """A trainable in an actor."""

    def __init__(self, actor: Any, job: Job) -> None:
        self._actor = actor
        self._job = job
        self._checkpoints = CheckpointFolder(job.folder)
        self._transfer = CheckpointTransfer(self._checkpoints)
        self._node = ""
        self._made = False
        self._is_shared = self._asked = False
        self._known: dict[str, FileStat] = {}
        self._looked_at = time.monotonic()

    def has_room(self, resources: Mapping[str, float], *, grows: bool) -> bool:
        """Wait until the actor runs somewhere; False when the trial is not wanted any more.

        Args:
            resources: What it needs.
            grows: Whether other nodes may join the cluster.

        Raises:
            UsageError: It will never fit.
            WorkerLostError: The actor cannot start.
        """
        import ray

        arrived = self._actor.node.remote()
        deadline = time.monotonic() + PATIENCE_S
        told = False
        while True:
            if ray.wait([arrived], timeout=_LOOK_S)[0]:
                self._node = self._get(arrived)
                return True
            fits, situation = _situation(resources)
            if not fits and not grows:
                raise UsageError(f"{self._job.name} will never run: {situation}. Ask for less")
            waits = not fits or time.monotonic() > deadline
            if waits and not told:
                _log.warning("%s waits: %s", self._job.name, situation)
                told = True
            if not self._job.waits(situation if waits else ""):
                return False

    def make(self, packed: bytes) -> None:
        """Make the trainable in the actor."""
        self._made = True
        sync = self._job.sync
        own = (self._job.folder / PARAMS).read_bytes() if sync.syncer is None else None
        self._is_shared = self._call("make", packed, sync, own)

    def restore(self, checkpoint: Record) -> None:
        """See `Worker.restore`."""
        if self._is_shared:
            self._call("restore_here", checkpoint.name)
            return
        manifest = self._transfer.manifest(checkpoint)
        copy_files(manifest, self._transfer.read, lambda path, piece: self._call("write", path, piece))
        self._call("restore", manifest)

    def run(self, handle: Handle) -> None:
        """See `Worker.run`."""
        going = True
        while going:
            asked, self._asked = self._asked, False
            result, printed = self._call("train", asked)
            self._keep(printed)
            if time.monotonic() - self._looked_at >= self._job.sync.sync_period:
                self._bring()
            going = handle(result) and not result.get(DONE)

    def save(self) -> Record | None:
        """See `Worker.save`: the checkpoint is brought here, and committed here."""
        manifest: TransferManifest | None = self._call("save")
        if manifest is None:
            return None
        if self._is_shared:
            return self._checkpoints.read(Record.decode(manifest.record, "a checkpoint").name)
        if self._job.sync.sync_on_checkpoint:
            self._bring()
        try:
            copy_files(manifest, lambda *piece: self._call("read", *piece), self._transfer.write)
            return self._transfer.commit(manifest)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"cannot write a checkpoint to {str(self._job.folder)!r}: {error.strerror or error}"
            ) from error
        finally:
            self._transfer.drop()

    def ask_for_checkpoint(self) -> None:
        """See `Worker.ask_for_checkpoint`: an actor hears of it when it is asked for a result."""
        self._asked = True

    def stop(self) -> None:
        """See `Worker.stop`: then the actor ends."""
        try:
            if self._made:
                self._made = False
                try:
                    self._call("stop", timeout=2 * STOP_TIMEOUT_S)
                except TrialError as error:
                    if not isinstance(error, WorkerLostError):
                        self._leave()
                    raise
                self._leave()
        except WorkerLostError as error:
            if isinstance(error.__cause__, TimeoutError):
                _log.warning("%s was asked to stop and is ended without its cleanup", self._job.name)
        finally:
            self.kill()

    def _keep(self, printed: str) -> None:
        """Have what the trial printed kept in its log."""
        writes = listener.get()
        if writes is not None:
            writes(printed)

    def _leave(self) -> None:
        self._keep(self._call("printed"))
        self._bring(last=True)
        self._call("leave", timeout=2 * STOP_TIMEOUT_S)

    def kill(self) -> None:
        """See `Worker.kill`."""
        import ray

        with suppress(ray.exceptions.RayError):
            ray.kill(self._actor)

    def _bring(self, *, last: bool = False) -> None:
        """Have what the trial wrote beside its checkpoints brought here, or to `upload_dir`."""
        sync, self._looked_at = self._job.sync, time.monotonic()
        if sync.syncer is None or not sync.sync_artifacts:
            return
        try:
            if sync.upload_dir:
                trouble = self._call("send", last)
                if trouble:
                    self._job.warns(StoreError(trouble))
                return
            changed = self._call("changes", self._known)
            take_in(self._job.folder, changed, lambda *piece: self._call("peek", *piece))
            self._known.update(changed)
        except WorkerLostError:
            raise
        except NbckptError as error:  # the trial goes on; it is tried again
            self._job.warns(error)

    def _call(self, what: str, *given: Any, timeout: float | None = None) -> Any:
        """Have the actor do something, and return what comes of it."""
        return result_of(self._get(self._actor.do.remote(what, *given), timeout))

    def _get(self, reference: Any, timeout: float | None = None) -> Any:
        import ray

        try:
            return ray.get(reference, timeout=timeout)
        except ray.exceptions.RayError as error:
            where = f" on node {self._node}" if self._node else ""
            reason = " ".join(_DETAIL.sub("", str(error)).split())
            raise WorkerLostError(f"{self._job.name} lost its Ray actor{where}: {reason}") from error


class TrialActor:
    """What runs in Ray's process: a trainable, in a folder that goes with it.

    Args:
        name: The trial's, with which Ray marks what it prints.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lent = ExitStack()
        self._printed = Printed()
        self._trainable: Trainable | None = None
        self._newest: Record | None = None
        self._origin = ""
        self._is_shared = False
        self._artifacts: Artifacts | None = None
        self._sender: Sender | None = None

    def __repr__(self) -> str:
        return self._name

    def node(self) -> str:
        """Return the id of the node that it runs on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def do(self, what: str, *given: Any) -> bytes:
        """Call one of the methods below, and return its outcome."""
        listener.set(self._printed.write)
        return outcome(getattr(self, what), *given)

    def make(self, packed: bytes, sync: SyncConfig, own: bytes | None) -> bool:
        """Make the trainable; tell whether it is in the trial's own folder, whose `params.json` is *own*."""
        try:
            trainable, config, folder, trial, _ = cloudpickle.loads(packed)
        except Exception as error:
            raise CodecError(
                f"{self._name} cannot be loaded on its node: {type(error).__name__}: {error}. Install there "
                "what it imports, or call ray.init(runtime_env={'working_dir': '.'}) first"
            ) from error
        self._lent.enter_context(teeing())
        self._is_shared = _has(folder, own)
        if not self._is_shared:
            # Lent, so that what is left of an actor that was killed goes with the next that comes there.
            folder = self._lent.enter_context(lend(uuid.uuid4().hex, Path.mkdir))
        self._checkpoints = CheckpointFolder(folder)
        self._transfer = CheckpointTransfer(self._checkpoints)
        self._artifacts = Artifacts(folder)
        if sync.upload_dir and sync.sync_artifacts:
            self._sender = Sender(sync, self._name, folder)
        self._trainable = make_trainable(Job(trainable, config, folder, trial, self._name))
        return self._is_shared

    def train(self, asked: bool) -> tuple[dict[str, Any], str]:  # noqa: FBT001  it is called from afar
        """Return the next result and what was printed; the function knows then that it is *asked* to save."""
        assert self._trainable is not None
        if asked:
            self._trainable.ask_for_checkpoint()
        return self._trainable.train(), self.printed()

    def printed(self) -> str:
        """Return what was printed since that was asked."""
        return self._printed.take()

    def save(self) -> TransferManifest | None:
        """Save a checkpoint, to be fetched; of those that were, only what the trial may read stays here."""
        assert self._trainable is not None
        record = save(self._trainable, self._checkpoints)
        if record is None:
            return None
        former, self._newest = self._newest, record
        if former is not None and not self._is_shared and former.name not in {record.name, self._origin}:
            self._checkpoints.delete(former)
        return self._transfer.manifest(record)

    def read(self, name: str, path: str, offset: int, size: int) -> bytes:
        """See `CheckpointTransfer.read`."""
        return self._transfer.read(name, path, offset, size)

    def write(self, path: str, piece: bytes) -> None:
        """See `CheckpointTransfer.write`."""
        self._transfer.write(path, piece)

    def restore(self, manifest: TransferManifest) -> None:
        """Go on from the checkpoint whose files were written."""
        assert self._trainable is not None
        self._origin = self._transfer.commit(manifest).name
        self._trainable.restore(self._checkpoints.folder / self._origin)

    def restore_here(self, name: str) -> None:
        """Go on from a checkpoint in the trial's own folder."""
        assert self._trainable is not None
        self._trainable.restore(self._checkpoints.folder / name)

    def changes(self, known: Mapping[str, FileStat]) -> dict[str, FileStat]:
        """See `Artifacts.changes`; before there is a folder there are none."""
        return {} if self._artifacts is None else self._artifacts.changes(known)

    def peek(self, path: str, offset: int) -> bytes:
        """See `Artifacts.read`."""
        assert self._artifacts is not None
        return self._artifacts.read(path, offset)

    def send(self, last: bool) -> str:  # noqa: FBT001  it is called by position, from afar
        """See `Sender.send`."""
        return "" if self._sender is None else self._sender.send(last=last)

    def stop(self) -> None:
        """End the trainable."""
        if self._trainable is not None:
            self._trainable.stop()

    def leave(self) -> None:
        """Remove the folder."""
        self._lent.close()


def _has(folder: Path, own: bytes | None) -> bool:
    """Tell whether this machine has the trial's own folder, as on a disk that all nodes share."""
    try:
        return own is not None and (folder / PARAMS).read_bytes() == own
    except OSError:
        return False


def _connect() -> bool:
    """Connect to a cluster, unless that is done; tell whether it is one that was started here."""
    import ray

    with _connecting:
        if not ray.is_initialized():
            address = os.environ.get("RAY_ADDRESS") or "local"
            done: Future[None] = Future()
            threading.Thread(target=_init, args=(address, done), name="ray-cluster", daemon=True).start()
            try:
                done.result()
            except Exception as error:
                raise WorkerLostError(f"cannot connect to Ray at {address!r}: {error}") from error
            if address == "local":
                _started.add(ray.get_runtime_context().gcs_address)
        return ray.get_runtime_context().gcs_address in _started


def _init(address: str, done: Future[None]) -> None:
    """Connect to a cluster. The thread stays: with it would end the processes of a cluster that it starts."""
    import ray

    local = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, logging_level=logging.ERROR, **local)
    except BaseException as error:  # noqa: BLE001  raised where it was asked for
        done.set_exception(error)
    else:
        done.set_result(None)
        threading.Event().wait()


def _situation(resources: Mapping[str, float]) -> tuple[bool, str]:
    """Tell whether a node could hold *resources* if it were empty; and what was asked, and what there is."""
    import ray

    total, free = ray.cluster_resources(), ray.available_resources()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fits = any(all(node.get(key, 0) >= it for key, it in resources.items()) for node in nodes)
    asked = ", ".join(f"{it:g} {key}" for key, it in resources.items())
    has = ", ".join(f"{total.get(key, 0):g} {key} ({free.get(key, 0):g} free)" for key in resources)
    end = "" if fits else ", and no node that could hold it"
    return fits, f"it asked for {asked}; the cluster has {has}{end}"
