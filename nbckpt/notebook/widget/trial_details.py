"""Details of trials for the browser: a page and media, as a notebook shows them, and small curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from nbckpt.commands.run_lines import run_lines
from nbckpt.errors import UsageError
from nbckpt.notebook.widget.trial_actions import targets_of
from nbckpt.notebook.widget.wires import Commands, Message, cut, names_of, plain_html
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.trial import Status, Trial, state_of

_MOST_COMPARED = 6
_MOST_CHECKPOINTS = 100
_LONGEST_ERROR = 20_000
_MOST_LINES = 8
_MOST_METRICS = 12


def _trial(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    """Return the page of one trial."""
    del options
    if len(ids) != 1:
        raise UsageError("choose one trial")
    (target,) = targets_of(commands, experiment, ids)
    trial = commands.session().library.trial(target)[1]
    return {"html": plain_html(commands.run("show", target)), "data": _about(trial)}


def _about(trial: Trial) -> Message:
    records = trial.checkpoints.records()[-_MOST_CHECKPOINTS:]
    failed = trial.status == Status.ERROR
    return {
        "id": trial.id,
        "checkpoints": [{"step": record.step, "saved_at": record.created_at} for record in records],
        "media": _steps_of([trial]),
        "error": cut(trial.traceback or trial.error, _LONGEST_ERROR) if failed else "",
    }


def _steps(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    """Return the steps of the media of some trials, by the names of the media."""
    del options
    opened: Experiment = commands.session().library.open(experiment)
    return {"html": "", "data": {"media": _steps_of([opened.trial(name) for name in ids[:_MOST_COMPARED]])}}


def _steps_of(trials: Sequence[Trial]) -> dict[str, list[int]]:
    steps: dict[str, set[int]] = {}
    for trial in trials:
        for name, media in state_of(trial).media.items():
            steps.setdefault(name, set()).update(media.steps)
    return {name: sorted(numbers) for name, numbers in steps.items()}


def _media(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    """Return the media of some trials: of one step and one name, or the newest."""
    step, name = options.get("step"), options.get("name")
    words = [f"--step={step}"] if type(step) is int else []
    words += [f"--name={name}"] if isinstance(name, str) and name else []
    targets = targets_of(commands, experiment, ids[:_MOST_COMPARED]) if ids else []
    pages = {target.rpartition("/")[2]: _media_page(commands, target, words) for target in targets}
    return {"html": "".join(pages.values()), "data": {"pages": pages}}


def _media_page(commands: Commands, target: str, words: Sequence[str]) -> str:
    """Return the page of a trial's media, or that it has none: another trial may have some of this step."""
    try:
        return plain_html(commands.run("show", target, *words))
    except UsageError as error:
        return f"<p>{escape(str(error))}</p>"


def _curves(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    """Return a small curve of each named metric of some trials: the numbers of reports, and the values."""
    opened: Experiment = commands.session().library.open(experiment)
    trials = [opened.trial(name) for name in ids[:_MOST_LINES]]
    metrics = names_of(options)[:_MOST_METRICS]
    return {"html": "", "data": {"curves": {metric: _lines(metric, trials) for metric in metrics}}}


def _lines(metric: str, trials: Sequence[Trial]) -> dict[str, list[list[float]]]:
    kept = {trial.id: state_of(trial).condensed.curves.get(metric) for trial in trials}
    places = {name: curve.places for name, curve in kept.items() if curve is not None}
    return {
        name: [[at + 1 for at, _ in place], [as_float(value) for _, value in place]]
        for name, place in places.items()
    }


def _functions(
    commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]
) -> Message:
    """Return commands that run the functions of the notebook. They are for the user to type."""
    del experiment, ids, options
    return {"html": "", "data": {"lines": [cut(line, 300) for line in run_lines(commands.session())]}}


Detail = Callable[[Commands, str, Sequence[str], Mapping[str, Any]], Message]

DETAILS: Mapping[str, Detail] = {
    "trial": _trial,
    "media": _media,
    "steps": _steps,
    "curves": _curves,
    "functions": _functions,
}
