"""Checkpoint: one value, many forms.

A checkpoint is an immutable tree of fields and files. Every form, a dict, a folder, bytes, a URI, a
place in a store, is a way to write that tree and to read it back, and whatever chain of forms it goes
through, what goes in comes out: fields added in the dict form and files added in the folder form too.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from nbckpt.core import lending
from nbckpt.core.history import History
from nbckpt.core.manifest import Group, Manifest, Signature, Value, decode, encode, now
from nbckpt.core.pack import digest, pack_of
from nbckpt.core.packer import Packer
from nbckpt.core.preview import text_of
from nbckpt.core.reader import Reader
from nbckpt.core.reducers import main_namespace
from nbckpt.core.tree import (
    Tree,
    check_path,
    folder_tree,
    pack,
    packed_tree,
    remote_tree,
    write_folder,
    write_remote,
)
from nbckpt.core.trust import open_signer
from nbckpt.core.variables import capture, load_group
from nbckpt.errors import CodecError, CorruptError, NbckptError, NotFoundError, UntrustedError, UsageError
from nbckpt.store import ArchiveStore, ArchiveWriter, Buffer, MemoryStore, Store, local_folder, open_store

_MOST_PREVIEWS = 1000



class _FilesKey:
    """The key of a checkpoint's files in its dict form; it equals no key of a user's."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<files>"

    def __reduce__(self) -> str:
        return "FILES"


FILES = _FilesKey()
"""Where the dict form of a checkpoint keeps its files: `checkpoint.to_dict()[FILES]["model/weights.bin"]`."""


class Files(Mapping[str, bytes]):
    """A checkpoint's files by path, read when they are asked for."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __getitem__(self, path: str) -> bytes:
        return self._tree.read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree.files)

    def __len__(self) -> int:
        return len(self._tree.files)

    @property
    def folders(self) -> frozenset[str]:
        """The folders that hold nothing."""
        return self._tree.folders

    def __repr__(self) -> str:
        return f"Files({', '.join(list(self)[:5])}{', …' if len(self) > 5 else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain_files, (dict(self), self.folders)


class Checkpoint:
    """An immutable tree of fields and files.

    Give exactly one source, or use the `from_` methods. Fields are unpickled when they are asked for,
    and only where this user wrote the checkpoint, or trusts it: `trust=True`.

    Args:
        local_path: A folder, as for `from_directory`.
        data_dict: A dict, as for `from_dict`.
        uri: A URI, as for `from_uri`.

    Raises:
        UsageError: No source, or more than one, or one of the wrong type.
        NotFoundError: There is nothing at the path.
    """

    _SERIALIZED_ATTRS: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes of a subclass that travel with the checkpoint through every form."""

    _where: str
    _trust: bool

    def __init__(
        self,
        local_path: str | os.PathLike[str] | None = None,
        data_dict: Mapping[Any, Any] | None = None,
        uri: str | None = None,
    ) -> None:
        given = {"local_path": local_path, "data_dict": data_dict, "uri": uri}
        sources = [name for name, it in given.items() if it is not None]
        if len(sources) != 1:
            found = " and ".join(sources) or "none"
            raise UsageError(f"a checkpoint is made from one of local_path, data_dict and uri; given: {found}")
        if local_path is not None:
            other = Checkpoint.from_directory(local_path)
        else:
            other = Checkpoint.from_dict(data_dict) if data_dict is not None else Checkpoint.from_uri(str(uri))
        self.__dict__.update(other.__dict__)

    # The dict form.

    @classmethod
    def from_dict(cls, data: Mapping[Any, Any]) -> Self:
        """Make a checkpoint of a dict: its keys and values, and the files under the key `FILES`.

        The values are copied, so that what happens to *data* later does not reach the checkpoint.
        What its values share with each other is shared again when they are loaded.

        Raises:
            UsageError: *data* is no mapping.
            CodecError: A value cannot be pickled; the message has the path to it.
        """
        if not isinstance(data, Mapping):
            raise UsageError(f"from_dict takes a dict, not {type(data).__name__}")
        files = data.get(FILES, {})
        fields = {key: value for key, value in data.items() if key is not FILES}
        store = MemoryStore()
        with Packer(store) as packer:
            encoded = _encode(fields, packer)
            packer.finish()
            values, groups = encoded()
        manifest = Manifest(created_at=now(), values=values, groups=groups, inline=packer.inline)
        tree = packed_tree(manifest, store)
        tree.files = {check_path(path): _constant(bytes(content)) for path, content in files.items()}
        tree.folders = getattr(files, "folders", frozenset())
        return cls._make(tree, "dict", trust=True)

    def to_dict(self) -> dict[Any, Any]:
        """Return the fields in their order, and the files, if there are any, under the key `FILES`.

        Every call gives new objects.

        Raises:
            UntrustedError: Someone else wrote the fields.
            CorruptError: They are not those that were written.
        """
        data: dict[Any, Any] = {}
        for value, loaded in self._load(self._tree.manifest.values):
            data |= {loaded[0]: loaded[1]} if value.keyed else {value.name: loaded}
        if self._tree.files or self._tree.folders:
            data[FILES] = Files(self._tree)
        return data

    # The folder form.

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str], *, trust: bool = False) -> Self:
        """Make a checkpoint of a folder: all that is in it, read when it is asked for.

        Nothing in it is unpickled, moved or changed. A symbolic link counts as what it points to.

        Args:
            path: The folder, which must stay as long as the checkpoint is used.
            trust: Load its fields even if someone else wrote them.
        """
        folder = Path(path).absolute()
        return cls._make(folder_tree(folder), folder.as_uri(), trust=trust)

    def to_directory(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> str:
        """Write the checkpoint into a folder, whole or not at all, and return its path.

        Args:
            path: The folder; by default a new one of the user's own for temporary files.
            overwrite: Replace what the folder holds. Without it a folder that holds the same checkpoint
                already is left as it is, and one that holds anything else is refused.

        Raises:
            UsageError: The folder holds something else, or it overlaps the one that is being read.
            StoreError: The disk failed; the folder holds what it held before.
        """
        folder = lending.new_folder() / self.digest()[:32] if path is None else Path(path).absolute()
        source = local_folder(self._where) if self._where.startswith("file:") else None
        if source is not None:
            here, there = source.resolve(), folder.resolve()
            if here == there:
                return str(folder)
            if here.is_relative_to(there) or there.is_relative_to(here):
                raise UsageError(f"{str(folder)!r} and the checkpoint's own folder {str(source)!r} overlap")
        if not overwrite and folder.is_dir() and any(folder.iterdir()) and self._same_as(folder):
            return str(folder)
        write_folder(self._outgoing(), folder, self._sign(), overwrite=overwrite)
        return str(folder)

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """Lend the checkpoint as a folder for the block.

        A checkpoint made from a folder lends that one. Any other is written once into a temporary folder,
        however many threads and processes lend the same checkpoint at once, and removed after the last.
        """
        if self._where.startswith("file:"):
            yield str(local_folder(self._where))
            return
        with lending.lend(self.digest()[:32], self._write_lent) as folder:
            yield str(folder)

    # The form of bytes.

    @classmethod
    def from_bytes(cls, data: bytes, *, trust: bool = False) -> Self:
        """Make a checkpoint of what `to_bytes` returned.

        Raises:
            CorruptError: The bytes are cut short or changed.
        """
        store = ArchiveStore(bytes(data))
        keys = list(store.keys("checkpoints/"))
        if len(keys) != 1:
            raise CorruptError("these bytes hold no checkpoint, or more than one")
        return cls._make(packed_tree(decode(store.get(keys[0]), "the checkpoint"), store), "bytes", trust=trust)

    def to_bytes(self) -> bytes:
        """Return the whole checkpoint as bytes: an archive that any zip tool opens."""
        file = io.BytesIO()
        archive = ArchiveWriter(file)
        with Packer(archive) as packer:
            manifest = pack(self._outgoing(), packer)
            packer.finish()
            sealed, data = encode(manifest(), self._sign())
        archive.put(f"checkpoints/{sealed.id}.json", data)
        archive.close()
        return file.getvalue()

    # The form of a URI.

    @classmethod
    def from_uri(cls, uri: str, *, trust: bool = False) -> Self:
        """Make a checkpoint of what is at *uri*; its data is fetched when it is asked for.

        Where there is nothing yet, the checkpoint is made all the same, and reading it raises
        `NotFoundError`, which is a FileNotFoundError.

        Raises:
            UsageError: No storage is known for such a URI, or its package is missing.
            StoreError: The storage did not answer.
            CorruptError: The upload was not finished.
        """
        if not isinstance(uri, str) or "://" not in uri:
            raise UsageError(f"{uri!r} is no URI: use from_directory for a folder")
        if (folder := local_folder(uri)) is not None:
            return cls.from_directory(folder, trust=trust)
        store = open_store(uri)
        try:
            return cls._make(remote_tree(store), uri, trust=trust)
        except NotFoundError:
            return cls._make(None, uri, trust=trust)

    def to_uri(self, uri: str, *, overwrite: bool = False) -> str:
        """Write the checkpoint to *uri* and return it. It becomes visible there when it is whole.

        Raises:
            UsageError: There is something already and *overwrite* was not said; no such storage.
            StoreError: The storage failed. What is there is no checkpoint until it is written again.
        """
        if "://" not in uri:
            raise UsageError(f"{uri!r} is no URI: use to_directory for a folder")
        folder = local_folder(uri)
        if folder is not None:
            self.to_directory(folder, overwrite=overwrite)
        else:
            write_remote(self._outgoing(), open_store(uri), self._sign(), overwrite=overwrite)
        return uri

    # The form of a place in a store.

    @classmethod
    def from_store(cls, store: Store | str, ref: str, *, trust: bool = False) -> Self:
        """Make a checkpoint of one that a store keeps, by a name, an id or `latest`."""
        opened = open_store(store)
        history = History(opened, open_signer)
        manifest = history.read(history.resolve(ref))
        trusted = trust or history.trusted(manifest)
        return cls._make(packed_tree(manifest, opened), f"{opened.url}:{ref}", trust=trusted)

    def to_store(self, store: Store | str, name: str = "", *, message: str = "") -> str:
        """Keep the checkpoint in a store, with what the store has already not written again; return its id."""
        opened = open_store(store)
        with Packer(opened) as packer:
            manifest = pack(self._outgoing(), packer)
            packer.finish()
            made = replace(manifest(), created_at=now(), message=message)
        sealed, _ = History(opened, open_signer).publish(made, name)
        return sealed.id

    # Identity.

    @classmethod
    def from_checkpoint(cls, other: Checkpoint) -> Self:
        """Return *other* as this class, with the attributes that both have."""
        if type(other) is cls:
            return other
        made = cls.__new__(cls)
        made.__dict__.update(other.__dict__)
        return made

    @property
    def uri(self) -> str | None:
        """Where the checkpoint is: a folder as a `file://` URI, the URI it was made from, or None."""
        return self._where if "://" in self._where else None

    def digest(self) -> str:
        """Return a digest of the content: equal for equal fields and files, read once to compute it."""
        tree = self._tree
        lines = [f"class {type(self).__module__}:{type(self).__qualname__}"]
        lines += [f"{value.name} {value.digest}" for value in (*tree.manifest.values, *tree.manifest.attributes)]
        lines += [f"{path} {digest(tree.read(path)).hex()}" for path in sorted(tree.files)]
        lines += sorted(tree.folders)
        return digest("\n".join(map(repr, lines)).encode("utf-8", "backslashreplace")).hex()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Checkpoint) and self.digest() == other.digest())

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        where = self._where if len(self._where) <= 60 else f"…{self._where[-59:]}"
        return f"{type(self).__name__}({where})"

    def __fspath__(self) -> str:
        raise TypeError("a checkpoint is no path: use `with checkpoint.as_directory() as path:` or to_directory(path)")

    def __reduce__(self) -> tuple[Any, ...]:
        if self._where.startswith("file:"):
            return _reopen, (type(self), "from_directory", str(local_folder(self._where)), self._trust)
        if "://" in self._where:
            return _reopen, (type(self), "from_uri", self._where, self._trust)
        return _reopen, (type(self), "from_bytes", self.to_bytes(), self._trust)

    # How it is made and read.

    @classmethod
    def _make(cls, tree: Tree | None, where: str, *, trust: bool) -> Self:
        """Return a checkpoint of the class that wrote the tree, as far as that is a narrower *cls*."""
        manifest = tree.manifest if tree else Manifest()
        trusted = trust or not (manifest.values or manifest.attributes) or open_signer().signed(manifest)
        kind = _narrower(cls, _recorded_class(manifest, load=trusted))
        made = kind.__new__(kind)
        made._where, made._trust = where, trusted
        if tree is not None:
            made._tree = tree
            if trusted:
                for value, loaded in made._load(manifest.attributes):
                    setattr(made, value.name, loaded)
        return made

    @cached_property
    def _tree(self) -> Tree:
        """The tree; where there was nothing at a URI when the checkpoint was made, there may be now."""
        return remote_tree(open_store(self._where))

    def _load(self, values: Iterable[Value]) -> Iterator[tuple[Value, Any]]:
        """Yield values with what they are; those of one group share what they shared."""
        values = list(values)
        if values and not self._trust:
            raise UntrustedError(
                f"{self!r} was not written by you: loading its fields could run anything. Look at what it holds, "
                "then give trust=True where you made the checkpoint"
            )
        groups: dict[int, list[Any]] = {}
        for value in values:
            if value.group not in groups:
                groups[value.group] = self._load_group(value)
            yield value, groups[value.group][value.slot]

    def _load_group(self, value: Value) -> list[Any]:
        try:
            return load_group(self._tree.manifest.groups[value.group], self._tree.reader)
        except NbckptError:
            raise
        except Exception as error:
            raise CodecError(f"cannot load {value.name!r}: {type(error).__name__}: {error}") from error

    def _outgoing(self) -> Tree:
        """Return the tree to write: with this class, and its attributes as they are now."""
        tree = self._tree
        if tree.manifest.attributes and not self._trust:
            return tree
        manifest = replace(_values_only(tree.manifest), cls=_class_name(type(self)))
        attributes = {name: getattr(self, name) for name in self._SERIALIZED_ATTRS if hasattr(self, name)}
        if not attributes:
            return replace(tree, manifest=manifest)
        store = MemoryStore()
        with Packer(store) as packer:
            encoded = _encode(attributes, packer)
            packer.finish()
            carried = packer.inline | {pack_of(key): store.get(key) for key in store.keys("packs/")}
            values, groups = encoded()
        shift = len(manifest.groups)
        manifest = replace(
            manifest,
            groups=(*manifest.groups, *groups),
            attributes=tuple(replace(value, group=value.group + shift) for value in values),
        )
        return replace(tree, manifest=manifest, reader=tree.reader.carrying(carried))

    def _sign(self) -> Callable[[str], Signature] | None:
        """Return how to sign what is written: not at all, while it is someone else's."""
        return open_signer().sign if self._trust else None

    def _write_lent(self, folder: Path) -> None:
        write_folder(self._outgoing(), folder, self._sign())

    def _same_as(self, folder: Path) -> bool:
        try:
            return Checkpoint.from_directory(folder).digest() == self.digest()
        except NbckptError:
            return False


def _encode(
    fields: Mapping[Any, Any], packer: Packer
) -> Callable[[], tuple[tuple[Value, ...], tuple[Group, ...]]]:
    """Hand the fields of a dict to *packer*; call the result, after it has finished, for what they became."""
    keys = list(fields)
    items = {str(at): item if type(key) is str else (key, item) for at, (key, item) in enumerate(fields.items())}
    captured = capture(items, main_namespace(), packer, previews=len(items) <= _MOST_PREVIEWS)
    if captured.skipped:
        first = captured.skipped[0]
        path = f"[{keys[int(first.name)]!r}]{first.path.removeprefix(first.name)}"
        raise CodecError(f"cannot save {path}: {first.reason}. Take it out, or save what it is made from")

    def encoded() -> tuple[tuple[Value, ...], tuple[Group, ...]]:
        values = []
        for value in captured.values(packer):
            key = keys[int(value.name)]
            plain = type(key) is str
            values.append(replace(value, name=key if plain else text_of(key), keyed=not plain))
        return tuple(values), captured.groups(packer)

    return encoded


def _values_only(manifest: Manifest) -> Manifest:
    """Return the manifest without its attributes and the groups that only they use."""
    used = sorted({value.group for value in manifest.values})
    place = {old: new for new, old in enumerate(used)}
    return replace(
        manifest,
        attributes=(),
        groups=tuple(manifest.groups[old] for old in used),
        values=tuple(replace(value, group=place[value.group]) for value in manifest.values),
    )


def _class_name(kind: type) -> str:
    return "" if kind is Checkpoint else f"{kind.__module__}:{kind.__qualname__}"


def _recorded_class(manifest: Manifest, *, load: bool) -> type[Checkpoint]:
    """Return the class that wrote the manifest; it is only imported where importing is trusted."""
    module, _, path = manifest.cls.partition(":")
    if not module:
        return Checkpoint
    found: Any = sys.modules.get(module)
    try:
        if found is None and load:
            found = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        found = None
    if isinstance(found, type) and issubclass(found, Checkpoint):
        return found
    if load:
        warnings.warn(f"the checkpoint's class {manifest.cls} is not here; it is read as a Checkpoint", stacklevel=4)
    return Checkpoint


def _narrower(asked: type[Checkpoint], recorded: type[Checkpoint]) -> Any:
    """Return the narrower of two classes.

    Raises:
        UsageError: Neither is the other's.
    """
    if issubclass(recorded, asked):
        return recorded
    if issubclass(asked, recorded):
        return asked
    raise UsageError(f"this checkpoint is a {recorded.__name__}, which is no {asked.__name__}")


def _constant(data: bytes) -> Callable[[], list[Buffer]]:
    return lambda: [data]


def _plain_files(files: dict[str, bytes], folders: frozenset[str]) -> Files:
    tree = Tree(Manifest(), Reader(MemoryStore()), {p: _constant(data) for p, data in files.items()}, folders)
    return Files(tree)


def _reopen(kind: type[Checkpoint], how: str, source: Any, trust: bool) -> Checkpoint:  # noqa: FBT001  pickled
    made: Checkpoint = getattr(kind, how)(source, trust=trust)
    return made
