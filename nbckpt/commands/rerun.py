"""Rerun: what `run.py` of a folder that `reproduce` wrote does. It runs the task and compares its results."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from nbckpt.core.masking import MASK
from nbckpt.core.schema import OneOf, read
from nbckpt.core.trust import open_signer
from nbckpt.errors import (
    CorruptError,
    NbckptError,
    NotFoundError,
    StoreError,
    UntrustedError,
    UsageError,
    visible,
)
from nbckpt.provenance.recipe import CODE, NOTEBOOK, PARAMETERS, SEEDS, TASK
from nbckpt.provenance.seeds import write_seeds
from nbckpt.render import short
from nbckpt.settings import environment
from nbckpt.store.files import explained, only_files

FUNCTION, RESULTS, COMPARED = "function", "results", "results.json"
FORM = {
    "label": str,
    "folder": str,
    "mode": str,
    "name?": str,
    "iteration?": int,
    "metrics?": {str: OneOf(float, str, bool, None)},
    "values?": {str: [str]},
    "command?": [str],
    "root?": str,
    "ours?": bool,
}
"""The form of `task.json`; see core/schema.py."""

MOST = 64 << 20
_CLOSE = 1e-9
"""How much a metric may differ, relative to its size, to count as equal."""


@dataclass(frozen=True)
class Again:
    """A result that was compared.

    Attributes:
        name: The metric or the variable.
        recorded: Its recorded value.
        now: Its value now.
        same: Whether both are equal.
    """

    name: str
    recorded: str
    now: str
    same: bool


def main(folder: Path, words: Sequence[str]) -> int:
    """Run the task of a folder, print the comparison, and return the exit status of `run.py`.

    0: all results are equal. 1: some differ. 2: it could not be run.
    """
    try:
        rows = rerun(folder, trust="--trust" in words)
    except NbckptError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for row in rows:
        sign = "=" if row.same else "differs from"
        sys.stdout.write(visible(f"{row.name}: {short(row.now)} {sign} {short(row.recorded)}") + "\n")
    if not rows:
        sys.stdout.write("It ran; there is nothing to compare.\n")
    return int(not all(row.same for row in rows))


def rerun(folder: Path, *, trust: bool) -> list[Again]:
    """Run the task of a folder, and compare its results with those recorded.

    Raises:
        UntrustedError: Somebody else recorded it.
        UsageError: It cannot be run here.
    """
    task = _read(folder / TASK, FORM)
    work = work_folder(folder, task)
    if task["mode"] == "function":
        rows = compare_metrics(task, _run_function(folder, work, task, trust=trust))
    elif task["mode"] in {"cells", "script"}:
        if not (trust or _is_ours(folder)):
            raise UntrustedError(
                f"{task['label']} was not recorded by you, and running it can run any code. Read "
                f"{str(folder)!r}, and pass --trust if you trust its author"
            )
        rows = _run_program(folder, work, task)
    else:
        raise UsageError(f"{task['label']} has neither a function, nor cells, nor a script to run")
    document = {"rows": [vars(row) for row in rows], "same": all(row.same for row in rows)}
    (folder / COMPARED).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return rows


def compared(folder: Path) -> list[Again]:
    """Return the comparison that a run in another process left in a folder."""
    form = {"rows": [{"name": str, "recorded": str, "now": str, "same": bool}]}
    return [Again(**row) for row in _read(folder / COMPARED, form)["rows"]]


def sign_task(folder: Path) -> None:
    """Sign the task of a folder as this user's own."""
    data = (folder / TASK).read_bytes()
    (folder / (TASK + ".signature")).write_text(open_signer().sign_bytes("task", data), "utf-8")


def _is_ours(folder: Path) -> bool:
    try:
        signature = (folder / (TASK + ".signature")).read_text("utf-8")
        return open_signer().signed_bytes("task", (folder / TASK).read_bytes(), signature)
    except (OSError, ValueError):
        return False


def _read(file: Path, form: Any) -> Any:
    with explained("read", file):
        try:
            with open(file, "rb", opener=only_files) as opened:
                return read(opened.read(MOST), form, str(file))
        except FileNotFoundError:
            raise NotFoundError(f"there is no {str(file)!r}") from None


def work_folder(folder: Path, task: Mapping[str, Any]) -> Path:
    """Return the folder to run in: where it ran below the code, if that is there."""
    code = folder / CODE
    with suppress(OSError, ValueError):  # no folder can have this name
        work = (code / str(task["folder"])).resolve()
        if work.is_dir() and work.is_relative_to(code.resolve()):
            return work
    return code if code.is_dir() else folder


def _run_function(folder: Path, work: Path, task: Mapping[str, Any], *, trust: bool) -> Mapping[str, Any]:
    """Run the function in this thread with the recorded parameters, and return its last result."""
    from nbckpt.trials.model import spec_file
    from nbckpt.trials.model.drawing import recalled
    from nbckpt.trials.model.trial import Status
    from nbckpt.trials.run import run

    kept = spec_file.read(folder / FUNCTION)
    sys.path[:0] = list(dict.fromkeys([str(work), str(folder / CODE)]))
    os.chdir(work)
    spec = kept.load(open_signer(), trust=trust)
    assert spec.trainable is not None  # it was saved
    parameters = _read(folder / PARAMETERS, {str: object})
    origin = folder / FUNCTION / "origin" / "checkpoint_000000"
    write_seeds(_read(folder / SEEDS, {str: object}))
    experiment = run(
        spec.trainable,
        recalled(spec.config, parameters),
        name=next(
            name for name in map("again-{}".format, count(1)) if not (folder / RESULTS / name).exists()
        ),
        stop={"training_iteration": task["iteration"]} if task.get("iteration") else spec.stop,
        max_failures=spec.max_failures,
        checkpoint_every=spec.checkpoint_every,
        **spec.comparison(),
        executor="inline",
        folder=folder / RESULTS,
        restore=origin if origin.exists() else None,
    )
    (trial,) = experiment.trials
    if trial.error and trial.status != Status.TERMINATED:  # one that was retried keeps the text of its error
        raise UsageError(f"{task['label']} failed: {trial.error}")
    return trial.metrics


def compare_metrics(task: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[Again]:
    """Compare the recorded last metrics of a trial with those of its new run."""
    from nbckpt.trials.model.metrics import flat, plain

    now = dict(flat(plain(metrics)))
    recorded: Mapping[str, Any] = task.get("metrics", {})
    return [
        Again(name, repr(value), repr(now.get(name)), _same(value, now.get(name)))
        for name, value in recorded.items()
    ]


def _same(old: Any, new: Any) -> bool:
    from nbckpt.trials.model.metrics import as_float

    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        a, b = as_float(old), as_float(new)
        if math.isfinite(a) and math.isfinite(b):
            return math.isclose(a, b, rel_tol=_CLOSE)
        return old == new or (math.isnan(a) and math.isnan(b))
    return bool(old == new)


def _run_program(folder: Path, work: Path, task: Mapping[str, Any]) -> list[Again]:
    """Run the cells or the script in a new store. Compare the saved values or the reported metrics."""
    command = [sys.executable, "-m", "IPython", "--no-banner", "--quick", str(folder / NOTEBOOK)]
    if task["mode"] == "script":
        command = [sys.executable, *_script(folder, task)]
    store = folder / RESULTS / "store"
    done = subprocess.run(command, cwd=work, env=environment(NBCKPT_STORE=str(store)), check=False)
    if done.returncode:
        raise UsageError(f"{task['label']} failed with exit status {done.returncode}")
    return _of_values(task, store) if "values" in task else compare_metrics(task, _last_metrics(task, store))


def _script(folder: Path, task: Mapping[str, Any]) -> list[str]:
    words = [str(word) for word in task.get("command", ())][1:]
    if any(MASK in word for word in words):
        raise UsageError(f"the command line of {task['label']} had secrets, so run it yourself: {words}")
    root = task.get("root") or ""
    return [
        word.replace(root, str(folder / CODE), 1) if root and word.startswith(root) else word
        for word in words
    ]


def _last_metrics(task: Mapping[str, Any], store: Path) -> Mapping[str, Any]:
    from nbckpt.trials.catalog import Catalog

    return Catalog(store / "experiments").open(task.get("name", "")).trials[-1].metrics


def _of_values(task: Mapping[str, Any], store: Path) -> list[Again]:
    """Compare the variables of the checkpoint of the same name: equal digests mean equal values."""
    from nbckpt.tracker import Tracker

    try:
        manifest = Tracker(store).manifest(task.get("name", ""))
    except (NotFoundError, StoreError, CorruptError) as error:
        raise UsageError(f"{task['label']} ran and saved no {task.get('name')!r}: {error}") from error
    now = {value.name: (value.digest, str(value.preview.get("text", ""))) for value in manifest.values}
    rows = []
    for name, (digest, text) in task["values"].items():
        after = now.get(name, ("", "not saved"))
        rows.append(Again(name, text, after[1], digest == after[0] != ""))
    return rows
