"""Files: a checkpoint's files in its dict form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.reader import Reader
from nbckpt.core.tree import Chunks, Tree, check_path
from nbckpt.errors import UsageError
from nbckpt.store import MemoryStore


class Key:
    """A key of a checkpoint's dict form that differs from every key of a user."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name.lower()}>"

    def __reduce__(self) -> str:
        return self._name


FILES = Key("FILES")  # not a string: see docs/decisions/0008
"""The key of the files in `to_dict`: `checkpoint.to_dict()[FILES]["model/weights.bin"]`."""

KIND = Key("KIND")
"""The key of a `Kind` in `to_dict`, if the checkpoint belongs to a subclass."""


class Kind(NamedTuple):
    """The class of a checkpoint in its dict form, and the attributes that travel with the checkpoint."""

    cls: type
    attributes: dict[str, Any]


class Files(Mapping[str, bytes]):
    """A checkpoint's files by path, read when they are first requested.

    `files | {"notes.txt": b"..."}` returns files with one more, and keeps the empty folders.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __getitem__(self, path: str) -> bytes:
        return self.tree.read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tree.files)

    def __len__(self) -> int:
        return len(self.tree.files)

    def __or__(self, others: Mapping[str, bytes]) -> Files:
        return make_files({**self, **others}, self.folders)

    @property
    def folders(self) -> frozenset[str]:
        """The empty folders."""
        return self.tree.folders

    def __repr__(self) -> str:
        return f"Files({', '.join(list(self)[:5])}{', …' if len(self) > 5 else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return make_files, (dict(self), self.folders)


def make_files(contents: Mapping[str, Any], folders: frozenset[str] = frozenset()) -> Files:
    """Return files with copies of these contents, and those of *folders* that are still empty.

    Raises:
        UsageError: A path leads outside, a path is both a file and a folder, or a content is not bytes.
    """
    parents: set[str] = set()
    for path, content in contents.items():
        if not isinstance(content, (bytes, bytearray, memoryview)):
            kind = type(content).__name__
            raise UsageError(f"the file {path!r} must be bytes, not {kind}")
        parents |= _parents(check_path(path))
    empty = frozenset(map(check_path, folders)) - parents
    for folder in empty:
        parents |= {folder, *_parents(folder)}
    if both := sorted(parents & contents.keys()):
        raise UsageError(f"{both[0]!r} cannot be a file and a folder at once")
    files: dict[str, Chunks] = {path: _constant(bytes(content)) for path, content in contents.items()}
    return Files(Tree(Manifest(), Reader(MemoryStore()), files, empty))


def _parents(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:end]) for end in range(1, len(parts))}


def _constant(data: bytes) -> Chunks:
    return lambda: [data]
