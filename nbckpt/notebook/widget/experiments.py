"""Experiments: which of them is in sight, how many trials each has, and what the rows show."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from nbckpt.errors import NbckptError
from nbckpt.notebook.widget.rows import View
from nbckpt.notebook.widget.wires import Commands, Message, Pace
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.trial import Status
from nbckpt.trials.model.view import ExperimentView, internals
from nbckpt.trials.views.metrics import by_metric, inferred, likely_mode
from nbckpt.trials.views.statuses import FAILED, PENDING, RUNNING, states_of

_MOST = 50
_MOST_NAMES = 50
_LONGEST_NAME = 300
_USUAL = ("val_loss", "loss", "val_accuracy", "accuracy")


class Experiments:
    """The experiments of the store, and the one in sight. Any thread may use it.

    Args:
        commands: Gives the session.
        pace: Tells when to look for experiments of other processes.

    Attributes:
        chosen: The name of the experiment that the user chose; empty for the one that matters most.
        version: A number that grows when the list or the counts change.
    """

    def __init__(self, commands: Commands, pace: Pace) -> None:
        self._commands, self._pace = commands, pace
        self._lock = threading.RLock()
        self._open: dict[str, Experiment] = {}
        self._versions: dict[str, int] = {}
        self._counts: list[Message] = []
        self._first = ""
        self._is_stale = True
        self.chosen = ""
        self.version = 0

    def renew(self) -> None:
        """Look at the disk with the next question."""
        self._is_stale = True

    def current(self) -> Experiment | None:
        """Return the experiment in sight, with the changes by other processes; None if there is none."""
        with self._lock:
            if self._is_stale or self._pace.is_due():
                began = self._pace.now()
                self._is_stale = False
                self._look()
                self._pace.looked(began)
            return self._open.get(self.chosen) or self._open.get(self._first)

    def counts(self) -> list[Message]:
        """Return how many trials each experiment has, the newest first."""
        return self._counts

    def _look(self) -> None:
        """Take in the names of the experiments, and their trials if those may have changed."""
        library = self._commands.session().library
        names = library.names()[::-1]
        shown = dict.fromkeys([*([self.chosen] if self.chosen in names else []), *names[:_MOST]])
        opened = {}
        for name in shown:
            try:  # its changes by another process are read
                opened[name] = library.open(name)
            except NbckptError:
                continue  # `%ckpt trials` says why it cannot be read
        self._open = opened
        counts = [self._count(name, experiment) for name, experiment in opened.items()]
        if counts != self._counts:
            self._counts, self.version = counts, self.version + 1
        self._first = self._best_first()

    def _count(self, name: str, experiment: Experiment) -> Message:
        version = internals(experiment).version
        known = next((count for count in self._counts if count["name"] == name), None)
        if known is not None and self._versions.get(name) == version and not experiment.running:
            return known
        self._versions[name] = version
        states = list(states_of(experiment).values())
        return {
            "name": name,
            "running": sum(state in {RUNNING, PENDING, "pausing", "stopping", "saving"} for state in states),
            "done": sum(state in {"done", "stopped"} for state in states),
            "failed": states.count(FAILED),
            "total": len(states),
        }

    def _best_first(self) -> str:
        """Return the newest that runs, else the newest with a result, else the newest."""
        for name, experiment in self._open.items():
            if experiment.running:
                return name
        for name, experiment in self._open.items():
            if any(trial.iteration for trial in experiment.trials):
                return name
        return next(iter(self._open), "")


class OneExperiment:
    """One experiment in sight, whatever the browser asks for. It has the face of `Experiments`.

    Args:
        experiment: The experiment.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self.chosen = ""
        self.version = 0

    def renew(self) -> None:
        """Do nothing: what happens in this process is known."""

    def current(self) -> Experiment:
        """Return the experiment."""
        return self._experiment

    def counts(self) -> list[Message]:
        """Return no list: there is nothing to choose."""
        return []


class ShownView(View):
    """What is shown of each trial, and how the head of the list says that."""

    head: Message


def view_of(experiment: ExperimentView, settings: Sequence[str], wanted: str) -> ShownView:
    """Return what is shown of the trials of an experiment, with the metric that is *wanted*."""
    trials, spec = experiment.trials, experiment.spec
    known = dict.fromkeys(objective.metric for objective in spec.objectives) | dict.fromkeys(
        inferred(trials, spec.metric, most=None)
    )
    names = [name for name in known if len(name) <= _LONGEST_NAME]
    usual = next((name for name in _USUAL if name in names), next(iter(names), ""))
    metric = wanted if wanted in names else spec.metric or usual
    mode = spec.mode_of(metric) or (spec.mode if metric == spec.metric else "") or likely_mode(metric)
    view = ShownView(names, settings, metric, mode or "min")
    view.head = {
        "metric": metric,
        "mode": mode or "min",
        "mode_is_guess": bool(metric) and not mode,
        "metrics": names[:_MOST_NAMES],
    }
    return view


def best_of(experiment: ExperimentView) -> str:
    """Return the best trial and its result, such as `t52, loss 0.1602`; empty if no trial has a result."""
    view = view_of(experiment, (), "")
    done = [trial for trial in experiment.trials if trial.status != Status.ERROR]
    ranked = [trial for trial in done if math.isfinite(as_float(trial.newest(view.metric)))]
    if not view.metric or not ranked:
        return ""
    best = by_metric(ranked, view.metric, view.mode)[0]
    return f"{best.id}, {view.metric} {as_float(best.newest(view.metric)):.4g}"


def order_of(experiment: ExperimentView, settings: Sequence[str], wanted: str) -> list[str]:
    """Return the settings that differ, those first that order the trials best by the metric."""
    from nbckpt.trials.views.plots.importance import rank_correlation
    from nbckpt.trials.views.plots.scales import parameter

    names = [name for name in settings if len(name) <= _LONGEST_NAME][:_MOST_NAMES]
    metric = view_of(experiment, (), wanted).metric
    trials = [trial for trial in experiment.trials if math.isfinite(as_float(trial.newest(metric)))][-500:]
    values = [as_float(trial.newest(metric)) for trial in trials]
    if len(set(values)) < 4:
        return names
    try:
        scales = [parameter(trials, name) for name in names]
        whole = [scale for scale in scales if len(scale.finite) == len(trials) and len(set(scale.places)) > 1]
        shares = rank_correlation(whole, values)
    except (ImportError, NbckptError):
        return names
    return sorted(names, key=lambda name: -shares.get(name, 0.0))
