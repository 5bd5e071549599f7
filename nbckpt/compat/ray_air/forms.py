"""Ray's reserved forms of a checkpoint, read as fields and files.

| form | holds |
|---|---|
| a dict with `fs_checkpoint` | a folder as a tar archive, and other fields |
| a dict with `_ray_additional_checkpoint_files` | fields, and tar archives by file name |
| a folder with `dict_checkpoint.pkl` | a dict as a pickle, and other files |
| a folder with `.metadata.pkl` and `KEY.meta.pkl` | files, and one pickle for each field KEY |
"""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Self

from nbckpt.core.files import FILES, Files, make_files
from nbckpt.errors import CodecError, CorruptError, UsageError

_ARCHIVE, _MORE, _METADATA = "fs_checkpoint", "_ray_additional_checkpoint_files", "_metadata"
_DICT_FILE, _METADATA_FILE, _FIELD_FILE = "dict_checkpoint.pkl", ".metadata.pkl", ".meta.pkl"


def plain_dict(data: Any) -> dict[Any, Any]:
    """Return a dict of Ray's as fields, with the files of its archives under the key `FILES`.

    A reserved key whose value is not an archive is the user's field.

    Raises:
        CorruptError: An archive is damaged, or holds something else than files and folders.
        UsageError: *data* is not a dict, or a path in an archive leads outside.
    """
    if not isinstance(data, Mapping):
        raise UsageError(f"from_dict takes a dict, not {type(data).__name__}")
    fields = {key: value for key, value in data.items() if key != _METADATA}
    archives: dict[str, bytes] = {}
    if isinstance(fields.get(_ARCHIVE), bytes):
        archives[""] = fields.pop(_ARCHIVE)
    if isinstance(fields.get(_MORE), Mapping):
        archives |= fields.pop(_MORE)
    if archives:
        old = fields.get(FILES, {})
        files, folders = dict(old), set(old.folders if isinstance(old, Files) else ())
        for name, archive in archives.items():
            for path, content in _unpacked(name, archive):
                if content is None:
                    folders.add(path)
                else:
                    files[path] = content
        fields[FILES] = make_files(files, frozenset(folders - {""}))
    return fields


def pickled_fields(files: Collection[str]) -> list[str]:
    """Return the files of a folder that hold fields as Ray wrote them; [] if Ray did not write the folder."""
    if _DICT_FILE in files:
        return [_DICT_FILE]
    if _METADATA_FILE not in files:
        return []
    return [path for path in files if path.endswith(_FIELD_FILE) and "/" not in path]


def folder_dict(data: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the dict form of a folder that Ray wrote, with its pickles as fields. This runs their code.

    Raises:
        CodecError: A pickle cannot be loaded here.
        CorruptError: A pickle does not hold the fields.
    """
    files: Files = data[FILES]
    fields = {key: value for key, value in data.items() if key is not FILES}
    pickles = pickled_fields(files)
    for path in pickles:
        loaded = unpickled(files[path], path)
        if path != _DICT_FILE:
            fields[path.removesuffix(_FIELD_FILE)] = loaded
        elif isinstance(loaded, dict):
            fields |= loaded
        else:
            raise CorruptError(f"{path!r} in a checkpoint of Ray holds {type(loaded).__name__}, not a dict")
    kept = {path: files[path] for path in files if path not in {*pickles, _METADATA_FILE}}
    if kept or files.folders:
        fields[FILES] = make_files(kept, files.folders)
    return plain_dict(fields)


def unpickled(data: bytes, label: str) -> Any:
    """Return the object in a pickle of Ray. This can run any code.

    Raises:
        CodecError: It cannot be loaded here.
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:
        raise CodecError(
            f"cannot load {label!r} of a checkpoint of Ray: {type(error).__name__}: {error}"
        ) from error


class OfRay:
    """Stands for an object of a class of Ray that cannot be imported here."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Take any arguments."""
        return super().__new__(cls)


class _Unpickler(pickle.Unpickler):
    """Reads pickles that name classes of Ray, also if Ray is not installed."""

    def find_class(self, module: str, name: str) -> Any:
        """See `pickle.Unpickler.find_class`."""
        if module.partition(".")[0] != "ray":
            return super().find_class(module, name)
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return type(name, (OfRay,), {"__module__": module})


def _unpacked(name: str, archive: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Yield the path and the content of each file in an archive. The content of a folder is None."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                path = "/".join(part for part in (name, member.name) if part)
                if member.isdir():
                    yield path, None
                    continue
                # A sparse file may claim any size.
                opened = tar.extractfile(member) if member.isreg() and not member.issparse() else None
                if opened is None:
                    raise CorruptError(
                        f"{path!r} in a checkpoint of Ray is neither a file nor a folder. It is not read"
                    )
                yield path, opened.read()
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise CorruptError(f"a checkpoint of Ray is damaged: its archive cannot be read: {error}") from error
