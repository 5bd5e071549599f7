"""The plain layout of a checkpoint: its files as they are, in a folder or at a URL.

Any values are in a small store in the folder `.nbckpt` among the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.core.manifest import Manifest, Signature
from nbckpt.core.manifest_json import MOST, decode, encode
from nbckpt.core.packs.format import pack_key
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.core.tree import INSIDE, Chunks, Tree, check_path, joined, pack
from nbckpt.errors import CorruptError, NotFoundError, StoreError, UsageError
from nbckpt.store import STAGING, Buffer, LocalStore, PrefixStore, Store
from nbckpt.store.files import commit, staged_folder
from nbckpt.store.scan import OUTSIDE, link_outside, scan

_MANIFEST, _UNFINISHED = "checkpoint.json", "unfinished"
_READ = 8 << 20

Sign = Callable[[str], Signature]


def folder_tree(folder: Path) -> Tree:
    """Return the tree of a folder: everything in it, and the values that it may hold.

    A symbolic link counts as its target, which must be inside the folder.

    Raises:
        NotFoundError: The folder does not exist.
        UsageError: It is a file, or a link in it points outside, nowhere, or back up.
    """
    if not folder.exists():
        raise NotFoundError(f"nbckpt finds no folder {str(folder)!r}")
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is a file. Give the folder that holds the checkpoint")
    files, empty = _scan(folder)
    manifest = read_manifest(folder)

    def chunks(file: Path) -> Chunks:
        return lambda: _read_file(file)

    return Tree(
        manifest,
        Reader(LocalStore(folder / INSIDE), manifest.inline),
        {path: chunks(file) for path, file in files.items()},
        empty,
    )


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of the values in a folder, or an empty manifest if it holds no values.

    Raises:
        CorruptError: The values are damaged.
        UsageError: The folder holds a store, or its values are elsewhere.
    """
    if link_outside(folder, INSIDE):
        _refuse(INSIDE, OUTSIDE)
    return _read_manifest(LocalStore(folder / INSIDE), str(folder))


def remote_tree(store: Store) -> Tree:
    """Return the tree of a plain checkpoint in *store*. Only its manifest and the list of keys are fetched.

    Raises:
        NotFoundError: There is nothing at all.
        CorruptError: Its upload was not finished, or a file that it names is missing.
    """
    inside = PrefixStore(store, INSIDE)
    keys = list(store.keys())
    if not keys:
        raise NotFoundError(f"nbckpt finds no checkpoint at {store.url}")
    if f"{INSIDE}/{_UNFINISHED}" in keys and f"{INSIDE}/{_MANIFEST}" not in keys:
        raise CorruptError(
            f"the checkpoint at {store.url} is not whole: its upload did not finish. Upload it again"
        )
    manifest = _read_manifest(inside, store.url)
    paths = [key for key in keys if not key.startswith(f"{INSIDE}/")]
    if missing := manifest.sums.keys() - set(paths):
        raise CorruptError(f"the checkpoint at {store.url} is not whole: {sorted(missing)[0]!r} is missing")

    def chunks(path: str) -> Chunks:
        return lambda: [_checked(store.get(path), manifest.sums.get(path), path)]

    return Tree(
        manifest,
        Reader(inside, manifest.inline),
        {p: chunks(p) for p in paths},
        frozenset(manifest.folders),
    )


def write_folder(tree: Tree, folder: Path, sign: Sign | None, *, overwrite: bool = False) -> None:
    """Write *tree* as a plain checkpoint into *folder*, all of it or nothing.

    It is staged beside the folder, made durable and renamed. A folder that already holds the same checkpoint
    is left as it is. A folder that holds something else is replaced only with *overwrite*. If a step fails,
    the folder is unchanged.

    Raises:
        UsageError: The folder holds something else, or a file is in its place.
        StoreError: The disk failed.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is a file. Choose another path")
    try:
        if folder.is_dir() and any(folder.iterdir()) and not overwrite:
            raise UsageError(f"{str(folder)!r} is not empty. Choose another folder, or pass overwrite=True")
        with staged_folder(folder.parent) as stage:
            _fill(tree, stage, sign)
            commit(stage, folder)
    except OSError as error:
        if isinstance(error, NotFoundError):
            raise
        reason = error if isinstance(error, StoreError) else error.strerror or error
        raise StoreError(f"cannot write the checkpoint to {str(folder)!r}: {reason}") from error


def write_remote(tree: Tree, store: Store, sign: Sign | None, *, overwrite: bool = False) -> None:
    """Write *tree* as a plain checkpoint into *store*. The last key, the manifest, makes it a checkpoint.

    Until then a reader gets the error that the upload is not finished. With *overwrite*, the existing data
    stops being a checkpoint as soon as the first key is written.

    Raises:
        UsageError: The place already holds something.
    """
    inside = PrefixStore(store, INSIDE)
    old = set(store.keys())
    unfinished = f"{INSIDE}/{_UNFINISHED}" in old and f"{INSIDE}/{_MANIFEST}" not in old
    if old and not (overwrite or unfinished):
        raise UsageError(
            f"there is something at {store.url} already. Choose another URI, or pass overwrite=True"
        )
    inside.put(_UNFINISHED, b"")
    inside.delete(_MANIFEST)
    sums = {}
    for path, chunks in tree.contents():
        data = joined(chunks)
        sums[path] = PREFERRED.checksum([data])
        store.put(path, data)
    packs, manifest = _pack_inside(replace(tree, files={}), inside, sign, sums=sums)
    for key in old - set(tree.files) - {f"{INSIDE}/{key}" for key in (*packs, _UNFINISHED)}:
        store.delete(key)
    inside.put(_MANIFEST, manifest)
    inside.delete(_UNFINISHED)


def _scan(folder: Path) -> tuple[dict[str, Path], frozenset[str]]:
    """Return the files below *folder* by path, and the empty folders."""
    places = dict(scan(folder, _refuse, skip={INSIDE, STAGING}.__contains__))
    files = {path: Path(entry.path) for path, entry in places.items() if path[-1] != "/"}
    return files, frozenset(path[:-1] for path in places.keys() - files.keys())


def _refuse(path: str, why: str) -> None:
    raise UsageError(f"{path!r} cannot be in a checkpoint: {why}. Remove it, or replace it by a copy")


def _read_file(file: Path) -> Iterator[Buffer]:
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(_READ):
                yield chunk
    except FileNotFoundError:
        raise NotFoundError(f"the file {str(file)!r} is gone") from None
    except OSError as error:
        raise StoreError(f"cannot read {str(file)!r}: {error.strerror or error}") from error


def _read_manifest(inside: Store, where: str) -> Manifest:
    try:
        return decode(inside.get(_MANIFEST, 0, MOST + 1), f"the checkpoint in {where}")
    except NotFoundError:
        if inside.exists("store.json"):
            raise UsageError(
                f"{where} holds a store, not one checkpoint. Use from_store, or give a folder in it"
            ) from None
        if any(True for _ in inside.keys("packs/")):
            raise CorruptError(f"the checkpoint in {where} is not whole: its manifest is missing") from None
        return Manifest()


def _checked(data: bytes, expected: str | None, path: str) -> bytes:
    if expected and of_checksum(expected, f"the file {path!r}").checksum([data]) != expected:
        raise CorruptError(f"the file {path!r} of a checkpoint is damaged: it is not the one that was saved")
    return data


def _fill(tree: Tree, stage: Path, sign: Sign | None) -> None:
    for path in sorted(tree.folders):
        stage.joinpath(*check_path(path).split("/")).mkdir(parents=True, exist_ok=True)
    for path, chunks in tree.contents():
        file = stage.joinpath(*check_path(path).split("/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as opened:
            opened.writelines(chunks)
    manifest = tree.manifest
    if manifest.values or manifest.attributes or manifest.cls:
        inside = LocalStore(stage / INSIDE)
        bare = replace(tree, files={}, folders=frozenset())
        _, data = _pack_inside(bare, inside, sign, sums={})
        inside.put(_MANIFEST, data)
        with suppress(OSError):
            (stage / INSIDE / STAGING).rmdir()


def _pack_inside(
    tree: Tree, inside: Store, sign: Sign | None, *, sums: Mapping[str, str]
) -> tuple[list[str], bytes]:
    """Write a tree's values as a small store. Return its keys, and the manifest, which must be put last."""
    with Packer(inside) as packer:
        manifest = pack(tree, packer)
        packer.finish()
        _, data = encode(replace(manifest(), sums=sums), sign)
    return [pack_key(name) for name in packer.packs], data
