"""Trials on a Ray cluster: an actor for each trial, on any node with free resources.

The journal and the checkpoints stay on this machine, so a lost node loses no report. `ray_actor.py` is
the code that runs on the node.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from nbckpt.errors import NbckptError, StoreError, TrialError, UsageError
from nbckpt.sync.files import FileStat
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.checkpoints.transfer import CheckpointTransfer, TransferManifest
from nbckpt.trials.executors.artifacts import take_in
from nbckpt.trials.executors.base import Executor, Job, Worker, WorkerLostError
from nbckpt.trials.executors.output import listener
from nbckpt.trials.executors.ray_actor import TrialActor
from nbckpt.trials.executors.ray_cluster import connect, situation
from nbckpt.trials.executors.transport import pack, result_of
from nbckpt.trials.model.metrics import OnResult
from nbckpt.trials.model.params import FILE as PARAMS
from nbckpt.trials.model.trial import WAITS
from nbckpt.trials.training.function import STOP_TIMEOUT_S

_LOOK_S = 0.5
_MOST_PLACES = 3
_DETAIL = re.compile(r"^\t?(class_name|actor_id|pid|namespace|ip|name|repr):.*$", re.MULTILINE)

_log = logging.getLogger("nbckpt")


class RayExecutor(Executor):
    """Trials on a Ray cluster: the running cluster, the cluster in RAY_ADDRESS, or a new local one.

    A cluster is never shut down; a local cluster ends with the process. Every node needs nbckpt.

    Args:
        resources: The resources that each trial reserves: `CPU` (one by default), `GPU`, `memory` in bytes,
            and the cluster's custom resources.
        patience_s: How many seconds a trial waits for resources on the cluster before it says so.

    Raises:
        UsageError: Ray is not installed, or refuses the resources.
    """

    name = "ray"
    reserves = True

    def __init__(self, resources: Mapping[str, float], *, patience_s: float = 5.0) -> None:
        try:
            import ray
        except ImportError:
            raise UsageError("executor='ray' needs Ray: pip install 'nbckpt[ray]'") from None
        self._resources = {"CPU": 1, **resources}
        self._patience_s = patience_s
        known = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
        options = {known[key]: amount for key, amount in self._resources.items() if key in known}
        custom = {key: amount for key, amount in self._resources.items() if key not in known}
        try:
            self._actors = ray.remote(TrialActor).options(**options, resources=custom)
        except (TypeError, ValueError) as error:
            raise UsageError(f"resources_per_trial={dict(resources)}: {error}") from None

    def start(self, job: Job) -> Worker:
        """See `Executor.start`. Wait for resources on the cluster while the trial is wanted."""
        packed = pack(job)
        started_here = connect()
        worker = RayWorker(self._actors, job)
        try:
            if worker.has_room(self._resources, grows=not started_here, patience_s=self._patience_s):
                worker.make(packed)
        except BaseException:
            worker.stop()
            raise
        return worker


class RayWorker(Worker):
    """A trainable in an actor.

    Args:
        actors: The class of actors, with its options.
        job: The trial.
    """

    def __init__(self, actors: Any, job: Job) -> None:
        self._actors = actors
        self._actor = actors.remote(job.name)
        self._places = 1
        self._job = job
        self._checkpoints = CheckpointFolder(job.folder)
        self._transfer = CheckpointTransfer(self._checkpoints, f"the node of {job.name}")
        self._node = ""
        self._made = False
        self._is_shared = self._asked = False
        self._known: dict[str, FileStat] = {}
        self._looked_at = time.monotonic()

    def has_room(self, resources: Mapping[str, float], *, grows: bool, patience_s: float) -> bool:
        """Wait until the actor runs on a node. Return False if the trial was given up.

        Args:
            resources: The resources that the actor needs.
            grows: Whether other nodes may join the cluster.
            patience_s: How many seconds to wait before saying so.

        Raises:
            UsageError: The actor will never fit.
            WorkerLostError: The actor cannot start.
        """
        import ray

        arrived = self._actor.node.remote()
        deadline = time.monotonic() + patience_s
        warned = False
        while True:
            if ray.wait([arrived], timeout=_LOOK_S)[0]:
                try:
                    self._node = self._get(arrived)
                    return True
                except WorkerLostError as error:
                    self._place_again(error)
                    arrived = self._actor.node.remote()
            fits, usage = situation(resources)
            if not fits and not grows:
                raise UsageError(f"{self._job.name} will never run: {usage}. Ask for less")
            waits = not fits or time.monotonic() > deadline
            if waits and not warned:
                _log.warning("%s waits: %s", self._job.name, usage)
                warned = True
            if not self._job.waits(f"{WAITS}the cluster: {usage}" if waits else ""):
                return False

    def _place_again(self, lost: WorkerLostError) -> None:
        """Ask for another actor if this one never ran, because Ray had placed it on a node that was gone.

        Ray misses a node some 17 s after a power cut, and places actors on it until then (Ray 2.60).

        Raises:
            WorkerLostError: The actor was lost for another reason, or several times.
        """
        import ray

        cause = lost.__cause__
        was_placed = isinstance(cause, ray.exceptions.ActorDiedError) and not cause.actor_init_failed
        if not was_placed or self._places == _MOST_PLACES:
            raise lost
        self._places += 1
        self._actor = self._actors.remote(self._job.name)

    def make(self, packed: bytes) -> None:
        """Make the trainable in the actor."""
        self._made = True
        sync = self._job.sync
        params = (self._job.folder / PARAMS).read_bytes() if sync.syncer is None else None
        self._is_shared = self.call("make", packed, sync, params)

    def restore(self, checkpoint: Record) -> None:
        """See `Worker.restore`."""
        if self._is_shared:
            self.call("restore_here", checkpoint.name)
            return
        for path, piece in self._transfer.pieces(checkpoint):
            self.call("write", path, piece)
        self.call("restore", self._transfer.manifest(checkpoint))

    def run(self, on_result: OnResult) -> None:
        """See `Worker.run`."""
        while True:
            asked, self._asked = self._asked, False
            result, printed = self.call("train", asked)
            self._keep(printed)
            if time.monotonic() - self._looked_at >= self._job.sync.sync_period:
                self._bring()
            if not on_result(result) or result.done:
                return

    def save(self) -> Record | None:
        """See `Worker.save`: copy the checkpoint to this machine and commit it here."""
        manifest: TransferManifest | None = self.call("save")
        if manifest is None:
            return None
        if self._is_shared:
            return self._checkpoints.read(Record.decode(manifest.record, "a checkpoint").name)
        if self._job.sync.sync_on_checkpoint:
            self._bring()
        return self._transfer.fetch(manifest, partial(self.call, "read"))

    def ask_for_checkpoint(self) -> None:
        """See `Worker.ask_for_checkpoint`: the next call for a result tells the actor."""
        self._asked = True

    def stop(self) -> None:
        """See `Worker.stop`: end the actor after that."""
        try:
            if self._made:
                self._made = False
                try:
                    self.call("stop", timeout=2 * STOP_TIMEOUT_S)
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
        """Write the trial's output to its log."""
        write = listener.get()
        if write is not None:
            write(printed)

    def _leave(self) -> None:
        self._keep(self.call("printed"))
        self._bring(last=True)
        self.call("leave", timeout=2 * STOP_TIMEOUT_S)

    def kill(self) -> None:
        """See `Worker.kill`."""
        import ray

        with suppress(ray.exceptions.RayError):
            ray.kill(self._actor)

    def _bring(self, *, last: bool = False) -> None:
        """Copy the trial's artifacts to this machine, or upload them to `upload_dir`."""
        sync, self._looked_at = self._job.sync, time.monotonic()
        if sync.syncer is None or not sync.sync_artifacts:
            return
        try:
            if sync.upload_dir:
                failure = self.call("send", last)
                if failure:
                    self._job.warns(StoreError(failure))
                return
            changed = self.call("changes", self._known)
            take_in(self._job.folder, changed, partial(self.call, "read"))
            self._known.update(changed)
        except WorkerLostError:
            raise
        except NbckptError as error:  # the trial continues, and the next call tries again
            self._job.warns(error)

    def call(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Call a method of the actor and return its result."""
        return result_of(self._get(self._actor.do.remote(method, *arguments), timeout))

    def _get(self, reference: Any, timeout: float | None = None) -> Any:
        import ray

        try:
            return ray.get(reference, timeout=timeout)
        except ray.exceptions.RayError as error:
            where = f" on node {self._node}" if self._node else ""
            reason = " ".join(_DETAIL.sub("", str(error)).split())
            raise WorkerLostError(f"{self._job.name} lost its Ray actor{where}: {reason}") from error
