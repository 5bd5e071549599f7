"""The trials tab: one experiment, which is followed, and all actions on its trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from nbckpt.errors import NbckptError, UsageError
from nbckpt.notebook.panels.controller import Controller, Pager
from nbckpt.notebook.panels.parts import SNUG, Region, line, marked, offer, wide
from nbckpt.notebook.tokenize import split
from nbckpt.render import count, short
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import internals
from nbckpt.trials.views.metrics import inferred
from nbckpt.trials.views.table import TrialTable
from nbckpt.trials.views.trial_page import TrialShown

_NONE = "<p>No experiments yet. Start one: %ckpt run FUNCTION --grid lr=0.1,0.01</p>"
_MOST_NAMED = 4


class TrialsTab:
    """The trials of one experiment, some of which are chosen.

    Args:
        controller: Runs commands and shows results.
    """

    title = "Trials"

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._version: object = None
        self._offered: object = None
        self._is_offering = False
        self._shown: TrialTable | None = None
        self.experiment = widgets.Dropdown(description="experiment", layout=wide("22em"))
        self.metric = widgets.Dropdown(description="metric", style=SNUG, layout=wide("13em"))
        self.mode = widgets.Dropdown(
            options=["min", "max"], description="best is", style=SNUG, layout=wide("9em")
        )
        self.sort = widgets.Checkbox(description="best first", indent=False, layout=wide("auto"))
        self._resume = controller.button(
            "Resume all", lambda: self._go_on(), "Resume from the last checkpoints"
        )
        self._retry = controller.button(
            "Try again", lambda: self._go_on("--errored"), "Resume from the last checkpoints"
        )
        self._pager = Pager(controller, self._again)
        self.table = Region("trials")
        self.trials = widgets.SelectMultiple(description="trials", rows=4, layout=wide("22em"))
        if self.trials.has_trait("tooltip"):  # ipywidgets 7 has no tooltip here
            self.trials.tooltip = "Choose none for all trials. Alt and the arrow keys move in the list."
        self.run = widgets.Text(
            description="run",
            placeholder="train lr=0.1 --grid depth=2,3 --name NAME",
            continuous_update=False,
            layout=wide("34em"),
        )
        self._confirmation = controller.question()
        controller.on_change(self._turned, self.experiment)
        controller.on_change(self._again, self.metric, self.mode, self.sort)
        controller.on_change(self._chose, self.trials)
        again = controller.button("Refresh", self._again, "Update the table")
        order = line(self.experiment, self.metric, self.mode, self.sort, again)
        actions = widgets.VBox([line(*self._controls(controller)), line(*self._looks(controller))])
        table = (self.table.widget, self._pager.widget)
        chosen = line(self.trials, actions)
        new = line(self.run, controller.button("Run", self._start, "Run a function of the notebook"))
        parts = (order, line(self._resume, self._retry), *table, chosen, self._confirmation.widget, new)
        self.widget = widgets.VBox(parts)

    def _controls(self, controller: Controller) -> tuple[widgets.Button, ...]:
        return (
            controller.button("Pause", lambda: self._do("pause"), "After the next result"),
            controller.button("Resume", lambda: self._do("resume"), "From the last checkpoint"),
            controller.button("Checkpoint now", lambda: self._do("checkpoint"), "With the next result"),
            controller.button("Stop…", self._stop, "A stopped trial is finished"),
        )

    def _looks(self, controller: Controller) -> tuple[widgets.Button, ...]:
        return (
            controller.button("Show", lambda: self._on_one("show", follow=True), "Metrics, log and error"),
            controller.button(
                "Restore here",
                lambda: self._on_one("restore"),
                "Restore its newest checkpoint",
            ),
            controller.button("Curves", self._curves, "The metric of the chosen trials"),
            controller.button("Best", self._best, "Show the best trial by the metric"),
        )

    @property
    def is_alive(self) -> bool:
        """Whether the tab changes by itself: trials run, here or in another kernel."""
        experiment = self.open()
        return experiment is not None and _goes_on(experiment)

    def _choose(self) -> Experiment | None:
        """Return the chosen experiment. Choose a new experiment if the chosen one does not run."""
        names = self._controller.session().library.names()[::-1]
        known = self.experiment.options
        self._offer_quietly(self.experiment, [(name, name) for name in names])
        if names and known and (names[0], names[0]) not in known and not self.is_alive:
            self.experiment.value = names[0]
        return self.open()

    def open(self) -> Experiment | None:
        """Return the chosen experiment; None if there is none."""
        if not self.experiment.value:
            return None
        try:
            return self._controller.session().library.open(self.experiment.value)
        except NbckptError:  # it was removed: the next refresh drops it from the options
            return None

    def refresh(self) -> None:
        """Show the current trials, if they changed."""
        experiment = self._choose()
        if experiment is None:
            self._show_none()
            return
        goes_on = _goes_on(experiment)
        version = (experiment.folder, internals(experiment).version, goes_on)
        if version == self._version and goes_on:
            return
        self._version = version
        self._offer(experiment)
        self._pager.update(len(experiment.trials))
        result = self._controller.ask("trials", experiment.name, *self._pager.words, *self._order())
        if isinstance(result, TrialTable):
            self._shown = result
            self._mark()
            self._controller.static_copy.put(result)

    def _show_none(self) -> None:
        self._controller.hide()
        self._version = self._offered = self._shown = None
        self.table.value = _NONE
        self._pager.update(0)
        for choice in (self.metric, self.trials):
            offer(choice, [])
        for button in (self._resume, self._retry):
            button.layout.display = "none"

    def _offer(self, experiment: Experiment) -> None:
        """Set the options of all choices, and the buttons to resume interrupted, paused or failed trials."""
        metrics = inferred(experiment.trials, experiment.spec.metric, most=None)
        former, self._offered = self._offered, experiment.folder
        offer(self.metric, [(name, name) for name in metrics])
        if former != experiment.folder:
            self._controller.hide()
            self.metric.value = next(iter(metrics), None)
            self.mode.value = experiment.spec.mode or "min"
        self._offer_quietly(self.trials, [(label(trial), trial.id) for trial in experiment.trials])
        idle = not _goes_on(experiment)
        left = sum(not trial.finished for trial in experiment.trials) if idle else 0
        failed = sum(trial.status == Status.ERROR for trial in experiment.trials) if idle else 0
        self._resume.description = f"Resume {count(left, 'interrupted or paused trial')}"
        self._resume.layout.display = None if left else "none"
        self._retry.description = f"Try {count(failed, 'failed trial')} again"
        self._retry.layout.display = None if failed else "none"

    def _offer_quietly(self, choice: Any, options: Sequence[tuple[str, str]]) -> None:
        """Set the options of a choice. It begins with another value: that is not a choice of the user."""
        self._is_offering = True
        offer(choice, options)
        self._is_offering = False

    def _turned(self) -> None:
        if not self._is_offering:
            self._again()

    def _order(self) -> tuple[str, ...]:
        if not (self.sort.value and self.metric.value):
            return ()
        return ("--sort=best", f"--metric={self.metric.value}", "--mode", self.mode.value)

    def _chose(self) -> None:
        if not self._is_offering:
            self._controller.ask_nothing()
            self._mark()

    def _mark(self) -> None:
        """Mark the rows of the chosen trials."""
        if self._shown is not None:
            self.table.value = marked(self._shown, lambda _, name: name in self.trials.value)

    def _again(self) -> None:
        self._version = None
        self.refresh()

    def _targets(self) -> list[str]:
        """Return the chosen trials, or the experiment if no trial is chosen."""
        name = self.experiment.value or ""
        return [f"{name}/{trial}" for trial in self.trials.value] or [name]

    def _do(self, command: str, targets: Sequence[str] = ()) -> None:
        """Run a command on each of *targets*, by default on each chosen trial."""
        wrong = [
            self._controller.said
            for target in targets or self._targets()
            if self._controller.show(command, target) is None
        ]
        if wrong:  # later successes have cleared the message
            self._controller.say("; ".join(wrong[:_MOST_NAMED]), is_error=True)
        self._again()

    def _go_on(self, *options: str) -> None:
        self._controller.show("resume", self.experiment.value, *options)
        self._again()

    def _start(self) -> None:
        if not self.run.value.strip():
            self._controller.say("First write what to run: a function, its values, --grid.", is_error=True)
            return
        try:
            words = split(f"run {self.run.value}")
        except UsageError as error:
            self._controller.say(str(error), is_error=True)
            return
        started = self._controller.show(*words)
        if isinstance(started, Experiment):
            self._controller.hide()  # the tab itself shows the trials
            self._again()
            self.experiment.value = started.name

    def _stop(self) -> None:
        chosen, targets = self.trials.value, self._targets()
        more = ", …" if len(chosen) > _MOST_NAMED else ""
        stopped = f"{', '.join(chosen[:_MOST_NAMED])}{more} of " if chosen else "all trials of "
        question = f"Stop {stopped}{self.experiment.value}? A stopped trial is finished."
        self._confirmation.propose(question, "Stop now", lambda: self._do("stop", targets))

    def _on_one(self, command: str, *, follow: bool = False) -> None:
        if not self.trials.value:
            self._controller.say("First choose a trial in the list.", is_error=True)
            return
        self._controller.show(command, f"{self.experiment.value}/{self.trials.value[0]}", follow=follow)

    def _best(self) -> None:
        if self._has_metric():
            words = (f"--metric={self.metric.value}", "--mode", self.mode.value)
            page = self._controller.show("best", self.experiment.value, *words, follow=True)
            if isinstance(page, TrialShown):
                self.trials.value = (page.trial.id,)

    def _curves(self) -> None:
        if self._has_metric():
            self._controller.show(
                "plot", self.experiment.value, *self.trials.value, f"--metric={self.metric.value}"
            )

    def _has_metric(self) -> bool:
        if not self.metric.value:
            self._controller.say("No metric was reported yet.", is_error=True)
        return bool(self.metric.value)


def _goes_on(experiment: Experiment) -> bool:
    """Tell whether an experiment runs, here or in another kernel."""
    return experiment.running or experiment.runs_elsewhere()


def label(trial: Trial) -> str:
    """Return a label with a trial's name and configuration, which do not change while the trial runs."""
    config = ", ".join(f"{key}={value}" for key, value in trial.config.items())
    return f"{trial.id}  {short(config)}"
