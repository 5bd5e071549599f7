"""Transfer: moves the files of a trial between its folder and a store, or a process on another machine.

Files move in pieces, so no file has to fit into memory. They are staged, checked and then published: a
reader never finds half of a file or half of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.manifest_json import decode, encode
from nbckpt.core.tree import INSIDE
from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError, NotFoundError
from nbckpt.store import Buffer, Pieces
from nbckpt.store.base import parts_of
from nbckpt.store.files import discard, explained, write_new
from nbckpt.sync.files import contents
from nbckpt.trials.checkpoints.contents import check_files
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record

Read = Callable[[str, int, int], bytes]
"""Returns the bytes of a file from one offset up to another. Raises NotFoundError if the file is missing."""

Calls = Iterable[Callable[[], object]]


def read_piece(folder: Path, path: str, start: int, stop: int) -> bytes:
    """Return the bytes of a file in *folder* from one offset up to another; see `Read`."""
    try:
        with (folder / path).open("rb") as file:
            file.seek(start)
            return file.read(stop - start)
    except FileNotFoundError:
        raise NotFoundError(f"{path!r} in {folder} is gone") from None


def _in_turn(calls: Calls) -> None:
    for call in calls:
        call()


@dataclass(frozen=True)
class TransferManifest:
    """The description of a checkpoint that is sent.

    Attributes:
        record: The record, encoded.
        vouched: The files that carry the sender's signature.
    """

    record: bytes
    vouched: frozenset[str] = frozenset()


class CheckpointTransfer:
    """One end of a transfer: sends checkpoints from a trial's folder, and receives checkpoints into it.

    The two ends may have different secrets, which never leave their machines. So the receiver signs each
    signed file again.

    Args:
        checkpoints: The folder.
        origin: The name of the other end, for messages.
    """

    def __init__(self, checkpoints: CheckpointFolder, origin: str) -> None:
        self._checkpoints = checkpoints
        self._origin = origin
        self._stage: Path | None = None

    def manifest(self, record: Record) -> TransferManifest:
        """Return the manifest of a checkpoint, for the other end."""
        return TransferManifest(record.encode(), frozenset(self._vouched(record)))

    def pieces(self, record: Record) -> Iterator[tuple[str, Buffer]]:
        """Yield the pieces of a checkpoint's files, each with the path of its file."""
        for path, (size, _) in record.files.items():
            file = self._checkpoints.folder / record.name / path
            with explained("read", file):
                for piece in parts_of(contents(file, size)):
                    yield path, piece

    def write(self, path: str, piece: Buffer) -> None:
        """Append the next piece to a file of the checkpoint that `commit` will commit."""
        if self._stage is None:
            self._stage = self._checkpoints.stage()
        file = self._stage / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as opened:
            opened.write(piece)

    def commit(self, manifest: TransferManifest) -> Record:
        """Commit the checkpoint whose pieces were written; see `fetch`."""
        stage, self._stage = self._stage or self._checkpoints.stage(), None
        try:
            return self._commit(stage, manifest)
        finally:
            discard(stage)

    def fetch(
        self, manifest: TransferManifest, read: Read, make: Callable[[Calls], object] = _in_turn
    ) -> Record:
        """Copy a checkpoint from the other end, and commit it.

        Args:
            manifest: The checkpoint's manifest.
            read: Reads a file at the other end, by its path below the trial's folder.
            make: Makes the calls that copy the files, in any order. It may repeat a call.

        Raises:
            CorruptError: The files differ from those that were sent; the folder is unchanged.
            StoreError: The disk failed; the folder is unchanged.
        """
        record = Record.decode(manifest.record, self._origin)

        def copy(path: str) -> None:
            file, size = stage / path, record.files[path][0]
            # If the file is missing at the other end, `_commit` says so.
            with explained("write", self._checkpoints.folder), suppress(NotFoundError):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.unlink(missing_ok=True)  # a repeated call writes the file from its start
                write_new(file, Pieces(size, partial(read, f"{record.name}/{path}")), synced=False)

        with self._checkpoints.staged() as stage:
            make(partial(copy, path) for path in record.files)
            return self._commit(stage, manifest)

    def _commit(self, stage: Path, manifest: TransferManifest) -> Record:
        record = Record.decode(manifest.record, self._origin)
        check_files(stage, record, self._origin)
        files = dict(record.files)
        with explained("write", self._checkpoints.folder):
            for path in record.folders:
                (stage / path).mkdir(parents=True, exist_ok=True)
            for path in manifest.vouched & files.keys():
                file = stage / path
                file.write_bytes(encode(decode(file.read_bytes()), open_signer().sign)[1])
                files[path] = (file.stat().st_size, PREFERRED.checksum_of_file(file))
        return self._checkpoints.publish(stage, replace(record, files=files))

    def _vouched(self, record: Record) -> Iterator[str]:
        for path in record.files:
            if PurePosixPath(path).parts[-2:] == (INSIDE, "checkpoint.json"):
                file = self._checkpoints.folder / record.name / path
                with suppress(NbckptError):  # somebody else's file with that name
                    if open_signer().signed(decode(file.read_bytes())):
                        yield path
