"""RemoteStore: a store at any URL that fsspec can reach."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from nbckpt._private_apis import s3_call
from nbckpt.errors import NbckptError, NotFoundError, UsageError
from nbckpt.store.base import PIECE, STAGING, Data, Pieces, Store, check_key, parts_of, pieces_of
from nbckpt.store.cancel import wanted
from nbckpt.store.connections import Connections
from nbckpt.store.failures import explained
from nbckpt.store.masking import masked, masked_url

# On these, one put request makes an object visible, whole or not at all. Elsewhere: write aside, rename.
_WHOLE_PUTS = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl"})
_COPIES = frozenset({"memory", "s3", "s3a", "gs", "gcs"})
LARGE, PART = 128 << 20, 16 << 20
AT_ONCE = 64 << 20
"""The most bytes of one object that are in memory and in transfer."""
_MOST_PARTS = 10_000
_ABSENT = {404, 410}  # of HTTP
_MOST_LEVELS = 100
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
    "sftp": "sftp",
    "ssh": "sftp",
}


class _Body:
    """A large object for S3, whose parts are read one at a time; see `multipart.Parts`."""

    def __init__(self, size: int, read: Callable[[int, int], bytes], part: int) -> None:
        self._size = size
        self._read = read
        self._part = max(part, -(-size // _MOST_PARTS))
        self.parts = -(-size // self._part)
        self.at_once = max(1, AT_ONCE // self._part)

    def part(self, number: int) -> bytes:
        """See `multipart.Parts.part`."""
        start = number * self._part
        return self._read(start, min(start + self._part, self._size))


def trimmed(url: str) -> str:
    """Return *url* without slashes at its end, except those of a URL without a path, such as `memory://`."""
    bare = url.rstrip("/")
    return url if bare.endswith(":") else bare  # memory: is the name of a local folder


def check_protocol(url: str) -> None:
    """Check that fsspec knows the protocol of *url* and that its package is installed. Sends no request.

    Raises:
        UsageError: There is no such protocol, or its package is missing. The message says what to install.
    """
    import fsspec

    with _reaching(url):
        for link in url.split("::"):  # as in simplecache::s3://bucket
            fsspec.get_filesystem_class(link.partition("://")[0])


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    protocol, url = url.rpartition("::")[2].partition("://")[0], masked_url(url)
    try:
        yield
    except NbckptError as error:
        raise type(error)(f"cannot reach {url!r}: {error}") from error
    except ValueError as error:
        raise UsageError(f"cannot reach {url!r}: {masked(str(error))}") from error
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        advice = f"pip install 'nbckpt[{extra}]'" if extra else str(error)
        raise UsageError(f"cannot reach {url!r}: {protocol} needs another package: {advice}") from error
    except Exception as error:
        raise explained(error, f"cannot reach {url!r}") from error


class RemoteStore(Store):
    """One object per key below *url*, for example `s3://bucket/folder` or `memory://demo`.

    The `url` attribute shows no password and no token.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self.url = masked_url(trimmed(url))
        protocol = url.partition("://")[0]
        with _reaching(url):
            self._connections = Connections(url, options)
        self._root = self._connections.root
        self._is_http = protocol in {"http", "https"}
        self._whole_puts = protocol in _WHOLE_PUTS
        self._in_pieces = protocol in {"s3", "s3a"} and s3_call(self._fs) is not None
        self._copies = protocol in _COPIES
        self.lists_in_pages = protocol not in {"memory", "file", "local"}

    @property
    def _fs(self) -> Any:
        return self._connections.mine

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        with self._explained("read", key):
            if stop is not None and stop <= start:  # no backend has a request for zero bytes
                self._info(self._at(key))
                return b""
            try:
                return _read(self._fs, self._at(key), start, stop)
            except _NO_FILE:
                raise
            except Exception:
                # Some backends refuse a range that begins after the end, and some report a folder no better.
                info = self._info(self._at(key))
                if info["type"] != "file":
                    raise IsADirectoryError(key) from None
                if start < info["size"]:
                    raise
                return b""

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        with self._explained("write", key):
            if self._whole_puts:
                wanted().check()
                body = self._body(data)
                put = self._fs.put_in_parts if isinstance(body, _Body) else self._fs.pipe_file
                put(self._at(key), body)
                return
            staged = f"{self._root}/{STAGING}/{uuid.uuid4().hex}"
            for path in (staged, self._at(key)):
                self._make_folder(path.rpartition("/")[0])
            try:
                with self._fs.open(staged, "wb") as file:
                    # Without pipelining, SFTP would wait for an answer after each piece.
                    if hasattr(file, "set_pipelined"):
                        file.set_pipelined(True)
                    for piece in pieces_of(data):
                        file.write(piece)
                wanted().check()
                self._fs.mv(staged, self._at(key))
            except BaseException:
                with suppress(Exception):  # the caller must see the original failure
                    self._fs.rm_file(staged)
                raise

    def copy(self, source: str, target: str) -> None:
        """See `Store.copy`."""
        if not self._copies:
            super().copy(source, target)
            return
        with self._explained("read", source):
            self._fs.cp_file(self._at(source), self._at(target))

    def _make_folder(self, folder: str) -> None:
        """Make *folder* and its parents. Other writers may be making them at the same time."""
        if self._fs.isdir(folder or "/"):
            return
        self._make_folder(folder.rpartition("/")[0])
        try:
            self._fs.mkdir(folder, create_parents=False)
        except Exception:
            if not self._fs.isdir(folder):
                raise

    def _body(self, data: Data) -> bytes | _Body:
        """Return the bytes in the form of the backend. A large object for S3 is not copied as a whole."""
        if self._in_pieces and isinstance(data, Pieces) and data.size >= 2 * PIECE:
            return _Body(data.size, data.read, PIECE)
        parts = parts_of(data)
        if self._in_pieces and len(parts) == 1 and len(parts[0]) >= LARGE:
            view = memoryview(parts[0]).cast("B")
            return _Body(len(view), lambda start, stop: bytes(view[start:stop]), PART)
        if len(parts) == 1 and isinstance(parts[0], bytes):
            return parts[0]
        whole = io.BytesIO()  # parts may be made one by one; `join` would keep all of them in memory
        for part in parts:
            whole.write(part)
        return whole.getvalue()

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        with self._explained("look at", key), suppress(*_NO_FILE):
            self._fs.invalidate_cache()
            return self._is_file(self._at(key))
        return False

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        yield from (key for key, _ in self.sizes(prefix))

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """See `Store.sizes`."""
        folder = prefix.rpartition("/")[0]
        with self._explained("list", folder or "/"):
            self._fs.invalidate_cache()
            top = self._at(folder) if folder else self._root or "/"
            files = self._find(top)
        root = self._root.lstrip("/")
        skip = len(root) + 1 if root else 0  # at the top of a host, keys begin at once
        listed = {path.lstrip("/")[skip:]: info for path, info in files.items()}
        for key in sorted(listed):
            # s3fs lists the folder itself if the first file appears between its two requests.
            if key and key.startswith(prefix) and not key.startswith(f"{STAGING}/"):
                yield key, listed[key]["size"]

    def _find(self, top: str) -> dict[str, dict[str, Any]]:
        """Return the files below *top*, which need not exist. A folder that cannot be listed is an error."""
        if self._is_http:
            return dict(_walked(self._fs, top))
        if self._fs.async_impl:  # asynchronous file systems list everything in one request
            return dict(self._fs.find(top, detail=True))
        with suppress(FileNotFoundError):
            return dict(self._fs.find(top, detail=True, on_error=_unless_gone))
        return {}

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        with self._explained("delete", key), suppress(*_NO_FILE):
            try:
                self._fs.rm_file(self._at(key))
            except Exception:
                if self._is_file(self._at(key)):  # otherwise it is a folder
                    raise

    def _is_file(self, path: str) -> bool:
        # Not `isfile`: it returns False for a file that cannot be reached.
        return bool(self._info(path)["type"] == "file")

    def _info(self, path: str) -> Any:
        try:
            return self._fs.info(path)
        except FileNotFoundError as error:
            # Over HTTP, every failure is this one, also that of a server that does not answer.
            if self._is_http and error.__cause__ and getattr(error.__cause__, "status", 0) not in _ABSENT:
                raise error.__cause__ from None
            raise

    def _at(self, key: str) -> str:
        if check_key(key).split("/")[0] == STAGING:
            raise UsageError(f"{key!r} is not a valid key in {self.url}: {STAGING} is where puts are staged")
        return f"{self._root}/{key}"

    @contextmanager
    def _explained(self, action: str, key: str) -> Iterator[None]:
        try:
            with self._connections.lent():
                yield
        except NbckptError:
            raise
        except Exception as error:
            if isinstance(error, _NO_FILE) and action not in {"write", "list"}:
                raise NotFoundError(f"no {key!r} in {self.url}") from None
            raise explained(error, f"cannot {action} {key!r} in {self.url}") from error


def _unless_gone(error: OSError) -> None:
    """Ignore a folder that vanished during a listing; raise any other error."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _walked(fs: Any, folder: str, levels: int = _MOST_LEVELS) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the files below a folder. Over HTTP, `find` passes over folders that do not answer."""
    if not levels:  # each page of a hostile server may name another folder
        raise OSError(f"{folder} is below {_MOST_LEVELS} folders")
    with suppress(FileNotFoundError):
        for info in fs.ls(folder, detail=True):
            path = info["name"].rstrip("/")
            if info["type"] != "directory":
                yield path, info
            elif path != folder.rstrip("/"):
                yield from _walked(fs, path, levels - 1)


def _read(fs: Any, path: str, start: int, stop: int | None) -> bytes:
    if not hasattr(fs, "ftp"):
        return bytes(fs.cat_file(path, start=start or None, end=stop))
    with fs.open(path, "rb") as file:  # on SFTP, this requests all pieces at once
        size = file.stat().st_size
        length = min(size, size if stop is None else stop) - start
        data = b"".join(file.readv([(start, length)])) if length > 0 else b""
    if len(data) < length:
        raise OSError(f"it ended after {len(data)} of {length} bytes")
    return data
