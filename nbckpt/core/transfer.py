"""Transfer: one checkpoint to a file and from a file, as the keys of a small store."""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from nbckpt.core.history import History, Ref
from nbckpt.core.manifest import Manifest, decode, encode
from nbckpt.core.pack import pack_key, parse_index
from nbckpt.core.packer import Packer
from nbckpt.core.tree import pack, packed_tree
from nbckpt.errors import CorruptError, FormatError, StoreError, UsageError
from nbckpt.store import ArchiveStore, ArchiveWriter


def export(
    history: History, manifest: Manifest, file: Path, name: str = "", *, overwrite: bool = False
) -> int:
    """Write a checkpoint, and nothing else of the store, into *file*; return the file's size.

    A checkpoint of this user's is signed in the file too; anyone else's stays unsigned.

    Raises:
        UsageError: The file exists and *overwrite* was not said.
        StoreError: The disk failed; there is no such file, or still the former one.
    """
    if file.exists() and not overwrite:
        raise UsageError(f"{str(file)!r} exists: choose another name, or say --overwrite")
    sign = history.signer.sign if history.trusted(manifest) else None
    staged = file.with_name(f".{file.name}.{uuid.uuid4().hex}.nbckpt-tmp")
    try:
        with staged.open("wb") as opened:
            _write(history, manifest, ArchiveWriter(opened), name, sign)
            opened.flush()
            os.fsync(opened.fileno())
        staged.replace(file)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror or error}") from error
    finally:
        staged.unlink(missing_ok=True)
    return file.stat().st_size


def _write(history: History, manifest: Manifest, archive: ArchiveWriter, name: str, sign: object) -> None:
    with Packer(archive) as packer:
        made = pack(packed_tree(manifest, history.store), packer)
        packer.finish()
        sealed, data = encode(replace(made(), parent=""), sign)  # type: ignore[arg-type]  # set by the caller
    archive.put(f"checkpoints/{sealed.id}.json", data)
    if name:
        archive.put("name", name.encode())
    archive.close()


def import_file(history: History, file: Path) -> tuple[Manifest, Ref | None, bool]:
    """Take the checkpoint in *file* into the store, under the name that it had.

    Returns:
        The checkpoint, its name's new version, and whether it was new here. Taking in the same file
        again changes nothing.

    Raises:
        NotFoundError: There is no such file.
        CorruptError: It is damaged; nothing was taken in.
        FormatError: It is something else.
    """
    archive = ArchiveStore(file)
    with closing(archive):
        keys = list(archive.keys("checkpoints/"))
        if len(keys) != 1:
            raise FormatError(f"{str(file)!r} is not an exported checkpoint")
        data = archive.get(keys[0])
        manifest = decode(data, f"the checkpoint in {str(file)!r}")
        known = {entry.id for entry in history.entries()}
        if manifest.id in known:
            return manifest, None, False
        history.check_format(create=True)
        for name in sorted(manifest.packs()):
            _take_pack(history, archive, name)
        history.adopt(manifest, data)
        label = archive.get("name").decode("utf-8", "replace") if archive.exists("name") else ""
    return manifest, history.add_ref(label, manifest.id) if label else None, True


def _take_pack(history: History, archive: ArchiveStore, name: str) -> None:
    """Take in one pack, after checking every byte of it."""
    data = archive.get(pack_key(name))
    view = memoryview(data)
    for blob in parse_index(data, name):
        piece = view[blob.offset : blob.offset + blob.stored]
        if len(piece) != blob.stored:
            raise CorruptError(f"pack {name[:12]} in {archive.url!r} is cut short")
        blob.decode(piece)
    if not history.store.exists(pack_key(name)):
        history.store.put(pack_key(name), data)
