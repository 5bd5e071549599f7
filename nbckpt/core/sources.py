"""Sources: what a checkpoint is made from: a dict, a folder, bytes, a URI, or a reference in a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from nbckpt.core.fields import encode_fields, with_attributes
from nbckpt.core.files import FILES, KIND, Files, Kind, make_files
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.core.plain import folder_tree, remote_tree
from nbckpt.core.subclasses import class_name
from nbckpt.core.transfer import read_archive
from nbckpt.core.tree import Tree, packed_tree
from nbckpt.core.trust import open_signer
from nbckpt.errors import CorruptError, NotFoundError, UsageError, visible
from nbckpt.store import ArchiveStore, MemoryStore, Store, local_folder, masked_url, open_store

_BEFORE = {"dict": "made from a dict", "bytes": "made from bytes", "folder": "in the folder ", "uri": "at "}
_MOST_REPR = 60


class Source(NamedTuple):
    """The source of a checkpoint.

    Attributes:
        tree: The fields and files. None if there is nothing at the URI yet.
        kind: The form: `dict`, `folder`, `bytes`, `uri` or `store`.
        where: The folder, the URI, or the reference and its store.
        trust: Whether the user passed `trust=True`.
        is_own: Whether this user is known to have written it, even without a signature in it.
        given: The equivalent argument of `Checkpoint.__init__`.
        wrote: The class in a dict.
    """

    tree: Tree | None
    kind: str
    where: str = ""
    trust: bool = False
    is_own: bool = False
    given: Mapping[str, Any] = {}
    wrote: type[Any] | None = None

    def __str__(self) -> str:
        return f"{_BEFORE.get(self.kind, '')}{masked_url(self.where)}"

    def uri(self) -> str | None:
        """Return the folder as a `file://` URI, or the URI, or None."""
        if self.kind == "folder":
            return Path(self.where).as_uri()
        return self.where if self.kind == "uri" else None

    def is_folder(self, folder: Path) -> bool:
        """Return whether the source is this folder.

        Raises:
            UsageError: One of the two is inside the other.
        """
        if self.kind != "folder":
            return False
        here, there = Path(self.where).resolve(), folder.resolve()
        if here != there and (here.is_relative_to(there) or there.is_relative_to(here)):
            raise UsageError(
                f"{str(folder)!r} and the checkpoint's own folder {self.where!r} overlap. "
                "Choose another folder"
            )
        return here == there

    def short(self) -> str:
        """Return the place, or the form, in at most 60 characters."""
        where = visible(masked_url(self.where) or self.kind)
        return where if len(where) <= _MOST_REPR else f"…{where[1 - _MOST_REPR :]}"


def only_source(
    local_path: str | os.PathLike[str] | None,
    data_dict: Mapping[Any, Any] | None,
    uri: str | None,
    base: type,
) -> Source:
    """Return the one source that is given.

    Raises:
        UsageError: There is none, or more than one.
    """
    given = {"local_path": local_path, "data_dict": data_dict, "uri": uri}
    names = [name for name, argument in given.items() if argument is not None]
    if len(names) != 1:
        raise UsageError(
            "a checkpoint is made from one of local_path, data_dict and uri; given: "
            f"{' and '.join(names) or 'none'}"
        )
    if local_path is not None:
        return folder_source(local_path)
    if data_dict is not None:
        return dict_source(data_dict, base)
    return uri_source(uri)  # type: ignore[arg-type]  # it checks its argument itself


def dict_source(data: Mapping[Any, Any], base: type) -> Source:
    """Return a dict as a source; see `Checkpoint.from_dict`. *base* is the class of all checkpoints."""
    if not isinstance(data, Mapping):
        raise UsageError(f"from_dict takes a dict, not {type(data).__name__}")
    files = _files_of(data.get(FILES, {}))
    kind = data.get(KIND)
    if not (kind is None or (isinstance(kind, Kind) and issubclass(kind.cls, base))):
        raise UsageError(
            f"the key {KIND} of a dict takes the value that to_dict returned, not {type(kind).__name__}"
        )
    fields = {key: value for key, value in data.items() if key not in {FILES, KIND}}
    store = MemoryStore()
    with Packer(store) as packer:
        encoded = encode_fields(fields, packer)
        packer.finish()
        values, groups = encoded()
    manifest = Manifest(created_at=now(), values=values, groups=groups, inline=packer.inline)
    tree = replace(files.tree, manifest=manifest, reader=Reader(store, manifest.inline))
    if kind is not None:
        tree = with_attributes(tree, class_name(kind.cls, base), kind.attributes)
    wrote = kind.cls if kind is not None else None
    return Source(tree, "dict", is_own=True, given={"data_dict": data}, wrote=wrote)


def folder_source(path: str | os.PathLike[str], *, trust: bool = False) -> Source:
    """Return a folder as a source; see `Checkpoint.from_directory`."""
    folder = Path(path).absolute()
    return Source(folder_tree(folder), "folder", str(folder), trust, given={"local_path": str(folder)})


def bytes_source(data: bytes, *, trust: bool) -> Source:
    """Return an archive as a source; see `Checkpoint.from_bytes`."""
    store = ArchiveStore(bytes(data))
    if len(list(store.keys("checkpoints/"))) != 1:
        raise CorruptError("these bytes hold no checkpoint, or several. Give the result of to_bytes")
    manifest, _ = read_archive(store)
    return Source(packed_tree(manifest, store), "bytes", trust=trust)


def uri_source(uri: str, *, trust: bool = False) -> Source:
    """Return the data at a URI as a source; see `Checkpoint.from_uri`."""
    if "://" not in str(uri):
        raise UsageError(f"{uri!r} is not a URI. Use from_directory for a folder")
    if (folder := local_folder(uri)) is not None:
        return folder_source(folder, trust=trust)
    store = open_store(uri)
    try:
        tree = remote_tree(store)
    except NotFoundError:
        tree = None
    return Source(tree, "uri", uri, trust, given={"uri": uri})


def store_source(store: Store | str, ref: str, *, trust: bool) -> Source:
    """Return a checkpoint of a store as a source; see `Checkpoint.from_store`."""
    opened = open_store(store)
    history = History(opened, open_signer)
    manifest = history.read(history.resolve(ref))
    tree, where = packed_tree(manifest, opened), f"{ref} in {opened.url}"
    return Source(tree, "store", where, trust, is_own=history.trusted(manifest))


def _files_of(files: Any) -> Files:
    if not isinstance(files, Mapping):
        raise UsageError(f"the files of a checkpoint are a dict of bytes, not {type(files).__name__}")
    return make_files(files, files.folders if isinstance(files, Files) else frozenset())
