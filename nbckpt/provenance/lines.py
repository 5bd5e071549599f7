"""Lines: provenance in four lines, and the differences of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nbckpt.errors import NbckptError, visible
from nbckpt.provenance.definitions import definitions, lines_that_differ
from nbckpt.provenance.document import Provenance
from nbckpt.render import count, short, size

SHORT = 10
_MOST = 160
_MOST_INPUTS = 3
_MOST_PATH = 40
_MOST_NAMES = 3
_LISTS = {"package", "data"}
"""Parts that have many members, of which one side may lack some."""
_DEFINITIONS = {"function", "class"}


def lines(provenance: Provenance) -> list[str]:
    """Return what is needed to do it again, in at most four lines: code, environment, data and run."""
    texts = _code(provenance), _environment(provenance), _data(provenance), _run(provenance)
    return [
        f"{name}: {text}" for name, text in zip(("Code", "With", "Data", "Run"), texts, strict=True) if text
    ]


def described(provenance: Provenance | None) -> list[str]:
    """Return the four lines, and a warning about changes that no commit has; nothing without provenance."""
    return [] if provenance is None else [*lines(provenance), *warnings(provenance)]


def warnings(provenance: Provenance) -> list[str]:
    """Return a line about changes that no commit has, if there are any, and the notes."""
    code, notes = (
        provenance.code,
        [short(visible(note), _MOST) for note in provenance.document.get("notes", ())],
    )
    if not (code.get("changed") or code.get("untracked")):
        return notes
    lost = [*code["left_out"], *code["untracked"]]
    kept = f"{count(len(code['changed']), 'changed file')}" if code["changed"] else ""
    kept += ", kept as a patch" if kept and not code["left_out"] else ""
    missing = f"not kept: {_names(lost)}" if lost else ""
    return [short(f"Not committed: {'; '.join(filter(None, (kept, missing)))}", _MOST), *notes]


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(visible(name) for name in names[:_MOST_NAMES]) + more


def _code(provenance: Provenance) -> str:
    code = provenance.code
    if not code:
        return "no git repository"
    commit = code["commit"][:SHORT] or "no commit yet"
    branch = f" on {code['branch']}" if code["branch"] else ""
    remote = f" of {code['remote']}" if code["remote"] else ""
    age = f", read {code['age_s']:g} s before" if code.get("age_s") else ""
    note = f" ({code['note']})" if code["note"] else ""
    return short(visible(f"{commit}{branch}{remote}{age}{note}"), _MOST)


def _environment(provenance: Provenance) -> str:
    machine = provenance.machine
    try:
        packages = count(len(provenance.packages), "package")
    except NbckptError as error:
        packages = str(error)
    gpus = [f"{gpu['name']} (driver {gpu['driver']})" for gpu in machine.get("gpus", ())]
    parts = [
        f"Python {machine['python']}" if "python" in machine else "",
        packages,
        machine.get("system", ""),
        machine.get("cpu", ""),
        *dict.fromkeys(f"{gpus.count(gpu)} x {gpu}" if gpus.count(gpu) > 1 else gpu for gpu in gpus),
    ]
    return short(visible(", ".join(filter(None, parts))), _MOST)


def _data(provenance: Provenance) -> str:
    noted = provenance.inputs
    texts = [input_text(noted_input) for noted_input in noted[:_MOST_INPUTS]]
    more = [f"and {len(noted) - _MOST_INPUTS} more"] if len(noted) > _MOST_INPUTS else []
    return short(visible(", ".join(texts + more)), _MOST)


def input_text(noted: Mapping[str, Any]) -> str:
    """Return an input as text: its path, the beginning of its fingerprint, and its size."""
    print_ = str(noted.get("checksum") or noted.get("etag") or noted.get("note") or "")
    print_ = print_.rpartition(":")[2][:SHORT]
    path = str(noted["path"])
    path = path if len(path) <= _MOST_PATH else f"…{path[1 - _MOST_PATH :]}"
    parts = [path, print_, f"({size(noted['size'])})" if "size" in noted else ""]
    return " ".join(filter(None, parts))


def _run(provenance: Provenance) -> str:
    document = provenance.document
    cells = f"cells 1 to {document['cell']}" if document.get("cell") else ""
    command = "" if cells else short(" ".join(document.get("command", ())), 100)
    try:
        seeds = f"seeds of {', '.join(provenance.seeds)}" if provenance.seeds else ""
    except NbckptError as error:
        seeds = str(error)
    return short(visible(", ".join(filter(None, (command, cells, seeds)))), _MOST)


def differences(old: Provenance | None, new: Provenance | None) -> list[tuple[str, str, str]]:
    """Return what differs: for each part its name, its old and its new value, each as text.

    A part that one side does not know is left out, because nobody can say whether it differs.
    """
    if old is None or new is None:
        return []
    before, after = _parts(old), _parts(new)
    lists = _LISTS & {*map(_kind, before)} & {*map(_kind, after)}
    rows = [
        (name, before.get(name, ""), after.get(name, ""))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
        and (_kind(name) in lists or (name in before and name in after))
    ]
    texts = ((name, *_told(name, one, other)) for name, one, other in rows)
    return [(name, short(visible(one), _MOST), short(visible(other), _MOST)) for name, one, other in texts]


def _told(name: str, old: str, new: str) -> tuple[str, str]:
    return lines_that_differ(old, new) if _kind(name) in _DEFINITIONS else (old, new)


def _kind(name: str) -> str:
    return name.partition(" ")[0]


def _parts(provenance: Provenance) -> dict[str, str]:
    """Return every part that can differ, as text by its name."""
    return dict(_named_parts(provenance))


def _named_parts(provenance: Provenance) -> Iterator[tuple[str, str]]:
    code, machine = provenance.code, provenance.machine
    if code:
        yield "commit", code["commit"][:SHORT]
        yield "branch", code["branch"]
        yield "changes", ", ".join(code["changed"]) + _print(provenance)
    for name in ("python", "system", "cpu"):
        if name in machine:
            yield name, str(machine[name])
    if machine:
        gpus = (f"{gpu['name']}, driver {gpu['driver']}" for gpu in machine.get("gpus", ()))
        yield "gpus", "; ".join(gpus)
    yield "command", " ".join(provenance.document.get("command", ()))
    for noted in provenance.inputs:
        yield f"data {noted['path']}", str(noted.get("checksum") or noted.get("etag") or "")
    try:
        yield from definitions(provenance.cells).items()
        for name, version in provenance.packages.items():
            yield f"package {name}", version
    except NbckptError:  # damaged objects are named by `show`
        return


def _print(provenance: Provenance) -> str:
    """Return the beginning of the patch's fingerprint, since two patches may change the same files."""
    from nbckpt.core.algorithms import PREFERRED

    try:
        return f" ({PREFERRED.digest(provenance.patch).hex()[:8]})" if provenance.patch else ""
    except NbckptError as error:
        return f" ({error})"
