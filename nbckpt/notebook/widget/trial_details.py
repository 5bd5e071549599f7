"""Details of a trial for the browser: its page and its media, as a notebook shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.notebook.widget.trial_actions import targets_of
from nbckpt.notebook.widget.wires import Commands, Message
from nbckpt.render import html_of
from nbckpt.trials.model.trial import Trial, state_of

_MOST_COMPARED = 6
_MOST_CHECKPOINTS = 100


def _trial(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    """Return the page of one trial."""
    del options
    if len(ids) != 1:
        raise UsageError("choose one trial")
    (target,) = targets_of(commands, experiment, ids)
    trial = commands.session().library.trial(target)[1]
    return {"html": html_of(commands.run("show", target)), "data": _about(trial)}


def _about(trial: Trial) -> Message:
    records = trial.checkpoints.records()[-_MOST_CHECKPOINTS:]
    return {
        "id": trial.id,
        "checkpoints": [{"step": record.step, "saved_at": record.created_at} for record in records],
        "media": {name: list(media.steps) for name, media in state_of(trial).media.items()},
    }


def _media(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    """Return the media of some trials: of one step and one name, or the newest."""
    step, name = options.get("step"), options.get("name")
    words = [f"--step={step}"] if type(step) is int else []
    words += [f"--name={name}"] if isinstance(name, str) and name else []
    targets = targets_of(commands, experiment, ids[:_MOST_COMPARED]) if ids else []
    pages = {target.rpartition("/")[2]: html_of(commands.run("show", target, *words)) for target in targets}
    return {"html": "".join(pages.values()), "data": {"pages": pages}}


Detail = Callable[[Commands, str, Sequence[str], Mapping[str, Any]], Message]

DETAILS: Mapping[str, Detail] = {"trial": _trial, "media": _media}
