"""Tree: the values and files of a checkpoint by name, read from any place.

There are two layouts. *Packed*, in a store or an archive: a manifest and packs. *Plain*, in a folder or at a
URL: see `core/plain.py`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.content import Content, Run, Stored
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.errors import UsageError
from nbckpt.store import STAGING, Buffer, Store, check_key

INSIDE = ".nbckpt"
"""The folder that holds the values, among a plain checkpoint's files."""

Chunks = Callable[[], Iterable[Buffer]]


@dataclass
class Tree:
    """Values and files, and how to read them.

    Attributes:
        manifest: The values, with their class and attributes. Its `files` are the files in packs.
        reader: Reads the values.
        files: For each path, the function that reads the file.
        folders: The empty folders.
    """

    manifest: Manifest
    reader: Reader
    files: dict[str, Chunks] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        return b"".join(self.files[path]())

    def contents(self) -> Iterator[tuple[str, Iterable[Buffer]]]:
        """Yield each file with its bytes. From packs that are far, several files are fetched at once."""
        reads = {path: read for path, read in self.files.items() if isinstance(read, _Packed)}
        self.reader.look_up(dict.fromkeys(run[0] for read in reads.values() for run in read.content.runs))
        packed = {path: read.runs() for path, read in reads.items()}
        together = self.reader.chunks(*packed.values())
        for path, read in self.files.items():
            if path not in packed:
                yield path, read()
                continue
            chunks = islice(together, sum(count for _, _, count in packed[path]))
            yield path, chunks
            deque(chunks, maxlen=0)  # what the caller left would begin the next file

    def digest(self) -> str:
        """Return a digest of the content; see `Checkpoint.digest`."""
        manifest = self.manifest
        lines = [f"class {manifest.cls}"]
        lines += [f"{value.name} {value.digest}" for value in (*manifest.values, *manifest.attributes)]
        lines += [f"{path} {self._checksum(path)}" for path in sorted(self.files)]
        lines += sorted(self.folders)
        return PREFERRED.digest("\n".join(map(repr, lines)).encode("utf-8", "backslashreplace")).hex()

    def _checksum(self, path: str) -> str:
        """Return the checksum of a file: that of its upload, if this has the preferred digest."""
        uploaded = self.manifest.sums.get(path, "")
        is_preferred = uploaded and of_checksum(uploaded, repr(path)) is PREFERRED
        return uploaded if is_preferred else PREFERRED.checksum([self.read(path)])


@dataclass(frozen=True)
class _Packed:
    """A file in packs; see `Chunks`."""

    reader: Reader
    content: Content

    def __call__(self) -> Iterable[Buffer]:
        return self.reader.chunks(self.runs())

    def runs(self) -> Sequence[Run]:
        return self.reader.sized(self.content)


def packed_tree(manifest: Manifest, store: Store, *, mapping: bool = True) -> Tree:
    """Return the tree of a manifest with its packs in *store*."""
    reader = Reader(store, manifest.inline, mapping=mapping)
    files: dict[str, Chunks] = {
        check_path(path): _Packed(reader, content) for path, content in manifest.files.items()
    }
    return Tree(manifest, reader, files, frozenset(map(check_path, manifest.folders)))


def pack(tree: Tree, packer: Packer) -> Callable[[], Manifest]:
    """Hand everything in *tree* to *packer*; the result returns the manifest once the packer has finished."""
    contents: dict[Content, Stored] = {}
    old = replace(tree.manifest, files={})
    records = {group.record for group in old.groups}
    for content in old.contents():
        if content in records:
            contents[content] = packer.add_record(bytes(tree.reader.read(tree.reader.sized(content))))
        else:
            contents[content] = packer.add(tree.reader.load(tree.reader.sized(content)), lent=False)
        packer.drain()
    files = {}
    for path, chunks in tree.contents():
        files[path] = packer.add(joined(chunks), lent=False)
        packer.drain()

    def moved(stored: Stored) -> Content:
        return Content(stored.size, tuple(packer.runs(stored)))

    def manifest() -> Manifest:
        new = old.mapped(lambda content: moved(contents[content]))
        return replace(
            new,
            files={path: moved(stored) for path, stored in files.items()},
            folders=tuple(sorted(tree.folders)),
            sums={},
            inline=packer.inline,
            algorithms=packer.algorithms,
        )

    return manifest


def check_path(path: str) -> str:
    """Return *path* if it is a valid path for a file of a checkpoint.

    Raises:
        UsageError: It leads outside, or into the folder that nbckpt reserves.
    """
    if path.split("/")[0] in {INSIDE, STAGING}:
        raise UsageError(f"{path!r} cannot be a file of a checkpoint")
    if os.name == "nt" and any(c in path for c in '\\:*?"<>|'):
        raise UsageError(f"{path!r} cannot be a file name on Windows")
    return check_key(path)


def joined(chunks: Iterable[Buffer]) -> Buffer:
    """Return the bytes of a file in one buffer. One chunk is not copied."""
    parts = list(chunks)
    return parts[0] if len(parts) == 1 else b"".join(parts)
