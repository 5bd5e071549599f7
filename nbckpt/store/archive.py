"""ArchiveStore reads a store from one zip file; ArchiveWriter writes such a file.

A checkpoint travels as such a file: it holds the keys and bytes of a store, and any zip tool opens it.
Nothing is ever extracted by name, so a hostile archive cannot write anywhere.
"""

from __future__ import annotations

import errno
import io
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from nbckpt.errors import CorruptError, NbckptError, NotFoundError, StoreError, UsageError
from nbckpt.store.base import Data, Store, check_key, parts_of

DAMAGE = (zipfile.BadZipFile, EOFError, ValueError, RuntimeError, struct.error, zlib.error)
"""What zipfile raises for bytes that are not an archive, or not the archive that was written."""

_ENCRYPTED = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal contents give equal archives


class _Archive(Store):
    """Answers questions about an open archive without reading its members."""

    _zip: zipfile.ZipFile

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        return check_key(key) in self._zip.NameToInfo

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        yield from sorted(name for name in self._zip.namelist() if name.startswith(prefix))

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """See `Store.sizes`."""
        for key in self.keys(prefix):
            yield key, self._zip.getinfo(key).file_size


class ArchiveStore(_Archive):
    """A read-only store over the keys of a zip archive, given as bytes or as a path.

    Raises:
        CorruptError: The bytes are not a whole archive.

    Examples:
        >>> made = nbckpt.Checkpoint.from_dict({"step": 3}).to_bytes()
        >>> [key.partition("/")[0] for key in nbckpt.store.ArchiveStore(made).keys()]
        ['checkpoints']
    """

    def __init__(self, source: bytes | str | os.PathLike[str]) -> None:
        self.url = "archive" if isinstance(source, bytes) else os.fspath(source)
        file: BinaryIO | str = io.BytesIO(source) if isinstance(source, bytes) else self.url
        self._lock = threading.Lock()
        try:
            self._zip = open_archive(file)
        except FileNotFoundError:
            raise NotFoundError(f"there is no file {self.url!r}") from None
        except DAMAGE as error:
            raise CorruptError(f"{self.url} is not a whole nbckpt archive: {error}") from error
        except OSError as error:
            raise _explained(error, f"{self.url!r}") from error

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        check_key(key)
        try:
            with self._lock, self._zip.open(key) as file:
                file.seek(start)
                return file.read(-1 if stop is None else max(0, stop - start))
        except KeyError:
            raise NotFoundError(f"no {key!r} in {self.url}") from None
        except DAMAGE as error:
            raise CorruptError(f"{key!r} in {self.url} is damaged: {error}") from error
        except OSError as error:
            raise _explained(error, f"{key!r} in {self.url}") from error

    def put(self, key: str, data: Data) -> None:
        """Raise UsageError: an archive is read-only. To write one, use `ArchiveWriter`."""
        del data
        raise UsageError(f"cannot write {key!r}: the archive {self.url} is read-only")

    def delete(self, key: str) -> None:
        """Raise UsageError: an archive is read-only."""
        raise UsageError(f"cannot delete {key!r}: the archive {self.url} is read-only")

    def close(self) -> None:
        """Close the file."""
        self._zip.close()


def open_archive(file: BinaryIO | str) -> zipfile.ZipFile:
    """Open an archive for reading, after checking that its members have the form that nbckpt writes.

    No member can claim more bytes than the archive has.

    Raises:
        zipfile.BadZipFile: A member is compressed or encrypted, shares its name with another, or overlaps it.
    """
    archive = zipfile.ZipFile(file)
    try:
        _check_members(archive)
    except zipfile.BadZipFile:
        archive.close()
        raise
    return archive


def _check_members(archive: zipfile.ZipFile) -> None:
    members, end = archive.infolist(), archive.start_dir
    if len(archive.NameToInfo) != len(members):
        raise zipfile.BadZipFile("two members have the same name")
    for member in sorted(members, key=lambda member: -member.header_offset):
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
            raise zipfile.BadZipFile(f"{member.filename!r:.60} is compressed or encrypted")
        if member.file_size != member.compress_size or member.file_size > end - member.header_offset:
            raise zipfile.BadZipFile(f"{member.filename!r:.60} is larger than its space in the archive")
        end = member.header_offset


def _explained(error: OSError, name: str) -> NbckptError:
    if error.errno == errno.EINVAL:  # the archive points its reader to an offset that no file has
        return CorruptError(f"{name} is damaged: {error}")
    return StoreError(f"cannot read {name}: {error.strerror or error}")


class ArchiveWriter(_Archive):
    """A store that writes each put into an archive, which goes to *file*."""

    def __init__(self, file: BinaryIO) -> None:
        self.url = "archive"
        self._lock = threading.Lock()
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """Raise UsageError: an archive can be read only after it is finished."""
        del start, stop
        raise UsageError(f"cannot read {key!r} from an archive that is being written")

    def put(self, key: str, data: Data) -> None:
        """Append *data* under *key*."""
        with (
            self._lock,
            self._zip.open(zipfile.ZipInfo(check_key(key), _EPOCH), "w", force_zip64=True) as file,
        ):
            for part in parts_of(data):
                file.write(part)

    def delete(self, key: str) -> None:
        """Raise UsageError: a member cannot be removed from an archive."""
        raise UsageError(f"cannot delete {key!r} from an archive that is being written")

    def close(self) -> None:
        """Finish the archive. Until then the file is not a valid archive."""
        self._zip.close()
