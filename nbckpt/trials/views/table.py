"""The table of an experiment's trials."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.render import Cell, Column, Fold, Hint, Page, Result, Table, count, thinned
from nbckpt.trials.model.metrics import flat, is_number, lookup, numbers, plain
from nbckpt.trials.model.stopping import Stopper
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.eta import RECENT, Progress, progress, typical

MOST_ROWS = 20
_MOST_METRICS = 3
_MOST_CONFIG = 5
_MOST_ERRORS = 8
_WIDEST = 20
_SAMPLED = 240
_POINTS = 24
CUT = "cut off"
_ASKED = {"pause": "pausing", "stop": "stopping", "checkpoint": "saving"}


@dataclass(frozen=True, repr=False)
class TrialTable(Result):
    """The trials of an experiment, as they are whenever it is shown.

    Attributes:
        experiment: The experiment.
        metrics: The metrics to show, with the headings of their columns; by default those that were
            reported, the experiment's own first.
        most: How many rows; 0 for all. If there are more trials, each status has its fair share of the
            rows, and the best trials of it where the metric and the mode are known.
        sort: Best trials first, and only them, where the metric and the mode are known.
        others: A row for each other experiment.
        number: Which page of so many rows, from 1 on, all in order; 0 for the fair share.
        metric: By which trials are sorted; by default the experiment's own.
        mode: Whether `min` or `max` of it is best; by default the experiment's own.

    Raises:
        UsageError: There is no such page, or it is not said what is best.
    """

    experiment: ExperimentView
    metrics: Mapping[str, str] | None = None
    most: int = MOST_ROWS
    sort: bool = False
    others: tuple[tuple[str, ...], ...] = ()
    number: int = 0
    metric: str = ""
    mode: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be shown."""
        total, most = len(self.experiment.trials), self.most
        if most < 0:
            raise UsageError(f"{most} rows cannot be: give a number, or 0 for all")
        pages = max(1, -(-total // most)) if most else 1
        if not 0 <= self.number <= pages:
            there = f"{count(total, 'trial')}, {most or 'all'} on a page"
            raise UsageError(f"there is no page {self.number}: {there}, so the last is page {pages}")
        metric, mode = self._best()
        if mode not in {"", "min", "max"} or (self.metric and not mode):
            raise UsageError(f"say which {self.metric or 'value'} is best: mode='min' or 'max'")
        if self.mode and not metric:
            raise UsageError("say by which metric trials are compared: metric='loss'")

    def _best(self) -> tuple[str, str]:
        """Return by which metric trials are compared, and whether `min` or `max` of it is best."""
        return self.metric or self.experiment.spec.metric, self.mode or self.experiment.spec.mode

    def page(self) -> Page:
        """See `Result.page`."""
        experiment, trials = self.experiment, self.experiment.trials
        states = states_of(experiment)
        shown = self._shown(states)
        table = _table(shown, trials, states, self._metrics(trials), _progress(experiment, shown, states))
        failed = [trial for trial in trials if trial.status == Status.ERROR]
        others = Table("other experiments", (Column("experiment"), Column("trials")), self.others)
        return Page(
            f"{experiment.name}: {counted(states)}",
            (table, others),
            (*self._which(shown, states), *_notes(experiment, states)),
            tuple(_errors(failed)),
            hints=_hints(experiment, states),
        )

    def _metrics(self, trials: Sequence[Trial]) -> Mapping[str, str]:
        if self.metrics is not None:
            return self.metrics
        first = self.metric if self.sort and self.metric else self.experiment.spec.metric
        return {name: name for name in inferred(trials, first)}

    @property
    def _is_sorted(self) -> bool:
        """Whether the best trials come first: as was asked for, or since not all of them fit."""
        fits = not self.most or len(self.experiment.trials) <= self.most
        return all(self._best()) and (self.sort or not (fits or self.number))

    def _shown(self, states: Mapping[str, str]) -> Sequence[Trial]:
        trials = self.experiment.trials
        ordered = by_metric(trials, *self._best()) if self._is_sorted else trials
        if self.number and self.most:
            return ordered[(self.number - 1) * self.most :][: self.most]
        if self.sort and self._is_sorted:
            return ordered[: self.most or None]
        return fair_share(ordered, states, self.most)

    def _which(self, shown: Sequence[Trial], states: Mapping[str, str]) -> Iterator[str]:
        """Yield which trials are shown, where that is not all of them, and how to see the others."""
        trials, (metric, mode) = self.experiment.trials, self._best()
        if self.sort and self.metric and all(it.newest(metric) is None for it in trials):
            known = ", ".join(inferred(trials, most=None)) or "none yet"
            yield f"no trial reported {metric!r}, so they are not sorted: there are {known}"
        if len(shown) == len(states):
            return
        order = f", the best by {metric} ({mode}) first" if self._is_sorted else ""
        if self.number:
            first = (self.number - 1) * self.most
            yield f"trials {first + 1:,}-{first + len(shown):,} of {len(states):,}{order}"
            return
        asked = f"%ckpt trials {self.experiment.name}"
        there = {trial.id for trial in shown}
        left = Counter(state for name, state in states.items() if name not in there)
        parts = ", ".join(f"{number} {state}" for state, number in left.items())
        yield f"Showing {len(shown):,} of {len(states):,} trials{order}. Not shown: {parts}."
        yield f"Show all: {asked} -n 0, by page: {asked} --page 1"


def metric_columns(given: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return the metrics to show, `a/b` for the metric b in the dict a, with their headings.

    Args:
        given: Names, which are the headings too; or a dict of names and headings.

    Raises:
        UsageError: A name is there twice, or a list gives something else than a name.
    """
    if isinstance(given, Mapping):
        return dict(given)
    columns: dict[str, str] = {}
    for name in given:
        if not isinstance(name, str):
            raise UsageError(f"{name!r} is no metric's name: for headings give a dict of names and headings")
        if name in columns:
            raise UsageError(f"the metric {name!r} is given twice: once is enough")
        columns[name] = name
    return columns


def inferred(trials: Sequence[Trial], first: str = "", most: int | None = _MOST_METRICS) -> list[str]:
    """Return the numbers that trials report, *first* before the others; at most *most* of them."""
    names = dict.fromkeys([first] if first else [])
    for trial in trials:
        last = trial.last_result
        names |= trial.remember("numbers", last, partial(_named_numbers, last))
    return list(names)[:most]


def _named_numbers(result: Mapping[str, Any]) -> dict[str, None]:
    return dict.fromkeys(numbers(result))


def varying(trials: Sequence[Trial]) -> list[str]:
    """Return the keys of the configuration, `a/b` for nested ones, in which trials differ."""
    configs = [_settings(trial) for trial in trials]
    keys = dict.fromkeys(key for config in configs for key in config)
    nothing = ("", '""')
    return [key for key in keys if len({config.get(key, nothing)[1] for config in configs}) > 1]


def _settings(trial: Trial) -> dict[str, tuple[Any, str]]:
    """Return a trial's configuration, `a/b` for nested keys: values, and the same as JSON."""
    config = trial.config
    return trial.remember(
        "settings", config, lambda: {key: (it, json.dumps(it)) for key, it in flat(plain(config))}
    )


def states_of(experiment: ExperimentView) -> dict[str, str]:
    """Return what each trial does: its status, unless it was cut off or is about to pause or stop."""
    trials = experiment.trials
    waits = {trial.id for trial in trials if trial.status in {Status.RUNNING, Status.PENDING}}
    cut = bool(waits) and not experiment.running and not experiment.runs_elsewhere()
    states = {it.id: CUT if cut and it.id in waits else str(it.status) for it in trials}
    asked = {it.id: experiment.asked(it) for it in trials if it.status == Status.RUNNING}
    return states | {name: _ASKED[wish] for name, wish in asked.items() if wish}


def _progress(
    experiment: ExperimentView, shown: Sequence[Trial], states: Mapping[str, str]
) -> dict[str, Progress]:
    """Return how far each of the trials is that run now."""
    running = [it for it in shown if it.status == Status.RUNNING and states[it.id] != CUT]
    if not running:
        return {}
    ended = (it.iteration for it in experiment.trials if it.status == Status.TERMINATED and not it.early)
    usual, stop = typical(ended), experiment.spec.stop
    return {it.id: progress(it.results[-RECENT:], it.iteration, it.elapsed_s, stop, usual) for it in running}


def counted(states: Mapping[str, str]) -> str:
    """Return how many trials there are, and of which status."""
    parts = [f"{number} {state}" for state, number in Counter(states.values()).items()]
    return ", ".join([count(len(states), "trial"), *parts])


def fair_share(trials: Sequence[Trial], states: Mapping[str, str], most: int) -> list[Trial]:
    """Return at most *most* of the trials in their order; each status gives as many."""
    if not most or len(trials) <= most:
        return list(trials)
    waiting: dict[str, list[Trial]] = {}
    for trial in trials:
        waiting.setdefault(states[trial.id], []).append(trial)
    chosen: set[str] = set()
    while len(chosen) < most:
        for queue in waiting.values():
            if queue and len(chosen) < most:
                chosen.add(queue.pop(0).id)
    return [trial for trial in trials if trial.id in chosen]


def by_metric(trials: Sequence[Trial], metric: str, mode: str) -> Sequence[Trial]:
    """Return the trials with the best last value first, as they are where it is not said what is best."""
    if not metric or mode not in {"min", "max"}:
        return trials
    sign = 1 if mode == "min" else -1

    def rank(trial: Trial) -> float:
        value = trial.newest(metric)
        return math.inf if value is None or math.isnan(value) else sign * value

    return sorted(trials, key=rank)


def elapsed(seconds: float) -> str:
    """Return a duration with its days, hours, minutes and seconds.

    >>> elapsed(5482), elapsed(2 * 86400 + 5482.7)
    ('01:31:22', '2 days, 01:31:22')
    """
    days, rest = divmod(int(seconds), 86400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{count(days, 'day')}, {clock}" if days else clock


def tail(text: str, most: int = _WIDEST) -> str:
    """Return *text* cut to *most* characters, its end kept, which tells long names apart.

    >>> tail("encoder/layers/0/weight", 12)
    '...0/weight'
    """
    return text if len(text) <= most else "..." + text[3 - most :]


def shown_value(value: Any) -> Cell:
    """Return a value of a configuration or a result: numbers in full, text cut."""
    if isinstance(value, float):
        return Cell(f"{value:.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.4g}", repr(value))
    if isinstance(value, (int, type(None))):
        return Cell(str(value))
    text = value if isinstance(value, str) else json.dumps(value)
    return Cell(tail(text), text if len(text) > _WIDEST else "")


def metric_cell(trial: Trial, name: str) -> Cell:
    """Return a metric's last value, and how it went."""
    return trial.remember(("cell", name), trial.last_result, partial(_metric_cell, trial, name))


def _metric_cell(trial: Trial, name: str) -> Cell:
    course, last = _course(trial, name), trial.newest(name)
    if last is None:
        return Cell("")
    finite = [value for value in course if math.isfinite(value)]
    return Cell(shown_value(last).text, repr(last), tuple(thinned(finite, _POINTS)))


def _table(
    shown: Sequence[Trial],
    trials: Sequence[Trial],
    states: Mapping[str, str],
    metrics: Mapping[str, str],
    running: Mapping[str, Progress],
) -> Table:
    keys = varying(trials)[:_MOST_CONFIG]
    configs = {trial.id: {key: it for key, (it, _) in _settings(trial).items()} for trial in shown}
    etas = {name: it.eta for name, it in running.items() if it.eta}
    columns = (
        *(Column("trial"), Column("status")),
        *(Column(tail(key), number=_all_numbers(configs.values(), key)) for key in keys),
        Column("iteration", number=True),
        *(Column(tail(heading), number=True) for heading in metrics.values()),
        *(Column("checkpoint", number=True), Column("at risk", number=True), Column("elapsed", number=True)),
        *([Column("eta", number=True)] if etas else []),
    )
    rows: tuple[tuple[Cell | str, ...], ...] = tuple(
        (
            Cell(trial.id, json.dumps(plain(trial.config))),
            _state_cell(trial, states[trial.id]),
            *(shown_value(configs[trial.id].get(key, "")) for key in keys),
            str(running.get(trial.id, trial.iteration)),
            *(metric_cell(trial, name) for name in metrics),
            Cell(_step(trial.checkpoint), trial.checkpoint or ""),
            _at_risk(trial),
            elapsed(trial.elapsed_s),
            *([etas.get(trial.id, "")] if etas else []),
        )
        for trial in shown
    )
    return Table("trials", columns, rows)


def _step(checkpoint: str | None) -> str:
    """Return what a checkpoint is asked for by: `checkpoint_000010` by `@10`."""
    return f"@{checkpoint.rpartition('_')[2].lstrip('0') or '0'}" if checkpoint else "-"


def _state_cell(trial: Trial, state: str) -> Cell:
    is_told = not trial.damage or trial.status == Status.DAMAGED
    return Cell(state if is_told else f"{state}, damaged", trial.damage or trial.note)


def _at_risk(trial: Trial) -> Cell:
    if trial.status == Status.TERMINATED:
        return Cell("-")
    return Cell(str(trial.unsaved_results), "results since the checkpoint, to be done again if all ended now")


def _notes(experiment: ExperimentView, states: Mapping[str, str]) -> Iterator[str]:
    cut = [name for name, state in states.items() if state == CUT]
    if cut:
        names = ", ".join(cut[:8]) + (", …" if len(cut) > 8 else "")
        yield f"{names} {'was' if len(cut) == 1 else 'were'} cut off: %ckpt resume {experiment.name} goes on"
    damaged = [trial for trial in experiment.trials if trial.damage]
    yield from (f"{trial.id}: {trial.damage}" for trial in damaged[:_MOST_ERRORS])
    if len(damaged) > _MOST_ERRORS:
        yield f"{count(len(damaged) - _MOST_ERRORS, 'more trial')} with damaged files: see %ckpt show TRIAL"
    spec = experiment.spec
    if experiment.running and spec.stop is not None:
        yield f"each trial stops when {Stopper(spec.stop, spec.metric, spec.mode)}"
    yield from experiment.notes


def _errors(failed: Sequence[Trial]) -> Iterator[Fold]:
    """Yield the last line of each traceback, with the whole of it to open."""
    for trial in failed[:_MOST_ERRORS]:
        tried = f" (failed {trial.failures} times)" if trial.failures > 1 else ""
        yield Fold(f"{trial.id}: {last_line(trial)}{tried}", trial.traceback or trial.error, quiet=True)
    if len(failed) > _MOST_ERRORS:
        rest = ", ".join(trial.id for trial in failed[_MOST_ERRORS:])
        yield Fold(
            f"{count(len(failed) - _MOST_ERRORS, 'more error')}", f"%ckpt show … of {rest}", quiet=True
        )


def last_line(trial: Trial) -> str:
    """Return what ended a trial in one line, as the last of its traceback says it, or as nbckpt does."""
    return (trial.error.strip().splitlines() or ["failed"])[0]


def _hints(experiment: ExperimentView, states: Mapping[str, str]) -> tuple[Hint, ...]:
    name, there = experiment.name, {state: trial for trial, state in reversed(list(states.items()))}
    details = Hint("Details", f"%ckpt show {name}/t0")
    if experiment.running or there.keys() & {Status.RUNNING, Status.PENDING}:  # or another process runs it
        return Hint("Pause", f"%ckpt pause {name}"), Hint("Stop", f"%ckpt stop {name}"), details
    if there.keys() & {CUT, Status.PAUSED}:
        return (Hint("Resume", f"%ckpt resume {name}"),)
    if failed := there.get(Status.ERROR):
        again = Hint("Retry failed trials", f"%ckpt resume {name} --errored")
        return again, Hint("Details", f"%ckpt show {name}/{failed}")
    spec, metric = experiment.spec, next(iter(inferred(experiment.trials)), "")
    what = "" if spec.metric and spec.mode else f" --metric {metric} --mode min"
    return (Hint("Best trial", f"%ckpt best {name}{what}"), details) if metric else ()


def _course(trial: Trial, name: str) -> list[float]:
    """Return the numbers that a trial reported under a name; of very many results a sample."""
    values = [lookup(result, name) for result in thinned(trial.results, _SAMPLED)]
    return [value for value in values if is_number(value)]


def _all_numbers(configs: Any, key: str) -> bool:
    return all(is_number(config.get(key)) for config in configs)
