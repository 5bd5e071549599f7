"""The page of a checkpoint, made without loading values and without downloading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbckpt.core.manifest import Manifest
from nbckpt.core.sources import Source
from nbckpt.core.tables import files_table, previews, values_table
from nbckpt.core.tree import Tree
from nbckpt.core.values.preview import describe
from nbckpt.errors import StoreError
from nbckpt.render import Hint, Page, age, count

_MOST_ROWS = 20


def checkpoint_page(
    name: str,
    tree: Tree | None,
    source: Source,
    attributes: Mapping[str, Any],
    is_trusted: Callable[[], bool],
) -> Page:
    """Return the page of a checkpoint of the class *name* with these live attributes."""
    if tree is None:
        return Page(f"{name} {source}: nothing was there when it was made, and it was not read since")
    fields, files = tree.manifest.values, tree.files
    folders = [count(len(tree.folders), "empty folder")] if tree.folders else []
    live = {name: describe(value) for name, value in attributes.items()}
    return Page(
        f"{name} {source}: {', '.join([count(len(fields), 'field'), count(len(files), 'file'), *folders])}",
        (
            values_table("fields", previews(fields), _MOST_ROWS),
            values_table("attributes", (dict(previews(tree.manifest.attributes)) | live).items()),
            files_table(_file_sizes(tree, source), _MOST_ROWS),
        ),
        tuple(_remarks(tree.manifest, is_trusted)),
        hints=(Hint("Fields", ".to_dict()"), Hint("Files", "with .as_directory() as folder:")),
    )


def _file_sizes(tree: Tree, source: Source) -> dict[str, int | None]:
    """Return the sizes of the files; None for a size that is neither recorded nor on this machine."""
    sizes: dict[str, int | None] = dict.fromkeys(tree.files)
    sizes |= {path: content.size for path, content in tree.manifest.files.items()}
    if source.kind == "folder":
        folder = Path(source.where)
        with suppress(OSError):  # a file that vanished meanwhile has no size
            sizes |= {path: (folder / path).stat().st_size for path in sorted(sizes)[:_MOST_ROWS]}
    return sizes


def _remarks(manifest: Manifest, is_trusted: Callable[[], bool]) -> Iterator[str]:
    """Yield when the checkpoint was made, its message, and whether its fields can be loaded."""
    if manifest.created_at:
        made = age(manifest.created_at)
        yield f"made {made.text} ({made.hint})"
    if manifest.message:
        yield manifest.message
    try:
        if not is_trusted():
            yield "Not signed by you. Pass trust=True to from_…() to load its fields."
    except StoreError as error:  # the user's secret cannot be read
        yield str(error)
