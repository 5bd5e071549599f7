"""PrunedStudy: what a pruner of Optuna knows of our trials, under numbers that a restart does not change."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from nbckpt._private_apis import optuna_rung
from nbckpt.trials.model import optuna
from nbckpt.trials.schedulers.rungs import without_gaps

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_ALONE = {"NopPruner", "ThresholdPruner", "PatientPruner"}
"""The pruners that look at the trial itself only; `PatientPruner` if no pruner is inside of it."""


class PrunedStudy:
    """A study of Optuna in memory, which only a pruner reads. Trials are not copied to ask the pruner.

    A trial is running there until it is complete: pruners treat all other ends alike.

    Args:
        mode: Whether `min` or `max` is best.
        name: The study's name. Hyperband draws the bracket of a trial by this name and the trial's number.
        pruner: The name of the pruner's class.
        options: Its arguments.

    Attributes:
        is_auto: See `Halving`.
        needs_values: See `Halving`. Some pruners look at the trial itself only.
    """

    is_auto = False

    def __init__(self, mode: str, name: str, pruner: str, options: Mapping[str, Any]) -> None:
        from optuna.storages import InMemoryStorage

        self._storage = InMemoryStorage()
        self._study = optuna.new_study([mode], study_name=name, storage=self._storage)
        self._id = self._storage.get_study_id_from_name(name)
        self._ids: list[int] = []
        self._pruner = optuna.make("Pruner", pruner, options)
        kind, whole = optuna.arguments("Pruner", pruner, options)
        self.needs_values = kind not in _ALONE or whole.get("wrapped_pruner") is not None

    def add(self, number: int, values: Mapping[int, float], rungs: Mapping[int, float | None]) -> None:
        """Add the trial of a number, with its values by step and those at its rungs."""
        # The storage gives its own object. To hand it a template would copy each value twice.
        trial = self.trial(number)
        trial.intermediate_values.update(values)
        trial.system_attrs.update({optuna_rung(at): value for at, value in without_gaps(rungs).items()})

    def report(self, number: int, step: int, value: float) -> bool:
        """Report a value. Return False if the step is not new, or the trial is complete."""
        trial = self.trial(number)
        if trial.state.is_finished() or step <= max(trial.intermediate_values, default=-1):
            return False
        self._storage.set_trial_intermediate_value(self._ids[number], step, value)
        return True

    def is_pruned(self, number: int) -> bool:
        """Ask the pruner whether a trial stops after its newest report."""
        is_pruned = bool(self._pruner.prune(self._study, self.trial(number)))
        if is_pruned:
            self._forget(number)
        return is_pruned

    def rungs(self, number: int) -> int:
        """Return how many rungs a trial has reached; 0 if the pruner has none."""
        known = self.trial(number).system_attrs
        return sum(1 for _ in takewhile(lambda at: optuna_rung(at) in known, count()))

    def complete(self, number: int, value: float, last_step: int) -> None:
        """Take in that a trial is complete."""
        from optuna.trial import TrialState

        del last_step
        if not self.trial(number).state.is_finished():
            self._storage.set_trial_state_values(self._ids[number], TrialState.COMPLETE, [value])
            self._forget(number)

    def _forget(self, number: int) -> None:
        """Let go of the values of a trial that has ended, if nobody needs them."""
        if not self.needs_values:
            self.trial(number).intermediate_values.clear()

    def trial(self, number: int) -> FrozenTrial:
        """Return a trial of the study, which may be a new one."""
        while len(self._ids) <= number:
            self._ids.append(self._storage.create_new_trial(self._id))
        return self._storage.get_trial(self._ids[number])
