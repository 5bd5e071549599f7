"""TrialsWire: the trials of one experiment for the browser, first in full and then what changed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from nbckpt.notebook.widget import trial_actions, trial_details
from nbckpt.notebook.widget.experiments import Experiments, OneExperiment, order_of, view_of
from nbckpt.notebook.widget.points import Tail
from nbckpt.notebook.widget.rows import compared_at, row_of, setting_of, sign_of, summary_of
from nbckpt.notebook.widget.wires import PAGE, Commands, Message, Pace
from nbckpt.render import thinned
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model.curve import MOST_POINTS
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.model.view import internals
from nbckpt.trials.views.eta import Progress
from nbckpt.trials.views.front import front_of
from nbckpt.trials.views.metrics import by_metric, flat_config, varying
from nbckpt.trials.views.remaining import progress_of
from nbckpt.trials.views.statuses import RUNNING, states_of

MOST_CURVES = 200
"""Of how many trials the points are sent."""

_SLICE_BYTES = 1 << 20
_MOST_IN_SLICE = 32
_MOST_SAME = 100
_MOST_MARKS = 256
_EMPTY = {"experiment": "", "experiments": [], "metric": "", "mode": "min", "mode_is_guess": False}
_NOTHING: Message = {
    "kind": "trials",
    **_EMPTY,
    "metrics": [],
    "objectives": [],
    "compared": "",
    "settings": [],
    "same": {},
    "summary": {"left_s": None, "error_groups": []},
    "total": 0,
    "from": 0,
    "rows": [],
    "gone": [],
    "reset": True,
}


class TrialsWire:
    """The pane of trials. The channel asks for `full` and `changes` in one thread at a time.

    Only one experiment is held. Journals are read piece by piece, and at most 500 points of a curve are kept.

    Args:
        commands: Runs commands.
        chosen: Returns the trials that are selected in the browser, whose curves come first.
        pace: Tells when to look for experiments of other processes.
        only: The only experiment to show; by default all of the store.
    """

    OF: ClassVar[frozenset[str]] = frozenset(trial_details.DETAILS)
    VERBS: ClassVar[frozenset[str]] = frozenset(trial_actions.DEEDS)
    NEEDS_VARIABLES: ClassVar[frozenset[str]] = frozenset({"restore", "undo"})
    SLOW: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        commands: Commands,
        chosen: Callable[[], Sequence[str]] = lambda: (),
        pace: Pace | None = None,
        only: Experiment | None = None,
    ) -> None:
        self._commands, self._chosen = commands, chosen
        every = Experiments(commands, pace or Pace())
        self._experiments = every if only is None else OneExperiment(only)
        self._metric = ""
        self._forget()

    def _forget(self) -> None:
        self._shown: Experiment | None = None
        self._version: object = None
        self._head: Message = {}
        self._settings: list[str] = []
        self._signs: dict[str, object] = {}
        self._curves: dict[str, object] = {}
        self._tails: dict[str, Tail] = {}

    def choose(self, experiment: str, metric: str) -> None:
        """Show this experiment and this metric from now on; without names, those that matter most."""
        if metric not in {self._metric, self._head.get("metric", "")}:
            self._forget()  # so all is new with the next `changes`
        self._experiments.chosen, self._metric = experiment, metric

    def renew(self) -> None:
        """Look for new experiments with the next `changes`."""
        self._experiments.renew()

    def tab(self) -> str:
        """Return the number of trials of the experiment in sight."""
        experiment = self._experiments.current()
        return f"{len(experiment.trials):,}" if experiment is not None else ""

    def token(self) -> object:
        """Return a value that differs once a trial may have changed."""
        experiment = self._experiments.current()
        version = experiment and (experiment.name, internals(experiment).version, experiment.runs_elsewhere())
        return version, self._experiments.version

    def is_alive(self) -> bool:
        """Tell whether the experiment in sight runs, here or in another process."""
        experiment = self._experiments.current()
        return experiment is not None and (experiment.running or experiment.runs_elsewhere())

    def full(self) -> Iterator[Message]:
        """Yield all rows in pages, and all sparklines. The points come with `changes`."""
        self._forget()
        experiment = self._experiments.current()
        if experiment is None:
            yield dict(_NOTHING)
            return
        self._shown = experiment
        yield from self._news(experiment, is_all=True)
        yield from self._sparks(experiment)

    def changes(self) -> Iterator[Message]:
        """Yield what changed: rows, sparklines, points. Each is looked up when it is asked for."""
        experiment = self._experiments.current()
        if experiment is not self._shown:
            yield from self.full()
        elif experiment is not None:
            yield from self._news(experiment, is_all=False)
            yield from self._sparks(experiment)
            yield from self._points(experiment)

    def detail(self, of: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
        """Return the page of a trial, or its media.

        Raises:
            NbckptError: There is no such trial.
        """
        return trial_details.DETAILS[of](self._commands, self._name(options), ids, options)

    def act(self, verb: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
        """Do one thing, or with `dry` tell what it would do.

        Raises:
            NbckptError: It failed.
        """
        return trial_actions.DEEDS[verb](self._commands, self._name(options), ids, options)

    def _name(self, options: Mapping[str, Any]) -> str:
        """Return the experiment that is meant: the one that was said, or the one in sight."""
        said = options.get("experiment")
        if isinstance(said, str) and said:
            return said
        return self._shown.name if self._shown is not None else ""

    def _news(self, experiment: Experiment, *, is_all: bool) -> Iterator[Message]:
        """Yield the head, and all rows or those that changed."""
        version = internals(experiment).version, self._experiments.version, experiment.runs_elsewhere()
        if version == self._version:
            return
        trials, states = experiment.trials, states_of(experiment)
        if is_all or len(trials) != len(self._signs):
            settings = order_of(experiment, varying(trials), self._metric)
            is_all = is_all or set(settings) != set(self._settings)
            self._settings = settings if is_all else self._settings
        view = view_of(experiment, self._settings, self._metric)
        running = progress_of(experiment, trials, states)
        front = {trial.id for trial in front_of(trials, experiment.spec.objectives)}
        signs: dict[str, object] = {
            trial.id: sign_of(trial, states[trial.id], running.get(trial.id), front=trial.id in front)
            for trial in trials
        }
        changed = [trial for trial in trials if is_all or signs[trial.id] != self._signs.get(trial.id)]
        gone = [] if is_all else [name for name in self._signs if name not in signs]
        head = {
            "kind": "trials",
            "experiment": experiment.name,
            "experiments": self._experiments.counts(),
            **view.head,
            "objectives": [
                vars(objective) for objective in experiment.spec.objectives if experiment.spec.others
            ],
            "compared": compared_at(trials),
            "settings": self._settings,
            "same": self._same(trials),
            "summary": summary_of(states, trials, _left(running, states)),
            "total": len(trials),
        }
        self._version, self._signs = version, signs
        if not (is_all or changed or gone or head != self._head):
            return
        self._head = head
        for first in range(0, max(1, len(changed)), PAGE):
            page = changed[first : first + PAGE]
            rows = [
                row_of(trial, states[trial.id], running.get(trial.id), view, front=trial.id in front)
                for trial in page
            ]
            yield {**head, "from": first, "rows": rows, "gone": gone, "reset": is_all}

    def _same(self, trials: Sequence[Trial]) -> Message:
        """Return the settings that are the same in all trials."""
        config = flat_config(trials[0]) if trials else {}
        same = [name for name in config if name not in self._settings][:_MOST_SAME]
        return {name: setting_of(config[name][0]) for name in same}

    def _sparks(self, experiment: Experiment) -> Iterator[Message]:
        """Yield the sparklines that changed, in pages."""
        metric = self._head.get("metric", "")
        if not metric:
            return
        new = {}
        for trial in experiment.trials:
            curve = state_of(trial).condensed.curves.get(metric)
            if curve is not None and self._curves.get(trial.id) != (metric, curve):
                new[trial.id] = curve
                self._curves[trial.id] = metric, curve
        for at in range(0, len(new), PAGE):
            page = {name: thinned(new[name].shown, MOST_POINTS) for name in list(new)[at : at + PAGE]}
            values = array("f", (_single(value) for points in page.values() for value in points))
            yield {
                "kind": "sparks",
                "experiment": experiment.name,
                "metric": metric,
                "ids": list(page),
                "lengths": [len(points) for points in page.values()],
                "buffers": [values.tobytes()],
            }

    def _points(self, experiment: Experiment) -> Iterator[Message]:
        """Yield the points of the curves that grew, a slice of the journals at most."""
        metric = self._head.get("metric", "")
        wanted = self._wanted(experiment) if metric else []
        self._tails = {trial.id: self._tails.get(trial.id) or Tail(trial.folder, metric) for trial in wanted}
        grown, left = [], _SLICE_BYTES
        for name, tail in self._tails.items():
            read = 0
            while read < left and (size := tail.read()):
                read += size
            left -= read
            if read:
                grown.append(name)
            if left <= 0 or len(grown) >= _MOST_IN_SLICE:
                break
        if grown:
            # The first come last with the next slice, so that all have their turn.
            self._tails |= {name: self._tails.pop(name) for name in grown}
            yield self._packed(experiment.name, metric, grown)

    def _packed(self, experiment: str, metric: str, names: Sequence[str]) -> Message:
        columns = [self._tails[name].packed() for name in names]
        joined = (b"".join(column[at].tobytes() for column in columns) for at in range(3))
        return {
            "kind": "points",
            "experiment": experiment,
            "metric": metric,
            "ids": list(names),
            "lengths": [len(steps) for steps, _, _ in columns],
            "marks": {name: marks for name in names if (marks := self._marks(name))},
            "reset": False,
            "buffers": list(joined),
        }

    def _marks(self, name: str) -> list[int]:
        """Return the steps after which a scheduler compared a trial, the last ones of many."""
        return sorted(self._tails[name].compared.values())[-_MOST_MARKS:]

    def _wanted(self, experiment: Experiment) -> list[Trial]:
        """Return the trials whose curves are sent: the selected, the running, then the best."""
        trials, states = experiment.trials, states_of(experiment)
        if len(trials) <= MOST_CURVES:
            known = {trial.id: trial for trial in trials}
        else:
            chosen = set(self._chosen())
            first = [trial for trial in trials if trial.id in chosen]
            first += [trial for trial in trials if states[trial.id] == RUNNING]
            first += by_metric(trials, self._head["metric"], self._head["mode"])
            known = {trial.id: trial for trial in first[: 2 * MOST_CURVES]}
        order = [name for name in self._tails if name in known]
        names = [*(name for name in known if name not in self._tails), *order]
        kept = set(list(known)[:MOST_CURVES])
        return [known[name] for name in names if name in kept]


def _left(running: Mapping[str, Progress], states: Mapping[str, str]) -> float | None:
    """Return how long the running trials still take, in seconds; None if it is not known."""
    left = [progress.left_s for progress in running.values() if progress.left_s is not None]
    return max(left) if left and len(left) == sum(state == RUNNING for state in states.values()) else None


def _single(value: float) -> float:
    """Return a number that a Float32 can hold."""
    number = as_float(value)
    return max(-3e38, min(3e38, number))
