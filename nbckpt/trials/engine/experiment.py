"""Experiment: many trials of one function, run side by side in the background."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nbckpt.errors import NbckptError
from nbckpt.render import Page, Result
from nbckpt.trials.engine import control, shutdown
from nbckpt.trials.engine.runner import Runner, runner_of
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Status, Trial, find_trial, trial_page
from nbckpt.trials.model.view import Internals
from nbckpt.trials.views.data import ExperimentData, experiment_data
from nbckpt.trials.views.frame import dataframe
from nbckpt.trials.views.front import best_trial, front_of, wanted_objectives
from nbckpt.trials.views.metrics import Scope, metric_columns
from nbckpt.trials.views.plots.plot import figure
from nbckpt.trials.views.plots.request import PlotRequest
from nbckpt.trials.views.statuses import INTERRUPTED, states_of
from nbckpt.trials.views.table import MOST_ROWS, TrialTable
from nbckpt.trials.views.trial_page import TrialShown

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_opening = threading.Lock()
"""Held while an experiment's object is found or made: threads that open the same folder share it."""
_live: weakref.WeakValueDictionary[Path, Any] = shutdown.live


class Experiment(Result):  # see docs/decisions/0019
    """Trials of one function, and their progress. Any thread may call every method.

    Its repr is its table; a notebook shows the table. One process at a time runs an experiment; any number
    of processes may look at it, and may track trials of the same experiment.

    Examples:
        >>> trials = nbckpt.run(lambda config: {"y": config["x"] ** 2}, {"x": nbckpt.grid_search([2, 1, 3])})
        >>> trials.wait(), trials.best("y", "min").config, trials.trial("t0").metrics["y"]
        (True, {'x': 1}, 4)
        >>> trials.dataframe()["y"].tolist(), trials.plot("y").axes[0].get_ylabel()
        ([4, 1, 9], 'y')
        >>> table = trials.table(where="y > 1")
    """

    def __init__(self, folder: Path, spec: Spec) -> None:
        self._runner = Runner(folder, spec)  # see docs/decisions/0065

    @classmethod
    def read(cls, folder: Path) -> Experiment:
        """Return the experiment in *folder*: the object of this process, or a new one read from the disk.

        A process has one object per experiment while any code holds it, so every holder sees what others
        start. Changes by another process are taken in, unless the experiment runs here.

        Raises:
            NotFoundError: There is no experiment in the folder.
            CorruptError: The experiment's file is damaged.
        """
        with _opening:
            experiment: Experiment = _live.get(folder) or cls(folder, spec_file.read(folder).spec)
            _live[folder] = experiment
        experiment.refresh()
        return experiment

    def refresh(self) -> None:
        """Take in the changes by another process. While the experiment runs here, nobody else writes it.

        Raises:
            CorruptError: The experiment's file is damaged.
        """
        self._runner.refresh()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the folder's path only: a copy would miss later changes."""
        return read_experiment, (self.folder,)

    # State.

    @property
    def _internals(self) -> Internals:
        return self._runner  # see docs/decisions/0073

    @property
    def folder(self) -> Path:
        """The folder that holds it."""
        return self._runner.folder

    @property
    def name(self) -> str:
        """Its name, which is the name of its folder."""
        return self.folder.name

    @property
    def spec(self) -> Spec:
        """Its specification."""
        return self._runner.spec

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials, in the order in which they were made."""
        return tuple(self._runner.trials.values())

    def trial(self, name: str | Trial) -> Trial:
        """Return a trial by its short name.

        Raises:
            UsageError: There is no such trial.
        """
        return self._runner.trial(name.id if isinstance(name, Trial) else name)

    @property
    def running(self) -> bool:
        """Whether the experiment runs in this process, or waits to run."""
        return self._runner.pool.workers > 0

    @property
    def notes(self) -> list[str]:
        """Problems outside the trials, one sentence each."""
        return self._runner.notes

    def runs_elsewhere(self) -> bool:
        """Return whether another process runs the experiment, or has a tracked trial of it open."""
        return bool(self._runner.elsewhere())

    def interrupted(self, trial: Trial) -> bool:
        """Return whether a trial was interrupted: its journal says that it runs, but nobody runs it."""
        return states_of(self)[trial.id] == INTERRUPTED

    def best(self, metric: str = "", mode: str = "", *, scope: Scope = "last") -> Trial:
        """Return the trial with the best value of a metric. Trials without a value are left out.

        Args:
            metric: Its name; `a/b` means the metric b in a dict a. By default the experiment's metric.
            mode: `min` or `max`; by default the mode of this objective, or the experiment's mode.
            scope: Whether the `last` or the `best` value of each trial counts.

        Raises:
            UsageError: No trial reported the metric, or the metric or the mode is missing. Or the experiment
                has several objectives, and none of them is named: see `pareto`.
        """
        self.refresh()
        return best_trial(self, metric, mode, scope)

    def pareto(self, metric: Sequence[str] = (), mode: Sequence[str] = ()) -> tuple[Trial, ...]:
        """Return the trials on the Pareto front, in the order of the first objective.

        No other trial is better in one objective and at least as good in all others. The last value of each
        metric counts. Trials that lack a value, or have NaN, are left out.

        Args:
            metric: The metrics; by default the objectives of the experiment.
            mode: `min` or `max` for each metric; by default those of the objectives.

        Raises:
            UsageError: There are fewer than two objectives, or a mode is missing.
        """
        self.refresh()
        return tuple(front_of(self.trials, wanted_objectives(self.spec, metric, mode)))

    def dataframe(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with a row for each result, with its trial and configuration.

        Raises:
            UsageError: pandas is not installed.
        """
        self.refresh()
        return dataframe(self)

    def plot(
        self,
        metric: str | Sequence[str] = "",
        trials: Iterable[str | Trial] | None = None,
        *,
        mode: str = "",
        smooth: float = 0.0,
        logy: bool = False,
        x: Literal["step", "time"] = "step",
        parallel: bool = False,
        scatter: tuple[str, str] | None = None,
        importance: bool = False,
        pareto: bool = False,
    ) -> Figure:
        """Draw the experiment. Return an ordinary figure of matplotlib, without a background.

        Args:
            metric: Its name, or several; `a/b` means the metric b in a dict a. By default the
                experiment's metric.
            trials: Which trials. By default all; curves are drawn of the best 20.
            mode: Whether `min` or `max` is best. By default the experiment's mode, or what the name says.
            smooth: How much curves are smoothed, from 0 to below 1.
            logy: Whether curves have a logarithmic scale.
            x: Whether curves are drawn over the iterations or over the time in training.
            parallel: Draw an axis for each parameter and a line for each trial.
            scatter: Draw a point for each trial over two parameters or metrics.
            importance: Draw how much each parameter matters for the metric.
            pareto: Draw a point for each trial over two objectives, and the Pareto front as a line.

        Raises:
            UsageError: No trial reported the metric, there is no such trial, the trials do not suffice for
                the plot, or matplotlib is not installed.
        """
        self.refresh()
        metrics = [metric] if isinstance(metric, str) else list(metric)
        names = None if trials is None else list(trials)
        request = PlotRequest(
            metrics, names, mode, smooth, logy, x, parallel, scatter or (), importance, pareto
        )
        return figure(self, request)

    @property
    def exit_status(self) -> int:
        """See `Result.exit_status`: 1 if a trial failed."""
        return int(any(trial.status == Status.ERROR for trial in self.trials))

    def page(self) -> Page:
        """See `Result.page`."""
        return self.table().page()

    def for_json(self) -> ExperimentData:
        """Return the experiment for other programs; see render/json.py."""
        return experiment_data(self)

    def table(
        self,
        metrics: Sequence[str] | Mapping[str, str] | None = None,
        *,
        most: int = MOST_ROWS,
        sort: bool = False,
        page: int = 0,
        metric: str = "",
        mode: str = "",
        where: str = "",
        pareto: bool = False,
    ) -> TrialTable:
        """Return its table with other columns or rows. It follows the experiment like the usual table.

        Args:
            metrics: Which metrics to show; `a/b` means the metric b in the dict a. A dict gives headings.
            most: The most rows to show, with a fair share for each status; 0 for all.
            sort: Whether the best trials come first; this needs a metric and a mode.
            page: The number of a page of *most* rows in order, from 1; 0 for the fair share.
            metric: The metric to sort by; by default the experiment's metric.
            mode: Whether `min` or `max` of the metric is best; by default the experiment's mode.
            where: Show only the trials that pass this filter, such as `lr < 0.1 and tag == 'good'`.
            pareto: Whether to show only the Pareto front of the experiment's objectives.

        Raises:
            UsageError: A metric is given twice, there is no such page, the metric or mode is missing, or the
                filter cannot be read.
        """
        self.refresh()
        columns = None if metrics is None else metric_columns(metrics)
        return TrialTable(
            self, columns, most, sort, number=page, metric=metric, mode=mode, where=where, pareto=pareto
        )

    # Actions.

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no trial runs. Return whether that happened within *timeout* seconds.

        An interrupt ends only the waiting; the trials continue.

        Raises:
            UsageError: A trial or a callback of this experiment calls it without a timeout.
        """
        return self._runner.wait(timeout)

    def pause(self, trial: str | Trial | None = None) -> None:
        """Pause one trial or all: a running trial after its next result, a waiting trial at once.

        Paused trials hold no thread and no memory; `resume` continues from their last checkpoint.

        If another process runs the experiment, that process is asked, and has answered when this returns.

        Raises:
            UsageError: There is no such trial.
            StoreError: The disk failed.
        """
        self._ask("pause", trial)

    def stop(self, trial: str | Trial | None = None) -> None:
        """Stop one trial or all, each after its next result. A stopped trial is finished.

        If another process runs the experiment, that process is asked, as by `pause`.

        Raises:
            UsageError: There is no such trial.
            StoreError: The disk failed.
        """
        self._ask("stop", trial)

    def checkpoint(self, trial: str | Trial | None = None) -> None:
        """Save a checkpoint of one running trial or of all, each with its next result. The trials continue.

        A Trainable class is saved. A function saves its states, or the checkpoint that it reports when
        `nbckpt.should_checkpoint()` is true. If there is no checkpoint in the end, the trial's note says so.

        If another process runs the experiment, that process is asked, as by `pause`.

        Raises:
            UsageError: There is no such trial.
            StoreError: The disk failed.
        """
        self._ask("checkpoint", trial)

    def kill(self) -> None:
        """End running trials at once if the executor can: a process can be killed, a thread cannot.

        If only callbacks still work, for example at the last sync, that work is given up.
        """
        self._runner.kill()

    def resume(
        self, trial: str | Trial | None = None, *, errored: bool = False, trust: bool = False
    ) -> Experiment:
        """Resume paused and interrupted trials, each from its last checkpoint. Return at once.

        A search continues too; one that is a study or an object of yours only in its own kernel: in another,
        pass it to `nbckpt.run` again. If another process runs the experiment, it is asked, as by `pause`.

        Args:
            trial: Resume only this trial, whatever ended it.
            errored: Whether to resume failed trials too.
            trust: Whether to load a function that somebody else saved, and to sign the checkpoints.

        Raises:
            UsageError: There is nothing to resume.
            UntrustedError: Somebody else saved the function.
            NotFoundError: The function was not saved.
            CorruptError: A checkpoint to sign is damaged.
        """
        self.refresh()
        runner, name = self._runner, self._name_of(trial)
        runner.pool.finish_pauses()
        if not runner.is_tracked and self.runs_elsewhere():
            runner.resumable(name, errored=errored, runs_elsewhere=True)
            if self._hand_over("resume", name, errored=errored):
                return self
        with runner.claimed():
            runner.resume(self, name, errored=errored, trust=trust)
        return self

    def _name_of(self, trial: str | Trial | None) -> str:
        """Return the name of a trial of this experiment; empty for all trials."""
        return "" if trial is None else self.trial(trial).id

    def _ask(self, verb: Literal["pause", "stop", "checkpoint"], trial: str | Trial | None) -> None:
        """Ask the other processes that run the trial, or all trials; do the rest here."""
        name, runner = self._name_of(trial), self._runner
        runner.pool.finish_pauses()
        if name not in [other for other in runner.elsewhere(name) if self._hand_over(verb, other)]:
            getattr(runner, verb)(name)

    def _hand_over(self, verb: control.Verb, name: str, *, errored: bool = False) -> bool:
        """Ask the process that runs a trial, or the experiment. Return False if it has ended meanwhile."""
        request = control.ControlRequest(verb, name, errored=errored)
        is_asked = control.hand_over(self.folder, request, lambda: name in self._runner.elsewhere(name))
        self.refresh()
        return is_asked


def open_runner(folder: Path, spec: Spec) -> tuple[Experiment, Runner]:
    """Return this process's experiment in *folder*, or a new one that is to do *spec*, with its runner."""
    with _opening:  # two threads that open the same folder get the same experiment
        known: Experiment = _live.get(folder) or Experiment(folder, spec)
        is_there = known.running or spec_file.is_there(folder)
        experiment = _live[folder] = known if is_there or not known.trials else Experiment(folder, spec)
    return experiment, runner_of(experiment)


def read_experiment(folder: Path) -> Experiment:
    """See `Experiment.read`. cloudpickle would pickle that method by value, like a notebook's function."""
    return Experiment.read(folder)


def read_trial(folder: Path) -> Trial:
    """Return the trial in *folder*: the object of its experiment if that is in this process."""
    return Experiment.read(folder.parent).trial(folder.name)


def _trial_page(trial: Trial) -> Page:
    try:
        experiment = Experiment.read(trial.folder.parent)
        experiment.trial(trial)
        return TrialShown(experiment, trial).page()
    except (NbckptError, OSError) as error:
        return Page(repr(trial), notes=(str(error), f"kept in {trial.folder}"))


find_trial.function, trial_page.function = read_trial, _trial_page
