"""Transfer: exports one checkpoint to a file and imports it, as the keys of a small store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TypeVar

from nbckpt.core.history import History, VanishedError
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.manifest_json import MOST, decode, encode
from nbckpt.core.names import check_name
from nbckpt.core.packs.format import check_pack, pack_key
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.core.plain import Sign
from nbckpt.core.references import SHORT, Entry, Ref
from nbckpt.core.tree import Tree, pack, packed_tree
from nbckpt.core.trust import open_signer
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import ArchiveStore, ArchiveWriter, Store
from nbckpt.store.files import explained, writing

_MOST_NAME = 1000
_MOST_TRIES = 3

T = TypeVar("T")


def export(
    history: History, manifest: Manifest, file: Path, name: str = "", *, overwrite: bool = False
) -> int:
    """Write one checkpoint, and nothing else of the store, into *file*. Return the size of the file.

    If this user signed the checkpoint, it is also signed in the file. Any other checkpoint stays unsigned.

    Raises:
        UsageError: The file exists and *overwrite* is false.
        StoreError: The disk failed. The file does not exist, or is unchanged.
    """
    sign = history.signer.sign if history.trusted(manifest) else None
    return write_file(packed_tree(manifest, history.store), file, sign, name, overwrite=overwrite)


def write_file(tree: Tree, file: Path, sign: Sign | None, name: str = "", *, overwrite: bool = False) -> int:
    """Write a checkpoint from any place into *file*; see `export`."""
    with explained("write", file):
        if file.exists() and not overwrite:
            raise UsageError(f"{str(file)!r} exists. Choose another name, or use --overwrite")
        file.parent.stat()  # raises if the folder does not exist, for example after a typing error
        with writing(file) as opened:
            write_archive(tree, opened, sign, name)
            return opened.tell()


def write_archive(tree: Tree, file: BinaryIO, sign: Sign | None, name: str = "") -> None:
    """Write a checkpoint as an archive into an open file. It names no parent, which is not in the archive."""
    with closing(ArchiveWriter(file)) as archive:
        with Packer(archive) as packer:
            made = pack(tree, packer)
            packer.finish()
            sealed, data = encode(replace(made(), parent=""), sign)
        archive.put(_key(sealed), data)
        if name:
            archive.put("name", name.encode())


def _key(manifest: Manifest) -> str:
    """Return the key of a checkpoint's manifest in an archive."""
    return f"checkpoints/{manifest.id}.json"


def read_archive(archive: ArchiveStore) -> tuple[Manifest, bytes]:
    """Return the only checkpoint in an archive, and the bytes of its manifest.

    Raises:
        CorruptError: It is damaged, or it is stored under the key of another checkpoint.
        FormatError: There is no checkpoint, or more than one.
    """
    keys = list(archive.keys("checkpoints/"))
    if len(keys) != 1:
        raise FormatError(f"{archive.url!r} is not an exported checkpoint")
    data = archive.get(keys[0], 0, MOST + 1)
    manifest = decode(data, f"the checkpoint in {archive.url!r}")
    if keys[0] != _key(manifest):
        raise CorruptError(f"the checkpoint in {archive.url!r} is damaged: its key belongs to another one")
    return manifest, data


def import_file(history: History, file: Path) -> tuple[Manifest, Ref | None, bool]:
    """Import the checkpoint in *file* into the store, under the name that it had.

    Returns:
        The checkpoint, the new version of its name, and whether the checkpoint was new here. Importing the
        same file again changes nothing.

    Raises:
        NotFoundError: The file does not exist.
        CorruptError: It is damaged. Nothing was imported.
        FormatError: It is not an archive of a checkpoint, or the store has another digest. Nothing was
            imported.
    """
    archive = ArchiveStore(file)
    with closing(archive):
        manifest, data = read_archive(archive)
        if not manifest.created_at:
            raise FormatError(f"the checkpoint in {str(file)!r} does not say when it was made")
        if manifest.id in {entry.id for entry in history.entries()}:
            return manifest, None, False
        _check(archive, manifest)
        name = _label(archive)
        history.ensure(manifest.algorithms)
        sizes = dict(archive.sizes("packs/"))
        for key in map(pack_key, sorted(manifest.packs())):
            # A pack of another size is not whole: see docs/decisions/0044.
            if dict(history.store.sizes(key)).get(key) != sizes[key]:
                history.store.put(key, archive.get(key))
        return manifest, _adopt(history, manifest, data, name), True


def give_name(history: History, entry: Entry, name: str) -> Ref:
    """Give a checkpoint an additional name. A point becomes a checkpoint, which stays.

    Raises:
        NotFoundError: The point was just removed. Nothing has the name.
        UsageError: The name is not valid.
    """
    if entry.kind == "checkpoints":
        return history.add_ref(name, entry)
    try:
        ref = history.adopt(history.read(entry), history.raw(entry), check_name(name))
    except VanishedError:
        raise NotFoundError(f"{entry.id[:SHORT]} was just removed, so it can have no name") from None
    assert ref is not None  # a name was given
    return ref


def save_tree(tree: Tree, store: Store, name: str = "", *, message: str = "", sign: bool) -> Manifest:
    """Save a checkpoint from any place in a store. Data that the store has is not written again.

    Without *sign*, the checkpoint stays unsigned in the store.
    """
    history = History(store, open_signer)

    def write(packer: Packer) -> Manifest:
        packed = pack(tree, packer)
        packer.finish()
        return replace(packed(), created_at=now(), message=message)

    def publish(draft: Manifest) -> Manifest:
        if sign:
            return history.publish(draft, name)[0]
        made, data = encode(draft)
        history.adopt(made, data, name)
        return made

    return save(history, Known(store), write, publish, name)[0]


def save(
    history: History,
    known: Known,
    write: Callable[[Packer], Manifest],
    publish: Callable[[Manifest], T],
    name: str = "",
) -> tuple[T, int]:
    """Write the packs of a checkpoint and publish it, both once more if gc deletes a pack that it needs.

    Args:
        history: The store.
        known: The blobs that are there.
        write: Writes the packs and returns the manifest.
        publish: Publishes the manifest.
        name: The name that the checkpoint gets. Its last version shows which blobs are likely the same.

    Returns:
        The return value of *publish*, and the bytes that are new in the store.

    Raises:
        StoreError: gc ran during each attempt.
    """
    refresh(history, known, name)
    for attempt in range(_MOST_TRIES):
        try:
            packer = Packer(history.store, known, algorithms=history.algorithms, salted=attempt > 0)
            return save_once(known, packer, write, publish), packer.new_bytes
        except VanishedError as error:
            known.forget(error.packs)
    raise StoreError(
        f"gc ran on {history.store.url} during each of {_MOST_TRIES} saves. Save again when gc has ended"
    )


def refresh(history: History, known: Known, name: str = "") -> None:
    """Look which blobs are there; see `save`."""
    if (view := history.view()) is None:
        known.refresh()
    else:
        known.learn(view, history.packs_of_newest(name, view) if name else ())


def save_once(
    known: Known, packer: Packer, write: Callable[[Packer], Manifest], publish: Callable[[Manifest], T]
) -> T:
    """Write the packs of a checkpoint and publish it; see `save`.

    Raises:
        VanishedError: gc deletes a pack that it needs. Nothing was published.
    """
    with packer:
        draft = write(packer)
    _check_whole(known, draft)
    return publish(draft)


def _check_whole(known: Known, draft: Manifest) -> None:
    """Check the packs that a catalogue named."""
    if stale := known.stale(draft.packs()):
        raise VanishedError(stale)


def _check(archive: ArchiveStore, manifest: Manifest) -> None:
    """Check everything in the archive's packs before any of it is imported.

    This includes blobs that the manifest does not name, because later saves share every blob of a pack.
    """
    for name in sorted(manifest.packs()):
        if not archive.exists(pack_key(name)):
            raise CorruptError(f"{archive.url!r} is not whole: pack {name[:12]} is missing")
        check_pack(archive.get(pack_key(name)), name)
    reader = Reader(archive, manifest.inline)
    for content in manifest.contents():
        reader.sized(content)


def _label(archive: ArchiveStore) -> str:
    """Return the checkpoint's name, or "" if it is not valid: anybody may have written it."""
    if not archive.exists("name"):
        return ""
    label = archive.get("name", 0, _MOST_NAME).decode("utf-8", "replace")
    with suppress(UsageError):
        return check_name(label)
    return ""


def _adopt(history: History, manifest: Manifest, data: bytes, name: str) -> Ref | None:
    try:
        return history.adopt(manifest, data, name)
    except VanishedError:
        raise StoreError(
            f"{history.store.url} is being collected just now, so nothing was imported. "
            "Try again when `gc` has ended"
        ) from None
