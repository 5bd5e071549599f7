"""The trials' tab: an experiment that is followed, and everything that can be done with its trials."""

from __future__ import annotations

import ipywidgets as widgets

from nbckpt.errors import NbckptError
from nbckpt.notebook.panel.desk import Confirmation, Desk, button, html_of, line, offer
from nbckpt.trials.experiment import Experiment
from nbckpt.trials.shown import TrialShown
from nbckpt.trials.table import inferred

_ALL = "all of it"


class TrialsTab:
    """One experiment's trials, and one of them chosen.

    Args:
        desk: Asks and shows.
    """

    title = "Trials"

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._version = -1
        self._experiment = widgets.Dropdown(description="experiment")
        self._table = widgets.HTML()
        self._trial = widgets.Dropdown(description="trial")
        self._metric = widgets.Dropdown(description="metric")
        self._mode = widgets.Dropdown(options=["min", "max"], description="best is")
        self._most_first = widgets.Checkbox(description="best first", indent=False)
        self._confirmation = Confirmation(desk)
        self._experiment.observe(lambda _: self._again(), "value")
        self._most_first.observe(lambda _: self._again(), "value")
        control = line(
            self._trial,
            button("Pause", lambda: self._do("pause"), "after the next result"),
            button("Resume", lambda: self._do("resume"), "from the last checkpoint"),
            button("Stop…", self._stop, "a stopped trial is finished"),
            button("Show", self._show, "its configuration, metrics and checkpoints"),
            button("Restore here", lambda: self._desk.show("restore", self._target), "its newest checkpoint"),
        )
        compare = line(
            self._metric,
            self._mode,
            button("Best", self._best),
            button("Curves", self._curves, "how the metric went in every trial"),
        )
        self.widget = widgets.VBox(
            [
                line(self._experiment, self._most_first, button("Refresh", self.refresh)),
                self._table,
                control,
                compare,
                self._confirmation.widget,
            ]
        )

    @property
    def is_alive(self) -> bool:
        """Whether it changes by itself: trials run."""
        experiment = self._open()
        return experiment is not None and experiment.running

    @property
    def _target(self) -> str:
        """The trial that was chosen, or the experiment."""
        name = self._experiment.value or ""
        return f"{name}/{self._trial.value}" if self._trial.value else name

    def _open(self) -> Experiment | None:
        if not self._experiment.value:
            return None
        try:
            return self._desk.session().library.open(self._experiment.value)
        except NbckptError:
            return None

    def refresh(self) -> None:
        """Show what there is now, if that changed."""
        names = self._desk.session().library.names()[::-1]
        offer(self._experiment, [(name, name) for name in names])
        experiment = self._open()
        if experiment is None:
            self._table.value = "<p>no experiments yet: %ckpt run FUNCTION --grid lr=0.1,0.01</p>"
            return
        if experiment.version != self._version or not experiment.running:
            self._version = experiment.version
            self._table.value = html_of(experiment.table(sort=self._most_first.value))
            offer(self._trial, [(_ALL, ""), *((trial.id, trial.id) for trial in experiment.trials)])
            offer(self._metric, [(name, name) for name in inferred(experiment.trials, most=None)])

    def _again(self) -> None:
        self._version = -1
        self.refresh()

    def _do(self, command: str) -> None:
        self._desk.show(command, self._target)
        self._again()

    def _stop(self) -> None:
        target = self._target
        self._confirmation.propose("Stop now", ("trials", target.partition("/")[0]), lambda: self._do("stop"))

    def _show(self) -> None:
        self._desk.show("show" if self._trial.value else "trials", self._target)

    def _best(self) -> None:
        if not self._metric.value:
            self._desk.say("no metric was reported yet", is_error=True)
            return
        words = ("best", self._experiment.value, "--metric", self._metric.value, "--mode", self._mode.value)
        found = self._desk.show(*words)
        if isinstance(found, TrialShown):
            self._trial.value = found.trial.id

    def _curves(self) -> None:
        experiment = self._open()
        if experiment is not None and self._metric.value:
            try:
                self._desk.detail.value = picture_of(experiment, self._metric.value)
            except NbckptError as error:
                self._desk.say(str(error), is_error=True)


def picture_of(experiment: Experiment, metric: str) -> str:
    """Return the learning curves of an experiment as HTML."""
    import base64
    from html import escape
    from io import BytesIO

    file = BytesIO()
    experiment.plot(metric).savefig(file, format="png", dpi=110, bbox_inches="tight")
    data = base64.b64encode(file.getvalue()).decode()
    alt = escape(f"{metric} of the trials of {experiment.name}")
    return f'<img alt="{alt}" style="max-width:100%;background:white;" src="data:image/png;base64,{data}">'
