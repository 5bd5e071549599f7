"""Details of one checkpoint for the browser: its variables, how they differ from now, and comparisons."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbckpt.commands.comparing import Comparison
from nbckpt.commands.restoring import RestoreResult, TrialRestored
from nbckpt.commands.showing import Shown
from nbckpt.core.diff import Difference, package_diff
from nbckpt.core.environment import NAMES, packages
from nbckpt.core.manifest import Manifest
from nbckpt.core.values.preview import describe
from nbckpt.errors import UsageError
from nbckpt.notebook.widget.wires import Commands, Message, cut, plain_html, refs_of
from nbckpt.render import count
from nbckpt.states.snapshot import PREFIX, is_state

_MOST_VALUES = 2000
_MOST_SOURCE = 50_000
_MOST_LINES = 400
_SHORT_TEXT = 40
_TIMES = " \N{MULTIPLICATION SIGN} "
_MOST_DIMENSIONS = 8
_IN_FORM = ("shape ", "dtype ")
_CODE = {"module": "module", "function": "function", "builtin_function_or_method": "function"}
_SCALARS = frozenset({"int", "float", "bool", "str", "NoneType"})


def checkpoint(commands: Commands, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
    """Return all about one checkpoint; with the option `now`, only how it differs from the live variables."""
    (ref,) = refs_of(ids[:1])
    if options.get("now"):
        return {"html": "", "data": _now(commands, ref)}
    shown = commands.run("show", ref)
    if not isinstance(shown, Shown):
        return {"html": plain_html(shown), "data": {"ref": ref}}
    row, manifest = shown.row, shown.row.manifest
    head = {"ref": ref, "label": row.label, "trouble": cut(row.trouble), "trusted": row.trusted}
    if manifest is None:
        return {"html": "", "data": head}
    pictures = {picture.alt: b64encode(picture.data).decode() for picture in shown.pictures}
    contents = _contents(manifest, pictures)
    about = {"saved_at": manifest.created_at, "size": row.size, "message": cut(manifest.message)}
    notes = [cut(note) for note in shown.provenance]
    return {"html": "", "data": {**head, **about, **_origin(manifest), **contents, "notes": notes}}


def _contents(manifest: Manifest, pictures: Mapping[str, str]) -> Message:
    """Return what a checkpoint holds, and what it does not hold."""
    values = [value for value in manifest.values[:_MOST_VALUES] if value.name not in NAMES]
    files = [*manifest.files.items()][:_MOST_VALUES]
    return {
        "variables": [
            {**value_of(value.name, value.preview), "picture": pictures.get(value.name, "")}
            for value in values
        ],
        "files": {cut(path, 300): content.size for path, content in files},
        "skipped": [[skip.name, skip.path, cut(skip.reason, 300)] for skip in manifest.skipped],
        "torn": [value.name for value in manifest.values if value.changed],
        "deleted": [*manifest.deleted],
        "warnings": [cut(warning) for warning in manifest.warnings],
    }


def _origin(manifest: Manifest) -> Message:
    """Return where a checkpoint comes from: cell, notebook, packages."""
    facts = manifest.provenance
    cell, saved = _mapping(facts.get("cell")), _mapping(facts.get("packages"))
    then = {str(name): str(version) for name, version in saved.items()}
    return {
        "cell": cell.get("count") if isinstance(cell.get("count"), int) else None,
        "source": cut(cell.get("source", ""), _MOST_SOURCE),
        "notebook": cut(facts.get("notebook", ""), 300),
        "python": cut(facts.get("python", ""), 100),
        "packages": then,
        "differ": [list(names) for names in package_diff(then, packages())],
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def value_of(name: str, preview: Mapping[str, Any]) -> Message:
    """Return a value as a row: its kind, type, extent, size and a short text."""
    kind = "class" if preview.get("class") else _CODE.get(str(preview.get("type")), "data")
    columns = preview.get("columns")  # a stranger may have written it
    pairs = columns if isinstance(columns, list) else []
    names = [cut(pair[0], 60) for pair in pairs if isinstance(pair, list) and pair]
    taken = preview.get("bytes")
    return {
        "name": name.removeprefix(PREFIX),
        "kind": "state" if is_state(name) else kind,
        "type": cut(preview.get("type", "?"), 100),
        "extent": extent(preview),
        "dtype": cut(preview.get("dtype", ""), 60),
        "bytes": taken if isinstance(taken, int) else 0,
        "text": cut(", ".join(names) or preview.get("text", ""), 200),
    }


def extent(preview: Mapping[str, Any]) -> str:
    """Return the shape or the length of a value as people say it: `12 items`."""
    shape, length = preview.get("shape"), preview.get("length")
    if isinstance(shape, list):
        numbers = [f"{number:,}" for number in shape[:_MOST_DIMENSIONS] if isinstance(number, int)]
        return _TIMES.join(numbers) if len(numbers) != 1 else f"{numbers[0]} values"
    return count(length, "item") if isinstance(length, int) else ""


def form_of(preview: Mapping[str, Any]) -> str:
    """Return the shape and the dtype of an array or a frame: `500 values int64`; empty for other values."""
    is_shaped = isinstance(preview.get("shape"), list)
    return f"{extent(preview)} {cut(preview.get('dtype', ''), 60)}".strip() if is_shaped else ""


def change_of(before: str, now: str) -> str:
    """Return the shape and the dtype of a value; if they changed, those of before too."""
    return f"{before} → {now}" if before and now and before != now else now or before


def _now(commands: Commands, ref: str) -> Message:
    """Return for each variable how the live one differs, or that a running cell uses the variables."""
    if commands.is_busy():
        return {"ref": ref, "busy": True}
    result = commands.run("restore", ref, "--dry-run")
    saved = {}
    if isinstance(result, RestoreResult):
        changes: Mapping[str, str] = result.restored.changes
        saved = {value.name: value.preview for value in result.restored.manifest.values}
    else:
        changes = result.changes if isinstance(result, TrialRestored) else {}
    live = commands.session().namespace or {}
    texts = {name: said_now(changes[name], saved.get(name), live, name) for name in changes}
    return {
        "ref": ref,
        "busy": False,
        "now": {name.removeprefix(PREFIX): [changes[name], texts[name]] for name in changes},
    }


def said_now(change: str, saved: Mapping[str, Any] | None, namespace: Mapping[str, Any], name: str) -> str:
    """Return how a live variable differs from the saved one, in a few words."""
    if change != "changed" or saved is None or name not in namespace:
        return {"same": "same", "new": "not here", "removed": "only now"}.get(change, "changed")
    live = describe(namespace[name])
    if live.get("type") != saved.get("type"):
        return cut(live["type"], _SHORT_TEXT)
    if extent(live) != extent(saved):
        return extent(live) or "changed"
    text = str(live.get("text", ""))
    return text if live["type"] in _SCALARS and len(text) <= _SHORT_TEXT and text else "changed"


def compare(commands: Commands, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
    """Return what differs between two checkpoints, or between one and the live variables."""
    refs = refs_of(ids)
    if len(refs) > 2:
        raise UsageError("choose two checkpoints to compare")
    if len(refs) == 1 and commands.is_busy():
        return {"html": "", "data": {"busy": True}}
    del options
    result = commands.run("diff", *refs)
    assert isinstance(result, Comparison)
    compared = result.compared
    differ = [row for row in [*compared.differences, *compared.files] if row.change != "same"]
    rows = [
        {
            "name": cut(row.name, 200),
            "change": row.change,
            "details": [cut(text, 300) for text in _details(row)],
        }
        for row in differ[:_MOST_VALUES]
    ]
    return {
        "html": "",
        "data": {
            "busy": False,
            "refs": refs,
            "rows": rows,
            "same": sum(row.change == "same" for row in compared.differences),
            "is_part": compared.is_part,
            "loaded": compared.loaded,
            "packages": [list(map(str, row)) for row in compared.packages],
            "origins": [[cut(text, 200) for text in row] for row in compared.provenance[:30]],
            "source": [cut(line, 400) for line in compared.source[:_MOST_LINES]],
        },
    }


def _details(row: Difference) -> list[str]:
    """Return how a value differs, first the shape and the dtype of an array or a frame."""
    return (
        [row.form, *(text for text in row.details if not text.startswith(_IN_FORM))]
        if row.form
        else [*row.details]
    )


DETAILS: Mapping[str, Callable[[Commands, Sequence[object], Mapping[str, Any]], Message]] = {
    "checkpoint": checkpoint,
    "compare": compare,
}
"""The kinds of details, by the word in the message."""
