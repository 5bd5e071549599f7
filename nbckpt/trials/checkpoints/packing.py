"""A checkpoint as bytes: one object that holds its record and its files."""

from __future__ import annotations

import io
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

from nbckpt.core.algorithms import HERE, PREFERRED
from nbckpt.errors import CorruptError
from nbckpt.store import DAMAGE, open_archive
from nbckpt.trials.checkpoints.contents import walk
from nbckpt.trials.checkpoints.record import Record, safe_path

_DIGEST = 32


def pack(folder: Path, record: Record) -> bytes:
    """Return the checkpoint *record*, whose files are in *folder*, as bytes.

    The bytes are a digest and an archive. The archive holds `record.json`, and the files below `files/`.
    """
    packed = io.BytesIO()
    packed.write(bytes(_DIGEST))
    # Files older than 1980 are packed too.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        archive.writestr("record.json", replace(record, files={}, folders=()).encode())
        for path in walk(folder) if record.kind != "null" else ():
            archive.write(path, f"files/{safe_path(path.relative_to(folder).as_posix())}")
    with packed.getbuffer() as view:
        view[:_DIGEST] = PREFERRED.digest(view[_DIGEST:])
    return packed.getvalue()


def check_packed(data: bytes) -> None:
    """Check the digest of the bytes that `pack` returned.

    Raises:
        CorruptError: The bytes are not a whole checkpoint.
    """
    if not any(algorithms.digest(memoryview(data)[_DIGEST:]) == data[:_DIGEST] for algorithms in HERE):
        raise CorruptError("this object is not a whole checkpoint of a trial")


def unpack(data: bytes, stage: Path) -> Record:
    """Write the files of a packed checkpoint into *stage*, and return its record.

    Raises:
        CorruptError: The bytes are not a checkpoint.
        OSError: The disk failed.
    """
    try:
        with open_archive(io.BytesIO(data)) as archive:
            for name in archive.namelist()[1:]:
                _extract(archive, name, stage)
            return Record.decode(archive.read("record.json"), "the checkpoint object")
    except (*DAMAGE, KeyError) as error:
        raise CorruptError(f"this object is not a checkpoint of a trial: {error}") from error


def _extract(archive: zipfile.ZipFile, name: str, stage: Path) -> None:
    target = stage.joinpath(*safe_path(name.removeprefix("files/").rstrip("/")).split("/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith("/"):
        target.mkdir()
        return
    with archive.open(name) as source, target.open("xb") as written:
        shutil.copyfileobj(source, written, 1 << 20)
