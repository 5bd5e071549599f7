"""The line of an open trial: what a user sees below the cell that opened it."""

from __future__ import annotations

from nbckpt.errors import visible
from nbckpt.render import count, duration, short
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.views.metrics import inferred
from nbckpt.trials.views.statuses import last_line, word

_WIDEST = 60


def trial_line(trial: Trial, name: str) -> str:
    """Return the state of a trial in one line: its status, results, metrics and time."""
    parts = [f"{name}: {'open' if trial.status == Status.RUNNING else word(trial)}"]
    if trial.status == Status.ERROR:
        parts.append(short(visible(last_line(trial)), _WIDEST))
    if trial.iteration:
        parts.append(count(trial.iteration, "result"))
        parts += [f"{visible(metric)} {as_float(trial.newest(metric)):.4g}" for metric in inferred([trial])]
        parts.append(duration(trial.elapsed_s))
    if trial.checkpoint_name:
        parts.append(f"saved at {trial.checkpoint_iteration}")
    return ", ".join(parts)
