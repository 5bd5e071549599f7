"""Experiments that Ray Tune wrote, as in `~/ray_results`. They are only read, without loading a pickle.

EXPERIMENT/TRIAL/params.json      the configuration
EXPERIMENT/TRIAL/result.json      one line of JSON for each result
EXPERIMENT/TRIAL/progress.csv     the same as a table
EXPERIMENT/TRIAL/error.txt        the failure
EXPERIMENT/TRIAL/checkpoint_000010/
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from nbckpt.compat.ray_tune.results import SavedCheckpoint, TrialResult, Trials
from nbckpt.core import schema
from nbckpt.errors import CorruptError, NotFoundError
from nbckpt.store.files import explained, only_files
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.model.trial import Status

_PARAMS, _RESULTS, _TABLE, _ERROR = "params.json", "result.json", "progress.csv", "error.txt"
_CHECKPOINT = re.compile("checkpoint_([0-9]{1,9})")
_NUMBER = re.compile(r"[+-]?\d{1,300}", re.ASCII)
_LONGEST_LINE = 16 << 20
LONGEST_FILE = 1 << 30
_LONGEST_ERROR = 64 << 10

_log = logging.getLogger("nbckpt")


def read_ray_results(folder: Path, *, trust: bool = False) -> Trials:
    """Return the trials of an experiment that Ray wrote.

    What is damaged is left out; the notes and the log name it. Links that lead outside are not followed.

    Args:
        folder: The experiment's folder.
        trust: Whether the pickles in its checkpoints may be loaded.

    Raises:
        NotFoundError: There is no folder, or no trial in it.
        StoreError: The disk failed.
    """
    with explained("read", folder):
        entries = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    notes: list[str] = []
    trials = []
    with explained("read", folder):
        for name in entries:
            if not any((folder / name / file).exists() for file in (_PARAMS, _RESULTS, _TABLE)):
                continue
            if link_outside(folder, name):
                notes.append(f"{folder / name} is not read: {OUTSIDE}")
            else:
                trials.append(_Reader(folder / name, notes).trial(trust=trust))
    if not trials:
        raise NotFoundError(f"there is no experiment of nbckpt or Ray in {str(folder)!r}")
    for note in notes:
        _log.warning("%s", note)
    return Trials(trials, folder, notes=notes)


class _Reader:
    """Reads the folder of one trial. Adds a sentence to *notes* for each damage."""

    def __init__(self, folder: Path, notes: list[str]) -> None:
        self._folder = folder
        self._notes = notes

    def trial(self, *, trust: bool) -> TrialResult:
        """Return the trial."""
        results = list(self._results())
        error = self._text(_ERROR, _LONGEST_ERROR)
        status = Status.ERROR if error else Status.TERMINATED if results else Status.PENDING
        last: Mapping[str, Any] = results[-1] if results else {}
        config = self._object(self._text(_PARAMS, _LONGEST_LINE), _PARAMS)
        if config is None:
            config = last["config"] if isinstance(last.get("config"), dict) else {}
        return TrialResult(
            str(last.get("trial_id") or self._folder.name),
            config,
            results,
            self._folder,
            str(status),
            error,
            lambda: self._checkpoints(results),
            trust,
        )

    def _results(self) -> Iterator[dict[str, Any]]:
        """Yield the results in `result.json`, or in `progress.csv` if there is no such file."""
        is_there = (self._folder / _RESULTS).exists()
        text = self._text(_RESULTS if is_there else _TABLE, LONGEST_FILE)
        if not is_there:
            yield from self._rows(text)
            return
        for number, line in enumerate(io.StringIO(text), 1):
            result = self._object(line, f"line {number} of {_RESULTS}")
            if result is not None:
                yield result

    def _rows(self, text: str) -> Iterator[dict[str, Any]]:
        try:
            for row in csv.DictReader(io.StringIO(text, newline="")):
                yield {name: _value(cell) for name, cell in row.items() if isinstance(cell, str) and name}
        except csv.Error as error:
            self._note(_TABLE, str(error))

    def _object(self, text: str, label: str) -> dict[str, Any] | None:
        if not text.strip():
            return None
        if len(text) > _LONGEST_LINE:
            self._note(label, f"it is longer than {_LONGEST_LINE >> 20} MiB")
            return None
        try:
            document: dict[str, Any] = schema.check(schema.parse(text.encode(), label), dict, label)
        except CorruptError as error:
            self._notes.append(f"{self._folder}: {error}")
            return None
        return document

    def _text(self, name: str, most: int) -> str:
        """Return the text of a file; "" if it is missing, too long or a link that leads outside."""
        file = self._folder / name
        if not file.is_file():
            return ""
        if link_outside(self._folder, name):
            return self._note(name, OUTSIDE)
        with explained("read", file), open(file, "rb", opener=only_files) as opened:
            return self._decoded(opened, name, most)

    def _decoded(self, opened: BinaryIO, name: str, most: int) -> str:
        data = opened.read(most + 1)
        if len(data) > most:
            return self._note(name, f"it is longer than {most >> 10} KiB")
        return data.decode("utf-8", "replace")

    def _note(self, name: str, why: str) -> str:
        self._notes.append(f"{self._folder / name} is not read: {why}")
        return ""

    def _checkpoints(self, results: list[dict[str, Any]]) -> list[SavedCheckpoint]:
        """Return the checkpoints, each with the result of its name or its iteration."""
        saved_with: dict[str | int, Mapping[str, Any]] = {}
        for result in results:
            name, iteration = result.get("checkpoint_dir_name"), result.get("training_iteration")
            if isinstance(name, str):
                saved_with[name] = result
            elif isinstance(iteration, int) and "checkpoint_dir_name" not in result:
                saved_with[iteration] = result
        with explained("read", self._folder):
            names = [entry.name for entry in self._folder.iterdir() if entry.is_dir()]
        numbers = {name: int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))}
        return [
            SavedCheckpoint(path, path, saved_with.get(name) or saved_with.get(numbers[name]) or {})
            for name in sorted(numbers, key=numbers.__getitem__)
            if not link_outside(self._folder, name) and (path := str(self._folder / name))
        ]


def _value(cell: str) -> Any:
    """Return the number or the truth value that a cell of a table holds; else its text."""
    if cell in {"True", "False"}:
        return cell == "True"
    if _NUMBER.fullmatch(cell):
        return int(cell)
    try:
        return float(cell)
    except ValueError:
        return cell
