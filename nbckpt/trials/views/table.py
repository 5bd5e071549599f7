"""The table of an experiment's trials: its rows and columns, its notes, errors and hints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from shlex import quote

from nbckpt.errors import UsageError
from nbckpt.render import Cell, Column, Fold, Hint, Page, Result, Table, count
from nbckpt.trials.model.objectives import Objective, listed
from nbckpt.trials.model.spec import LOOP
from nbckpt.trials.model.trial import WAITS, Status, Trial, is_held
from nbckpt.trials.model.view import ExperimentView, internals
from nbckpt.trials.views.data import ExperimentData, experiment_data
from nbckpt.trials.views.fields import matching
from nbckpt.trials.views.formats import shown_value
from nbckpt.trials.views.front import front_first, front_of, wanted_objectives
from nbckpt.trials.views.metrics import (
    by_metric,
    inferred,
    is_comparable,
    lacking,
    likely_mode,
)
from nbckpt.trials.views.remaining import left_of, progress_of
from nbckpt.trials.views.rows import fair_share, table_of
from nbckpt.trials.views.statuses import (
    FAILED,
    INTERRUPTED,
    PAUSED,
    PENDING,
    RUNNING,
    counted,
    last_line,
    no_trials,
    states_of,
)

MOST_ROWS = 20
_MOST_CONFIG = 5
_LONGEST_NOTE = 40
_MOST_ERRORS = 8
_MOST_NAMED = 12


@dataclass(frozen=True, repr=False)
class TrialTable(Result):
    """The current trials of an experiment, whenever it is shown.

    Attributes:
        experiment: The experiment.
        metrics: The metrics to show, with the headings of their columns; by default the reported metrics,
            the experiment's metric first.
        most: The most rows to show; 0 for all. If there are more trials, each status gets its fair share of
            the rows, for its best trials if the metric and the mode are known.
        sort: Whether to show the best trials first, and only them, if the metric and the mode are known.
        others: A row for each other experiment.
        number: The number of a page of *most* rows in order, from 1; 0 for the fair share.
        metric: The metric to sort by; by default the experiment's metric.
        mode: Whether `min` or `max` of the metric is best; by default the experiment's mode.
        where: Show only the trials that pass this filter; see `Where`.
        pareto: Show only the trials on the Pareto front of the experiment's objectives.

    Raises:
        UsageError: There is no such page, or a metric or a mode is missing, or the filter cannot be read.
    """

    experiment: ExperimentView
    metrics: Mapping[str, str] | None = None
    most: int = MOST_ROWS
    sort: bool = False
    others: tuple[tuple[str | Cell, ...], ...] = ()
    number: int = 0
    metric: str = ""
    mode: str = ""
    where: str = ""
    pareto: bool = False
    _first: list[tuple[int, Sequence[Trial]]] = field(default_factory=list, init=False, compare=False)
    """The experiment's version when the table was made, and the trials that passed the filter."""

    def __post_init__(self) -> None:
        """Refuse a page that does not exist, and a metric without a mode."""
        version, chosen = internals(self.experiment).version, self._trials()
        self._first.append((version, chosen))
        total, most = len(chosen), self.most
        if most < 0:
            raise UsageError(f"cannot show {most} rows: give a number, or 0 for all")
        pages = max(1, -(-total // most)) if most else 1
        if not 0 <= self.number <= pages:
            pages_of = f"{count(total, 'trial')}, {most or 'all'} on a page"
            raise UsageError(f"there is no page {self.number}: {pages_of}, so the last is page {pages}")
        metric, mode = self._best()
        if mode not in {"", "min", "max"} or (self.metric and not mode):
            raise UsageError(f"which {self.metric or 'value'} is best? mode='min' or mode='max'")
        if self.mode and not metric:
            raise UsageError("which metric compares the trials? metric='loss'")

    def _best(self) -> tuple[str, str]:
        """Return the metric that compares trials, and whether its `min` or `max` is best."""
        return self.metric or self.experiment.spec.metric, self.mode or self.experiment.spec.mode

    def page(self) -> Page:
        """See `Result.page`."""
        experiment, trials = self.experiment, self.experiment.trials
        states, chosen = states_of(experiment), self._chosen()
        shown = self._shown(chosen, states)
        running = progress_of(experiment, trials, states)
        several = experiment.spec.objectives if experiment.spec.others else ()
        front = dict.fromkeys(front_of(trials, several)) if several else None
        table = table_of(shown, trials, states, self._metrics(trials), running, front)
        failed = [trial for trial in trials if trial.status == Status.ERROR]
        heads = Column("experiment"), Column("trials"), Column("began")
        others = Table("other experiments", heads, self.others)
        return Page(
            f"{experiment.name}: {counted(states)}",
            (table, others),
            (
                *self._filtered(chosen),
                *self._which(shown, chosen, states),
                *_on_front(several, front or ()),
                *(() if several else _best_so_far(trials, *self._best())),
                *left_of(experiment, running),
                *_notes(experiment, states),
            ),
            tuple(_errors(failed)),
            hints=_hints(experiment, states),
        )

    def for_json(self) -> ExperimentData:
        """Return all trials of the experiment; see render/json.py."""
        return experiment_data(self.experiment)

    def _metrics(self, trials: Sequence[Trial]) -> Mapping[str, str]:
        if self.metrics is not None:
            return self.metrics
        first = self.metric if self.sort and self.metric else self.experiment.spec.metric
        return {name: name for name in inferred(trials, first)}

    def _chosen(self) -> Sequence[Trial]:
        """Return the trials that pass the filter. The first time they are known, if nothing changed since."""
        version, chosen = self._first.pop() if self._first else (None, ())
        return chosen if version == internals(self.experiment).version else self._trials()

    def _trials(self) -> Sequence[Trial]:
        experiment = self.experiment
        chosen = matching(experiment, self.where) if self.where else experiment.trials
        if not self.pareto:
            return chosen
        front = dict.fromkeys(front_of(experiment.trials, wanted_objectives(experiment.spec)))
        return [trial for trial in chosen if trial in front]

    def _filtered(self, chosen: Sequence[Trial]) -> Iterator[str]:
        if self.where:
            front = " on the Pareto front" if self.pareto else ""
            total = count(len(self.experiment.trials), "trial")
            yield f"{len(chosen):,} of {total} match {self.where}{front}"

    @property
    def _is_sorted(self) -> bool:
        """Whether the best trials come first, because the user asked for it or not all trials fit."""
        fits = not self.most or len(self.experiment.trials) <= self.most
        return all(self._best()) and (self.sort or not (fits or self.number))

    def _shown(self, trials: Sequence[Trial], states: Mapping[str, str]) -> Sequence[Trial]:
        ordered = self._ordered(trials) if self._is_sorted else trials
        if self.number and self.most:
            return ordered[(self.number - 1) * self.most :][: self.most]
        if self.sort and self._is_sorted:
            return ordered[: self.most or None]
        return fair_share(ordered, states, self.most)

    def _ordered(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Return trials, the best first. By several objectives, that is the Pareto front."""
        spec = self.experiment.spec
        is_by_all = spec.others and not self.metric and not self.mode
        return front_first(trials, spec.objectives) if is_by_all else by_metric(trials, *self._best())

    def _which(
        self, shown: Sequence[Trial], chosen: Sequence[Trial], states: Mapping[str, str]
    ) -> Iterator[str]:
        """Yield sentences about which trials are shown and how to see the others, unless all are shown."""
        trials, (metric, mode) = self.experiment.trials, self._best()
        if self.sort and self.metric and all(trial.newest(metric) is None for trial in trials):
            reason, known = lacking(trials, metric, f"no trial reported {metric!r}")
            yield f"{reason}, so they are not sorted: there are {known}"
        if len(shown) == len(chosen):
            return
        states = {trial.id: states[trial.id] for trial in chosen}
        by = (
            "the Pareto front"
            if self.experiment.spec.others and not self.metric
            else f"the best by {metric} ({mode})"
        )
        order = f", {by} first" if self._is_sorted else ""
        if self.number:
            first = (self.number - 1) * self.most
            yield f"trials {first + 1:,}-{first + len(shown):,} of {len(states):,}{order}"
            return
        command = f"%ckpt trials {self.experiment.name}"
        shown_ids = {trial.id for trial in shown}
        left = Counter(state for name, state in states.items() if name not in shown_ids)
        parts = ", ".join(f"{number} {state}" for state, number in left.items())
        yield f"Showing {len(shown):,} of {len(states):,} trials{order}. Not shown: {parts}."
        yield f"Show all: {command} -n 0, by page: {command} --page 1"


def _on_front(objectives: Sequence[Objective], front: Collection[Trial]) -> Iterator[str]:
    """Yield which trials are on the Pareto front, if there are several objectives."""
    if objectives and front:
        names = ", ".join(trial.id for trial in islice(front, _MOST_NAMED)) + ", …" * (
            len(front) > _MOST_NAMED
        )
        yield f"Pareto front of {listed(objectives)}: {count(len(front), 'trial')}, {names}"


def _best_so_far(trials: Sequence[Trial], metric: str, mode: str) -> Iterator[str]:
    """Yield the best trial with its value, if that is known."""
    for best in by_metric(trials, metric, mode)[:1] if metric and mode else ():
        if is_comparable(trials, metric):
            value = best.newest(metric)
            yield f"Best so far: {best.id}, {metric} {shown_value(value).text}"


def _notes(experiment: ExperimentView, states: Mapping[str, str]) -> Iterator[str]:
    if not (states or experiment.running or experiment.runs_elsewhere()):
        yield no_trials(experiment.name)
    interrupted = [name for name, state in states.items() if state == INTERRUPTED]
    if interrupted:
        names = ", ".join(interrupted[:8]) + (", …" if len(interrupted) > 8 else "")
        verb = "was" if len(interrupted) == 1 else "were"
        yield f"{names} {verb} interrupted. Resume: {_resume(experiment)}"
        if experiment.spec.executor != LOOP:
            yield from _begin_again(trial for trial in experiment.trials if trial.id in interrupted)
    yield from _waiting(experiment.trials)
    damaged = [trial for trial in experiment.trials if trial.damage]
    yield from (f"{trial.id}: {trial.damage}" for trial in damaged[:_MOST_ERRORS])
    if len(damaged) > _MOST_ERRORS:
        yield f"{count(len(damaged) - _MOST_ERRORS, 'more trial')} with damaged files: see %ckpt show TRIAL"
    spec = experiment.spec
    if experiment.running and spec.stop is not None:
        yield f"each trial stops when {spec.stopper}"
    yield from experiment.notes


def _begin_again(interrupted: Iterable[Trial]) -> Iterator[str]:
    """Yield which trials lose their results when they are resumed, since they saved nothing."""
    lost = [trial.id for trial in interrupted if trial.iteration and trial.checkpoint_name is None]
    if lost:
        names = ", ".join(lost[:8]) + (", …" if len(lost) > 8 else "")
        begin = "begins" if len(lost) == 1 else "begin"
        yield f"{names} saved no checkpoint, and {begin} again when resumed."


def _waiting(trials: Iterable[Trial]) -> Iterator[str]:
    """Yield which running trials wait for resources, and for which."""
    waiting: dict[str, list[str]] = {}
    for trial in trials:
        if trial.status == Status.RUNNING and trial.note.startswith(WAITS):
            waiting.setdefault(trial.note, []).append(trial.id)
    for note, names in waiting.items():
        yield f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''} {note}"


def _errors(failed: Sequence[Trial]) -> Iterator[Fold]:
    """Yield the last line of each traceback, as a fold that opens the whole traceback."""
    for trial in failed[:_MOST_ERRORS]:
        failures = f" (failed {trial.failures} times)" if trial.failures > 1 else ""
        yield Fold(f"{trial.id}: {last_line(trial)}{failures}", trial.traceback or trial.error, quiet=True)
    if len(failed) > _MOST_ERRORS:
        rest = ", ".join(trial.id for trial in failed[_MOST_ERRORS:])
        yield Fold(
            f"{count(len(failed) - _MOST_ERRORS, 'more error')}", f"%ckpt show … of {rest}", quiet=True
        )


def _hints(experiment: ExperimentView, states: Mapping[str, str]) -> tuple[Hint, ...]:
    name, by_state = experiment.name, {state: trial for trial, state in reversed(list(states.items()))}
    details = Hint("Details", f"%ckpt show {name}/t0")
    if experiment.running or by_state.keys() & {RUNNING, PENDING}:  # or another process runs it
        return Hint("Pause", f"%ckpt pause {name}"), Hint("Stop", f"%ckpt stop {name}"), details
    held = [trial.id for trial in experiment.trials if is_held(trial)]
    if by_state.keys() & {INTERRUPTED, PAUSED}:
        one = Hint("One that the scheduler paused", f"%ckpt resume {name}/{held[0]}") if held else None
        return tuple(filter(None, (Hint("Resume", _resume(experiment)), one)))
    if failed := by_state.get(FAILED):
        if experiment.spec.executor == LOOP:
            return (Hint("Details", f"%ckpt show {name}/{failed}"),)
        again = Hint("Retry failed trials", f"%ckpt resume {name} --errored")
        return again, Hint("Details", f"%ckpt show {name}/{failed}")
    spec = experiment.spec
    if spec.others:
        return Hint("Pareto front", f"%ckpt trials {name} --pareto"), Hint(
            "Plot", f"%ckpt plot {name} --pareto"
        )
    metric = spec.metric or next(iter(inferred(experiment.trials)), "")
    if not is_comparable(experiment.trials, metric):
        return (details,) if metric else ()
    mode = likely_mode(metric) or "min"
    options = "" if spec.metric and spec.mode else f" --metric {quote(metric)} --mode {mode}"
    return Hint("Best trial", f"%ckpt best {name}{options}"), details


def _resume(experiment: ExperimentView) -> str:
    """Return what continues the trials: a command, or the call before a loop of the user's own."""
    is_loop = experiment.spec.executor == LOOP
    return f"nbckpt.track({experiment.name!r}, resume=True)" if is_loop else f"%ckpt resume {experiment.name}"
