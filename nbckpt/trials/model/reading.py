"""Reading: a trial's journal on the disk becomes its state, or the results that count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nbckpt.errors import CorruptError, FormatError, StoreError
from nbckpt.media.stored import StoredMedia, stored
from nbckpt.render import count
from nbckpt.store.files import explained, only_files
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.model import journal, params
from nbckpt.trials.model.journal import Damage, Event
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.model.owner import check_owner, is_of_other
from nbckpt.trials.model.state import Status, TrialState

_MOST_PREVIEWS = 200
_RESULT, _START = b'"result"', b'"start"'
_CHUNK = 1 << 20
_MOVES = ("result", "start", "pause", "end", "error", "queue")
"""The events after which a decision has taken effect, or no longer counts."""


def read_into(state: TrialState) -> None:
    """Take in a trial's journal and configuration. It never fails: the damage names what cannot be read."""
    folder = state.folder
    for name in (journal.FILE, params.FILE):
        if link := link_outside(folder.parent, f"{folder.name}/{name}"):
            state.status, state.damage = Status.DAMAGED, f"{link} is not read: {OUTSIDE}"
            return
    file = folder / journal.FILE
    state.read_at = journal.stamp(file)  # before reading, so that a write during it is seen as a change
    try:
        damages = list(_fold(journal.read(file), state))
        read_cut(state)
        state.rest()
    except StoreError as error:
        damages = [str(error)]
    except CorruptError as error:
        state.status, state.damage = Status.DAMAGED, str(error)
        return
    state.damage = _in_words(damages)
    try:
        config = params.read(folder)
    except (CorruptError, FormatError, StoreError) as error:
        state.status, state.damage = Status.DAMAGED, str(error)
    else:
        if not state.scheduling.donor:  # otherwise the journal has the configuration; see docs/decisions/0108
            state.config = config


def read_cut(state: TrialState) -> None:
    """If results of a state no longer count, take in the others again.

    Raises:
        StoreError: The journal cannot be read.
    """
    if state.is_cut:
        state.take_again(results_in(state.folder))


def complete(state: TrialState) -> None:
    """If a state is from a summary, read everything, unless the trial was removed meanwhile."""
    if state.is_partial:
        whole = TrialState(state.folder, {})
        read_into(whole)
        if whole.read_at is not None:
            vars(state).update(vars(whole) | {"config": state.config})


def media_in(folder: Path) -> list[StoredMedia]:
    """Return the media of the results that count, in order. Only the newest have their previews.

    Raises:
        StoreError: The journal cannot be read.
    """
    every: list[StoredMedia] = []
    for event in results_in(folder):
        if "media" in event:
            every += stored(folder.parent, event["result"][ITERATION], event["media"])
            for at in range(len(every) - 1 - _MOST_PREVIEWS, -1, -1):
                if not every[at].preview:
                    break
                every[at] = replace(every[at], preview={})
    return every


def results_in(folder: Path) -> Iterator[Event]:
    """Yield the events of the results of a trial that count, in order.

    A link that leads outside or nowhere, a folder and the journal of another trial have none; the trial is
    damaged.

    Raises:
        StoreError: The journal cannot be read.
    """
    file = folder / journal.FILE
    if link_outside(folder.parent, f"{folder.name}/{journal.FILE}") or not file.is_file():
        return
    limits, events = [math.inf], journal.read_whole(file)
    if events is not None or _is_started_again(file):
        starts = [*_of_kinds(journal.read(file, _START) if events is None else events, "start")]
        if any(is_of_other(start.get("trial"), folder) for start in starts):
            return
        for start in reversed(starts):  # a start repeats the results after its iteration
            limits.append(min(start["iteration"], limits[-1]))
    for event in _of_kinds(journal.read(file) if events is None else events, "result", "start"):
        if event["event"] == "result":
            if event["result"][ITERATION] <= limits[-1]:
                yield event
        else:
            if is_of_other(event.get("trial"), folder):
                return
            if len(limits) > 1:
                limits.pop()


def _is_started_again(file: Path) -> bool:
    """Return whether a start may follow a result. In most journals none does, so one reading is enough."""
    with explained("read", file), open(file, "rb", opener=only_files) as opened:
        end, awaited = b"", _RESULT
        while chunk := opened.read(_CHUNK):
            part = end + chunk
            if awaited is _RESULT and (at := part.find(_RESULT)) >= 0:
                part, awaited = part[at:], _START
            if awaited is _START and _START in part:
                return True
            end = part[1 - len(_RESULT) :]
    return False


def iterations_of_rungs(folder: Path) -> list[int]:
    """Return after which results a scheduler compared a trial at its rungs, in order.

    Raises:
        StoreError: The journal cannot be read.
    """
    of_rung: dict[int, int] = {}
    iteration = 0
    for event in _of_kinds(journal.read(folder / journal.FILE), "result", "decision"):
        if event["event"] == "result":
            iteration = event["result"][ITERATION]
        elif "value" in event and (rung := event.get("rung")) is not None:
            of_rung.setdefault(rung, iteration)  # the first counts: see docs/decisions/0105
    return sorted(of_rung.values())


def last_decision(folder: Path) -> Event | None:
    """Return the scheduler's decision that nothing followed in a journal; None if something did.

    Raises:
        StoreError: The journal cannot be read.
    """
    last: Event | None = None
    for event in _of_kinds(journal.read(folder / journal.FILE), "decision", *_MOVES):
        last = event if event["event"] == "decision" else None
    return last


def _of_kinds(events: Iterable[Event | Damage], *kinds: str) -> Iterator[Event]:
    for event in events:
        if not isinstance(event, Damage) and event.get("event") in kinds:
            yield event


def _fold(events: Iterable[Event | Damage], state: TrialState) -> Iterator[str]:
    """Take in the events of a journal. Yield a text for each damage.

    Raises:
        CorruptError: It is the journal of another trial.
    """
    for event in events:
        if isinstance(event, Damage):
            yield event.cause
        else:
            if event.get("event") == "start":
                check_owner(journal.FILE, event.get("trial"), state.folder)
            state.fold(event)


def _in_words(damages: Sequence[str]) -> str:
    """Return a sentence about the damages of a journal, or ""."""
    more = f", and {count(len(damages) - 1, 'more line')}" if len(damages) > 1 else ""
    return f"{damages[0]}{more}" if damages else ""
