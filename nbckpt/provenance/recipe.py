"""Recipe: the files of a folder in which something is done again, apart from the code itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbckpt.core.masking import MASK
from nbckpt.provenance.checkout import check_out
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.fingerprint import fingerprint
from nbckpt.provenance.git import GitError

CODE, REQUIREMENTS, NOTEBOOK, RUN, PATCH = (
    "code",
    "requirements.txt",
    "notebook.ipynb",
    "run.py",
    "patch.diff",
)
PROVENANCE, SEEDS, PARAMETERS, TASK = "provenance.json", "seeds.json", "params.json", "task.json"

_NAME = re.compile("[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION = re.compile("[A-Za-z0-9][A-Za-z0-9.!+_-]{0,98}")
_MOST_NAMES = 5

_RUN = '''"""Do {label} again: python run.py. It exits with 1 if the results differ.

params.json holds the parameters, code/ the code, task.json what is compared.
"""

import sys
from pathlib import Path

from nbckpt.commands.rerun import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent, sys.argv[1:]))
'''


def write_recipe(
    provenance: Provenance, folder: Path, label: str, task: Mapping[str, Any], here: Sequence[str]
) -> list[str]:
    """Write everything but the function into an empty folder. Return a sentence for what is missing.

    Args:
        provenance: The provenance.
        folder: The folder.
        label: What is done again, for people.
        task: What `run.py` runs and compares.
        here: Folders that may be in the repository.

    Raises:
        CorruptError: An object of the provenance is damaged.
        OSError: The disk failed.
    """
    notes = [*_write_code(provenance, folder, here), *_lend_inputs(provenance, folder)]
    notes += _missing(provenance.code, folder)
    _write_json(folder / PROVENANCE, dict(provenance.document))
    _write_json(folder / SEEDS, dict(provenance.seeds))
    _write_json(folder / TASK, {"label": label, "folder": provenance.code.get("folder", ""), **task})
    _write_text(folder / RUN, _RUN.format(label=_word(label)))
    _write_text(folder / REQUIREMENTS, "\n".join([*_requirements(provenance), ""]))
    if provenance.cells:
        _write_json(folder / NOTEBOOK, notebook_of(provenance.cells))
        if any(MASK in source for source in provenance.cells):
            notes.append("Secrets were masked in the notebook: write them again.")
    notes += [f"{name} was installed from {origin}" for name, origin in _origins(provenance).items()]
    return notes


def _write_code(provenance: Provenance, folder: Path, here: Sequence[str]) -> Iterator[str]:
    code = provenance.code
    if provenance.patch:
        (folder / PATCH).write_bytes(provenance.patch)
    if not code.get("commit"):
        yield "The code is not here: it was in no commit of a git repository."
        return
    try:
        sources = [code["root"], *here, code["remote"]]
        yield from check_out(code["commit"], provenance.patch, sources, folder / CODE)
        if note := code["note"]:
            yield f"The code may differ: {_line(note)}"
    except GitError as error:
        yield f"The code at {code['commit'][:10]} is not here: {error}"


def _missing(code: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield a sentence about files of the working tree that were not kept and are not lent."""
    names = [*code.get("left_out", ()), *code.get("untracked", ())]
    missing = [_line(name) for name in names if not _exists(folder / CODE / name)]
    if missing:
        more = f" and {len(missing) - _MOST_NAMES} more" if len(missing) > _MOST_NAMES else ""
        yield f"Not kept, so not here: {', '.join(missing[:_MOST_NAMES])}{more}"


def _word(label: str) -> str:
    """Return a label that may stand in a docstring."""
    return re.sub(r"[^\w./@~ -]", "-", label)


def _lend_inputs(provenance: Provenance, folder: Path) -> Iterator[str]:
    """Link the inputs that no commit has to where the code expects them, if they are unchanged.

    Yield a sentence for each input that is missing or has changed.
    """
    code = provenance.code
    for noted in provenance.inputs:
        path, there = Path(str(noted["path"])), folder / CODE / code.get("folder", "")
        if "://" in str(noted["path"]) or not (code.get("root") or path.is_absolute()):
            continue
        original = Path(code.get("root", ""), code.get("folder", ""), path)
        place = there / path  # an absolute path stays what it is
        if _exists(place) and not path.is_absolute():
            continue
        try:
            same = fingerprint(original).get("checksum") == noted.get("checksum")
            inside = (folder / CODE).resolve()
            if same and not path.is_absolute() and place.resolve().is_relative_to(inside) and there.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(original)
        except (OSError, ValueError):  # it is gone, or no file can have this name
            yield f"The input {_line(str(path))} is not here."
        else:
            if not same:
                yield f"The input {_line(str(path))} has changed since."


def _origins(provenance: Provenance) -> dict[str, str]:
    origins: Mapping[str, str] = provenance.document.get("origins", {})
    return {_line(name): _line(origin) for name, origin in origins.items()}


def _line(text: str) -> str:
    """Return a text from a stranger as a part of one line."""
    return " ".join(text.split())[:300]


def _requirements(provenance: Provenance) -> Iterator[str]:
    """Yield the lines of `requirements.txt`. A stranger's text never becomes an option of pip."""
    machine, origins = provenance.machine, _origins(provenance)
    yield f"# Python {_line(str(machine.get('python', '?')))} on {_line(str(machine.get('system', '?')))}"
    for name, version in sorted(provenance.packages.items()):
        if name in origins:
            yield f"# {name} {_line(version)} was installed from {origins[name]}"
        elif _NAME.fullmatch(name) and _VERSION.fullmatch(version):
            yield f"{name}=={version}"


def notebook_of(cells: Sequence[str]) -> dict[str, Any]:
    """Return a notebook with these cells."""
    return {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"cell-{number}",
                "metadata": {},
                "outputs": [],
                "source": source,
            }
            for number, source in enumerate(cells, 1)
            if source.strip()
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _exists(path: Path) -> bool:
    """Tell whether a path of a stranger exists; False if no file can have this name."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _write_json(file: Path, document: Any) -> None:
    _write_text(file, json.dumps(document, indent=1) + "\n")


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, "utf-8", errors="backslashreplace")
