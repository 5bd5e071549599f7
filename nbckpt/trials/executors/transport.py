"""Transport: send checkpoints, jobs and results between a trial's process and the process that controls it.

A checkpoint is sent file by file, in pieces, so no file has to fit into memory. The two sides have
different secrets, which never leave their machines. So the receiver signs each signed file again.
"""

from __future__ import annotations

import pickle
import shutil
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import cloudpickle

from nbckpt.core.manifest import decode, encode
from nbckpt.core.tree import INSIDE
from nbckpt.core.trust import open_signer
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.diagnose import blame
from nbckpt.errors import CodecError, CorruptError, NbckptError, TrialError
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.executors.base import Job
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.training.function import FunctionRunner
from nbckpt.trials.training.trainable import failure

PIECE = 16 << 20
"""The most bytes of a file that are sent at once."""


@dataclass(frozen=True)
class TransferManifest:
    """The description of a checkpoint that is sent.

    Attributes:
        record: The record, encoded.
        vouched: The files that carry the sender's signature.
    """

    record: bytes
    vouched: frozenset[str]


class CheckpointTransfer:
    """One end of a transfer: sends checkpoints from a trial's folder, and receives them into it.

    Args:
        checkpoints: The folder.
    """

    def __init__(self, checkpoints: CheckpointFolder) -> None:
        self._checkpoints = checkpoints
        self._stage: Path | None = None

    def manifest(self, record: Record) -> TransferManifest:
        """Return the manifest of a checkpoint, for the other end."""
        return TransferManifest(record.encode(), frozenset(self._vouched(record)))

    def read(self, name: str, path: str, offset: int, size: int) -> bytes:
        """Return a piece of a file of the checkpoint *name*."""
        with self._checkpoints.folder.joinpath(name, *path.split("/")).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def write(self, path: str, piece: bytes) -> None:
        """Append the next piece to a file."""
        if self._stage is None:
            self._stage = self._checkpoints.stage()
        file = self._stage.joinpath(*path.split("/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as opened:
            opened.write(piece)

    def commit(self, manifest: TransferManifest) -> Record:
        """Commit the checkpoint whose files were received.

        Raises:
            CorruptError: The files differ from those that were sent; the checkpoint is not kept.
            StoreError: The disk failed.
        """
        record = Record.decode(manifest.record, "a checkpoint that was sent")
        stage, self._stage = self._stage or self._checkpoints.stage(), None
        try:
            for path in record.folders:
                stage.joinpath(*path.split("/")).mkdir(parents=True, exist_ok=True)
            for path in manifest.vouched:
                file = stage.joinpath(*path.split("/"))
                file.write_bytes(encode(decode(file.read_bytes()), open_signer().sign)[1])
            made = self._checkpoints.commit(stage, replace(record, files={}, folders=()))
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        sent, came = ({*it.files.items()} for it in (record, made))
        if {path for path, _ in sent ^ came} - manifest.vouched:
            self._checkpoints.delete(made)
            raise CorruptError(f"the files of {record.name} are not those that were sent")
        return made

    def drop(self) -> None:
        """Remove the pieces that were received but not committed."""
        stage, self._stage = self._stage, None
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)

    def _vouched(self, record: Record) -> Iterator[str]:
        for path in record.files:
            if PurePosixPath(path).parts[-2:] == (INSIDE, "checkpoint.json"):
                file = self._checkpoints.folder.joinpath(record.name, *path.split("/"))
                with suppress(NbckptError):  # somebody else's file with that name
                    if open_signer().signed(decode(file.read_bytes())):
                        yield path


def copy_files(
    manifest: TransferManifest,
    read: Callable[[str, str, int, int], bytes],
    write: Callable[[str, bytes], Any],
) -> None:
    """Copy a checkpoint's files: *read* reads from one end, *write* writes to the other."""
    record = Record.decode(manifest.record, "a checkpoint that was sent")
    for path, (size, _) in record.files.items():
        for offset in range(0, max(size, 1), PIECE):
            write(path, read(record.name, path, offset, PIECE))


class RemoteTraceback(Exception):  # noqa: N818  never raised: as a cause it shows where an error arose
    """The traceback of an error that was raised in another process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def outcome(function: Callable[..., Any], *given: Any) -> bytes:
    """Call *function*. Return its value or exception as bytes for `result_of` in another process.

    If a returned mapping cannot be pickled, the plain form that a journal keeps is sent instead.
    """
    try:
        returned = function(*given)
    except BaseException as error:  # noqa: BLE001  any exception is raised again in the other process
        return _failed(error)
    try:
        return _dump((returned, None))
    except Exception as error:  # noqa: BLE001  a value's own pickling may raise anything
        if isinstance(returned, Mapping):
            return _dump((plain(returned), None))
        return _failed(TrialError(f"what it reported cannot be sent: {type(error).__name__}: {error}"))


def result_of(data: bytes) -> Any:
    """Return the value in the bytes of an `outcome`.

    Raises:
        TrialError: The function failed, and its exception is the cause; or its value cannot be loaded here.
        NbckptError: The function raised this error.
    """
    try:
        returned, failed = Classes().load(data, ())
    except Exception as error:
        raise TrialError(f"what it reported cannot be loaded here: {error}") from error
    if failed is not None:
        _raise(*failed)
    return returned


def _dump(value: Any) -> bytes:
    """Pickle a value. Plain pickle comes first, because it takes a tenth of the time."""
    with suppress(Exception):
        return pickle.dumps(value, protocol=5)
    return cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return]


def pack(job: Job) -> bytes:
    """Return a job as bytes for another process: the pickle of its first five fields.

    Raises:
        CodecError: The job cannot be pickled; the message names the part.
    """
    parts = (job.trainable, dict(job.config), job.folder, job.trial, job.name)
    try:
        return cloudpickle.dumps(parts, protocol=5)  # type: ignore[no-any-return]
    except Exception as error:
        path, reason = _guilty(job)
        raise CodecError(
            f"cannot send {path} to another process: {reason}. Make it inside the function, or use "
            "executor='thread'"
        ) from error


def _guilty(job: Job) -> tuple[str, str]:
    """Return the part of a job that cannot be pickled, and the reason."""
    kind, config = job.trainable, dict(job.config)
    try:
        cloudpickle.dumps(config)
    except Exception:  # noqa: BLE001  an object's own pickling may raise anything
        return blame("config", config, cloudpickle.dumps)
    value = kind._function if issubclass(kind, FunctionRunner) else kind
    return blame(kind.__name__, value, cloudpickle.dumps)


def _failed(error: BaseException) -> bytes:
    cause = error.__cause__
    if not isinstance(error, NbckptError):
        error, cause = failure(error), error
    text, pickled = "", b""
    if cause is not None:
        text = "".join(traceback.format_exception(cause)).rstrip()
        with suppress(Exception):  # an exception that cannot be pickled is shown by its traceback
            pickled = _dump(cause)
    return _dump((None, (error, pickled, text)))


def _raise(error: NbckptError, pickled: bytes, text: str) -> NoReturn:
    if not text:
        raise error
    told = RemoteTraceback(text)
    try:
        cause = Classes().load(pickled, ())
    except Exception:  # noqa: BLE001  its class may be unknown here, or its unpickling may fail
        raise error from told
    cause.__cause__ = told
    raise error from cause
