"""The actions of the pane of checkpoints. With `dry`, an action only tells what it would change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbckpt.commands.housekeeping import Collection, Removed
from nbckpt.commands.restoring import RestoreResult, TrialRestored
from nbckpt.commands.saving import SaveResult
from nbckpt.core.environment import NAMES
from nbckpt.errors import UntrustedError
from nbckpt.notebook.widget.checkpoint_details import extent, said_now
from nbckpt.notebook.widget.wires import (
    Commands,
    Message,
    answer,
    cut,
    listed,
    names_of,
    plain_html,
    refs_of,
    said,
    text_of,
)
from nbckpt.render import Result, count, size
from nbckpt.sync.progress import Progress

Options = Mapping[str, Any]
Ids = Sequence[object]
Show = Callable[[str, int, int], None]
"""Receives the name of a save, the bytes done and all bytes."""
Deed = Callable[[Commands, Ids, Options, Show], Message]


def save(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Save all variables, or those that were chosen."""
    del ids
    name = text_of(options, "name", "a name") if options.get("name") else ""
    message = options.get("message")
    words = ["save", *([name] if name else []), *(names_of(options) if name else [])]
    words += [f"--message={message}"] if isinstance(message, str) and message else []

    def bar(done: int, total: int, transfer: Progress | None = None) -> None:
        del transfer
        show(name, done, total)

    result = commands.run(*words, progress=bar)
    assert isinstance(result, SaveResult)
    manifest = result.saved.manifest
    number = sum(value.name not in NAMES for value in manifest.values)
    text = f"Saved {result.saved.ref}: {count(number, 'variable')}, {size(result.saved.size)}."
    skipped = [f"{skip.name} ({skip.reason})" for skip in manifest.skipped]
    text += f" Not saved: {listed(skipped)}." if skipped else ""
    return answer(text, html=plain_html(result) if result.warns else "", ref=manifest.id)


def restore(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Restore a checkpoint, or some of its variables."""
    del show
    (ref,) = refs_of(ids[:1])
    names = names_of(options)
    if options.get("dry"):
        return _foreseen(commands, ref, names)
    try:
        result = commands.run("restore", ref, *names)
    except UntrustedError:
        raise UntrustedError(
            "someone else saved this checkpoint, and restoring it runs their code. Press Trust it… first"
        ) from None
    if isinstance(result, TrialRestored):
        if not (result.changes or result.failed or result.rest):
            return answer(f"{result.ref} is a folder of files: {result.path}", html=plain_html(result))
        return _restored(result, [*result.changes], result.ref, len(result.failed))
    assert isinstance(result, RestoreResult)
    restored = result.restored
    done = [name for name, change in restored.changes.items() if change != "removed"]
    return _restored(result, done, _label(commands, ref), sum(len(fail.names) for fail in restored.failed))


def _restored(result: Result, names: Sequence[str], label: str, failed: int) -> Message:
    """Return the answer to a restore."""
    text = f"Restored {listed(names) or 'nothing'} from {label}."
    text += f" {count(failed, 'variable')} could not be restored." if failed else ""
    return answer(text, undo=True, html=plain_html(result) if result.warns else "")


def _foreseen(commands: Commands, ref: str, names: Sequence[str]) -> Message:
    """Return what a restore would change."""
    result = commands.run("restore", ref, *names, "--dry-run")
    if isinstance(result, TrialRestored):
        confirm = f"Restore {count(len(result.changes), 'variable')}" if result.changes else "Show its folder"
        return answer(f"Restore from {result.ref}: {_changes(result.changes, {}, {})}", confirm=confirm)
    assert isinstance(result, RestoreResult)
    restored = result.restored
    saved = {value.name: value.preview for value in restored.manifest.values}
    changes = {name: change for name, change in restored.changes.items() if name not in NAMES}
    would = _changes(changes, saved, commands.session().namespace or {})
    text = f"Restore from {_label(commands, ref)}: {would}"
    number = sum(change != "removed" for change in changes.values())
    return answer(
        text, confirm=f"Restore {count(number, 'variable')}", also=[*restored.apart], changes=changes
    )


def _changes(
    changes: Mapping[str, str], saved: Mapping[str, Mapping[str, Any]], namespace: Mapping[str, Any]
) -> str:
    """Return the changes of a restore as sentences."""
    groups: dict[str, list[str]] = {"changed": [], "new": [], "removed": [], "same": []}
    for name, change in changes.items():
        now = said_now(change, saved.get(name), namespace, name)
        then = extent(saved.get(name, {}))
        is_sized = change == "changed" and then and now not in {"changed", then}
        groups[change].append(f"{name} ({now} → {then})" if is_sized else name)
    parts = [
        f"{listed(groups['changed'])} will be replaced." if groups["changed"] else "",
        f"{listed(groups['new'])} will be added." if groups["new"] else "",
        f"{listed(groups['removed'])} will be removed, as in the checkpoint." if groups["removed"] else "",
        "" if len(changes) > len(groups["same"]) else "nothing would change, all is the same now.",
        "Nothing else changes." if len(changes) > len(groups["same"]) else "",
    ]
    return " ".join(filter(None, parts))


def undo(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Undo the last restore or removal."""
    del ids, options, show
    return said(commands.run("undo"))


def delete(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Move checkpoints into the trash."""
    del show
    refs = refs_of(ids)
    dry = ["--dry-run"] if options.get("dry") else []
    result = commands.run("rm", *refs, *dry)
    assert isinstance(result, Removed)
    labels = [*result.labels, *(label for label, _ in result.experiments)]
    if not dry:
        return answer(f"Deleted {listed(labels)}.", undo=True)
    freed = result.freed + sum(taken for _, taken in result.experiments)
    space = f" Until then it takes up to {size(freed)}." if freed else ""
    return answer(
        f"Delete {listed(labels)}? Undo brings it back until you free space.{space}",
        confirm=f"Delete {count(len(labels), 'checkpoint')}",
    )


def tag(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Give a checkpoint one more name."""
    del show
    (ref,) = refs_of(ids[:1])
    result = commands.run("tag", ref, text_of(options, "name", "a name"))
    return answer(f"Named {getattr(result, 'ref', '')}.")


def trust(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Sign checkpoints of someone else."""
    del show
    refs = refs_of(ids)
    if options.get("dry"):
        label = _label(commands, refs[0]) if len(refs) == 1 else count(len(refs), "checkpoint")
        return answer(
            f"Trust {label}? Restoring it runs the code of the person who saved it. Look inside first.",
            confirm=f"Trust {count(len(refs), 'checkpoint')}",
        )
    return said(commands.run("trust", *refs))


def verify(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Read all data, and tell what is damaged."""
    del options, show
    return said(commands.run("verify", *(refs_of(ids) if ids else ())))


def free(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Delete data that no checkpoint uses."""
    del ids, show
    dry = ["--dry-run"] if options.get("dry") else []
    result = commands.run("gc", *dry)
    assert isinstance(result, Collection)
    if not dry:
        return said(result)
    freed = size(result.collected.freed + result.experiments[1] + result.media.size)
    return answer(
        f"Free {freed}? Deleted checkpoints and trials cannot be brought back afterwards.",
        confirm=f"Free {freed}",
    )


def import_file(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Import a checkpoint from a file."""
    del ids, show
    return said(commands.run("import", text_of(options, "file", "the name of a file")))


def export_file(commands: Commands, ids: Ids, options: Options, show: Show) -> Message:
    """Write a checkpoint to a file."""
    del show
    (ref,) = refs_of(ids[:1])
    return said(commands.run("export", ref, text_of(options, "file", "the name of a file")))


def _label(commands: Commands, ref: str) -> str:
    """Return the name of a checkpoint for people: its newest name, or a short id."""
    if "/" in ref:
        return ref
    names = [str(name) for name in commands.session().tracker.history.refs() if name.id == ref]
    return cut(names[-1] if names else ref[:8], 100)


DEEDS: Mapping[str, Deed] = {
    "save": save,
    "restore": restore,
    "undo": undo,
    "delete": delete,
    "tag": tag,
    "trust": trust,
    "verify": verify,
    "free": free,
    "import": import_file,
    "export": export_file,
}
"""The deeds, by the verb in the message."""
