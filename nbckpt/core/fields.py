"""Fields: turns the keys and values of a dict into values and groups of a manifest, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbckpt.core.definitions import main_namespace
from nbckpt.core.manifest import Group, Manifest, Value
from nbckpt.core.packs.format import pack_of
from nbckpt.core.packs.writer import Packer
from nbckpt.core.tree import Tree
from nbckpt.core.values.loading import Contents, last_slots, load_group, with_contents
from nbckpt.core.values.placement import MissingDeviceError, restoring_to
from nbckpt.core.values.preview import text_of
from nbckpt.core.values.variables import capture
from nbckpt.core.warning import warn
from nbckpt.errors import CodecError, NbckptError
from nbckpt.store import MemoryStore

_MOST_PREVIEWS = 1000


def encode_fields(
    fields: Mapping[Any, Any], packer: Packer
) -> Callable[[], tuple[tuple[Value, ...], tuple[Group, ...]]]:
    """Hand a dict to *packer*; the result returns values and groups once the packer has finished.

    Raises:
        CodecError: A value cannot be pickled. The message contains the path to it.
    """
    keys = list(fields)
    items = {
        str(at): item if type(key) is str else (key, item) for at, (key, item) in enumerate(fields.items())
    }
    namespace = main_namespace()
    captured = capture(
        items, namespace, packer, previews=len(items) <= _MOST_PREVIEWS, left=namespace, lends=True
    )
    for warning in captured.warnings:
        name, rest = re.match(r"(\d+)(.*)", warning, re.DOTALL).groups()  # type: ignore[union-attr]  # of items
        warn(f"[{keys[int(name)]!r}]{rest}")
    if captured.skipped:
        first = captured.skipped[0]
        path = f"[{keys[int(first.name)]!r}]{first.path.removeprefix(first.name)}"
        raise CodecError(
            f"cannot save {path}: {first.reason}. Leave it out, or save the data from which it is made"
        )

    def encoded() -> tuple[tuple[Value, ...], tuple[Group, ...]]:
        values = []
        for value in captured.values(packer):
            key = keys[int(value.name)]
            plain = type(key) is str
            values.append(replace(value, name=key if plain else text_of(key), keyed=not plain))
        return tuple(values), captured.groups(packer)

    return encoded


def with_attributes(tree: Tree, cls: str, attributes: Mapping[str, Any]) -> Tree:
    """Return *tree* as written by the class *cls*, with these attributes instead of its own."""
    manifest = replace(_values_only(tree.manifest), cls=cls)
    if not attributes:
        return replace(tree, manifest=manifest)
    store = MemoryStore()
    with Packer(store) as packer:
        encoded = encode_fields(attributes, packer)
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


def _values_only(manifest: Manifest) -> Manifest:
    """Return the manifest without its attributes and without the groups that only they use."""
    used = sorted({value.group for value in manifest.values})
    numbers = {old: new for new, old in enumerate(used)}
    return replace(
        manifest,
        attributes=(),
        groups=tuple(manifest.groups[old] for old in used),
        values=tuple(replace(value, group=numbers[value.group]) for value in manifest.values),
    )


def load_fields(tree: Tree, values: Sequence[Value], device: str = "") -> Iterator[tuple[Value, Any]]:
    """Yield each value of *tree* with its loaded object. Values of one group share their common objects.

    Tensors that were saved on a GPU go to *device*, by default to where they were.

    Raises:
        CodecError: A value's own code failed.
    """
    groups: dict[int, list[Any]] = {}
    last = last_slots(values)
    order = list(dict.fromkeys(value.group for value in values))
    read = with_contents(order, tree.manifest.groups, tree.reader)
    contents: dict[int, Contents] = {}
    for value in values:
        if value.group not in groups:
            while value.group not in contents:
                contents.update([next(read)])
            with restoring_to(device):
                groups[value.group] = _load_group(tree, value, last[value.group], contents.pop(value.group))
        yield value, groups[value.group][value.slot]


def _load_group(tree: Tree, value: Value, last: int, contents: Contents) -> list[Any]:
    try:
        return load_group(tree.manifest.groups[value.group], tree.reader, last, contents)
    except MissingDeviceError as error:
        raise CodecError(f"cannot load {value.name!r}: {error}") from error
    except NbckptError:
        raise
    except Exception as error:
        raise CodecError(f"cannot load {value.name!r}: {type(error).__name__}: {error}") from error
