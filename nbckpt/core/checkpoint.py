"""Checkpoint: one value, many forms.

A checkpoint is an immutable tree of fields and files. Its forms are a dict, a folder, bytes, a URI and a
place in a store. Each form writes the same tree and reads it back. A checkpoint that passes through any
chain of forms stays equal, including fields added in the dict form and files added in the folder form.
"""

from __future__ import annotations

import io
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from nbckpt.core import shared_tempdir
from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.core.fields import encode_fields, with_attributes
from nbckpt.core.files import FILES, KIND, Files, Kind, make_files
from nbckpt.core.history import History, VanishedError
from nbckpt.core.manifest import Manifest, Signature, Value, encode, now
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.core.subclasses import class_name, narrower, recorded_class
from nbckpt.core.tables import files_table, previews, values_table
from nbckpt.core.transfer import read_archive
from nbckpt.core.tree import (
    Tree,
    folder_tree,
    pack,
    packed_tree,
    remote_tree,
    write_folder,
    write_remote,
)
from nbckpt.core.trust import open_signer
from nbckpt.core.values.loading import last_slots, load_group
from nbckpt.core.values.preview import describe
from nbckpt.errors import (
    CodecError,
    CorruptError,
    NbckptError,
    NotFoundError,
    StoreError,
    UntrustedError,
    UsageError,
)
from nbckpt.render import Hint, Page, Rich, age, count, visible
from nbckpt.store import ArchiveStore, ArchiveWriter, MemoryStore, Store, local_folder, masked_url, open_store

_MOST_REPR = 60
_MOST_ROWS = 20
_MOST_TRIES = 3
_PREPROCESSOR = "_preprocessor"
_MISSING = object()
_PLACES = {"dict": "made from a dict", "bytes": "made from bytes", "folder": "in the folder ", "uri": "at "}


class Checkpoint(Rich):
    """An immutable tree of fields and files.

    Give exactly one source, or use the `from_` methods. Fields are unpickled when they are first requested.
    This needs a checkpoint that this user wrote or trusts: `trust=True`.

    Args:
        local_path: A folder, as for `from_directory`.
        data_dict: A dict, as for `from_dict`.
        uri: A URI, as for `from_uri`.

    Raises:
        UsageError: There is no source, more than one, or one of the wrong type.
        NotFoundError: The path does not exist.
    """

    _SERIALIZED_ATTRS: ClassVar[tuple[str, ...]] = ()
    """The names of attributes of a subclass that travel with the checkpoint through every form."""

    _kind: str
    """The form of its source: `dict`, `folder`, `bytes`, `uri` or `store`."""
    _where: str
    """The folder or the URI."""
    _told: bool
    """Whether its creator passed `trust=True`."""
    _own: bool
    """Whether this user is known to have made it, even without a signature in it."""

    def __init__(
        self,
        local_path: str | os.PathLike[str] | None = None,
        data_dict: Mapping[Any, Any] | None = None,
        uri: str | None = None,
    ) -> None:
        if "_kind" in vars(self):  # a `from_` method filled it and now runs the subclass's `__init__`
            return
        given = {"local_path": local_path, "data_dict": data_dict, "uri": uri}
        sources = [name for name, it in given.items() if it is not None]
        if len(sources) != 1:
            found = " and ".join(sources) or "none"
            raise UsageError(
                f"a checkpoint is made from one of local_path, data_dict and uri; given: {found}"
            )
        if local_path is not None:
            source = _folder_source(local_path)
        elif data_dict is not None:
            source = _dict_source(data_dict)
        else:
            source = _uri_source(uri)  # type: ignore[arg-type]  # it checks its argument itself
        self._fill(source)
        self._class_of(source)
        self._restore(source)

    # The dict form.

    @classmethod
    def from_dict(cls, data: Mapping[Any, Any]) -> Self:
        """Make a checkpoint from a dict: its keys and values, and the files under the key `FILES`.

        The values are copied, so later changes to *data* do not reach the checkpoint. Objects that several
        values share are shared again after loading.

        Raises:
            UsageError: *data* is not a mapping, or its files are not valid files of a checkpoint.
            CodecError: A value cannot be pickled. The message contains the path to it.
        """
        return cls._make(_dict_source(data))

    def to_dict(self) -> dict[Any, Any]:
        """Return the fields in their order, and any files under the key `FILES`.

        A subclass adds one more key, from which `from_dict` restores the class and its attributes. Every call
        returns new objects.

        Raises:
            UntrustedError: Somebody else wrote the fields.
            CorruptError: The fields are damaged.
        """
        data: dict[Any, Any] = {}
        for value, loaded in self._load(self._tree.manifest.values):
            data |= {loaded[0]: loaded[1]} if value.keyed else {value.name: loaded}
        if self._tree.files or self._tree.folders:
            data[FILES] = Files(self._tree)
        if type(self) is not Checkpoint:
            data[KIND] = Kind(type(self), self._attributes())
        return data

    # The folder form.

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str], *, trust: bool = False) -> Self:
        """Make a checkpoint from everything in a folder. The content is read when it is first needed.

        The folder is not changed, and no data of somebody else is unpickled. A symbolic link counts as its
        target.

        Args:
            path: The folder, which must exist for as long as the checkpoint is used.
            trust: Load its fields even if somebody else wrote them.

        Raises:
            NotFoundError: The folder does not exist.
            UsageError: It is a file, or it contains something that is neither file nor folder, or a link that
                leads outside, nowhere, or back up.
            CorruptError: Its fields are damaged.
        """
        return cls._make(_folder_source(path, told=trust))

    def to_directory(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> str:
        """Write the checkpoint into a folder, all of it or nothing, and return its path.

        Args:
            path: The folder. By default a new temporary folder, which only the user can enter.
            overwrite: Replace the contents of the folder. Without it, a folder that already holds the same
                checkpoint is left as it is. A folder that holds anything else raises an error.

        Raises:
            UsageError: The folder holds something else, or it overlaps the folder that is being read.
            StoreError: The disk failed. The folder holds its old contents.
        """
        if path is None:
            path = shared_tempdir.new_folder() / self.digest()[:32]
        folder = Path(path).absolute()
        if self._kind == "folder":
            here, there = Path(self._where).resolve(), folder.resolve()
            if here == there:
                return str(folder)
            if here.is_relative_to(there) or there.is_relative_to(here):
                raise UsageError(
                    f"{str(folder)!r} and the checkpoint's own folder {self._where!r} overlap: "
                    "choose another place"
                )
        if overwrite or not self._same_as(folder):
            write_folder(self._outgoing(), folder, self._sign(), overwrite=overwrite)
        return str(folder)

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """Provide the checkpoint as a folder for the block.

        A checkpoint made from a folder provides that folder. Any other checkpoint is written once into a
        temporary folder, even if many threads and processes use it at once. The last user removes the folder.
        """
        if self._kind == "folder":
            yield self._where
            return
        # A stranger can claim any digest, so trusted and untrusted data never share a folder.
        name = self.digest()[:32] if self._trusted else f"{self.digest()[:32]}-untrusted"
        with shared_tempdir.lend(name, self._write_lent) as folder:
            yield str(folder)

    # The bytes form.

    @classmethod
    def from_bytes(cls, data: bytes, *, trust: bool = False) -> Self:
        """Make a checkpoint from the result of `to_bytes`.

        Raises:
            CorruptError: The bytes are truncated or changed.
        """
        store = ArchiveStore(bytes(data))
        if len(list(store.keys("checkpoints/"))) != 1:
            raise CorruptError("these bytes hold no checkpoint, or more than one")
        manifest, _ = read_archive(store)
        return cls._make(_Source(packed_tree(manifest, store), "bytes", told=trust))

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

    # The URI form.

    @classmethod
    def from_uri(cls, uri: str, *, trust: bool = False) -> Self:
        """Make a checkpoint from the data at *uri*, which is downloaded when it is needed.

        If nothing is there yet, the checkpoint is made all the same. Reading it then raises `NotFoundError`,
        which is a FileNotFoundError.

        Raises:
            UsageError: No storage is known for such a URI, or its package is missing.
            StoreError: The storage did not answer.
            CorruptError: The upload was not finished.
        """
        return cls._make(_uri_source(uri, told=trust))

    def to_uri(self, uri: str, *, overwrite: bool = False) -> str:
        """Write the checkpoint to *uri* and return the URI. Readers see it only when it is complete.

        Raises:
            UsageError: The URI already holds something and *overwrite* is false, or there is no such storage.
            StoreError: The storage failed. The data there is not a checkpoint until it is written again.
        """
        if "://" not in str(uri):
            raise UsageError(f"{uri!r} is not a URI: use to_directory for a folder")
        folder = local_folder(uri)
        if folder is not None:
            self.to_directory(folder, overwrite=overwrite)
        else:
            write_remote(self._outgoing(), open_store(uri), self._sign(), overwrite=overwrite)
        return uri

    # The store form.

    @classmethod
    def from_store(cls, store: Store | str, ref: str, *, trust: bool = False) -> Self:
        """Return a checkpoint of a store, found by a name, an id or `latest`."""
        opened = open_store(store)
        history = History(opened, open_signer)
        manifest = history.read(history.resolve(ref))
        tree, where = packed_tree(manifest, opened), f"{ref} in {opened.url}"
        return cls._make(_Source(tree, "store", where, told=trust, own=history.trusted(manifest)))

    def to_store(self, store: Store | str, name: str = "", *, message: str = "") -> str:
        """Save the checkpoint in a store and return its id. Data that the store has is not written again.

        A checkpoint of somebody else stays untrusted in the store.
        """
        opened = open_store(store)
        history, known = History(opened, open_signer), Known(opened)
        known.refresh()
        for attempt in range(_MOST_TRIES):
            try:
                packer = Packer(opened, known, algorithms=history.algorithms, salted=attempt > 0)
                kept = self._keep(history, packer, message, name)
                break
            except VanishedError as error:
                known.forget(error.packs)
        else:
            raise StoreError(f"{opened.url} is being collected again and again: try again after that")
        return kept.id

    def _keep(self, history: History, packer: Packer, message: str, name: str) -> Manifest:
        with packer:
            manifest = pack(self._outgoing(), packer)
            packer.finish()
            made = replace(manifest(), created_at=now(), message=message)
        if self._trusted:
            return history.publish(made, name)[0]
        made, data = encode(made)
        history.adopt(made, data, name)
        return made

    # Identity.

    @classmethod
    def from_checkpoint(cls, other: Checkpoint) -> Self:
        """Return *other* as this class, with the attributes that both classes have."""
        if type(other) is cls:
            return other
        return cls._initialised(other, {})

    @property
    def uri(self) -> str | None:
        """The location of the checkpoint: a folder as a `file://` URI, the URI it came from, or None."""
        if self._kind == "folder":
            return Path(self._where).as_uri()
        return self._where if self._kind == "uri" else None

    def digest(self) -> str:
        """Return a digest of the content. It is equal for equal fields, files, attributes and class.

        This reads the files, except those whose digest is known from their upload.
        """
        tree = self._outgoing()
        manifest = tree.manifest
        lines = [f"class {manifest.cls}"]
        lines += [f"{it.name} {it.digest}" for it in (*manifest.values, *manifest.attributes)]
        for path in sorted(tree.files):
            lines.append(f"{path} {_sum_of(tree, path)}")
        lines += sorted(tree.folders)
        return PREFERRED.digest("\n".join(map(repr, lines)).encode("utf-8", "backslashreplace")).hex()

    def get_preprocessor(self, *, trust: bool = False) -> Any:
        """Return the field `_preprocessor`, else the object in the file `_preprocessor`, else None.

        The file is a pickle, which no signature covers. It is only loaded with *trust*, given here or when
        the checkpoint was made.

        Raises:
            UntrustedError: *trust* was not given, or somebody else wrote the field.
        """
        found = self._field(_PREPROCESSOR, None if _PREPROCESSOR not in self._tree.files else _MISSING)
        if found is not _MISSING:
            return found
        if not (trust or self._told):
            raise UntrustedError(
                f"the file {_PREPROCESSOR!r} in {self!r} is a pickle, and loading it could run anything: "
                "give trust=True if you know who wrote it"
            )
        return pickle.loads(self._tree.read(_PREPROCESSOR))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Checkpoint) and self.digest() == other.digest())

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        where = visible(masked_url(self._where) or self._kind)
        short = where if len(where) <= _MOST_REPR else f"…{where[1 - _MOST_REPR :]}"
        return f"{type(self).__name__}({short})"

    def page(self) -> Page:
        """See `Rich.page`. This loads no values and downloads nothing."""
        name = f"{type(self).__name__} {_PLACES.get(self._kind, '')}{masked_url(self._where)}"
        tree: Tree | None = vars(self).get("_tree")
        if tree is None:
            return Page(f"{name}: nothing was there when it was made, and it was not read since")
        fields, files = tree.manifest.values, tree.files
        folders = [count(len(tree.folders), "empty folder")] if tree.folders else []
        attributes = dict(previews(tree.manifest.attributes)) | {
            name: describe(vars(self)[name]) for name in self._SERIALIZED_ATTRS if name in vars(self)
        }
        return Page(
            f"{name}: {', '.join([count(len(fields), 'field'), count(len(files), 'file'), *folders])}",
            (
                values_table("fields", previews(fields), _MOST_ROWS),
                values_table("attributes", attributes.items()),
                files_table(self._file_sizes(tree), _MOST_ROWS),
            ),
            tuple(self._remarks(tree.manifest)),
            hints=(Hint("Fields", ".to_dict()"), Hint("Files", "with .as_directory() as folder:")),
        )

    def _file_sizes(self, tree: Tree) -> dict[str, int | None]:
        """Return the sizes of the files; None for a size that is neither recorded nor on this machine."""
        sizes: dict[str, int | None] = dict.fromkeys(tree.files)
        sizes |= {path: content.size for path, content in tree.manifest.files.items()}
        if self._kind == "folder":
            here = Path(self._where)
            with suppress(OSError):  # a file that vanished meanwhile has no size
                sizes |= {path: (here / path).stat().st_size for path in sorted(sizes)[:_MOST_ROWS]}
        return sizes

    def _remarks(self, manifest: Manifest) -> Iterator[str]:
        """Yield further notes for the page."""
        if manifest.created_at:
            made = age(manifest.created_at)
            yield f"made {made.text} ({made.hint})"
        if manifest.message:
            yield manifest.message
        try:
            if not self._trusted:
                yield "not written by you: give trust=True where you make it to load its fields"
        except StoreError as error:  # the user's secret cannot be read
            yield str(error)

    def __fspath__(self) -> str:
        raise TypeError(
            "a checkpoint is not a path: use `with checkpoint.as_directory() as path:` or to_directory(path)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        attributes = self._attributes()
        if self._kind == "folder":
            return _reopen, (type(self), "from_directory", self._where, self._told), attributes
        # A pickle never contains a password.
        if self._kind == "uri" and masked_url(self._where) == self._where:
            return _reopen, (type(self), "from_uri", self._where, self._told), attributes
        return _reopen, (type(self), "from_bytes", self.to_bytes(), self._trusted)

    # Construction and reading.

    @classmethod
    def _make(cls, source: _Source) -> Self:
        """Return a checkpoint of the class that wrote the source, or of *cls* if that is more specific."""
        made = cls.__new__(cls)
        made._fill(source)
        made = made._class_of(source)._initialised(made, source.given)
        made._restore(source)
        return made

    @classmethod
    def _initialised(cls, other: Checkpoint, given: Mapping[str, Any]) -> Self:
        """Return *other* as this class and run its `__init__`, with *given* if the signature takes it."""
        made = cls.__new__(cls)
        made.__dict__.update(other.__dict__)
        run = signature(cls.__init__)
        for arguments in (given, {}):
            with suppress(TypeError):
                run.bind(made, **arguments)
                break
        else:
            warnings.warn(f"{cls.__name__}.__init__ was not run: it needs other arguments", stacklevel=4)
            return made
        cls.__init__(made, **arguments)
        made.__dict__.update(other.__dict__)
        return made

    def _fill(self, source: _Source) -> None:
        self._kind, self._where, self._told, self._own = source[1:5]
        if source.tree is not None:
            self._tree = source.tree

    def _class_of(self, source: _Source) -> type[Self]:
        """Return the class that wrote the source, or this class if it is more specific."""
        if source.tree is None:
            return type(self)
        recorded = recorded_class(source.tree.manifest.cls, Checkpoint, load=self._trusted)
        return narrower(type(self), source.wrote or recorded)

    def _restore(self, source: _Source) -> None:
        """Set the attributes from the source, after `__init__` has set their defaults."""
        if source.tree is not None and self._trusted:
            for value, loaded in self._load(source.tree.manifest.attributes):
                setattr(self, value.name, loaded)

    @cached_property
    def _tree(self) -> Tree:
        """The tree. This also finds data that reached the URI after the checkpoint was made."""
        return remote_tree(open_store(self._where))

    @cached_property
    def _trusted(self) -> bool:
        """Whether loading runs no code, or only code that this user wrote or trusts."""
        manifest = self._tree.manifest
        harmless = not (manifest.values or manifest.attributes or manifest.cls)
        return self._told or self._own or harmless or open_signer().signed(manifest)

    def _attributes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._SERIALIZED_ATTRS if hasattr(self, name)}

    def _field(self, key: str, default: Any) -> Any:
        """Return one field. Fields that share nothing with it are not loaded."""
        for value in self._tree.manifest.values:
            if value.name == key and not value.keyed:
                return next(self._load([value]))[1]
        return default

    def _load(self, values: Iterable[Value]) -> Iterator[tuple[Value, Any]]:
        """Yield each value with its loaded object. Values of one group share their common objects."""
        values = list(values)
        if values and not self._trusted:
            raise UntrustedError(
                f"{self!r} was not written by you: loading its fields could run anything. Look at what "
                "it holds, then give trust=True where you made the checkpoint"
            )
        groups: dict[int, list[Any]] = {}
        last = last_slots(values)
        for value in values:
            if value.group not in groups:
                groups[value.group] = self._load_group(value, last[value.group])
            yield value, groups[value.group][value.slot]

    def _load_group(self, value: Value, last: int) -> list[Any]:
        try:
            return load_group(self._tree.manifest.groups[value.group], self._tree.reader, last)
        except NbckptError:
            raise
        except Exception as error:
            raise CodecError(f"cannot load {value.name!r}: {type(error).__name__}: {error}") from error

    def _outgoing(self) -> Tree:
        """Return the tree to write, with this class and the current attributes."""
        tree = self._tree
        if not self._trusted:
            return tree
        return with_attributes(tree, class_name(type(self), Checkpoint), self._attributes())

    def _sign(self) -> Callable[[str], Signature] | None:
        """Return the function that signs the written data, or None for data of somebody else."""
        return open_signer().sign if self._trusted else None

    def _write_lent(self, folder: Path) -> None:
        write_folder(self._outgoing(), folder, self._sign())

    def _same_as(self, folder: Path) -> bool:
        """Tell whether *folder* already holds this checkpoint. Return False if it holds no checkpoint."""
        with suppress(NbckptError, OSError):
            if any(folder.iterdir()):
                return Checkpoint.from_directory(folder).digest() == self.digest()
        return False


class _Source(NamedTuple):
    """The source of a checkpoint. The fields have the names of `Checkpoint`'s own attributes."""

    tree: Tree | None
    kind: str
    where: str = ""
    told: bool = False
    own: bool = False
    given: Mapping[str, Any] = {}
    """The equivalent argument of `__init__`."""
    wrote: type[Any] | None = None


def _dict_source(data: Mapping[Any, Any]) -> _Source:
    if not isinstance(data, Mapping):
        raise UsageError(f"from_dict takes a dict, not {type(data).__name__}")
    files = _files_of(data.get(FILES, {}))
    wrote = data.get(KIND)
    if not (wrote is None or (isinstance(wrote, Kind) and issubclass(wrote.cls, Checkpoint))):
        raise UsageError(f"{KIND} in a dict is what to_dict gave it, not {type(wrote).__name__}")
    fields = {key: value for key, value in data.items() if key not in {FILES, KIND}}
    store = MemoryStore()
    with Packer(store) as packer:
        encoded = encode_fields(fields, packer)
        packer.finish()
        values, groups = encoded()
    manifest = Manifest(created_at=now(), values=values, groups=groups, inline=packer.inline)
    tree = replace(files.tree, manifest=manifest, reader=Reader(store, manifest.inline))
    if wrote is None:
        return _Source(tree, "dict", own=True, given={"data_dict": data})
    tree = with_attributes(tree, class_name(wrote.cls, Checkpoint), wrote.attributes)
    return _Source(tree, "dict", own=True, given={"data_dict": data}, wrote=wrote.cls)


def _folder_source(path: str | os.PathLike[str], *, told: bool = False) -> _Source:
    folder = Path(path).absolute()
    return _Source(folder_tree(folder), "folder", str(folder), told=told, given={"local_path": str(folder)})


def _uri_source(uri: str, *, told: bool = False) -> _Source:
    if "://" not in str(uri):
        raise UsageError(f"{uri!r} is not a URI: use from_directory for a folder")
    if (folder := local_folder(uri)) is not None:
        return _folder_source(folder, told=told)
    store = open_store(uri)
    try:
        tree = remote_tree(store)
    except NotFoundError:
        tree = None
    return _Source(tree, "uri", uri, told=told, given={"uri": uri})


def _sum_of(tree: Tree, path: str) -> str:
    """Return the checksum of a file. Reuse the checksum of its upload if it uses the preferred digest."""
    known = tree.manifest.sums.get(path, "")
    is_mine = known and of_checksum(known, repr(path)) is PREFERRED
    return known if is_mine else PREFERRED.checksum([tree.read(path)])


def _files_of(files: Any) -> Files:
    if not isinstance(files, Mapping):
        raise UsageError(f"the files of a checkpoint are a dict of bytes, not {type(files).__name__}")
    return make_files(files, files.folders if isinstance(files, Files) else frozenset())


def _reopen(kind: type[Checkpoint], how: str, source: Any, trust: bool) -> Checkpoint:  # noqa: FBT001  pickled
    made: Checkpoint = getattr(kind, how)(source, trust=trust)
    return made
