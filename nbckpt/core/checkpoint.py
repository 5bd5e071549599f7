"""Checkpoint: one value, many forms.

A checkpoint is an immutable tree of fields and files. Its forms are a dict, a folder, bytes, a URI and a
place in a store. Each form writes the same tree and reads it back. A checkpoint that passes through any
chain of forms keeps its content, including fields added in the dict form and files added in the folder form.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

from nbckpt.core import shared_tempdir
from nbckpt.core.checkpoint_page import checkpoint_page
from nbckpt.core.fields import load_fields, with_attributes
from nbckpt.core.files import FILES, KIND, Files, Key, Kind
from nbckpt.core.manifest import Signature, Value
from nbckpt.core.plain import remote_tree, write_folder, write_remote
from nbckpt.core.sources import (
    Source,
    bytes_source,
    dict_source,
    folder_source,
    only_source,
    store_source,
    uri_source,
)
from nbckpt.core.subclasses import class_name, initialised, narrower, recorded_class
from nbckpt.core.transfer import save_tree, write_archive
from nbckpt.core.tree import Tree
from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError, UntrustedError, UsageError
from nbckpt.render import Page, Rich
from nbckpt.store import Store, local_folder, masked_url, open_store

_PREPROCESSOR = "_preprocessor"


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

    Examples:
        >>> made = nbckpt.Checkpoint.from_dict({"step": 3})
        >>> nbckpt.Checkpoint.from_bytes(made.to_bytes()).to_dict()
        {'step': 3}
        >>> nbckpt.Checkpoint.from_directory(made.to_directory("step-3")).same_content(made)
        True
        >>> nbckpt.Checkpoint.from_uri(made.to_uri("memory://step-3")).to_dict()
        {'step': 3}
        >>> nbckpt.Checkpoint.from_store("store", made.to_store("store", "mine")).digest() == made.digest()
        True
        >>> with made.as_directory() as folder:
        ...     files = os.listdir(folder)
    """

    FILES: ClassVar[Key] = FILES
    """The key of the files in `to_dict`: `checkpoint.to_dict()[Checkpoint.FILES]["model/weights.bin"]`."""

    _SERIALIZED_ATTRS: ClassVar[tuple[str, ...]] = ()
    """The names of attributes of a subclass that travel with the checkpoint through every form."""

    _source: Source

    def __init__(
        self,
        local_path: str | os.PathLike[str] | None = None,
        data_dict: Mapping[Any, Any] | None = None,
        uri: str | None = None,
    ) -> None:
        if "_source" in vars(self):  # a `from_` method filled it and now runs the subclass's `__init__`
            return
        source = only_source(local_path, data_dict, uri, Checkpoint)
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
        return cls._make(dict_source(data, Checkpoint))

    def to_dict(self, *, device: str = "") -> dict[Any, Any]:
        """Return the fields in their order, and any files under the key `FILES`.

        A subclass adds one more key, from which `from_dict` restores the class and its attributes. Every call
        returns new objects.

        Args:
            device: Where to load tensors that were saved on a GPU, such as `cpu`; by default where they were.

        Raises:
            CodecError: A tensor was saved on a GPU that is not here, and no *device* is given.
            UntrustedError: Somebody else wrote the fields.
            CorruptError: The fields are damaged.
        """
        data: dict[Any, Any] = {}
        for value, loaded in self._load(self._tree.manifest.values, device):
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
        return cls._make(folder_source(path, trust=trust))

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
        if not self._source.is_folder(folder) and (overwrite or not self._same_as(folder)):
            write_folder(self._outgoing(), folder, self._sign(), overwrite=overwrite)
        return str(folder)

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """Provide the checkpoint as a folder for the block.

        A checkpoint made from a folder provides that folder. Any other checkpoint is written once into a
        temporary folder, even if many threads and processes use it at once. The last user removes the folder.
        """
        if self._source.kind == "folder":
            yield self._source.where
            return
        # A stranger can claim any digest, so trusted and untrusted data never share a folder.
        name = self.digest()[:32] if self._trusted else f"{self.digest()[:32]}-untrusted"
        write = partial(write_folder, self._outgoing(), sign=self._sign())
        with shared_tempdir.lend(name, write) as folder:
            yield str(folder)

    # The bytes form.

    @classmethod
    def from_bytes(cls, data: bytes, *, trust: bool = False) -> Self:
        """Make a checkpoint from the result of `to_bytes`.

        Raises:
            CorruptError: The bytes are truncated or changed.
        """
        return cls._make(bytes_source(data, trust=trust))

    def to_bytes(self) -> bytes:
        """Return the whole checkpoint as bytes: an archive that any zip tool opens."""
        file = io.BytesIO()
        write_archive(self._outgoing(), file, self._sign())
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
        return cls._make(uri_source(uri, trust=trust))

    def to_uri(self, uri: str, *, overwrite: bool = False) -> str:
        """Write the checkpoint to *uri* and return the URI. Readers see it only when it is complete.

        Raises:
            UsageError: The URI already holds something and *overwrite* is false, or there is no such storage.
            StoreError: The storage failed. The data there is not a checkpoint until it is written again.
        """
        if "://" not in str(uri):
            raise UsageError(f"{uri!r} is not a URI. Use to_directory for a folder")
        if folder := local_folder(uri):
            self.to_directory(folder, overwrite=overwrite)
        else:
            write_remote(self._outgoing(), open_store(uri), self._sign(), overwrite=overwrite)
        return uri

    # The store form.

    @classmethod
    def from_store(cls, store: Store | str, ref: str, *, trust: bool = False) -> Self:
        """Return a checkpoint of a store, found by a name, an id or `latest`."""
        return cls._make(store_source(store, ref, trust=trust))

    def to_store(self, store: Store | str, name: str = "", *, message: str = "") -> str:
        """Save the checkpoint in a store and return its id. Data that the store has is not written again.

        A checkpoint of somebody else stays untrusted in the store.
        """
        tree = self._outgoing()
        return save_tree(tree, open_store(store), name, message=message, sign=self._trusted).id

    # Identity.

    @classmethod
    def from_checkpoint(cls, other: Checkpoint) -> Self:
        """Return *other* as this class, with the attributes that both classes have."""
        if type(other) is cls:
            return other
        return initialised(cls, vars(other), {})

    @property
    def uri(self) -> str | None:
        """The location of the checkpoint: a folder as a `file://` URI, the URI it came from, or None."""
        return self._source.uri()

    def digest(self) -> str:
        """Return a digest of the content. It is equal for equal fields, files, attributes and class.

        This reads the files, except those whose digest is known from their upload.
        """
        return self._outgoing().digest()

    def same_content(self, other: Checkpoint) -> bool:
        """Return whether *other* has equal fields, files, attributes and class. `==` compares identity."""
        # see docs/decisions/0074
        return self is other or self.digest() == other.digest()

    def get_preprocessor(self, *, trust: bool = False) -> Any:
        """Return the field `_preprocessor`, else the object in the file `_preprocessor`, else None.

        The file is a pickle, which no signature covers. It is only loaded with *trust*, given here or when
        the checkpoint was made.

        Raises:
            UntrustedError: *trust* was not given, or somebody else wrote the field.
        """
        field = self._field(_PREPROCESSOR)
        if field is not None or _PREPROCESSOR not in self._tree.files:
            return field
        if not (trust or self._source.trust):
            raise UntrustedError(
                f"the file {_PREPROCESSOR!r} in {self!r} is a pickle, so loading it could run anything. "
                "If you know who wrote it, pass trust=True"
            )
        return pickle.loads(self._tree.read(_PREPROCESSOR))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source.short()})"

    def page(self) -> Page:
        """See `Rich.page`. This loads no values and downloads nothing."""
        attributes = {name: vars(self)[name] for name in self._SERIALIZED_ATTRS if name in vars(self)}
        tree: Tree | None = vars(self).get("_tree")
        return checkpoint_page(type(self).__name__, tree, self._source, attributes, lambda: self._trusted)

    def __fspath__(self) -> str:
        raise TypeError(
            "a checkpoint is not a path: use `with checkpoint.as_directory() as path:` or to_directory(path)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        kind, where = self._source.kind, self._source.where
        # A pickle never contains a password.
        if kind == "folder" or (kind == "uri" and masked_url(where) == where):
            how = "from_directory" if kind == "folder" else "from_uri"
            return _reopen, (type(self), how, where, self._source.trust), self._attributes()
        return _reopen, (type(self), "from_bytes", self.to_bytes(), self._trusted)

    # Construction and reading.

    @classmethod
    def _make(cls, source: Source) -> Self:
        """Return a checkpoint of the class that wrote the source, or of *cls* if that is more specific."""
        made = cls.__new__(cls)
        made._fill(source)
        made = initialised(made._class_of(source), vars(made), source.given)
        made._restore(source)
        return made

    def _fill(self, source: Source) -> None:
        self._source = source._replace(tree=None, given={})  # the given dict belongs to the user
        if source.tree is not None:
            self._tree = source.tree

    def _class_of(self, source: Source) -> type[Self]:
        """Return the class that wrote the source, or this class if it is more specific."""
        if source.tree is None:
            return type(self)
        recorded = recorded_class(source.tree.manifest.cls, Checkpoint, load=self._trusted)
        return narrower(type(self), source.wrote or recorded)

    def _restore(self, source: Source) -> None:
        """Set the attributes from the source, after `__init__` has set their defaults."""
        if source.tree is not None and self._trusted:
            for value, loaded in self._load(source.tree.manifest.attributes):
                setattr(self, value.name, loaded)

    @cached_property
    def _tree(self) -> Tree:
        """The tree. This also finds data that reached the URI after the checkpoint was made."""
        return remote_tree(open_store(self._source.where))

    @cached_property
    def _trusted(self) -> bool:
        """Whether loading runs no code, or only code that this user wrote or trusts."""
        manifest = self._tree.manifest
        harmless = not (manifest.values or manifest.attributes or manifest.cls)
        return self._source.trust or self._source.is_own or harmless or open_signer().signed(manifest)

    def _attributes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._SERIALIZED_ATTRS if hasattr(self, name)}

    def _field(self, key: str) -> Any:
        """Return one field, or None if there is none. Fields that share nothing with it are not loaded."""
        for value in self._tree.manifest.values:
            if value.name == key and not value.keyed:
                return next(self._load([value]))[1]
        return None

    def _load(self, values: Sequence[Value], device: str = "") -> Iterator[tuple[Value, Any]]:
        """Yield each value with its loaded object. Values of one group share their common objects."""
        if values and not self._trusted:
            raise UntrustedError(
                f"{self!r} was not written by you, so loading its fields could run anything. If you know "
                "who wrote it, pass trust=True to from_…(), or to resume() if a trial loads it"
            )
        return load_fields(self._tree, values, device)

    def _outgoing(self) -> Tree:
        """Return the tree to write, with this class and the current attributes."""
        if not self._trusted:
            return self._tree
        return with_attributes(self._tree, class_name(type(self), Checkpoint), self._attributes())

    def _sign(self) -> Callable[[str], Signature] | None:
        """Return the function that signs the written data, or None for data of somebody else."""
        return open_signer().sign if self._trusted else None

    def _same_as(self, folder: Path) -> bool:
        """Tell whether *folder* already holds this checkpoint. Return False if it holds no checkpoint."""
        with suppress(NbckptError, OSError):
            if any(folder.iterdir()):
                return Checkpoint.from_directory(folder).digest() == self.digest()
        return False


def _reopen(kind: type[Checkpoint], how: str, source: Any, trust: bool) -> Checkpoint:  # noqa: FBT001  pickled
    made: Checkpoint = getattr(kind, how)(source, trust=trust)
    return made
