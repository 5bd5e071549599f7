"""Takeovers: from which trials a trial went on, why, and what changed in its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nbckpt.errors import NbckptError
from nbckpt.render import Column, Table
from nbckpt.trials.model import journal, params
from nbckpt.trials.model.journal import Damage
from nbckpt.trials.model.metrics import flat, plain
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.views.formats import shown_value

_MOST = 10


def takeovers(trial: Trial) -> Table:
    """Return the decisions by which a trial went on from others, the newest first. It may have no rows."""
    scheduling = state_of(trial).scheduling
    columns = (Column("generation", number=True), Column("from"), Column("why"), Column("new values"))
    if not (scheduling.donor or scheduling.takeover):
        return Table("taken over", columns, ())
    rows = list(_rows(trial))[::-1]
    more = f"; {_MOST} of {len(rows)}" if len(rows) > _MOST else ""
    return Table(f"taken over, newest first{more}", columns, tuple(rows[:_MOST]))


def scheduled(trial: Trial) -> Iterator[str]:
    """Yield what a scheduler decided last about a trial, and where its first configuration is."""
    scheduling = state_of(trial).scheduling
    if scheduling.reason and scheduling.reason not in trial.note:
        yield f"The scheduler decided last: {scheduling.reason}."
    if scheduling.takeover is not None:
        yield f"It goes on from {scheduling.takeover.donor} with other values when it starts again."
    if scheduling.donor:
        yield f"It went on from {scheduling.donor} with other values. {params.FILE} has the first ones."


def _rows(trial: Trial) -> Iterator[tuple[str, ...]]:
    former: dict[str, Any] = {}
    try:
        former = dict(flat(params.read(trial.folder)))
        for event in journal.read(trial.folder / journal.FILE, b'"exploit"'):
            if isinstance(event, Damage) or not event.keys() >= {"donor", "checkpoint", "config"}:
                continue
            values = dict(flat(plain(event["config"])))
            changed = (
                f"{name}={shown_value(value).text}"
                for name, value in values.items()
                if former.get(name) != value
            )
            step = event["checkpoint"].rpartition("_")[2].lstrip("0") or "0"
            generation = str(event["rung"] + 1) if "rung" in event else ""
            yield generation, f"{event['donor']}@{step}", event["reason"], ", ".join(changed)
            former = values
    except NbckptError:  # the page says what is damaged
        return
